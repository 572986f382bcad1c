//! Forwarding of job reports to the core.

use super::Launches;
use crate::protocol::ids::{AttemptId, Millis};
use crate::protocol::message::{JobReport, MOST_METRICS, Report, Status};
use blox_core::{Event, JobRef, Phase, View};

/// Minimum interval between two forwarded reports of a launch, in heartbeats.
const HEARTBEATS: u64 = 5;
/// Minimum interval between two forwarded reports, as a share of the job's running time. The number
/// of stored reports therefore grows with the logarithm of the running time.
const SHARE: f64 = 0.01;

/// State of the forwarded reports of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarded {
    /// Time of the last forwarded report.
    at: Millis,
    /// Time and progress from which the speed is measured.
    first: Option<(Millis, f64)>,
    /// Last forwarded progress.
    done: Option<f64>,
}

impl Launches {
    /// Forwards changed progress, measured speed and metrics of running launches to the core. A
    /// launch is forwarded at most once per interval, and at its end.
    pub(super) fn forward(&mut self, now: Millis, view: View<'_>, r: &Report) {
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
            let before = self.forwarded.get(&a.id);
            if !ends && before.is_some_and(|b| now - b.at < rest) {
                continue;
            }
            let mut report = self.job_report(a.id);
            let last_done = before.and_then(|b| b.done);
            if ends && report.progress.is_some_and(|p| last_done == Some(p.done)) {
                report.progress = None;
            }
            if report != JobReport::default() {
                self.forward_report(now, a.id, view, &job, report);
            }
        }
    }

    fn forward_report(
        &mut self,
        now: Millis,
        id: AttemptId,
        view: View<'_>,
        job: &JobRef<'_>,
        report: JobReport,
    ) {
        let forwarded = self.forwarded.entry(id).or_insert(Forwarded {
            at: now,
            first: None,
            done: None,
        });
        forwarded.at = now;
        if let Some(done) = report.progress.map(|p| p.done)
            && job.phase() == Phase::Running
        {
            // Unchanged progress is forwarded as well, because the core otherwise extrapolates. If
            // progress decreased, the job has resumed from a checkpoint and the measurement
            // restarts.
            let first = forwarded.first.filter(|_| forwarded.done <= Some(done));
            let (since, from) = *forwarded.first.insert(first.unwrap_or((now, done)));
            forwarded.done = Some(done);
            let measured = (done - from) / self.clock.length(now - since).secs();
            let rate = match measured.is_finite() && measured > 0.0 {
                true => measured,
                false => job.rate(),
            };
            self.out.events.push(Event::Progress {
                job: id.job,
                attempt: id.attempt,
                work: done,
                rate,
            });
        }
        self.learn(id, view, job, &report.metrics);
        let brief = self.durable.jobs.get(&id.job);
        let mut names = brief.map_or(0, |b| b.metrics.len());
        for (name, value) in report.metrics {
            let last = job.metric(&name).last();
            names += usize::from(last.is_none());
            // An unchanged value is not a new reading.
            let is_new = last.is_none_or(|(_, last)| *last != value);
            if is_new && (last.is_some() || names <= MOST_METRICS) {
                self.out.events.push(Event::Metric {
                    job: id.job,
                    name,
                    value,
                });
            }
        }
    }
}
