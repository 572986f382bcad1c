//! Constants, input files, clocks and free moves of the simulators that Sia (SOSP 2023) and Pollux
//! (OSDI 2021) released.

use blox_core::{JobSpec, Seconds};
use blox_perf::applications::Applications;
use blox_sim::execution::training::{EpochEnds, PassLimit, Training, gathered};

/// Sets a job's batch to the tuned batch that Sia's and Pollux' simulators use: 32,768 for every
/// job of `ncf`.
pub fn ask_as_tuned(job: &mut JobSpec) {
    if let Some(extras) = &mut job.extras
        && extras.model.as_ref().is_some_and(|m| m.as_str() == "ncf")
    {
        extras.batch_size = Some(32_768);
    }
}

/// Number of nodes of each GPU type on which Sia's authors measured
/// (`cluster_max_physical_nnodes`).
pub const MOST_NODES: [(&str, u32); 6] = [
    ("aws", 16),
    ("azure", 5),
    ("dgx", 2),
    ("dgx-ext", 2),
    ("quad", 1),
    ("rtx", 3),
];

/// Returns the entry of [`MOST_NODES`] for a type.
pub fn most_nodes(gpu_type: &str) -> Option<u32> {
    let measured = MOST_NODES.iter().find(|(name, _)| *name == gpu_type);
    measured.map(|(_, nodes)| *nodes)
}

/// Returns the placement whose speed a job has, from its GPUs per node. It has at most the measured
/// number of nodes.
pub fn lies(gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
    gathered(placement, most_nodes(gpu_type))
}

/// Returns the execution model of training jobs in Sia's simulator. Epochs end at whole seconds,
/// and placements have [no more nodes](most_nodes) than were measured.
pub fn training(applications: Applications) -> Training {
    let training = Training::of(applications).epoch_ends(EpochEnds::WholeSeconds);
    training.most_nodes(most_nodes)
}

/// Applications as in Pollux' simulator: no slowdown of steps, restarts of 30 s, and at most 8
/// samples per pass for `yolov3`.
pub fn pollux_applications(applications: Applications) -> Applications {
    applications.map(|name, app| {
        app.restart = Seconds::new(30.0);
        app.slowdown = 1.0;
        for on in app.types.values_mut() {
            if name.as_str() == "yolov3" {
                on.limits.per_gpu.1 = on.limits.per_gpu.1.min(8);
            }
        }
    })
}

/// Returns the execution model of [these applications](pollux_applications) in Pollux' simulator.
///
/// It differs from Sia's in two points: a pass may be as large as on any placement, and a job may
/// use any number of nodes.
pub fn pollux_training(applications: Applications) -> Training {
    let training = training(pollux_applications(applications)).most_nodes(|_| None);
    training.pass_limit(PassLimit::Application)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, Time};

    #[test]
    fn only_ncf_has_a_batch_of_its_own() {
        let asked = |model: &str| {
            let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let mut job = job.with_extras(Extras {
                model: Some(model.into()),
                batch_size: Some(256),
                ..Extras::default()
            });
            ask_as_tuned(&mut job);
            job.extras().batch_size
        };
        assert_eq!(asked("ncf"), Some(32_768));
        assert_eq!(asked("bert"), Some(256));
    }
}
