//! Free GPUs over time, for jobs that accept only some GPU types.

use super::plan::{Plan, Timeline, add};
use crate::type_sets::{Seat, TypeSets};
use std::borrow::Cow;
use std::sync::Arc;

/// Free GPUs over time: a timeline for each set of GPU types that jobs accept.
#[derive(Clone, Debug, Default)]
pub(super) struct Free {
    sets: Arc<TypeSets>,
    lines: Vec<Timeline>,
}

impl Free {
    /// All GPUs of the sets, from a time on.
    pub fn whole(sets: Arc<TypeSets>, now: f64) -> Self {
        let lines = sets
            .sizes()
            .iter()
            .map(|gpus| vec![(now, i64::from(*gpus))]);
        Free {
            lines: lines.collect(),
            sets,
        }
    }

    /// Returns the sets of GPU types.
    pub fn sets(&self) -> &Arc<TypeSets> {
        &self.sets
    }

    /// Returns the GPUs that a job can have over time.
    pub fn of(&self, seat: Seat) -> Cow<'_, Timeline> {
        match self.lines.get(seat.set) {
            Some(line) if self.sets.is_plain(seat) => Cow::Borrowed(line),
            _ => Cow::Owned(self.joint(seat)),
        }
    }

    /// Returns the least room of all lines of a job.
    fn joint(&self, seat: Seat) -> Timeline {
        let lines = || self.sets.taken(seat, 0).map(|(line, _)| &self.lines[line]);
        let mut times: Vec<f64> = lines().flatten().map(|(t, _)| *t).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let at = |line: usize, t: f64| {
            let line = &self.lines[line];
            let before = line.partition_point(|(from, _)| *from <= t);
            line.get(before.saturating_sub(1))
                .map_or(0, |(_, free)| *free)
        };
        let room = times
            .into_iter()
            .map(|t| (t, self.sets.room(seat, |line| at(line, t))));
        let mut joint: Timeline = room.collect();
        joint.dedup_by(|next, kept| next.1 == kept.1);
        joint
    }

    /// Returns the GPUs that a job can have at the start, if it already has some.
    pub fn now(&self, seat: Seat, has: u32) -> i64 {
        let own = |line: usize| self.sets.taken(seat, has).find(|(l, _)| *l == line);
        self.sets.room(seat, |line| {
            let free = self.lines[line].first().map_or(0, |(_, free)| *free);
            free + own(line).map_or(0, |(_, own)| i64::from(own))
        })
    }

    /// Returns whether no GPU is free at the start.
    pub fn is_full(&self) -> bool {
        let mut now = self.lines.iter().filter_map(|line| line.first());
        now.all(|(_, free)| *free <= 0)
    }

    /// Takes a plan's GPUs from the free GPUs from `now` on, or gives them back.
    pub fn commit(&mut self, seat: Seat, plan: &Plan, now: f64, give_back: bool) {
        for (start, end, gpus) in plan.stretches(now) {
            for (line, gpus) in self.sets.taken(seat, gpus) {
                let gpus = i64::from(gpus);
                let change = if give_back { gpus } else { -gpus };
                add(&mut self.lines[line], start, end, change);
            }
        }
    }

    /// Becomes a copy, in the memory that it already has.
    pub fn copy_from(&mut self, other: &Free) {
        self.sets = Arc::clone(&other.sets);
        self.lines.clone_from(&other.lines);
    }

    #[cfg(test)]
    pub fn line(&self) -> &Timeline {
        &self.lines[0]
    }
}
