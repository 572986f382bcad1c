//! State machine of a shim: the process that controls one launch on one node. It outlives the node
//! manager and enforces the lease.

use super::ids::Millis;
use super::message::{Exit, Final};
use super::timers::{LONGEST_GRACE_S, Timers};
use blox_core::JobSpec;
use serde::{Deserialize, Serialize};

/// Exit codes of a rank that saved its work after an order to stop: EX_TEMPFAIL, and the code of
/// SIGTERM.
pub const SAVED: [i32; 2] = [75, 143];

/// Order of the node manager: the wanted state, and the end of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// End of the lease, by the node's clock. It can be earlier than the end before.
    pub lease: Millis,
    /// The wanted state.
    pub wish: ShimWish,
}

/// Wanted state of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShimWish {
    /// Continue.
    Run,
    /// Save and end within this time, counted from the arrival of the message at the shim.
    Yield(Millis),
    /// End immediately.
    Kill,
}

/// Returns the grace period of a job: its own `grace_s`, or the default.
pub fn grace_of(spec: &JobSpec, timers: &Timers) -> Millis {
    let own = spec.extras().attributes.get("grace_s");
    let own = own.and_then(serde_json::Value::as_f64);
    own.filter(|secs| (0.0..=LONGEST_GRACE_S).contains(secs))
        .map_or(timers.grace, |secs| Millis((secs * 1000.0) as u64))
}

/// Exit code of a launch without an iteration for too long, as of the program `timeout`.
pub const STALLED: i32 = 124;

/// Returns the time without an iteration after which a launch of a job fails: its own `stall_s`.
pub fn stall_of(spec: &JobSpec) -> Option<Millis> {
    let own = spec.extras().attributes.get("stall_s");
    let own = own.and_then(serde_json::Value::as_f64);
    own.map(|secs| Millis((secs * 1000.0) as u64))
}

/// Input of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimInput {
    /// A message from the node manager arrived.
    Control(Control),
    /// A rank ended.
    RankExit {
        /// Index of the rank among this node's ranks, from 0.
        rank: usize,
        /// Its exit code; 128 plus the signal number if a signal ended it.
        code: i32,
    },
    /// No process is left after [`ShimEffect::KillAll`].
    Empty,
    /// A file that the job writes cannot be read. The message names the file and the reason.
    BadFile(String),
    /// The launch has made no iteration for this time.
    Stalled(Millis),
    /// A timeout may have passed.
    Tick,
}

/// Action of the shim.
#[derive(Clone, Debug, PartialEq)]
pub enum ShimEffect {
    /// Signal all processes to save their work and end (SIGTERM).
    Term,
    /// Kill all processes, including detached ones, until none is left.
    KillAll,
    /// The launch is over: write the result to disk.
    Finish(Final),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Signaled to save its work; killed at this time.
    Ending(Millis),
    Killing,
    Done,
}

/// State of a shim. Timeouts are handled before any input but the exit of a rank. A shim that was
/// suspended beyond the end of its lease therefore kills the launch first.
#[derive(Clone, Debug)]
pub struct Shim {
    timers: Timers,
    lease: Millis,
    phase: Phase,
    began: Millis,
    codes: Vec<Option<i32>>,
    failed: Option<i32>,
    /// The launch ends because of an unreadable file.
    bad_file: bool,
    /// Time at which the time limit of the job ends the launch, and the time to save work then.
    limit: Option<(Millis, Millis)>,
    /// The launch ends because of its time limit.
    timed_out: bool,
    /// An order or the end of the lease stopped the launch.
    stop_ordered: bool,
    /// Processes were killed before they exited.
    cut: bool,
    why: String,
}

impl Shim {
    /// Creates the state of a launch of `ranks` processes that started at `now`.
    pub fn new(timers: Timers, lease: Millis, ranks: usize, now: Millis) -> Self {
        Shim {
            timers,
            lease,
            phase: Phase::Running,
            began: now,
            codes: vec![None; ranks],
            failed: None,
            bad_file: false,
            limit: None,
            timed_out: false,
            stop_ordered: false,
            cut: false,
            why: String::new(),
        }
    }

