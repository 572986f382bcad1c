//! The artifact of Chronus (SoCC 2021).

use super::Program;
use super::job::Job;
use crate::chronus::{Leases, Planner, Rules, State};

/// Minutes between two checks of new and waiting jobs.
const CHECK: i64 = 5;

const RULES: Rules = Rules {
    short_lease: 30.0,
    in_bins: true,
    all_or_none: false,
    log2: |gpus| libm::log2(f64::from(gpus)),
};

/// The program of Chronus. Its ticks are minutes.
#[derive(Debug)]
pub(super) struct Chronus {
    pub leases: Leases,
    next: Option<i64>,
}

impl Chronus {
    pub fn new(gpus: u32, lease_min: u32, planner: Planner) -> Self {
        Chronus {
            leases: Leases::new(gpus, f64::from(lease_min.max(1)), planner, RULES),
            next: None,
        }
    }
}

impl Program for Chronus {
    const TICK: f64 = 60.0;

    fn ended(&self) -> usize {
        self.leases.records.len()
    }

    fn due(&self) -> Option<i64> {
        self.next
    }

    fn step(&mut self, tick: i64, arrivals: &[Job]) {
        let now = tick as f64;
        let minutes = |seconds: i64| seconds as f64 / 60.0;
        for job in arrivals {
            let submit = minutes(job.submit);
            let deadlines = job.deadlines.iter();
            self.leases.submit(State {
                id: job.id,
                number: job.number,
                gpus: job.gpus,
                submit,
                duration: minutes(job.duration),
                deadlines: deadlines.map(|(at, v)| (at / 60.0 - submit, *v)).collect(),
                best_effort: job.best_effort,
                ..State::default()
            });
        }
        self.leases.advance(now);
        if tick % CHECK == 0 {
            self.leases.check(now);
        }
        if tick % 2 == 1 {
            self.leases.fill();
        }
        self.next = (!self.leases.is_idle()).then_some(tick + 1);
    }
}
