//! Arrival processes of generated workloads.

use super::durations::DurationLaw;
use super::{above_zero, check, sum};
use crate::draws::Draws;
use blox_core::Seconds;
use blox_workloads::WorkloadError;

/// Arrival rate over time. Arrivals follow a Poisson process with this rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Constant rate.
    #[default]
    Poisson,
    /// Two alternating levels: the load for `quiet`, then `factor` times the load for `burst`.
    ///
    /// The jobs that a burst adds come from a separate stream. The jobs of the base load and their
    /// arrival times are the same as without bursts.
    ///
    /// Blox (EuroSys 2024) tests its admission control and its synthesizer with such a workload.
    /// The released `simulator_dual_load.py` adds a second load to the base load: four times as
    /// high, with short jobs.
    Bursty {
        /// Duration of the base level, with which the workload begins. Above 0.
        quiet: Seconds,
        /// Duration of a burst. Above 0.
        burst: Seconds,
        /// Load during a burst as a multiple of the base load, at least 1.
        factor: f64,
        /// Durations of the jobs that bursts add; `None` for the same distribution as other jobs.
        durations: Option<DurationLaw>,
    },
    /// Rate that varies with the hour of the day; its daily average is the load. The simulation
    /// begins at midnight.
    Diurnal(DayShape),
}

/// Arrival rate by hour of the day.
#[derive(Clone, Debug, PartialEq)]
pub enum DayShape {
    /// A sine: the average times 1 + `amplitude` cos(2 pi (hour - `peak_h`) / 24).
    Sine {
        /// Relative amplitude: 0 is constant, 1 falls to no arrivals at all.
        amplitude: f64,
        /// The hour with the most arrivals, from 0 to 24.
        peak_h: f64,
    },
    /// A level for each hour from midnight, as 24 weights in any unit.
    Hours(Vec<f64>),
}

impl Arrivals {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        match self {
            Arrivals::Poisson => Ok(()),
            Arrivals::Bursty {
                quiet,
                burst,
                factor,
                durations,
            } => {
                above_zero("quiet", *quiet)?;
                above_zero("burst", *burst)?;
                let sound = *factor >= 1.0 && factor.is_finite();
                check(sound, "burst factor", factor, "a finite number, at least 1")?;
                durations.as_ref().map_or(Ok(()), DurationLaw::check)
            }
            Arrivals::Diurnal(DayShape::Sine { amplitude, peak_h }) => {
                let sound = (0.0..=1.0).contains(amplitude);
                check(sound, "amplitude", amplitude, "a number from 0 to 1")?;
                let sound = (0.0..=24.0).contains(peak_h);
                check(sound, "peak", peak_h, "an hour from 0 to 24")
            }
            Arrivals::Diurnal(DayShape::Hours(weights)) => {
                let count = weights.len();
                check(count == 24, "the number of hourly weights", count, "24")?;
                let names = ["hourly weight", "the sum of hourly weights"];
                sum(names, weights.iter().copied()).map(drop)
            }
        }
    }

    /// Returns the shape of the base stream, relative to its load.
    pub(super) fn base(&self) -> Shape {
        match self {
            Arrivals::Poisson | Arrivals::Bursty { .. } => Shape::Constant,
            Arrivals::Diurnal(DayShape::Sine { amplitude, peak_h }) => Shape::Sine {
                amplitude: *amplitude,
                peak: peak_h * HOUR,
            },
            Arrivals::Diurnal(DayShape::Hours(weights)) => {
                let mean = weights.iter().sum::<f64>() / weights.len() as f64;
                Shape::pieces(weights.iter().map(|w| (HOUR, w / mean)).collect())
            }
        }
    }

    /// Returns the shape of the stream that bursts add, relative to the base load.
    pub(super) fn extra(&self) -> Option<Shape> {
        match self {
            Arrivals::Bursty {
                quiet,
                burst,
                factor,
                ..
            } if *factor > 1.0 => Some(Shape::pieces(vec![
                (quiet.secs(), 0.0),
                (burst.secs(), factor - 1.0),
            ])),
            _ => None,
        }
    }

    /// Returns the mean rate over time as a multiple of the load.
    pub(super) fn mean(&self) -> f64 {
        match self {
            Arrivals::Bursty {
                quiet,
                burst,
                factor,
                ..
            } => 1.0 + (factor - 1.0) * burst.secs() / (quiet.secs() + burst.secs()),
            _ => 1.0,
        }
    }
}

/// A rate over time, as multiples of a constant rate.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Constant,
    /// Periodic sequence of durations with multiples; at least one multiple is above 0.
    Pieces {
        pieces: Vec<(f64, f64)>,
        length: f64,
        /// Duration in which the constant rate has as many arrivals as one period.
        mass: f64,
    },
    Sine {
        amplitude: f64,
        peak: f64,
    },
}

impl Shape {
    fn pieces(pieces: Vec<(f64, f64)>) -> Self {
        Shape::Pieces {
            length: pieces.iter().map(|p| p.0).sum(),
            mass: pieces.iter().map(|p| p.0 * p.1).sum(),
            pieces,
        }
    }
}

