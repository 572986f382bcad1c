//! Finish-time fairness of jobs.

use super::JobRow;
use blox_sim::results::Contention;

/// Returns the finish-time fairness ρ of each measured job with a completion time, in order of
/// job (Themis, NSDI 2020, section 3).
///
/// ρ is the completion time divided by the time that the job needs on a fair share of the
/// cluster. With ρ above 1, the job lost more than its share.
///
/// ρ = JCT / (duration × max(1, contention)). Contention is the number of GPUs that all jobs in
/// the system request, divided by the GPUs of the cluster. It is a mean over the job's time in
/// the system. Jobs without an end count until `end_s`. Rejected jobs request no GPUs.
pub fn finish_time_fairness(jobs: &[JobRow], gpus: u32, end_s: f64) -> Vec<f64> {
    let asking = jobs.iter().filter(|j| &*j.outcome != "rejected");
    let demand = Contention::of_changes(asking.flat_map(|j| {
        let end = j.finish_s.unwrap_or(end_s).max(j.submit_s);
        let asked = f64::from(j.gpus);
        [(j.submit_s, asked), (end, -asked)]
    }));
    let done = jobs.iter().filter(|j| j.measured);
    done.filter_map(|j| {
        let (jct, finish) = (j.jct_s?, j.finish_s?);
        if jct <= 0.0 || j.duration_s <= 0.0 || gpus == 0 {
            return None;
        }
        let asked = demand.between(j.submit_s, finish);
        Some(jct / (j.duration_s * (asked / f64::from(gpus)).max(1.0)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(job: u32, submit_s: f64, finish_s: f64, gpus: u32, duration_s: f64) -> JobRow {
        JobRow {
            job_id: job.to_string().into(),
            job,
            submit_s,
            first_start_s: Some(submit_s),
            finish_s: Some(finish_s),
            jct_s: Some(finish_s - submit_s),
            attained_s: duration_s,
            gpus,
            duration_s,
            preemptions: 0,
            launches: 1,
            outcome: "completed".into(),
            reason: None,
            measured: true,
            group: None,
        }
    }

    #[test]
    fn waiting_for_another_is_fair_up_to_ones_share() {
        // One GPU: the second waits for the first.
        let jobs = [job(0, 0.0, 100.0, 1, 100.0), job(1, 0.0, 200.0, 1, 100.0)];
        // Contention is 2 while both are there: half of the GPU each would have taken
        // the first 200 s; the second had it to itself for half of its life.
        assert_eq!(finish_time_fairness(&jobs, 1, 200.0), [0.5, 200.0 / 150.0]);
        // Room for both: waiting is not fair at all.
        assert_eq!(finish_time_fairness(&jobs, 2, 200.0), [1.0, 2.0]);
    }

    #[test]
    fn jobs_without_end_press_until_the_end() {
        let mut endless = job(1, 0.0, 0.0, 3, 1e6);
        endless.finish_s = None;
        endless.jct_s = None;
        let jobs = [job(0, 0.0, 100.0, 1, 100.0), endless.clone()];
        assert_eq!(finish_time_fairness(&jobs, 1, 1000.0), [0.25]);
        endless.outcome = "rejected".into();
        let jobs = [job(0, 0.0, 100.0, 1, 100.0), endless];
        assert_eq!(finish_time_fairness(&jobs, 1, 1000.0), [1.0]);
    }
}
