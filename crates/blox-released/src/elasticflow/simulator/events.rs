//! The original's list of events: arrivals, planned ends and wake-ups.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Event {
    pub time: f64,
    pub start: Vec<u32>,
    pub end: Vec<u32>,
}

/// Events by moment, one a moment, the next one last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Events {
    list: Vec<Event>,
}

impl Events {
    /// The arrivals of all jobs, by number, in order of submission.
    pub fn of_arrivals(submits: &[f64]) -> Self {
        let mut list: Vec<Event> = Vec::new();
        for (job, &time) in submits.iter().enumerate().rev() {
            match list.last_mut() {
                Some(e) if e.time == time => e.start.insert(0, job as u32),
                _ => list.push(Event {
                    time,
                    start: vec![job as u32],
                    end: Vec::new(),
                }),
            }
        }
        Events { list }
    }

    pub fn next(&self) -> Option<f64> {
        self.list.last().map(|e| e.time)
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn find(&self, time: f64) -> Result<usize, usize> {
        // Most look-ups are about what comes soon.
        self.list.binary_search_by(|e| time.total_cmp(&e.time))
    }

    pub fn get(&self, time: f64) -> Option<&Event> {
        self.find(time).ok().map(|i| &self.list[i])
    }

    /// The event of a moment, taken off the list.
    pub fn take(&mut self, time: f64) -> Option<Event> {
        self.find(time).ok().map(|i| self.list.remove(i))
    }

    fn at(&mut self, time: f64) -> &mut Event {
        let i = match self.find(time) {
            Ok(i) => i,
            Err(i) => {
                let new = Event {
                    time,
                    ..Event::default()
                };
                self.list.insert(i, new);
                i
            }
        };
        &mut self.list[i]
    }

    /// Puts an event that was taken off the list back, at another moment.
    pub fn put(&mut self, time: f64, event: Event) {
        let at = self.at(time);
        at.start.extend(event.start);
        at.end.extend(event.end);
    }

    /// The job is to end at `time`.
    pub fn add_end(&mut self, job: u32, time: f64) {
        let event = self.at(time);
        if !event.end.contains(&job) {
            event.end.push(job);
        }
    }

    /// An end moves. What is left empty where it stood goes, even a wake-up.
    pub fn move_end(&mut self, job: u32, from: f64, to: f64) {
        if from == to {
            return;
        }
        if let Ok(i) = self.find(from) {
            let event = &mut self.list[i];
            event.end.retain(|j| *j != job);
            if event.end.is_empty() && event.start.is_empty() {
                self.list.remove(i);
            }
        }
        self.add_end(job, to);
    }

    /// A wake-up.
    pub fn wake(&mut self, time: f64) {
        self.at(time);
    }

    /// Two steps are at least a slot apart: what comes sooner comes together, a
    /// slot from now. The last event of all is not moved.
    pub fn keep_apart(&mut self, now: f64, slot: f64) {
        let Some(mut next) = self.next() else { return };
        while (next - now).trunc() <= slot && self.list.len() > 1 {
            let n = self.list.len();
            self.list[n - 1].time = now + slot;
            if self.list[n - 2].time - now > slot {
                break;
            }
            next = self.list[n - 2].time;
            let second = self.list.remove(n - 2);
            let first = &mut self.list[n - 2];
            first.start.extend(second.start);
            first.end.extend(second.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_a_slot_comes_together() {
        let mut e = Events::of_arrivals(&[0.0, 10.0, 10.0, 50.0, 200.0]);
        assert_eq!(e.take(0.0).unwrap().start, [0]);
        e.add_end(0, 55.0);
        e.keep_apart(0.0, 60.0);
        let first = e.take(60.0).unwrap();
        assert_eq!((first.start, first.end), (vec![1, 2, 3], vec![0]));
        e.keep_apart(190.0, 60.0);
        assert_eq!(e.next(), Some(200.0)); // the last one stays
    }

    #[test]
    fn a_wake_up_goes_with_the_end_that_moves_away_from_it() {
        let mut e = Events::default();
        e.wake(30.0);
        e.add_end(7, 30.0);
        e.move_end(7, 30.0, 40.0);
        assert!(e.get(30.0).is_none());
        assert_eq!(e.get(40.0).unwrap().end, [7]);
    }
}
