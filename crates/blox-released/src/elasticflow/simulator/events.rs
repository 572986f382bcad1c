//! Event list of the original: arrivals, planned ends and wake-ups.

use super::job::Job;

#[derive(Clone, Debug, Default)]
pub(super) struct Event {
    pub time: f64,
    pub start: Vec<u32>,
    pub end: Vec<u32>,
}

/// Events in descending order of time, at most one per time.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    list: Vec<Event>,
}

impl Events {
    /// Creates the arrival events of all jobs, which are in order of submission.
    pub fn of_arrivals(jobs: &[Job]) -> Self {
        let mut list: Vec<Event> = Vec::new();
        for (job, time) in jobs.iter().map(|j| j.submit).enumerate().rev() {
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
        // The list ends with the next events, and most look-ups are for them.
        self.list.binary_search_by(|e| time.total_cmp(&e.time))
    }

    pub fn get(&self, time: f64) -> Option<&Event> {
        self.find(time).ok().map(|i| &self.list[i])
    }

    /// Removes and returns the event of a time.
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

    /// Moves the next event to another time if it is too early.
    pub fn postpone(&mut self, time: f64, is_early: impl Fn(f64) -> bool) {
        if let Some(event) = self.list.pop_if(|event| is_early(event.time)) {
            let at = self.at(time);
            at.start.extend(event.start);
            at.end.extend(event.end);
        }
    }

    /// Adds the end of a job at `time`.
    pub fn add_end(&mut self, job: u32, time: f64) {
        let event = self.at(time);
        if !event.end.contains(&job) {
            event.end.push(job);
        }
    }

    /// Moves the end of a job. If the old event is then empty, it is removed, even if it was a
    /// wake-up.
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

    /// Adds a wake-up.
    pub fn wake(&mut self, time: f64) {
        self.at(time);
    }

    /// Merges all events within one slot from now into one event at its end. The last event in the
    /// list is not moved.
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
        let jobs = [0.0, 10.0, 10.0, 50.0, 200.0].map(|submit| Job {
            submit,
            ..Job::default()
        });
        let mut e = Events::of_arrivals(&jobs);
        assert_eq!(e.take(0.0).unwrap().start, [0]);
        e.add_end(0, 55.0);
        e.keep_apart(0.0, 60.0);
        let first = e.take(60.0).unwrap();
        assert_eq!((first.start, first.end), (vec![1, 2, 3], vec![0]));
        e.keep_apart(190.0, 60.0);
        assert_eq!(e.next(), Some(200.0)); // the last one stays
    }

    #[test]
    fn wake_up_moves_with_the_end_at_its_time() {
        let mut e = Events::default();
        e.wake(30.0);
        e.add_end(7, 30.0);
        e.move_end(7, 30.0, 40.0);
        assert!(e.get(30.0).is_none());
        assert_eq!(e.get(40.0).unwrap().end, [7]);
    }
}
