//! Results of services, and of spot jobs.

use blox_core::{Class, GpuCount, GpuList, JobRef, Phase, Seconds, Submission, Time};
use serde::{Deserialize, Serialize};

/// Results of one service: a job with a [need](blox_core::Extras::need).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Service {
    /// GPU-seconds that the service needed from its submission until its end, or until the end of the
    /// simulation. A job that needs a part of each GPU counts by this part.
    pub needed_gpu: Seconds,
    /// GPU-seconds that the service needed while it ran on fewer GPUs. GPUs above the need make up for
    /// nothing.
    pub lacking_gpu: Seconds,
    /// Time in seconds in which the service ran on as many GPUs as it needed, or on more.
    pub full: Seconds,
    /// Time in seconds from the submission until the end, or until the end of the simulation.
    pub lived: Seconds,
}

impl Service {
    /// Returns the part of the time in full, from 0 to 1; NaN for a service that has not lived, such as
    /// one that was rejected.
    pub fn full_part(&self) -> f64 {
        match self.lived > Seconds::ZERO {
            true => self.full / self.lived,
            false => f64::NAN,
        }
    }

    fn add(&mut self, other: &Service, times: f64) {
        self.needed_gpu += other.needed_gpu * times;
        self.lacking_gpu += other.lacking_gpu * times;
        self.full += other.full * times;
        self.lived += other.lived * times;
    }
}

/// The account of a live service.
#[derive(Clone, Debug)]
pub(super) struct Account {
    since: Time,
    /// GPUs on which the service has run since then.
    on: GpuList,
    has: GpuCount,
    /// The last observed number of GPUs, and its time. It counts once time has passed, so that a stop
    /// and a start at the same moment change nothing.
    latest: (Time, GpuCount),
    service: Service,
}

impl Account {
    pub fn open(at: Time) -> Self {
        Account {
            since: at,
            on: GpuList::new(),
            has: GpuCount::ZERO,
            latest: (at, GpuCount::ZERO),
            service: Service::default(),
        }
    }

    /// Notes the GPUs on which the service runs from now on. While its GPUs change in place, the
    /// whole copies on those that it keeps run.
    pub fn observe(&mut self, job: &JobRef<'_>, now: Time) {
        let bound = job.bound().map(|its| &its.gpus);
        let runs = match (job.phase(), bound) {
            (Phase::Running, Some(gpus)) => {
                if self.on != *gpus {
                    self.on.clone_from(gpus);
                }
                gpus.len() as u32
            }
            (Phase::Starting, Some(gpus)) => {
                self.on.retain(|gpu| gpus.contains(gpu));
                let kept = self.on.len() as u32;
                kept - kept % job.gpus().get().max(1)
            }
            _ => {
                self.on.clear();
                0
            }
        };
        self.set(job.spec(), now, GpuCount(runs));
    }

    fn set(&mut self, service: &Submission, now: Time, has: GpuCount) {
        self.pass(service, now);
        self.latest = (now, has);
    }

    /// Counts the last observation if time has passed since.
    fn pass(&mut self, service: &Submission, now: Time) {
        let (at, has) = self.latest;
        if at < now && has != self.has {
            self.advance(service, at);
            self.has = has;
        }
    }

    pub fn close(mut self, service: &Submission, at: Time) -> Service {
        self.pass(service, at);
        self.advance(service, at);
        self.service
    }

    fn advance(&mut self, service: &Submission, to: Time) {
        let Some(need) = &service.extras().need else {
            return;
        };
        let period = need.period();
        let periods = ((to - self.since) / period).floor() - 1.0;
        if periods >= 1.0 {
            let one = self.over(service, self.since + period);
            self.service.add(&one, periods);
            self.since += period * periods;
        }
        let rest = self.over(service, to);
        self.service.add(&rest, 1.0);
        self.since = self.since.max(to);
    }

