//! Jobs that are preempted again and again, and may begin anew each time.

use super::Durable;
use crate::protocol::message::Exit;
use blox_core::JobId;

/// Number of preemptions in a row from which a job may starve.
const OFTEN: u32 = 5;

impl Durable {
    /// Returns the number of the last launches of a job in a row that were preempted. It is 0 for a
    /// job that reports progress, and for one that has ended.
    fn preempted_in_row(&self, job: JobId) -> u32 {
        let brief = self.jobs.get(&job);
        if brief.is_none_or(|brief| brief.ended.is_some() || brief.done.is_some()) {
            return 0;
        }
        let (mut in_row, mut last) = (0, None);
        for (part, end) in self.accounts_of(job) {
            if !matches!(end.exit, Exit::Stopped | Exit::Cut) {
                in_row = 0;
            } else if last != Some(part.id) {
                in_row += 1;
            }
            last = Some(part.id);
        }
        in_row
    }

    /// Describes a job that is preempted again and again without reporting progress. It is advice
    /// for users, and no decision depends on it.
    pub fn starvation(&self, job: JobId) -> Option<String> {
        let in_row = self.preempted_in_row(job);
        (in_row >= OFTEN).then(|| {
            format!(
                "preempted {in_row} times in a row without reported progress: unless it saves its \
                 work on SIGTERM, it begins anew each time; save it, or raise --round"
            )
        })
    }

    /// Returns [`Durable::starvation`] once, after the preemption that begins it.
    pub fn begun_starvation(&self, job: JobId) -> Option<String> {
        let begins = self.preempted_in_row(job) == OFTEN;
        let text = self.starvation(job).filter(|_| begins)?;
        let job = self.called(job);
        Some(format!(
            "job {job} was {text}; `blox why JOB` warns of others"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::launches::{Brief, End};
    use crate::protocol::{AttemptId, Millis, PartId};
    use blox_core::NodeId;

    #[test]
    fn job_preempted_five_times_in_a_row_may_starve() {
        let (job, mut durable) = (JobId(0), Durable::default());
        durable.jobs.insert(job, Brief::default());
        let exits = [
            Exit::Stopped,
            Exit::Failed { code: 1 },
            Exit::Stopped,
            Exit::Cut,
            Exit::Stopped,
            Exit::Stopped,
            Exit::Stopped,
            Exit::Stopped,
        ];
        let mut seen = Vec::new();
        for (attempt, exit) in (1..).zip(exits) {
            // A launch on two nodes is preempted once.
            for node in [NodeId(0), NodeId(1)] {
                let id = AttemptId { job, attempt };
                let end = End {
                    exit,
                    ran: Millis(1),
                    gpus: 1,
                    estimated: false,
                    unobserved: false,
                    why: String::new(),
                    exited_zero: false,
                };
                durable.accounts.insert(PartId { id, node }, end);
            }
            seen.push(durable.preempted_in_row(job));
            let begins = durable.begun_starvation(job).is_some();
            assert_eq!(begins, attempt == 7, "launch {attempt}");
        }
        assert_eq!(seen, [1, 0, 1, 2, 3, 4, 5, 6]);
        let text = durable.starvation(job).unwrap();
        assert!(text.starts_with("preempted 6 times in a row"), "{text}");
        // A job that reports progress has its own way to save it.
        durable.jobs.get_mut(&job).unwrap().done = Some(3.0);
        assert_eq!(durable.starvation(job), None);
    }
}
