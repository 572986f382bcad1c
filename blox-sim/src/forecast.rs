//! Forecasts by simulation.

use crate::Measure;
use crate::backend::{Completion, SimulatedWorld, Simulator};
use crate::completion::{AtRoundEnd, Exact};
use crate::execution::{AnyExecution, ExecutionModel, as_specified};
use crate::faults::Faults;
use crate::overheads::{AnyOverheads, FixedOverheads, Overheads};
use crate::workload::Jobs;
use blox_core::drive::{Backend, Launched, drive, run_ready};
use blox_core::forecast::{Forecast, Forecaster, Horizon};
use blox_core::input::Input;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{Event, JobId, MetricCollector, Scheduler, Seconds, State, Time, View};
use std::sync::Arc;

/// A forecasting simulation, without arrivals and faults.
#[derive(Clone)]
pub struct LookAhead {
    trigger: Box<dyn DecisionTrigger>,
    execution: Arc<dyn AnyExecution>,
    overheads: Arc<dyn AnyOverheads>,
}

impl LookAhead {
    /// Creates a forecast with decisions at the moments of `trigger`. Jobs run at their own rate,
    /// and changes cost nothing.
    pub fn new(trigger: impl DecisionTrigger + 'static) -> Self {
        LookAhead {
            trigger: Box::new(trigger),
            execution: Arc::new(as_specified()),
            overheads: Arc::new(FixedOverheads::default()),
        }
    }

    /// Sets the execution model, which is the assumption about speed.
    #[must_use]
    pub fn execution(mut self, model: impl ExecutionModel) -> Self {
        self.execution = Arc::new(model);
        self
    }

    /// Sets the costs of changes.
    #[must_use]
    pub fn overheads(mut self, overheads: impl Overheads) -> Self {
        self.overheads = Arc::new(overheads);
        self
    }
}

/// Returns a [`Forecaster`] that uses the simulator.
pub fn forecaster(look_ahead: LookAhead) -> Arc<dyn Forecaster> {
    Arc::new(look_ahead)
}

impl Forecaster for LookAhead {
    /// The policy itself is not changed.
    fn forecast(&self, state: &State, policy: &dyn Scheduler, horizon: Horizon) -> Forecast {
        let completion = match self.trigger.period().and_then(AtRoundEnd::every) {
            Some(rule) => Completion::AtRoundEnd(rule),
            None => Completion::Other(Arc::new(Exact)),
        };
        let mut nobody = Jobs::new(Vec::new());
        // Reading an empty workload cannot fail.
        let Ok(mut backend) = Simulator::new(
            &mut nobody,
            SimulatedWorld {
                execution: self.execution.clone(),
                overheads: self.overheads.clone(),
                completion,
                seed: 0,
            },
            Faults::default(),
            Measure::All,
            Arc::default(),
            0,
        ) else {
            return Forecast::default();
        };
        let live = state.live_jobs();
        let mut policy = dyn_clone::clone_box(policy);
        // The caller is about to decide. If this is a decision moment, the forecast starts with a
        // decision.
        let mut core = Runtime::new(state.clone(), self.trigger.clone())
            .with_collector(Box::new(Ends::default()));
        // Earlier commands are already in progress and finish at once.
        core.take_commands(&mut Vec::new());
        backend.resume(core.view());
        let until = match horizon {
            Horizon::UntilDrained => Time::new(f64::MAX),
            Horizon::For(span) => state.now() + span,
        };
        let mut bounded = Until {
            inner: backend,
            until,
        };
        // If the policy fails in the forecast, the ends so far still count.
        let _ = run_ready(drive(&mut core, &mut *policy, &mut bounded));
        let ends = core
            .take_collectors()
            .into_iter()
            .find_map(|c| (c as Box<dyn std::any::Any>).downcast::<Ends>().ok())
            .map_or_else(Ends::default, |e| *e);
        let n = ends.ends.len();
        Forecast {
            average_jct: if n == 0 {
                Seconds::ZERO
            } else {
                Seconds::new(ends.jct / n as f64)
            },
            unfinished: live.saturating_sub(n as u32),
            ends: ends.ends,
        }
    }
}

#[derive(Clone, Default)]
struct Ends {
    ends: Vec<(JobId, Time)>,
    jct: f64,
}

