//! What the simulators that Sia (SOSP 2023) and Pollux (OSDI 2021) released do: their
//! constants, files, clocks, and free moves.

use blox_core::{JobSpec, Seconds};
use blox_sim::execution::training::{Applications, EpochEnds, PassLimit, Training, gathered};

/// Lets a job ask for what Sia and Pollux take for its batch in their simulators: 32,768 for every
/// job of `ncf`.
pub fn ask_as_tuned(job: &mut JobSpec) {
    if let Some(extras) = &mut job.extras
        && extras.model.as_ref().is_some_and(|m| m.as_str() == "ncf")
    {
        extras.batch_size = Some(32_768);
    }
}

/// On how many nodes of each type of GPU Sia's authors measured (`cluster_max_physical_nnodes`).
pub const MOST_NODES: [(&str, u32); 6] = [
    ("aws", 16),
    ("azure", 5),
    ("dgx", 2),
    ("dgx-ext", 2),
    ("quad", 1),
    ("rtx", 3),
];

/// The number that [`MOST_NODES`] has for a type.
pub fn most_nodes(gpu_type: &str) -> Option<u32> {
    let measured = MOST_NODES.iter().find(|(name, _)| *name == gpu_type);
    measured.map(|(_, nodes)| *nodes)
}

/// Returns how a job lies there that has so many GPUs on each node in turn: on as many nodes as
/// were measured at most.
pub fn lies(gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
    gathered(placement, most_nodes(gpu_type))
}

/// Returns how Sia's simulator runs training jobs: epochs end at whole seconds, and on [no more
/// nodes](most_nodes) than were measured.
pub fn training(applications: Applications) -> Training {
    let training = Training::of(applications).epoch_ends(EpochEnds::WholeSeconds);
    training.most_nodes(most_nodes)
}

/// Applications as Pollux' simulator has them: nothing slows a step down, every restart takes
/// 30 s, and a pass of `yolov3` takes 8 samples at most.
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

/// Returns how Pollux' simulator runs [such](pollux_applications) applications: as Sia's, but a
/// pass may be as large as on any placement, and a job may lie on any number of nodes.
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