/// Generates arrival times.
///
/// It scales a Poisson process of rate 1: the next arrival is the time at which the integral of the
/// rate has grown by an exponential variate.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    shape: Shape,
    /// Mean seconds between arrivals at the constant rate.
    gap: f64,
    rng: Draws,
    now: f64,
    /// State of [`Shape::Pieces`]: whole cycles, pieces and seconds that have passed.
    cycles: f64,
    piece: usize,
    into: f64,
}

impl Clock {
    pub(super) fn new(shape: Shape, gap: f64, rng: Draws) -> Self {
        Clock {
            shape,
            gap,
            rng,
            now: 0.0,
            cycles: 0.0,
            piece: 0,
            into: 0.0,
        }
    }

    /// Returns the next arrival time, in seconds.
    pub(super) fn next(&mut self) -> f64 {
        let mass = self.rng.exponential() * self.gap;
        match &self.shape {
            Shape::Constant => self.now += mass,
            Shape::Sine { amplitude, peak } => {
                self.now += sine_wait(self.now, mass, *amplitude, *peak);
            }
            Shape::Pieces {
                pieces,
                length,
                mass: of_cycle,
            } => {
                let whole = (mass / of_cycle).floor();
                self.cycles += whole;
                let mut left = mass - whole * of_cycle;
                loop {
                    let (long, rate) = pieces[self.piece];
                    let room = (long - self.into) * rate;
                    if left < room {
                        self.into += left / rate;
                        break;
                    }
                    left -= room;
                    self.into = 0.0;
                    self.piece += 1;
                    if self.piece == pieces.len() {
                        self.piece = 0;
                        self.cycles += 1.0;
                    }
                }
                let before: f64 = pieces[..self.piece].iter().map(|p| p.0).sum();
                self.now = self.cycles * length + before + self.into;
            }
        }
        self.now
    }
}

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// Returns the time from `now` until `mass` has passed at the rate 1 + a cos(2 pi (t - peak) /
/// day).
fn sine_wait(now: f64, mass: f64, amplitude: f64, peak: f64) -> f64 {
    let omega = std::f64::consts::TAU / DAY;
    let from = now.rem_euclid(DAY) - peak;
    let start = libm::sin(omega * from);
    let passed =
        |wait: f64| wait + amplitude / omega * (libm::sin(omega * (from + wait)) - start) - mass;
    // The deviation from the mean is never more than this. Bisection down to the precision of the
    // numbers is slower than Newton's method but always ends.
    let swing = 2.0 * amplitude / omega;
    let (mut low, mut high) = ((mass - swing).max(0.0), mass + swing);
    for _ in 0..100 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if passed(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(shape: Shape, gap: f64, n: usize) -> Vec<f64> {
        let mut clock = Clock::new(shape, gap, Draws::new(5, 0));
        (0..n).map(|_| clock.next()).collect()
    }

    #[test]
    fn pieces_that_are_all_alike_are_the_constant_rate() {
        let constant = times(Shape::Constant, 100.0, 1000);
        let pieces = times(
            Shape::pieces(vec![(30.0, 1.0), (500.0, 1.0), (7.0, 1.0)]),
            100.0,
            1000,
        );
        let sine = times(
            Shape::Sine {
                amplitude: 0.0,
                peak: 0.0,
            },
            100.0,
            1000,
        );
        for ((a, b), c) in constant.iter().zip(&pieces).zip(&sine) {
            assert!((a - b).abs() < 1e-6 && (a - c).abs() < 1e-6, "{a} {b} {c}");
        }
    }

    #[test]
    fn nothing_arrives_where_the_rate_is_0() {
        // Long gaps go over many cycles.
        for gap in [1.0, 50.0, 100_000.0] {
            let shape = Shape::pieces(vec![(40.0, 0.0), (60.0, 3.0)]);
            for t in times(shape, gap, 2000) {
                let phase = t.rem_euclid(100.0);
                assert!(!(0.001..39.999).contains(&phase), "{t}");
            }
        }
        let weights = (0..24).map(|h| f64::from(u8::from(h == 9))).collect();
        let shape = Arrivals::Diurnal(DayShape::Hours(weights)).base();
        for t in times(shape, 600.0, 2000) {
            let hour = t.rem_euclid(DAY) / HOUR;
            assert!((9.0..10.001).contains(&hour), "{t}");
        }
    }

    #[test]
    fn a_sine_has_its_peak_and_its_mean() {
        let shape = Shape::Sine {
            amplitude: 0.8,
            peak: 15.0 * HOUR,
        };
        let n = 100_000;
        let times = times(shape, 60.0, n);
        let last = times[n - 1];
        assert!((last / (60.0 * n as f64) - 1.0).abs() < 0.02, "{last}");
        assert!(times.is_sorted());
        let share = |from: f64, to: f64| {
            let within = |t: &&f64| (from..to).contains(&(t.rem_euclid(DAY) / HOUR));
            times.iter().filter(within).count() as f64 / n as f64
        };
        // The integral of (1 + 0.8 cos x) / 24 over an hour around x = 0 and x = pi.
        assert!((share(14.5, 15.5) - 1.7977 / 24.0).abs() < 0.004);
        assert!((share(2.5, 3.5) - 0.2023 / 24.0).abs() < 0.004);
    }
}