impl MetricCollector for Ends {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event
            && let Some(j) = view.job(*job)
        {
            self.ends.push((*job, view.now()));
            self.jct += j.age().secs();
        }
    }
}

/// Ends a simulation at a given time.
struct Until<'w> {
    inner: Simulator<'w>,
    until: Time,
}

impl Backend for Until<'_> {
    type Error = crate::SimError;

    async fn next(
        &mut self,
        due: Option<Time>,
        view: View<'_>,
    ) -> Result<Option<Input>, Self::Error> {
        let input = self.inner.next(due, view).await?;
        let beyond = |at: Time| at > self.until;
        Ok(input.filter(|input| !input.at().is_some_and(beyond)))
    }

    fn is_instant(&self) -> bool {
        self.inner.is_instant()
    }

    fn launched(&mut self, view: View<'_>, jobs: Launched<'_>, rates: &mut Vec<(JobId, f64)>) {
        self.inner.launched(view, jobs, rates);
    }

    fn rated(&mut self, view: View<'_>, rates: &[(JobId, f64)]) {
        self.inner.rated(view, rates);
    }

    async fn carry_out(
        &mut self,
        view: View<'_>,
        commands: &[blox_core::Command],
    ) -> Result<(), Self::Error> {
        self.inner.carry_out(view, commands).await
    }

    fn applied(&mut self, view: View<'_>, event: &Event) {
        self.inner.applied(view, event);
    }

    fn refused(
        &mut self,
        at: Time,
        event: &Event,
        error: blox_core::EventError,
    ) -> Result<(), Self::Error> {
        self.inner.refused(at, event, error)
    }

    fn lost_turn(&mut self, at: Time, error: blox_core::DecisionError) -> Result<(), Self::Error> {
        self.inner.lost_turn(at, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{
        ClusterSpec, Composition, GpuCount, JobSpec, Pipeline, Rounds, order::SortKey,
        policy::by_key,
    };
    use blox_testing::FirstFit;

    fn by(key: fn(&blox_core::JobRef<'_>) -> f64) -> Pipeline {
        Composition::new("ahead")
            .scheduling(by_key(move |job| SortKey::by(key(job))).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    #[test]
    fn each_policy_is_told_what_would_become_of_it_and_nothing_changes() {
        let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
        let mut fifo = by(|job| job.submit().secs());
        let sjf = by(|job| job.spec().duration().secs());
        let state = State::new(&ClusterSpec::uniform(1, 1)).unwrap();
        let mut core = Runtime::new(state, Box::new(rounds));
        for (i, (submit, duration)) in [(0.0, 1200.0), (10.0, 900.0), (20.0, 300.0)]
            .into_iter()
            .enumerate()
        {
            let at = Time::new(submit);
            let spec = JobSpec::new(at, GpuCount(1), Seconds::new(duration));
            let event = Event::Submitted {
                job: JobId(i as u32),
                spec: Arc::new(spec),
            };
            core.event(at, &event, &mut fifo).unwrap();
            if i == 0 {
                core.decide(Time::ZERO, &mut fifo).unwrap();
                let started = Event::Started {
                    job: JobId(0),
                    attempt: 1,
                    rate: 1.0,
                };
                core.event(Time::ZERO, &started, &mut fifo).unwrap();
            }
        }
        let before = serde_json::to_string(core.state()).unwrap();
        let ahead = forecaster(LookAhead::new(rounds));
        let ends = |f: &Forecast| -> Vec<(u32, f64)> {
            f.ends.iter().map(|(j, t)| (j.0, t.secs())).collect()
        };
        let a = ahead.forecast(core.state(), &fifo, Horizon::UntilDrained);
        assert_eq!(ends(&a), [(0, 1200.0), (1, 2100.0), (2, 2400.0)]);
        assert_eq!(a.average_jct, Seconds::new(1890.0));
        let b = ahead.forecast(core.state(), &sjf, Horizon::UntilDrained);
        assert_eq!(ends(&b), [(0, 1200.0), (2, 1500.0), (1, 2400.0)]);
        let c = ahead.forecast(core.state(), &sjf, Horizon::For(Seconds::new(1600.0)));
        assert_eq!((c.ends.len(), c.unfinished), (2, 1));
        assert_eq!(serde_json::to_string(core.state()).unwrap(), before);
    }
}
