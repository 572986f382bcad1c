//! The jobs that run on each link.

use blox_core::{Event, JobId, LinkId, Phase, View};

/// The jobs that run on each [link](blox_core::Cluster::links_of) of the network. A job that leaves
/// is listed until it has left.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkJobs(blox_core::cluster::LinkJobs);

impl LinkJobs {
    /// Returns the index of a view.
    pub fn of(view: View<'_>) -> Self {
        let mut index = LinkJobs::default();
        for job in view.placed().filter(|job| job.phase() == Phase::Running) {
            index.add(view, job.id());
        }
        index
    }

    /// Updates the index after an event.
    #[inline]
    pub fn note(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Started { job, .. } => self.add(view, *job),
            Event::Stopped { job, .. }
            | Event::LaunchFailed { job, .. }
            | Event::Crashed { job, .. }
            | Event::Ended { job, .. } => self.0.set(*job, &[]),
            _ => {}
        }
    }

    /// Returns the jobs of a link, in order.
    pub fn on(&self, link: LinkId) -> &[JobId] {
        self.0.on(link)
    }

    fn add(&mut self, view: View<'_>, id: JobId) {
        let bound = view.job(id).and_then(|job| job.bound());
        let links = bound.map(|bound| view.cluster().links_of(&bound.gpus));
        self.0.set(id, &links.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use crate::execution::{ExecutionModel, Reach, on_link};
    use crate::faults::Faults;
    use crate::overheads::FixedOverheads;
    use crate::workload::Jobs;
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::{
        Answer, Assignment, ClusterSpec, Composition, Draft, GpuCount, JobQueue, JobRef, JobSpec,
        Name, PlacementPolicy, Policy, Seconds, Stateless, Time,
    };
    use blox_testing::FirstFit;
    use serde::{Deserialize, Serialize};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Numbers of compared links with one job, and with several.
    static COMPARED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

    /// Number of jobs on links in drafts.
    static PLACED: AtomicU32 = AtomicU32::new(0);

    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Kept {
        #[serde(skip)]
        linked: LinkJobs,
    }

    /// A model that compares its index with the ledger at each rate.
    struct Comparing;

    impl Policy for Comparing {
        type Memory = Kept;

        fn initial(&self, _: u64) -> Kept {
            Kept::default()
        }

        fn on_event(&self, memory: &mut Kept, view: View<'_>, event: &Event) {
            memory.linked.note(view, event);
        }
    }

    impl ExecutionModel for Comparing {
        fn rate(&self, memory: &mut Kept, view: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
            let cluster = view.cluster();
            let links = (0..).map(LinkId);
            for link in links.take_while(|link| cluster.link(*link).is_some()) {
                let runs = |id: &JobId| view.job(*id).map(|j| j.phase()) == Some(Phase::Running);
                let mut expected = on_link(view, link);
                expected.retain(runs);
                let derived = LinkJobs::of(view);
                for index in [&memory.linked, &derived] {
                    let found = index.on(link).iter().copied().filter(runs);
                    assert_eq!(found.collect::<Vec<_>>(), expected, "link {link}");
                }
                if let Some(at) = expected.len().checked_sub(1) {
                    COMPARED[at.min(1)].fetch_add(1, Ordering::Relaxed);
                }
            }
            job.own_rate()
        }

        fn reach(&self) -> Reach {
            Reach::Links
        }
    }

    /// A placement that compares the jobs of links in its draft with the assignments there.
    struct ComparingPlacement;

    impl Stateless for ComparingPlacement {}

    impl PlacementPolicy for ComparingPlacement {
        fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
            let compare = |draft: &Draft<'_>| {
                let cluster = draft.view().cluster();
                let links = (0..).map(LinkId);
                for link in links.take_while(|link| cluster.link(*link).is_some()) {
                    let uses = |on: &Assignment| cluster.links_of(&on.gpus).contains(&link);
                    let placed = draft.placed().filter(|(_, on)| uses(on));
                    let mut expected: Vec<JobId> = placed.map(|(job, _)| job.id()).collect();
                    expected.sort_unstable();
                    let found = draft.on_link(link).map(|(job, _)| job.id());
                    assert_eq!(found.collect::<Vec<_>>(), expected, "link {link}");
                    PLACED.fetch_add(expected.len() as u32, Ordering::Relaxed);
                }
            };
            compare(draft);
            let valid = FirstFit.place(&mut (), requests, draft)?;
            compare(draft);
            Ok(valid)
        }
    }

    #[test]
    fn an_index_has_the_running_jobs_of_each_link() {
        let mut cluster: ClusterSpec = "8x2,network=100:50".parse().unwrap();
        for (i, node) in cluster.nodes.iter_mut().enumerate() {
            node.location = vec![Name::from(format!("rack-{}", i / 2))];
        }
        let job = |i: u32| {
            let (submit, gpus) = (Time::new(f64::from(40 * i)), GpuCount(1 + i * i % 7));
            JobSpec::new(submit, gpus, Seconds::new(f64::from(200 + i * 131 % 900)))
        };
        let faults = Faults {
            node_mtbf: Some(Seconds::new(4000.0)),
            node_mttr: Seconds::new(500.0),
            job_mtbf: Some(Seconds::new(3000.0)),
            launch_failure: 0.05,
            ..Faults::default()
        };
        for checkpoint in [0.0, 50.0] {
            let scheduler = Composition::new("least-attained")
                .in_rounds(Seconds::new(60.0))
                .scheduling(by_key(|job| SortKey::by(job.attained_time().secs())))
                .placement(ComparingPlacement)
                .build();
            let overheads = FixedOverheads {
                checkpoint: Seconds::new(checkpoint),
                ..FixedOverheads::default()
            };
            Simulation::new(cluster.clone())
                .execution(Comparing)
                .overheads(overheads)
                .faults(faults)
                .run(
                    scheduler.unwrap(),
                    &mut Jobs::new((0..60).map(job).collect()),
                )
                .unwrap();
        }
        let compared = COMPARED.each_ref().map(|n| n.load(Ordering::Relaxed));
        assert!(compared.iter().all(|n| *n > 1000), "{compared:?}");
        assert!(PLACED.load(Ordering::Relaxed) > 1000);
    }
}
