use blox::core::{Assignment, JobId, JobRef, MetricCollector, Phase, Plan, Stateless, View};
use blox::core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
use blox::registry::{Registry, param};
use blox::sim::execution::{ExecutionModel, Reach, on_nodes_of};
use blox::sim::registry::World;
use blox::sim::workload::{Jobs, Workload, WorkloadError, WorkloadSource};

// ANCHOR: model
/// Each other job that runs on a job's nodes takes `share` of the job's speed.
struct Neighbours {
    share: f64,
}

impl Stateless for Neighbours {}

impl ExecutionModel for Neighbours {
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
        let runs = |id: &JobId| view.job(*id).is_some_and(|j| j.phase() == Phase::Running);
        let near = on_nodes_of(view, &on.gpus);
        let others = near
            .iter()
            .filter(|id| **id != job.id() && runs(id))
            .count();
        job.own_rate() * (1.0 - self.share * others as f64).max(0.1)
    }

    fn reach(&self) -> Reach {
        Reach::Nodes
    }
}
// ANCHOR_END: model

// ANCHOR: collector
/// The most jobs that had GPUs after a decision.
#[derive(Clone, Default)]
struct MostPlaced(u32);

impl MetricCollector for MostPlaced {
    fn on_launches(&mut self, view: View<'_>, _: &Plan) {
        self.0 = self.0.max(view.placed_count());
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![("most_jobs".to_owned(), f64::from(self.0))]
    }
}
// ANCHOR_END: collector

// ANCHOR: workload
/// Every hour, one job of ten minutes for each GPU of the cluster.
struct Batches {
    count: u64,
}

impl WorkloadSource for Batches {
    fn open(&self, cluster: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        let batch = |hour: u64| {
            let at = Time::ZERO + Seconds::from_hours(hour as f64);
            let job = JobSpec::new(at, GpuCount(1), Seconds::new(600.0));
            (0..cluster.total_gpus()).map(move |_| job.clone())
        };
        Ok(Box::new(Jobs::new(
            (0..self.count).flat_map(batch).collect(),
        )))
    }
}
// ANCHOR_END: workload

// ANCHOR: register
pub fn registry() -> Registry {
    let mut registry = blox::registry();
    let share = param(
        "share",
        "0.2",
        "share of the speed that one other job takes",
    );
    registry.execution_models_mut().add(
        "neighbours",
        "jobs of a node slow each other",
        &[share],
        |params, _seed| {
            let share = params.f64("share")?;
            Ok(Box::new(Neighbours { share }))
        },
    );
    let count = param("count", "10", "number of batches");
    registry.workloads_mut().add(
        "batches",
        "each hour, a job for each GPU",
        &[count],
        |params, _seed| {
            let count = params.u64("count")?;
            Ok(Box::new(Batches { count }))
        },
    );
    registry
        .collectors
        .add("most-placed", "jobs with GPUs", &[], |_params, _seed| {
            Ok(Box::new(MostPlaced::default()))
        });
    registry
}
// ANCHOR_END: register
