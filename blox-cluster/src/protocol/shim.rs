//! One launch on one node, from its first process to its last: the machine of
//! the small process that outlives the node manager and keeps the lease.

use super::ids::Millis;
use super::message::{Exit, Final};
use super::timers::Timers;
use serde::{Deserialize, Serialize};

/// Exit codes with which a rank that was told to stop says that its work is
/// saved: that of a temporary failure, and that of SIGTERM.
pub const SAVED: [i32; 2] = [75, 143];

/// What the node manager wants of the launch, and until when it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// When the lease ends, by the node's clock. A lease never gets shorter.
    pub lease: Millis,
    /// What is wanted.
    pub wish: ShimWish,
}

/// What the node manager wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShimWish {
    /// Go on.
    Run,
    /// Save and end within this time from when the shim hears of it.
    Yield(Millis),
    /// End now.
    Kill,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimInput {
    /// The node manager said something.
    Control(Control),
    /// A rank ended.
    RankExit {
        /// Which of this node's ranks, from 0.
        rank: usize,
        /// Its exit code, or 128 and a signal's number.
        code: i32,
    },
    /// After [`ShimEffect::KillAll`]: no process is left.
    Empty,
    /// A file that the job writes cannot be read: a sentence that names the file and the reason.
    BadFile(String),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum ShimEffect {
    /// Tell all processes to save their work and end (SIGTERM).
    Term,
    /// End all processes, those that hide included, until none is left.
    KillAll,
    /// It is over: write this down for good.
    Finish(Final),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Told to save; killed at this moment.
    Ending(Millis),
    Killing,
    Done,
}

/// The machine. Every input but the end of a rank is preceded by what its moment alone brings about:
/// a shim that slept through the end of its lease does nothing else first.
#[derive(Clone, Debug)]
pub struct Shim {
    timers: Timers,
    lease: Millis,
    phase: Phase,
    began: Millis,
    codes: Vec<Option<i32>>,
    failed: Option<i32>,
    /// Ended because of a file that the job wrote.
    bad_file: bool,
    /// Told to stop by an order or by the end of the lease.
    told: bool,
    /// Ended by force while processes were there.
    cut: bool,
    why: String,
}

impl Shim {
    /// A launch of `ranks` processes, started `now` on this lease.
    pub fn new(timers: Timers, lease: Millis, ranks: usize, now: Millis) -> Self {
        Shim {
            timers,
            lease,
            phase: Phase::Running,
            began: now,
            codes: vec![None; ranks],
            failed: None,
            bad_file: false,
            told: false,
            cut: false,
            why: String::new(),
        }
    }

    /// Returns whether it was told to end, or ends by itself.
    pub fn is_stopping(&self) -> bool {
        self.phase != Phase::Running
    }

    /// When time alone brings something about.
    pub fn due(&self) -> Option<Millis> {
        match self.phase {
            Phase::Running => Some(self.lease - self.timers.margin),
            Phase::Ending(until) => Some(until.min(self.lease)),
            Phase::Killing | Phase::Done => None,
        }
    }

    /// Takes an input at a moment.
    pub fn step(&mut self, now: Millis, input: ShimInput) -> Vec<ShimEffect> {
        let mut out = Vec::new();
        // A rank ended before anything that its end is found with was told to it.
        if let ShimInput::RankExit { rank, code } = input {
            self.rank_exit(now, rank, code, &mut out);
        }
        // The lease's end comes before any message that would extend it: the
        // GPUs may be somebody else's by now.
        self.time(now, &mut out);
        match input {
            ShimInput::Control(c) => self.control(now, c, &mut out),
            ShimInput::Empty => self.empty(now, &mut out),
            ShimInput::BadFile(why) => self.bad_file(now, &why, &mut out),
            ShimInput::RankExit { .. } | ShimInput::Tick => {}
        }
        out
    }

    fn time(&mut self, now: Millis, out: &mut Vec<ShimEffect>) {
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        if now >= self.lease {
            self.told = true;
            self.note("its lease ran out");
            self.kill(out);
        } else if let Phase::Ending(until) = self.phase {
            if now >= until {
                self.note("it did not end in time");
                self.kill(out);
            }
        } else if now >= self.lease - self.timers.margin {
            self.note("its lease was not renewed");
            self.end_within(now, self.timers.margin, out);
        }
    }

    fn control(&mut self, now: Millis, c: Control, out: &mut Vec<ShimEffect>) {
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        self.lease = self.lease.max(c.lease);
        match c.wish {
            ShimWish::Run => {}
            ShimWish::Yield(grace) => match self.phase {
                Phase::Running => {
                    self.note("told to stop");
                    self.end_within(now, grace, out);
                }
                // Told again, it gets no more time.
                Phase::Ending(until) => self.phase = Phase::Ending(until.min(now + grace)),
                Phase::Killing | Phase::Done => {}
            },
            ShimWish::Kill => {
                self.told = true;
                self.note("ended by order");
                self.kill(out);
            }
        }
    }

    fn rank_exit(&mut self, now: Millis, rank: usize, code: i32, out: &mut Vec<ShimEffect>) {
        match self.codes.get_mut(rank) {
            Some(slot) if slot.is_none() => *slot = Some(code),
            // It cannot end twice.
            _ => return,
        }
        if code != 0 && !self.told && self.failed.is_none() {
            self.failed = Some(code);
            self.why = format!("rank {rank} of this node ended with {code}");
        }
        if matches!(self.phase, Phase::Killing | Phase::Done) {
            return;
        }
        if self.codes.iter().all(Option::is_some) {
            // Their children may still be there.
            self.phase = Phase::Killing;
            out.push(ShimEffect::KillAll);
        } else if self.failed.is_some() && self.phase == Phase::Running {
            self.phase = Phase::Ending(now + self.timers.kill);
            out.push(ShimEffect::Term);
        }
    }

    fn bad_file(&mut self, now: Millis, why: &str, out: &mut Vec<ShimEffect>) {
        // A launch that ends already ends for the reason that it has.
        if self.phase == Phase::Running {
            self.bad_file = true;
            self.note(why);
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
            None if zero && !self.told => Exit::Completed,
            // A rank may end with 0 because it was told to stop.
            None if zero || (self.told && !self.cut && all(&SAVED)) => Exit::Yielded,
            None => Exit::Cut,
        };
        if exit == Exit::Completed {
            self.why.clear();
        }
        out.push(ShimEffect::Finish(Final {
            exit,
            exited_zero: zero && exit == Exit::Yielded,
            ran: now - self.began,
            estimated: false,
            why: std::mem::take(&mut self.why),
        }));
    }

    fn end_within(&mut self, now: Millis, grace: Millis, out: &mut Vec<ShimEffect>) {
        self.told = true;
        self.phase = Phase::Ending(now + grace);
        out.push(ShimEffect::Term);
    }

    fn kill(&mut self, out: &mut Vec<ShimEffect>) {
        // Who had ended before was not cut short.
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
    fn all_ranks_ending_well_complete_it_once_nothing_is_left() {
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
    fn who_saves_in_time_has_yielded_and_who_does_not_is_cut() {
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
            Exit::Yielded
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
    fn a_rank_that_says_saved_unasked_has_failed() {
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10), exit(0, 75)), [ShimEffect::KillAll]);
        assert_eq!(
            finish(&s.step(Millis(11), ShimInput::Empty)).0,
            Exit::Failed { code: 75 }
        );
    }

    #[test]
    fn told_to_end_sooner_it_ends_sooner_and_told_again_not_later() {
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
        assert_eq!(s.due(), Some(Millis(7_000)));
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
        // One rank ends before it is told to.
        s.step(Millis(500), exit(0, 0));
        s.step(Millis(1_000), yield_within(3_000));
        assert_eq!(s.step(Millis(2_000), exit(1, 0)), [ShimEffect::KillAll]);
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Yielded, true));
        // With another code it says itself that there is more to do.
        let mut s = shim(1);
        s.step(Millis(1_000), yield_within(3_000));
        s.step(Millis(2_000), exit(0, 75));
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Yielded, false));
    }

    #[test]
    fn shim_zero_after_the_lease_yields() {
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10_000), ShimInput::Tick), [ShimEffect::Term]);
        s.step(Millis(11_000), exit(0, 0));
        let end = s.step(Millis(11_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Yielded, true));
    }

    #[test]
    fn shim_zero_before_a_stop_completes() {
        let mut s = shim(1);
        s.step(Millis(1_000), exit(0, 0));
        assert_eq!(s.step(Millis(1_001), yield_within(3_000)), []);
        let end = s.step(Millis(1_002), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Completed, false));
        // Found at the very moment at which it would have been told.
        let mut s = shim(1);
        assert_eq!(s.step(Millis(10_000), exit(0, 0)), [ShimEffect::KillAll]);
        let end = s.step(Millis(10_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Completed, false));
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
        // It has as long as after the failure of a rank.
        let mut s = shim(1);
        s.step(Millis(1_000), bad());
        assert_eq!(s.due(), Some(Millis(1_000) + Timers::default().kill));
    }

    #[test]
    fn shim_bad_file_of_a_stopping_launch_is_ignored() {
        let mut s = shim(1);
        s.step(Millis(1_000), yield_within(3_000));
        let bad = ShimInput::BadFile("a is a folder".to_owned());
        assert_eq!(s.step(Millis(1_500), bad), []);
        s.step(Millis(2_000), exit(0, 143));
        let end = s.step(Millis(2_001), ShimInput::Empty);
        assert_eq!(ended(&end), (Exit::Yielded, false));
    }
}
