//! Gavel's released simulator (stanford-futuredata/gavel, commit c4fa400) and that of
//! Shockwave (uw-mad-dash/shockwave), which goes back to it.
//!
//! The program is its own simulator: a round ends when its slowest quantum ends, steps
//! are whole numbers, shares are asked for at most every 1920 s, GPUs idle that were
//! given to jobs newer than the last shares, and a job that makes no progress five
//! times is dropped. It is run a round at a time behind [`Released`], with the same
//! [`RoundMechanism`](blox_policies::scheduling::gavel::RoundMechanism) and share policies as
//! [`Gavel`](blox_policies::scheduling::gavel::Gavel); jobs end as it says (`blox_sim`'s
//! completion rule `ByScheduler`), and it places them itself.

mod assign;
mod bisection;
mod dialect;
mod everywhere;
mod fifo;
mod filling;
mod job;
mod market;
mod program;
mod shockwave;

pub use bisection::BisectedDuration;
pub use dialect::{AsGavel, Dialect};
pub use everywhere::OnEveryType;
pub use fifo::{FifoMode, ReleasedFifo};
pub use filling::ReleasedFilling;
pub use job::{Job, summed_gain};
pub use market::AsMarket;
pub use shockwave::{AsShockwave, BatchJob, EqualTime, Mode};

use blox_core::{
    Assignment, Draft, DraftError, Event, GpuCount, GpuId, JobId, JobRef, Name, Outlook, Part,
    PlacementPolicy, Reason, Request, Requests, RestoreError, SchedulingPolicy, Shape, Time, View,
};
use blox_policies::scheduling::gavel::{Combination, SharePolicy};
use program::Program;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// GPUs of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// The type.
    pub name: Name,
    /// GPUs.
    pub gpus: u32,
    /// GPUs of a server; what is left over of the last one is not used.
    pub per_server: u32,
}

/// What the program was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The cluster. Workers are numbered type by type in order of the names.
    pub pools: Vec<Pool>,
    /// Seconds of a quantum.
    pub round: f64,
    /// Least seconds between two allocations.
    pub gap: f64,
    /// Its seed.
    pub seed: u64,
    /// Whether the policy is one for which the types are filled in random order.
    pub shuffles: bool,
    /// Whether the policy is one (`isolated_plus`) under which nobody overtakes a job that does
    /// not fit.
    pub in_turn: bool,
    /// Jobs of the trace; `None` where jobs are generated without end.
    pub jobs: Option<usize>,
    /// Whether to keep a row for every job and round.
    pub logs: bool,
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleasedEnd {
    /// The job.
    pub job: u32,
    /// Its own end, in seconds: mostly before that of the round.
    pub at: f64,
    /// Whether it was given up; the program then has no completion time for it.
    pub dropped: bool,
}

/// Who ran in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRow {
    /// The round, from 1.
    pub round: u64,
    /// Its start in seconds.
    pub time: f64,
    /// Who.
    pub who: Combination,
    /// On GPUs of this type.
    pub kind: Name,
    /// On these workers.
    pub workers: Vec<u32>,
}

/// The released program as a scheduling and placement policy.
#[derive(Clone)]
pub struct Released<D = AsGavel> {
    program: Program<D>,
    shares: Box<dyn SharePolicy>,
    /// Jobs that came in and wait for the end of the round.
    new: Vec<Job>,
    seen: u32,
    reported: usize,
    /// Whether the decision in the making is one of the program's turns.
    moves: bool,
}

impl Released {
    /// Gavel's, with a share policy.
    pub fn new(settings: &Settings, shares: impl SharePolicy + 'static) -> Self {
        Released::speaking(AsGavel, settings, shares)
    }
}

impl<D: Dialect> Released<D> {
    /// In another dialect.
    pub fn speaking(dialect: D, settings: &Settings, shares: impl SharePolicy + 'static) -> Self {
        let shares: Box<dyn SharePolicy> = Box::new(shares);
        Released {
            program: Program::new(settings, dialect, shares.wants_pairs()),
            shares,
            new: Vec::new(),
            seen: 0,
            reported: 0,
            moves: false,
        }
    }
}

