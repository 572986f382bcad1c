use super::{Claim, fair_shares};
use blox_core::{JobId, JobRef, Outlook, Part, Request, Requests, SchedulingPolicy, View};

/// Finish-time fairness with leases (Themis, NSDI 2020).
///
/// Every round is a lease. A job's finish-time fairness is the time from its
/// submission to its end, over what that would be on its own part of the
/// cluster, one of as many as there are jobs. Shares of the coming time that
/// make the worst of these ratios as good as it can be ([`fair_shares`]) rank the
/// jobs; those with the largest shares get the leases, as many as fit, and all
/// others give theirs up. Speeds and remaining work are the true ones. The
/// paper's auction, with which jobs bid for leases, is not modelled: the
/// shares are what truthful bids lead to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Themis;

impl Themis {
    fn claim(job: &JobRef<'_>, jobs: usize, total: f64) -> Claim {
        let gpus = f64::from(job.gpus().get());
        // Its part of the cluster, as a share of the time on the GPUs that it asks for.
        let part = (total / jobs as f64).ceil().min(gpus) / gpus;
        let least = f64::MIN_POSITIVE;
        Claim {
            waited: job.age().secs().max(0.0),
            left: (job.work_left() / job.spec().work.rate).max(least),
            alone: (job.spec().duration().secs() / part).max(least),
            gpus,
        }
    }
}

impl Part for Themis {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl SchedulingPolicy for Themis {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        let jobs: Vec<JobRef<'_>> = view.active().collect();
        let total = view.usable_gpus().get();
        let demand: u64 = jobs.iter().map(|j| u64::from(j.gpus().get())).sum();
        let scarce = demand > u64::from(total);
        let mut order: Vec<(f64, JobId)> = jobs.iter().map(|j| (0.0, j.id())).collect();
        if scarce && total > 0 {
            let claims: Vec<Claim> = jobs
                .iter()
                .map(|j| Themis::claim(j, jobs.len(), f64::from(total)))
                .collect();
            let (shares, _) = fair_shares(&claims, f64::from(total));
            for (entry, share) in order.iter_mut().zip(shares) {
                entry.0 = share;
            }
            order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        let mut free = total;
        for (_, id) in order {
            if let Some(job) = view.job(id)
                && job.gpus().get() <= free
            {
                free -= job.gpus().get();
                out.push(Request::gang(&job));
            }
        }
        out.stop_unlisted();
        if scarce {
            Outlook::NextRound
        } else {
            Outlook::Stable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::testing::FirstFit;
    use blox_core::{
        ClusterSpec, Composition, Decide, Event, GpuCount, JobSpec, Plan, Seconds, State, Time,
        Verdict,
    };
    use std::sync::Arc;

    #[test]
    fn the_job_that_is_furthest_behind_has_the_lease() {
        let mut state = State::new(&ClusterSpec::uniform(1, 2)).unwrap();
        let lengths = [(JobId(0), 1000.0), (JobId(1), 100.0)];
        for (job, length) in lengths {
            let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(length));
            let spec = Arc::new(spec);
            let submitted = Event::Submitted { job, spec };
            state.apply(Time::ZERO, &submitted).unwrap();
        }
        for (job, _) in lengths {
            let verdict = Verdict::Accept {
                class: None,
                deadline: None,
            };
            let judged = Event::Judged { job, verdict };
            state.apply(Time::new(200.0), &judged).unwrap();
        }
        let mut themis = Composition::new("themis")
            .scheduling(Themis)
            .placement(FirstFit)
            .build();
        let mut plan = Plan::default();
        themis.plan(View::of(&state), &mut plan).unwrap();
        // 200 s of waiting are twice the life of the short one on half the cluster.
        assert_eq!(plan.actions.len(), 1);
        assert_eq!(plan.actions[0].job(), JobId(1));
    }
}
