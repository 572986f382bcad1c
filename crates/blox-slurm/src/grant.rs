//! Grants: resources of one node that a step may use, read from the environment of the step.

/// Part of a node that a step may use.
///
/// ```
/// use blox_slurm::Grant;
///
/// let step = |name: &str| {
///     let value = match name {
///         "SLURM_JOB_ID" => "42",
///         "SLURMD_NODENAME" => "gpu7",
///         "SLURM_GPUS_ON_NODE" => "2",
///         "CUDA_VISIBLE_DEVICES" => "1,3",
///         _ => return None,
///     };
///     Some(value.to_owned())
/// };
/// let grant = Grant::of(step)?;
/// assert_eq!((grant.name(), grant.devices), ("gpu7.42".to_owned(), vec!["1".to_owned(), "3".to_owned()]));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Number of the job.
    pub job: u32,
    /// Number of earlier starts of the job.
    pub restarts: u32,
    /// Slurm's name of the node; empty if Slurm states none.
    pub node: String,
    /// Names of the GPUs, as programs of the step select them.
    pub devices: Vec<String>,
    /// Number of CPUs; `None` if Slurm states none.
    pub cpus: Option<f64>,
    /// Memory in GiB; `None` if Slurm states none.
    pub memory_gib: Option<f64>,
}

impl Grant {
    /// Reads the grant from the variables of a step.
    ///
    /// # Errors
    /// No step of Slurm has these variables, or Slurm granted no GPUs; one sentence.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let job = number("SLURM_JOB_ID")
            .ok_or("SLURM_JOB_ID is missing, expected a step of Slurm: start it with srun")?;
        let list = |name: &str| {
            let text = variable(name).unwrap_or_default();
            let parts = text.split(',').map(str::trim);
            parts
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        // The variable of CUDA may come from the shell of the user, so that it counts only beside
        // one of Slurm.
        let granted = match number("SLURM_GPUS_ON_NODE") {
            Some(count) => count as usize,
            None => list("SLURM_STEP_GPUS").len(),
        };
        if granted == 0 {
            return Err("SLURM_GPUS_ON_NODE is missing, expected GPUs that Slurm granted".into());
        }
        let (visible, of_step) = (list("CUDA_VISIBLE_DEVICES"), list("SLURM_STEP_GPUS"));
        let devices = match (visible.len(), of_step.len()) {
            (0, 0) => (0..granted).map(|gpu| gpu.to_string()).collect(),
            (0, _) => of_step,
            (found, _) if found > granted => {
                return Err(format!(
                    "CUDA_VISIBLE_DEVICES has {found} GPUs, expected the {granted} that Slurm granted"
                ));
            }
            _ => visible,
        };
        let cpus = number("SLURM_CPUS_ON_NODE").map(f64::from);
        let mib = number("SLURM_MEM_PER_NODE").map(f64::from);
        let by_cpu = || Some(f64::from(number("SLURM_MEM_PER_CPU")?) * cpus?);
        let by_gpu = || Some(f64::from(number("SLURM_MEM_PER_GPU")?) * granted as f64);
        Ok(Grant {
            job,
            restarts: number("SLURM_RESTART_COUNT").unwrap_or(0),
            node: variable("SLURMD_NODENAME").unwrap_or_default(),
            devices,
            cpus,
            // A request of 0 is all memory of the node.
            memory_gib: mib
                .or_else(by_cpu)
                .or_else(by_gpu)
                .filter(|mib| *mib > 0.0)
                .map(|mib| (mib / 1024.0).floor()),
        })
    }

    /// Returns the name of the node in a cluster: no two jobs, and no two starts of a job, have the
    /// same.
    pub fn name(&self) -> String {
        format!("{}{}", self.node, self.suffix())
    }

    /// Returns what follows the name of the host in the names of all nodes of this start of the job.
    pub fn suffix(&self) -> String {
        suffix(self.job, self.restarts)
    }
}

/// Returns what follows the name of the host in the names of all nodes of a start of a job.
///
/// ```
/// assert_eq!(blox_slurm::suffix(42, 0), ".42");
/// assert_eq!(blox_slurm::suffix(42, 1), ".42-1");
/// ```
pub fn suffix(job: u32, restarts: u32) -> String {
    match restarts {
        0 => format!(".{job}"),
        _ => format!(".{job}-{restarts}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(variables: &[(&str, &str)]) -> Result<Grant, String> {
        let value = |name: &str| {
            let all = [("SLURM_JOB_ID", "7"), ("SLURMD_NODENAME", "n1")];
            let found = variables.iter().chain(&all).find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Grant::of(value)
    }

    #[test]
    fn gpus_are_those_that_slurm_granted() {
        let devices = |variables: &[(&str, &str)]| grant(variables).map(|g| g.devices.join(" "));
        let three = ("SLURM_GPUS_ON_NODE", "3");
        assert_eq!(devices(&[three]), Ok("0 1 2".to_owned()));
        let step = ("SLURM_STEP_GPUS", "4,5,6");
        assert_eq!(devices(&[three, step]), Ok("4 5 6".to_owned()));
        assert_eq!(devices(&[step]), Ok("4 5 6".to_owned()));
        // A cgroup renumbers the devices, and a step may see a part of them.
        let visible = ("CUDA_VISIBLE_DEVICES", "0,1,2");
        assert_eq!(devices(&[three, step, visible]), Ok("0 1 2".to_owned()));
        let part = ("CUDA_VISIBLE_DEVICES", "GPU-a");
        assert_eq!(devices(&[three, part]), Ok("GPU-a".to_owned()));
        // These come from the shell of the user.
        assert!(devices(&[visible]).is_err());
        assert!(devices(&[("SLURM_GPUS_ON_NODE", "1"), visible]).is_err());
        assert!(devices(&[("SLURM_GPUS_ON_NODE", "0")]).is_err());
    }

    #[test]
    fn memory_follows_the_request() {
        let one = ("SLURM_GPUS_ON_NODE", "2");
        let cpus = ("SLURM_CPUS_ON_NODE", "16");
        let memory = |more| grant(&[one, cpus, more]).unwrap().memory_gib;
        assert_eq!(memory(("SLURM_MEM_PER_NODE", "65536")), Some(64.0));
        assert_eq!(memory(("SLURM_MEM_PER_CPU", "2048")), Some(32.0));
        assert_eq!(memory(("SLURM_MEM_PER_GPU", "10240")), Some(20.0));
        assert_eq!(memory(("SLURM_MEM_PER_NODE", "0")), None);
        assert_eq!(memory(("OTHER", "1")), None);
    }

    #[test]
    fn starts_of_a_job_have_names_of_their_own() {
        let one = ("SLURM_GPUS_ON_NODE", "1");
        assert_eq!(grant(&[one]).unwrap().name(), "n1.7");
        let again = grant(&[one, ("SLURM_RESTART_COUNT", "2")]).unwrap();
        assert_eq!(again.name(), "n1.7-2");
    }
}
