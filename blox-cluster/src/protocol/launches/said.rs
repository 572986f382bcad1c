//! What launches say of themselves, on its way to the core.

use super::{Launches, Outcome};
use crate::protocol::ids::{AttemptId, Millis};
use crate::protocol::message::{MOST_METRICS, Report, Said, Status};
use blox_core::{Event, JobRef, Phase, View};

/// Between two readings of one launch that are passed on lie so many heartbeats at least.
const HEARTBEATS: u64 = 5;
/// And this share of the time for which its job has run: what is kept of a launch grows with the
/// logarithm of its length.
const SHARE: f64 = 0.01;

/// What the core was told of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// When last.
    at: Millis,
    /// How far it was first, and when: its speed is measured from there.
    first: Option<(Millis, f64)>,
    /// How far it was last.
    done: Option<f64>,
}

impl Launches {
    /// Tells the core how far running launches are, how fast they have been, and the numbers that
    /// they gave: what has changed, once in a while and at their end.
    pub(super) fn pass_on(&mut self, now: Millis, view: View<'_>, r: &Report, out: &mut Outcome) {
        for a in &r.attempts {
            let known = self.durable.attempts.get(&a.id);
            let ours = known.is_some_and(|known| known.fence == a.fence);
            let runs = |j: &JobRef<'_>| {
                j.attempt() == a.id.attempt && matches!(j.phase(), Phase::Running | Phase::Stopping)
            };
            let Some(job) = view.job(a.id.job).filter(|j| ours && runs(j)) else {
                continue;
            };
            let rest = self.clock.back(job.attained_time() * SHARE);
            let rest = rest.max(Millis(self.timers.heartbeat.0 * HEARTBEATS));
            let ends = matches!(a.status, Status::Done(_));
            let before = self.passed.get(&a.id);
            if !ends && before.is_some_and(|b| now - b.at < rest) {
                continue;
            }
            let mut said = self.said(a.id);
            let told = before.and_then(|b| b.done);
            if ends && said.progress.is_some_and(|p| told == Some(p.done)) {
                said.progress = None;
            }
            if said != Said::default() {
                self.pass_on_what(now, a.id, view, &job, said, out);
            }
        }
    }

    fn pass_on_what(
        &mut self,
        now: Millis,
        id: AttemptId,
        view: View<'_>,
        job: &JobRef<'_>,
        said: Said,
        out: &mut Outcome,
    ) {
        let passed = self.passed.entry(id).or_insert(Passed {
            at: now,
            first: None,
            done: None,
        });
        passed.at = now;
        if let Some(done) = said.progress.map(|p| p.done)
            && job.phase() == Phase::Running
        {
            // That it is no further is news as well: the core takes it to go on.
            // Less than before: it has gone back to a checkpoint.
            let first = passed.first.filter(|_| passed.done <= Some(done));
            let (since, from) = *passed.first.insert(first.unwrap_or((now, done)));
            passed.done = Some(done);
            let measured = (done - from) / self.clock.length(now - since).secs();
            let rate = match measured.is_finite() && measured > 0.0 {
                true => measured,
                false => job.rate(),
            };
            out.events.push(Event::Progress {
                job: id.job,
                attempt: id.attempt,
                work: done,
                rate,
            });
        }
        self.learn(id, view, job, &said.metrics, out);
        let brief = self.durable.jobs.get(&id.job);
        let mut names = brief.map_or(0, |b| b.metrics.len());
        for (name, value) in said.metrics {
            let last = job.metric(&name).last();
            names += usize::from(last.is_none());
            // The same number again is no second reading.
            let is_new = last.is_none_or(|(_, last)| *last != value);
            if is_new && (last.is_some() || names <= MOST_METRICS) {
                out.events.push(Event::Metric {
                    job: id.job,
                    name,
                    value,
                });
            }
        }
    }
}