    /// Returns the account from the last change until a time, step by step.
    fn over(&self, service: &Submission, to: Time) -> Service {
        let (mut sum, mut since) = (Service::default(), self.since);
        let need = service.extras().need.as_ref();
        let share = service.extras().share.fraction();
        while let Some(need) = need.filter(|_| since < to) {
            let next = need.next_after(since).min(to);
            let needed = service.need_at(since).unwrap_or_default();
            let lacking = needed - self.has;
            let passed = next - since;
            sum.needed_gpu += passed * (share * f64::from(needed.get()));
            sum.lacking_gpu += passed * (share * f64::from(lacking.get()));
            sum.lived += passed;
            if lacking == GpuCount::ZERO {
                sum.full += passed;
            }
            since = next;
        }
        sum
    }
}

/// Returns whether a job was submitted as a spot job with guaranteed time.
pub(super) fn has_guarantee(class: Class) -> bool {
    matches!(class, Class::Spot { guaranteed } if guaranteed > Seconds::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Curve, Extras, Share};

    fn service(period: f64, steps: &[(f64, f64)]) -> Submission {
        let steps = steps
            .iter()
            .map(|(at, copies)| (Seconds::new(*at), *copies));
        Submission {
            extras: Some(Box::new(Extras {
                need: Curve::new(Seconds::new(period), steps),
                ..Extras::default()
            })),
            ..Submission::new(Time::ZERO, GpuCount(2))
        }
    }

    #[test]
    fn lack_counts_missing_gpus_between_steps() {
        // Needs 2 GPUs for 60 s, then 6 for 40 s.
        let service = service(100.0, &[(0.0, 1.0), (60.0, 3.0)]);
        let mut account = Account::open(Time::new(10.0));
        account.set(&service, Time::new(20.0), GpuCount(4));
        let sum = account.close(&service, Time::new(130.0));
        assert_eq!(
            sum.needed_gpu,
            Seconds::new(50.0 * 2.0 + 40.0 * 6.0 + 30.0 * 2.0)
        );
        assert_eq!(sum.lacking_gpu, Seconds::new(10.0 * 2.0 + 40.0 * 2.0));
        assert_eq!(
            (sum.full, sum.lived),
            (Seconds::new(70.0), Seconds::new(120.0))
        );
    }

    #[test]
    fn a_part_of_each_gpu_counts_by_this_part() {
        let mut service = service(100.0, &[(0.0, 3.0)]);
        let extras = service.extras.as_mut().unwrap();
        extras.share = Share::parts(1, 4).unwrap();
        let mut account = Account::open(Time::ZERO);
        account.set(&service, Time::new(20.0), GpuCount(4));
        let sum = account.close(&service, Time::new(50.0));
        assert_eq!(sum.needed_gpu, Seconds::new(50.0 * 1.5));
        assert_eq!(sum.lacking_gpu, Seconds::new(20.0 * 1.5 + 30.0 * 0.5));
    }

    #[test]
    fn a_stop_and_a_start_at_one_moment_change_nothing() {
        let service = service(0.3, &[(0.0, 1.0)]);
        let run = |restart: bool| {
            let mut account = Account::open(Time::new(0.1));
            account.set(&service, Time::new(0.1), GpuCount(2));
            if restart {
                account.set(&service, Time::new(0.7), GpuCount::ZERO);
                account.set(&service, Time::new(0.7), GpuCount(2));
            }
            account.close(&service, Time::new(1.1))
        };
        assert_eq!(run(true), run(false));
    }

    #[test]
    fn many_periods_are_counted_as_each_of_them() {
        let service = service(0.5, &[(0.0, 1.0), (0.25, 2.0)]);
        let mut account = Account::open(Time::new(0.125));
        account.set(&service, Time::new(0.25), GpuCount(2));
        let sum = account.close(&service, Time::new(1e9));
        assert_eq!(sum.needed_gpu, Seconds::new(3e9 - 0.25));
        assert_eq!(sum.lacking_gpu, Seconds::new(1e9 + 0.25));
        assert_eq!(sum.lived, Seconds::new(1e9 - 0.125));
    }
}
