//! Detection of the machine's GPUs with NVIDIA's driver.

use nvml_wrapper::Nvml;

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its permanent id, which programs accept in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its memory in GiB.
    pub memory_gib: f64,
}

/// Returns the GPUs in the driver's order.
///
/// # Errors
/// There is no driver, or it fails; returns the driver's message.
pub fn detect() -> Result<Vec<Gpu>, String> {
    let text = |e: nvml_wrapper::error::NvmlError| e.to_string();
    let nvml = Nvml::init().map_err(text)?;
    let count = nvml.device_count().map_err(text)?;
    let gpu = |i: u32| {
        let device = nvml.device_by_index(i)?;
        Ok(Gpu {
            uuid: device.uuid()?,
            model: device.name()?,
            memory_gib: device.memory_info()?.total as f64 / f64::from(1 << 30),
        })
    };
    (0..count).map(gpu).collect::<Result<_, _>>().map_err(text)
}
