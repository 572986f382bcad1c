//! Demand of a job, as the original computes it when it loads a trace.

use blox_core::{NodeSpec, NodeStatus, Submission, View};
use serde_json::Value;

/// Amounts of the five resources: GPUs, CPU cores, memory in GB, storage bandwidth in MB/s, network
/// in Gbit/s.
pub(super) type Amounts = [f64; 5];

/// Storage bandwidth that each GPU demands. Quirk: the program ignores the bandwidth of the
/// profile.
const STORAGE_MB_S: f64 = 62.5;

/// Size of a server and of the cluster in the original's five resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerSize {
    /// Size of one server: the average over all servers, cut to whole numbers.
    pub(super) server: Amounts,
    pub(super) total: Amounts,
}

impl ServerSize {
    /// Returns the size for these nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a NodeSpec>) -> Self {
        let mut total = [0.0; 5];
        let mut count: f64 = 0.0;
        for node in nodes {
            for (sum, amount) in total.iter_mut().zip(amounts(node)) {
                *sum += amount;
            }
            count += 1.0;
        }
        let mut server = total.map(|sum| (sum / count.max(1.0)).trunc());
        server[0] = server[0].max(1.0);
        ServerSize { server, total }
    }

    /// Returns the size for the nodes in view that have not left.
    pub fn in_view(view: View<'_>) -> Self {
        let there = view.nodes().filter(|n| n.status() != NodeStatus::Left);
        ServerSize::of(there.map(|n| n.spec()))
    }

    /// Returns the fair share of one GPU.
    pub(super) fn fair(&self) -> Amounts {
        self.server.map(|amount| amount / self.server[0])
    }
}

/// Returns all resources of a node.
pub(super) fn amounts(node: &NodeSpec) -> Amounts {
    let label = |name: &str| {
        let text = node.labels.get(name);
        text.and_then(|t| t.parse().ok()).unwrap_or(0.0)
    };
    [
        f64::from(node.gpus),
        node.cpus,
        node.memory_gib,
        label("storage_mb_s"),
        label("network_gbit_s"),
    ]
}

/// Best-case demand of a job on servers of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub(super) best: Amounts,
    /// Speed with the best-case demand, divided by the speed with a fair share.
    pub speedup: f64,
    /// Seconds of an iteration with a fair share.
    pub iteration_s: f64,
    /// Factor on the job's speed on more than one server.
    pub placement_penalty: f64,
    /// True if the demand is capped although it has no more CPUs than the fair share. The original
    /// then cannot interpolate a speedup, and fails when it loads the trace.
    pub unloadable: bool,
}

impl Demand {
    /// Returns the demand of a job with an own rate.
    ///
    /// Amounts above the size of a server are capped to it, and the speedup is interpolated by
    /// CPUs. For a job larger than a server they are set to its fair share.
    pub fn of(job: &Submission, own_rate: f64, size: &ServerSize) -> Self {
        let extras = job.extras();
        let number = |name: &str, otherwise: f64| {
            let found = extras.attributes.get(name).and_then(Value::as_f64);
            found.unwrap_or(otherwise)
        };
        let gpus = f64::from(job.gpus.get());
        let each = [
            number("cpus_per_gpu", extras.cpus / gpus),
            number("memory_gb_per_gpu", extras.memory_gib / gpus),
            STORAGE_MB_S,
        ];
        let mut speedup = number("speedup", 1.0);
        let server = size.server;
        let mut best = [gpus, 0.0, 0.0, 0.0, 0.0];
        let mut interpolate = false;
        for i in 1..4 {
            // Jobs do not demand a resource that no server has.
            if size.total[i] == 0.0 {
                continue;
            }
            best[i] = gpus * each[i - 1];
            if best[i] > server[i] {
                best[i] = server[i];
                interpolate = true;
                if gpus > server[0] {
                    best[i] = gpus * (server[i] / server[0]);
                    speedup = 1.0;
                    interpolate = false;
                }
            }
        }
        let (ideal, fair) = (gpus * each[0], gpus * (server[1] / server[0]));
        if interpolate && ideal != fair {
            let slope = (speedup - 1.0) / (ideal - fair);
            speedup = 1.0 + slope * (best[1] - fair);
        }
        Demand {
            best,
            speedup,
            iteration_s: number("iteration_s", 1.0 / own_rate),
            placement_penalty: number("placement_penalty", 1.0),
            unloadable: interpolate && ideal == fair,
        }
    }

    /// Returns the CPU cores for all GPUs.
    pub fn cpus(&self) -> f64 {
        self.best[1]
    }

    /// Returns the memory in GB for all GPUs.
    pub fn memory_gb(&self) -> f64 {
        self.best[2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};

    fn size() -> ServerSize {
        let mut node = NodeSpec::with_gpus(8);
        (node.cpus, node.memory_gib) = (24.0, 500.0);
        ServerSize::of(&[node.clone(), node])
    }

    fn demand(gpus: u32, cpus: f64, memory: f64, speedup: f64) -> Demand {
        let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0));
        let numbers = [
            ("cpus_per_gpu", cpus),
            ("memory_gb_per_gpu", memory),
            ("speedup", speedup),
        ];
        let attributes = numbers.map(|(name, x)| (name.into(), x.into()));
        let extras = Extras {
            attributes: attributes.into_iter().collect(),
            ..Extras::default()
        };
        Demand::of(&job.with_extras(extras), 1.0, &size())
    }

    #[test]
    fn demand_over_a_server_is_capped_with_its_speedup() {
        let fits = demand(2, 12.0, 125.0, 2.94);
        assert_eq!(
            (fits.best, fits.speedup),
            ([2.0, 24.0, 250.0, 0.0, 0.0], 2.94)
        );
        // The job wants 48 cores, and 24 exist. That is a third of the way from the fair 12.
        let capped = demand(4, 12.0, 125.0, 2.8);
        assert_eq!(capped.best, [4.0, 24.0, 500.0, 0.0, 0.0]);
        assert_eq!(capped.speedup, 1.0 + (2.8 - 1.0) / 36.0 * 12.0);
        // For a job larger than a server, amounts above the server are a fair share, and other
        // amounts stay.
        let large = demand(16, 12.0, 20.0, 2.94);
        assert_eq!(
            (large.best, large.speedup),
            ([16.0, 48.0, 320.0, 0.0, 0.0], 1.0)
        );
    }

    #[test]
    fn job_without_a_profile_demands_its_request() {
        let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(10.0)).with_extras(Extras {
            cpus: 4.0,
            ..Extras::default()
        });
        let d = Demand::of(&job, 1.0, &size());
        assert_eq!((d.cpus(), d.memory_gb()), (4.0, 0.0));
        assert_eq!((d.speedup, d.iteration_s), (1.0, 1.0));
    }
}
