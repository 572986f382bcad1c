//! Jobs on a link of the network.

use super::Draft;
use crate::assignment::Assignment;
use crate::ids::{JobId, LinkId};
use crate::job::JobRef;

impl<'a> Draft<'a> {
    /// Returns the jobs in view that [use](crate::Cluster::links_of) a link of the network with
    /// their GPUs in the draft, in order, and their assignments.
    pub fn on_link(&self, link: LinkId) -> impl Iterator<Item = (JobRef<'a>, &Assignment)> {
        let (view, cluster) = (self.view, self.view.cluster());
        let before = self.m.links(view).on(link).iter().copied();
        let changed = self.m.entries.iter().map(|e| e.job);
        let mut jobs: Vec<JobId> = before.chain(changed).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let its = jobs.into_iter().filter_map(move |id| {
            let assignment = self.current(id)?;
            Some((view.job(id)?, assignment))
        });
        its.filter(move |(_, a)| cluster.links_of(&a.gpus).contains(&link))
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::spec::ClusterSpec;
    use crate::draft::{Draft, admitted};
    use crate::ids::{GpuId, JobId, LinkId};
    use crate::job::spec::JobSpec;
    use crate::policy::draft::memory::DraftMemory;
    use crate::reason::Reason;
    use crate::shape::Shape;
    use crate::units::{GpuCount, Seconds, Time};
    use crate::view::View;
    use crate::{Assignment, decision::Plan};

    #[test]
    fn a_link_has_the_jobs_that_the_draft_puts_there() {
        let spec: ClusterSpec = "3x2,network=100".parse().unwrap();
        let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0));
        let state = admitted(&spec, [job.clone(), job.clone(), job]);
        let on = |gpus: [u32; 2]| -> Assignment {
            Shape::gpus(GpuCount(2)).on(gpus.map(GpuId).into_iter().collect())
        };
        let mut memory = DraftMemory::default();
        let mut draft = Draft::begin(View::of(&state), &mut memory, &Plan::default());
        let jobs = |draft: &Draft<'_>, link: u32| -> Vec<u32> {
            draft
                .on_link(LinkId(link))
                .map(|(job, _)| job.id().0)
                .collect()
        };
        draft.assign(JobId(1), on([1, 2])).unwrap();
        draft.assign(JobId(0), on([3, 4])).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|l| jobs(&draft, l)),
            [vec![1], vec![0, 1], vec![0], vec![]]
        );
        let savepoint = draft.savepoint();
        draft.release(JobId(1), Reason::NotYetDecided).unwrap();
        assert_eq!(
            [0, 1, 2].map(|l| jobs(&draft, l)),
            [vec![], vec![0], vec![0]]
        );
        draft.rollback(savepoint);
        assert_eq!(jobs(&draft, 1), [0, 1]);
    }
}
