//! Orders to Slurm.

use blox_core::Name;
use std::fmt;

/// An order about one job, which its user may give.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Start a held job on these nodes, with a number of GPUs on each.
    Start {
        /// Slurm's number of the job.
        job: u32,
        /// The nodes and their GPUs.
        on: Vec<(Name, u32)>,
    },
    /// Hold a job that waits.
    Hold {
        /// Slurm's number of the job.
        job: u32,
    },
    /// Return a running job to the queue, and hold it there.
    Requeue {
        /// Slurm's number of the job.
        job: u32,
    },
    /// Cancel a job.
    Cancel {
        /// Slurm's number of the job.
        job: u32,
    },
}

impl Order {
    /// Returns Slurm's number of the job.
    pub fn job(&self) -> u32 {
        match self {
            Order::Start { job, .. }
            | Order::Hold { job }
            | Order::Requeue { job }
            | Order::Cancel { job } => *job,
        }
    }

    /// Returns the command lines of the order, without the name of the first program's folder.
    ///
    /// The same number of GPUs on each node is a request for each node. Other numbers are a request
    /// of the job, which Slurm distributes. Slurm 22.05 refuses some jobs with both requests: three
    /// of four GPUs on each of two nodes count as bad constraints.
    pub(crate) fn commands(&self) -> Vec<(&'static str, Vec<String>)> {
        let scontrol =
            |words: &[&str]| ("scontrol", words.iter().map(|w| (*w).to_owned()).collect());
        match self {
            Order::Start { job, on } => {
                let nodes: Vec<&str> = on.iter().map(|(name, _)| &**name).collect();
                let sum: u32 = on.iter().map(|(_, gpus)| gpus).sum();
                let (per_node, of_job) = match on.iter().all(|(_, gpus)| *gpus == on[0].1) {
                    true => (format!("gres:gpu:{}", on[0].1), String::new()),
                    false => (String::new(), format!("gres:gpu:{sum}")),
                };
                vec![
                    scontrol(&[
                        "update",
                        &format!("JobId={job}"),
                        &format!("ReqNodeList={}", nodes.join(",")),
                        &format!("NumNodes={0}-{0}", nodes.len()),
                        &format!("TresPerNode={per_node}"),
                        &format!("TresPerJob={of_job}"),
                        // Without it, Slurm lets a requeued job wait for two minutes.
                        "StartTime=now",
                    ]),
                    scontrol(&["release", &job.to_string()]),
                ]
            }
            Order::Hold { job } => vec![scontrol(&["hold", &job.to_string()])],
            Order::Requeue { job } => vec![scontrol(&["requeuehold", &job.to_string()])],
            Order::Cancel { job } => vec![("scancel", vec![job.to_string()])],
        }
    }
}

/// Writes the order as a sentence without its subject, such as `hold Slurm job 17`.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Start { job, on } => {
                write!(f, "start Slurm job {job} on ")?;
                for (i, (node, gpus)) in on.iter().enumerate() {
                    write!(f, "{}{node}:{gpus}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Order::Hold { job } => write!(f, "hold Slurm job {job}"),
            Order::Requeue { job } => write!(f, "requeue and hold Slurm job {job}"),
            Order::Cancel { job } => write!(f, "cancel Slurm job {job}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_of_gpus_are_a_request_for_each_node() {
        let start = |on: &[(&str, u32)]| {
            let on = on.iter().map(|(n, gpus)| (Name::from(*n), *gpus)).collect();
            let words = Order::Start { job: 7, on }.commands().swap_remove(0).1;
            let tres = words.into_iter().filter(|w| w.starts_with("Tres"));
            tres.collect::<Vec<String>>()
        };
        let each = ["TresPerNode=gres:gpu:3", "TresPerJob="];
        assert_eq!(start(&[("a", 3), ("b", 3)]), each);
        let all = ["TresPerNode=", "TresPerJob=gres:gpu:6"];
        assert_eq!(start(&[("a", 4), ("b", 2)]), all);
    }
}