/// The ends that a [`Released`] policy has planned, in their order, from what it saved.
pub fn released_ends(saved: &Value) -> Option<Vec<ReleasedEnd>> {
    serde_json::from_value(saved.get(0)?.get("ends")?.clone()).ok()
}

/// When a [`Released`] policy gave up and why, from what it saved: it decides nothing from then on.
pub fn released_failure(saved: &Value) -> Option<(f64, String)> {
    serde_json::from_value(saved.get(0)?.get("gave_up")?.clone()).ok()?
}

/// The rows that a [`Released`] policy has logged, from what it saved.
pub fn released_rounds(saved: &Value) -> Option<Vec<RoundRow>> {
    serde_json::from_value(saved.get(0)?.get("log")?.clone()).ok()
}

impl<D: Dialect> Part for Released<D> {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.shares.observe(view, event);
    }

    fn save(&self) -> Option<Value> {
        let shares = self.shares.save();
        let memory = (&self.program, &self.new, self.seen, self.reported, shares);
        serde_json::to_value(memory).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let shares: Option<Value>;
        (self.program, self.new, self.seen, self.reported, shares) =
            serde_json::from_value(memory)?;
        match shares {
            Some(shares) => self.shares.restore(shares),
            None => Ok(()),
        }
    }
}

impl<D: Dialect + 'static> SchedulingPolicy for Released<D> {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        for id in self.seen..view.state().next_job_id().0 {
            if let Some(job) = view.job(JobId(id)) {
                self.new.push(Job::of(&job, self.program.types()));
            }
        }
        self.seen = view.state().next_job_id().0;
        let now = view.now().secs();
        let due = match self.program.due() {
            Some(end) => end <= now,
            None => !self.new.is_empty(),
        };
        self.moves = due;
        if due {
            let new = std::mem::take(&mut self.new);
            self.program.turn(now, new, &mut *self.shares);
            for end in &self.program.ends[self.reported..] {
                let at = Time::new(end.at);
                out.finish(JobId(end.job), Reason::EndPlanned { at, exact: at });
            }
            self.reported = self.program.ends.len();
            out.stop_unlisted();
            for (who, workers) in self.program.placed() {
                let shape = Shape::gpus(GpuCount(workers.len() as u32));
                let mut request = Request::with_shape(who.job, shape);
                request.partner = who.partner;
                out.push(request);
            }
        }
        match self.program.due() {
            Some(at) => Outlook::Until(Time::new(at)),
            None => Outlook::Stable,
        }
    }

    fn placement(&mut self) -> Option<&mut dyn PlacementPolicy> {
        Some(self)
    }
}

impl<D: Dialect> PlacementPolicy for Released<D> {
    fn place(&mut self, _: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        if !self.moves {
            return Ok(());
        }
        let list: Vec<(Combination, Assignment)> = self
            .program
            .placed()
            .map(|(who, w)| (who, Assignment::of(w.iter().map(|w| GpuId(*w)))))
            .collect();
        let stays = |draft: &Draft<'_>, who: &Combination, wanted: &Assignment| {
            who.jobs().all(|job| {
                let has = draft.current(job);
                let alone = who.partner.is_some() || has.is_none_or(|a| a.partner.is_none());
                alone && has.is_some_and(|a| a.gpus == wanted.gpus)
            })
        };
        for (who, wanted) in &list {
            if !stays(draft, who, wanted) {
                for job in who.jobs() {
                    if draft.may_place(job) && draft.current(job).is_some() {
                        draft.release(job, Reason::NotChosen)?;
                    }
                }
            }
        }
        for (who, wanted) in list {
            let mut first = None;
            for job in who.jobs() {
                if !draft.may_place(job) {
                    continue;
                }
                if draft.current(job).is_none() {
                    let assignment = Assignment {
                        partner: first,
                        ..wanted.clone()
                    };
                    draft.assign(job, assignment)?;
                }
                first = Some(job);
            }
        }
        Ok(())
    }

    fn can_ever_place(&self, _: View<'_>, _: &JobRef<'_>) -> Result<(), Reason> {
        Ok(())
    }
}
