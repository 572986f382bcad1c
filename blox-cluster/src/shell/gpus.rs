//! Detection of the machine's GPUs with NVIDIA's driver, and their health.

use super::files;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its permanent id, which programs accept in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its memory in GiB.
    pub memory_gib: f64,
    /// Its device file.
    pub file: PathBuf,
}

/// Returns the GPUs in the driver's order.
///
/// # Errors
/// There is no driver, or it fails; returns the driver's message.
pub fn detect() -> Result<Vec<Gpu>, String> {
    let text = |e: NvmlError| e.to_string();
    let nvml = Nvml::init().map_err(text)?;
    let count = nvml.device_count().map_err(text)?;
    let gpu = |i: u32| {
        let device = nvml.device_by_index(i)?;
        Ok(Gpu {
            uuid: device.uuid()?,
            model: device.name()?,
            file: format!("/dev/nvidia{}", device.minor_number()?).into(),
            memory_gib: device.memory_info()?.total as f64 / f64::from(1 << 30),
        })
    };
    (0..count).map(gpu).collect::<Result<_, _>>().map_err(text)
}

/// Health of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Why no job may use the GPU; `None` for a healthy GPU.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Processes that hold memory of the GPU.
    #[serde(default)]
    pub processes: Vec<u32>,
}

/// A source of the health of the GPUs of a node.
///
/// ```
/// use blox_cluster::shell::gpus::{GpuProbe, Health};
///
/// /// Every GPU of the node is healthy.
/// struct Healthy(usize);
///
/// impl GpuProbe for Healthy {
///     fn probe(&mut self) -> Result<Vec<Health>, String> {
///         Ok(vec![Health::default(); self.0])
///     }
/// }
///
/// assert_eq!(Healthy(8).probe().map(|all| all.len()), Ok(8));
/// ```
pub trait GpuProbe: Send {
    /// Returns the health of each GPU slot of the node, in order.
    ///
    /// # Errors
    /// The source fails; returns its message. The last known health then counts.
    fn probe(&mut self) -> Result<Vec<Health>, String>;
}

/// Source of the health of GPUs, as a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HealthSource {
    /// No source: every GPU counts as healthy.
    #[default]
    None,
    /// NVIDIA's driver, for the GPUs with these UUIDs.
    Driver(Vec<String>),
    /// A JSON file with a list of [`Health`], which a program of the operator writes.
    File(PathBuf),
}

impl HealthSource {
    /// Returns the probe; `None` without a source.
    pub fn probe(&self) -> Option<Box<dyn GpuProbe>> {
        match self {
            HealthSource::None => None,
            HealthSource::Driver(uuids) => Some(Box::new(DriverProbe {
                nvml: None,
                uuids: uuids.clone(),
            })),
            HealthSource::File(path) => Some(Box::new(FileProbe { path: path.clone() })),
        }
    }
}

/// Asks NVIDIA's driver.
struct DriverProbe {
    nvml: Option<Nvml>,
    uuids: Vec<String>,
}

impl GpuProbe for DriverProbe {
    fn probe(&mut self) -> Result<Vec<Health>, String> {
        let nvml = match self.nvml.take() {
            Some(nvml) => nvml,
            None => Nvml::init().map_err(|e| e.to_string())?,
        };
        let nvml = self.nvml.insert(nvml);
        let health = |uuid: &String| match of_gpu(nvml, uuid) {
            Ok(health) => health,
            Err(e) => Health {
                trouble: Some(format!("the driver reports: {e}")),
                processes: Vec::new(),
            },
        };
        Ok(self.uuids.iter().map(health).collect())
    }
}

fn of_gpu(nvml: &Nvml, uuid: &str) -> Result<Health, NvmlError> {
    let device = nvml.device_by_uuid(uuid)?;
    // A GPU that fell off the bus fails here.
    device.memory_info()?;
    // Some GPUs do not count errors.
    let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
    let trouble = match errors {
        Ok(0) | Err(NvmlError::NotSupported) => None,
        Ok(count) => Some(format!("{count} uncorrected memory errors")),
        Err(e) => return Err(e),
    };
    let processes = match device.running_compute_processes() {
        Ok(all) => all.into_iter().map(|p| p.pid).collect(),
        // Some GPUs do not list processes.
        Err(_) => Vec::new(),
    };
    Ok(Health { trouble, processes })
}

/// Reads a file.
struct FileProbe {
    path: PathBuf,
}

impl GpuProbe for FileProbe {
    fn probe(&mut self) -> Result<Vec<Health>, String> {
        let path = self.path.display();
        let all = files::read_checked(&self.path, files::LARGEST_STATUS);
        let all = all.map_err(|e| e.to_string())?;
        all.ok_or_else(|| format!("{path}: no such file, expected the health of the GPUs"))
    }
}