    /// Ends the launch at a time, with a time to save its work.
    #[must_use]
    pub fn with_limit(mut self, at: Millis, grace: Millis) -> Self {
        self.limit = Some((at, grace));
        self
    }

    /// Returns the end of the lease that the shim follows.
    pub fn lease(&self) -> Millis {
        self.lease
    }

    /// Returns true if the launch is ending or has ended.
    pub fn is_stopping(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Processes an input.
    pub fn step(&mut self, now: Millis, input: ShimInput) -> Vec<ShimEffect> {
        let mut out = Vec::new();
        // A rank exited before the shim could signal it in this step.
        if let ShimInput::RankExit { rank, code } = input {
            self.rank_exit(now, rank, code, &mut out);
        }
        // The end of the lease precedes any message that would extend it, because the GPUs may be
        // allocated to another job.
        self.time(now, &mut out);
        match input {
            ShimInput::Control(c) => self.control(now, c, &mut out),
            ShimInput::Empty => self.empty(now, &mut out),
            ShimInput::BadFile(why) => self.bad_file(now, &why, &mut out),
            ShimInput::Stalled(time) => self.stalled(now, time, &mut out),
            ShimInput::RankExit { .. } | ShimInput::Tick => {}
        }
        out
    }

    fn time(&mut self, now: Millis, out: &mut Vec<ShimEffect>) {
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        if now >= self.lease {
            self.stop_ordered = true;
            self.note("its lease ran out");
            self.kill(out);
        } else if let Phase::Ending(until) = self.phase {
            if now >= until {
                self.note("it did not end in time");
                self.kill(out);
            }
        } else if let Some((_, grace)) = self.limit.filter(|(at, _)| now >= *at) {
            self.timed_out = true;
            self.note("it reached its time limit");
            self.end_within(now, grace, out);
        } else if now >= self.lease - self.timers.margin {
            self.note("its lease was not renewed");
            self.end_within(now, self.timers.margin, out);
        }
    }

    fn control(&mut self, now: Millis, c: Control, out: &mut Vec<ShimEffect>) {
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        self.lease = c.lease;
        match c.wish {
            ShimWish::Run => {}
            ShimWish::Yield(grace) => match self.phase {
                Phase::Running => {
                    self.note("ordered to stop");
                    self.end_within(now, grace, out);
                }
                // A repeated order does not extend the time.
                Phase::Ending(until) => self.phase = Phase::Ending(until.min(now + grace)),
                Phase::Killing | Phase::Done => {}
            },
            ShimWish::Kill => {
                self.stop_ordered = true;
                self.note("ended by order");
                self.kill(out);
            }
        }
    }

    fn rank_exit(&mut self, now: Millis, rank: usize, code: i32, out: &mut Vec<ShimEffect>) {
        match self.codes.get_mut(rank) {
            Some(slot) if slot.is_none() => *slot = Some(code),
            // A rank ends only once.
            _ => return,
        }
        if code != 0 && !self.stop_ordered && self.failed.is_none() {
            self.failed = Some(code);
            self.why = format!("rank {rank} of this node ended with {code}");
        }
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        if self.codes.iter().all(Option::is_some) {
            // Child processes may remain.
            self.phase = Phase::Killing;
            out.push(ShimEffect::KillAll);
        } else if self.failed.is_some() && self.phase == Phase::Running {
            self.phase = Phase::Ending(now + self.timers.kill);
            out.push(ShimEffect::Term);
        }
    }

    fn bad_file(&mut self, now: Millis, why: &str, out: &mut Vec<ShimEffect>) {
        // A launch that is already ending keeps its reason.
        if self.phase == Phase::Running {
            self.bad_file = true;
            self.note(why);
            self.end_within(now, self.timers.kill, out);
        }
    }

    fn stalled(&mut self, now: Millis, time: Millis, out: &mut Vec<ShimEffect>) {
        // A launch that is already ending keeps its reason.
        if self.phase == Phase::Running {
            self.failed = Some(STALLED);
            self.note(&format!("no iteration for {} s", time.as_secs()));
            self.end_within(now, self.timers.kill, out);
        }
    }

    fn empty(&mut self, now: Millis, out: &mut Vec<ShimEffect>) {
        if self.phase != Phase::Killing {
            return;
        }
        self.phase = Phase::Done;
        let all = |ok: &[i32]| {
            self.codes
                .iter()
                .all(|c| c.is_some_and(|c| c == 0 || ok.contains(&c)))
        };
        let zero = all(&[]);
        let exit = match self.failed {
            Some(code) => Exit::Failed { code },
            None if self.bad_file => Exit::BadFile,
            None if self.timed_out => Exit::TimedOut,
            None if zero && !self.stop_ordered => Exit::Completed,
            // A rank may exit with 0 because it was ordered to stop.
            None if zero || (self.stop_ordered && !self.cut && all(&SAVED)) => Exit::Stopped,
            None => Exit::Cut,
        };
        if exit == Exit::Completed {
            self.why.clear();
        }
        out.push(ShimEffect::Finish(Final {
            exit,
            exited_zero: zero && exit == Exit::Stopped,
            ran: now - self.began,
            estimated: false,
            why: std::mem::take(&mut self.why),
        }));
    }

    fn end_within(&mut self, now: Millis, grace: Millis, out: &mut Vec<ShimEffect>) {
        self.stop_ordered = true;
        self.phase = Phase::Ending(now + grace);
        out.push(ShimEffect::Term);
    }

    fn kill(&mut self, out: &mut Vec<ShimEffect>) {
        // If all ranks had exited before, the launch was not cut short.
        self.cut = self.codes.iter().any(Option::is_none);
        self.phase = Phase::Killing;
        out.push(ShimEffect::KillAll);
    }

    fn note(&mut self, why: &str) {
        if self.why.is_empty() {
            self.why = why.to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shim(ranks: usize) -> Shim {
        Shim::new(Timers::default(), Millis(15_000), ranks, Millis(0))
    }

    fn exit(rank: usize, code: i32) -> ShimInput {
        ShimInput::RankExit { rank, code }
    }

    fn finish(effects: &[ShimEffect]) -> (Exit, u64) {
        match effects {
            [ShimEffect::Finish(f)] => (f.exit, f.ran.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn launch_completes_once_all_ranks_ended_well() {
        let mut s = shim(2);
        assert_eq!(s.step(Millis(10), exit(0, 0)), []);
        assert_eq!(s.step(Millis(20), exit(1, 0)), [ShimEffect::KillAll]);
        assert_eq!(
            finish(&s.step(Millis(30), ShimInput::Empty)),
            (Exit::Completed, 30)
        );
        assert_eq!(s.step(Millis(40), ShimInput::Empty), []);
    }

    #[test]
    fn stalled_launch_fails_whatever_its_ranks_return() {
        for code in [0, 143] {
            let mut s = shim(1);
            let stalled = ShimInput::Stalled(Millis(60_000));
            assert_eq!(s.step(Millis(10), stalled.clone()), [ShimEffect::Term]);
            assert_eq!(s.step(Millis(11), stalled), []);
            assert_eq!(s.step(Millis(20), exit(0, code)), [ShimEffect::KillAll]);
            let end = s.step(Millis(30), ShimInput::Empty);
            assert_eq!(finish(&end), (Exit::Failed { code: STALLED }, 30));
            let [ShimEffect::Finish(done)] = &end[..] else {
                panic!("{end:?}");
            };
            assert_eq!(done.why, "no iteration for 60 s");
        }
    }

    #[test]
    fn a_lease_that_is_not_renewed_ends_it_in_two_steps() {
        let mut s = shim(1);
        assert_eq!(s.step(Millis(9_999), ShimInput::Tick), []);
        assert_eq!(s.step(Millis(10_000), ShimInput::Tick), [ShimEffect::Term]);
        assert_eq!(
            s.step(Millis(15_000), ShimInput::Tick),
            [ShimEffect::KillAll]
        );
        s.step(Millis(15_001), exit(0, 137));
        assert_eq!(
            finish(&s.step(Millis(15_002), ShimInput::Empty)),
            (Exit::Cut, 15_002)
        );
    }

    #[test]
    fn a_renewal_that_comes_after_the_end_is_too_late() {
        let mut s = shim(1);
        let renewal = ShimInput::Control(Control {
            lease: Millis(60_000),
            wish: ShimWish::Run,
        });
        assert_eq!(s.step(Millis(15_000), renewal), [ShimEffect::KillAll]);
    }

    #[test]
    fn rank_saved_in_time_yields_and_late_one_is_cut() {
        let stop = ShimInput::Control(Control {
            lease: Millis(15_000),
            wish: ShimWish::Yield(Millis(3_000)),
        });
        let mut s = shim(1);
        assert_eq!(s.step(Millis(1_000), stop.clone()), [ShimEffect::Term]);
        assert_eq!(s.step(Millis(2_000), stop.clone()), []);
        assert_eq!(s.step(Millis(3_000), exit(0, 143)), [ShimEffect::KillAll]);
        assert_eq!(
            finish(&s.step(Millis(3_001), ShimInput::Empty)).0,
            Exit::Stopped
        );
        let mut s = shim(1);
        s.step(Millis(1_000), stop);
        assert_eq!(
            s.step(Millis(4_000), ShimInput::Tick),
            [ShimEffect::KillAll]
        );
        s.step(Millis(4_001), exit(0, 137));
        assert_eq!(
            finish(&s.step(Millis(4_002), ShimInput::Empty)).0,
            Exit::Cut
        );
    }

    #[test]
    fn the_first_failing_rank_is_the_one_that_counts() {
        let mut s = shim(3);
        assert_eq!(s.step(Millis(10), exit(1, 3)), [ShimEffect::Term]);
        assert_eq!(s.step(Millis(20), exit(0, 143)), []);
        assert_eq!(
            s.step(Millis(5_010), ShimInput::Tick),
            [ShimEffect::KillAll]
        );
        s.step(Millis(5_011), exit(2, 137));
        let f = s.step(Millis(5_012), ShimInput::Empty);
        assert_eq!(finish(&f).0, Exit::Failed { code: 3 });
    }

    #[test]
    fn rank_that_exits_as_saved_unprompted_has_failed() {
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10), exit(0, 75)), [ShimEffect::KillAll]);
        assert_eq!(
            finish(&s.step(Millis(11), ShimInput::Empty)).0,
            Exit::Failed { code: 75 }
        );
    }

    #[test]
    fn shorter_grace_ends_sooner_and_repeat_not_later() {
        let stop = |grace| {
            ShimInput::Control(Control {
                lease: Millis(60_000),
                wish: ShimWish::Yield(Millis(grace)),
            })
        };
        let mut s = shim(1);
        assert_eq!(s.step(Millis(1_000), stop(30_000)), [ShimEffect::Term]);
        assert_eq!(s.step(Millis(2_000), stop(5_000)), []);
        assert_eq!(s.step(Millis(4_000), stop(5_000)), []);
        assert_eq!(
            s.step(Millis(7_000), ShimInput::Tick),
            [ShimEffect::KillAll]
        );
    }

    fn yield_within(grace: u64) -> ShimInput {
        ShimInput::Control(Control {
            lease: Millis(15_000),
            wish: ShimWish::Yield(Millis(grace)),
        })
    }

    fn ended(effects: &[ShimEffect]) -> (Exit, bool) {
        match effects {
            [ShimEffect::Finish(f)] => (f.exit, f.exited_zero),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shim_zero_after_a_stop_yields() {
        let mut s = shim(2);
        // One rank exits before the order.
        s.step(Millis(500), exit(0, 0));
        s.step(Millis(1_000), yield_within(3_000));
        assert_eq!(s.step(Millis(2_000), exit(1, 0)), [ShimEffect::KillAll]);
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Stopped, true));
        // With another code, the job states that work remains.
        let mut s = shim(1);
        s.step(Millis(1_000), yield_within(3_000));
        s.step(Millis(2_000), exit(0, 75));
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Stopped, false));
    }

    #[test]
    fn shim_zero_after_the_lease_yields() {
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10_000), ShimInput::Tick), [ShimEffect::Term]);
        s.step(Millis(11_000), exit(0, 0));
        let end = s.step(Millis(11_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Stopped, true));
    }

    #[test]
    fn shim_zero_before_a_stop_completes() {
        let mut s = shim(1);
        s.step(Millis(1_000), exit(0, 0));
        assert_eq!(s.step(Millis(1_001), yield_within(3_000)), []);
        let end = s.step(Millis(1_002), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Completed, false));
        // The exit is found at the time at which the shim would signal the launch.
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10_000), exit(0, 0)), [ShimEffect::KillAll]);
        let end = s.step(Millis(10_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Completed, false));
    }

    #[test]
    fn shim_time_limit_ends_with_the_grace() {
        let limited = || shim(1).with_limit(Millis(2_000), Millis(1_000));
        let mut s = limited();
        assert_eq!(s.step(Millis(1_999), ShimInput::Tick), []);
        assert_eq!(s.step(Millis(2_000), ShimInput::Tick), [ShimEffect::Term]);
        assert_eq!(s.step(Millis(2_999), ShimInput::Tick), []);
        assert_eq!(
            s.step(Millis(3_000), ShimInput::Tick),
            [ShimEffect::KillAll]
        );
        s.step(Millis(3_001), exit(0, 137));
        let end = finish(&s.step(Millis(3_002), ShimInput::Empty));
        assert_eq!(end, (Exit::TimedOut, 3_002));
        // A job that ends by itself before has completed, and one that saves its work has not.
        let mut s = limited();
        s.step(Millis(1_999), exit(0, 0));
        let end = finish(&s.step(Millis(2_001), ShimInput::Empty));
        assert_eq!(end.0, Exit::Completed);
        let mut s = limited();
        s.step(Millis(2_000), ShimInput::Tick);
        s.step(Millis(2_500), exit(0, 0));
        let end = finish(&s.step(Millis(2_501), ShimInput::Empty));
        assert_eq!(end.0, Exit::TimedOut);
    }

    #[test]
    fn shim_bad_file_ends_with_its_reason() {
        let bad = || ShimInput::BadFile("a is a folder".to_owned());
        for code in [0, 1, 75, 143] {
            let mut s = shim(1);
            assert_eq!(s.step(Millis(1_000), bad()), [ShimEffect::Term]);
            assert_eq!(s.step(Millis(1_050), bad()), []);
            s.step(Millis(2_000), exit(0, code));
            match &s.step(Millis(2_001), ShimInput::Empty)[..] {
                [ShimEffect::Finish(f)] => {
                    assert_eq!(f.exit, Exit::BadFile, "{code}");
                    assert_eq!(f.why, "a is a folder");
                    assert!(!f.exited_zero);
                }
                other => panic!("{other:?}"),
            }
        }
        // The time limit is the same as after the failure of a rank.
        let mut s = shim(1);
        s.step(Millis(1_000), bad());
    }

    #[test]
    fn shim_bad_file_of_a_stopping_launch_is_ignored() {
        let mut s = shim(1);
        s.step(Millis(1_000), yield_within(3_000));
        let bad = ShimInput::BadFile("a is a folder".to_owned());
        assert_eq!(s.step(Millis(1_500), bad), []);
        s.step(Millis(2_000), exit(0, 143));
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Stopped, false));
    }
}
