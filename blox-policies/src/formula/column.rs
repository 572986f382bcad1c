//! Columns: what a formula may read of a job.

use super::course::Course;
use super::words::words;
use blox_core::estimate::Estimator;
use blox_core::{Class, JobRef, Phase, Seconds, Time};
use std::fmt;

/// A unit: powers of seconds and of GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    seconds: i8,
    gpus: i8,
}

impl Unit {
    pub const NONE: Unit = Unit::of(0, 0);
    pub const SECONDS: Unit = Unit::of(1, 0);
    pub const GPUS: Unit = Unit::of(0, 1);
    const GPU_SECONDS: Unit = Unit::of(1, 1);

    const fn of(seconds: i8, gpus: i8) -> Self {
        Unit { seconds, gpus }
    }

    /// Returns the unit of a product, or of a quotient if `sign` is -1. Returns `None` beyond the
    /// ninth power.
    pub fn times(self, other: Unit, sign: i8) -> Option<Unit> {
        let (seconds, gpus) = (
            self.seconds + sign * other.seconds,
            self.gpus + sign * other.gpus,
        );
        (seconds.abs() <= 9 && gpus.abs() <= 9).then_some(Unit { seconds, gpus })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = |name: &str, power: i8| match power {
            0 => None,
            1 => Some(name.to_owned()),
            power => Some(format!("{name}^{power}")),
        };
        let parts = [power("GPU", self.gpus), power("s", self.seconds)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => f.write_str("no unit"),
            false => f.write_str(&parts.join(" ")),
        }
    }
}

/// Declares the columns: name, unit, course while a job waits, course while it runs, and value.
macro_rules! columns {
    (|$job:ident, $estimator:ident| $($variant:ident $text:literal $unit:ident $waiting:ident
        $running:ident $value:expr;)*) => {
        words! {
            /// A column with numbers.
            Column { $($variant $text),* }
        }

        impl Column {
            pub const fn unit(self) -> Unit {
                match self { $(Column::$variant => Unit::$unit),* }
            }

            /// Returns the course of the column while a job waits.
            pub const fn waiting(self) -> Course {
                match self { $(Column::$variant => Course::$waiting),* }
            }

            /// Returns the course of the column while a job runs.
            pub const fn running(self) -> Course {
                match self { $(Column::$variant => Course::$running),* }
            }

            #[inline]
            pub fn value(self, $job: &JobRef<'_>, $estimator: &dyn Estimator) -> f64 {
                match self { $(Column::$variant => $value),* }
            }
        }
    };
}

columns! {
    |job, estimator|
    Submit "submit" SECONDS Still Still job.submit().secs();
    Now "now" SECONDS Clock Clock job.now().secs();
    Age "age" SECONDS Clock Clock job.age().secs();
    Waiting "waiting" SECONDS Clock Still match job.phase() {
        Phase::Waiting => (job.now() - job.eligible_since()).secs(),
        _ => 0.0,
    };
    Attained "attained" SECONDS Still Clock job.attained_time().secs();
    GpuTime "gpu_time" GPU_SECONDS Still Rising job.attained_gpu_time().secs();
    Gpus "gpus" GPUS Still Still job.amount().number();
    Priority "priority" NONE Still Still f64::from(job.spec().priority);
    Weight "weight" NONE Still Still match job.spec().extras().weight {
        0.0 => 1.0,
        weight => weight,
    };
    Deadline "deadline" SECONDS Still Still {
        job.deadline().map_or(f64::INFINITY, Time::secs)
    };
    Starts "starts" NONE Still Still f64::from(job.attempt());
    FirstStart "first_start" SECONDS Still Still {
        job.first_start().map_or(f64::INFINITY, Time::secs)
    };
    Estimate "estimate" SECONDS Still Still {
        estimator.duration(job).map_or(f64::INFINITY, Seconds::secs)
    };
    EstimateLeft "estimate_left" SECONDS Still Falling {
        estimator.remaining(job).map_or(f64::INFINITY, Seconds::secs)
    };
    TrueDuration "true_duration" SECONDS Still Still job.truth().duration().secs();
    TrueLeft "true_left" SECONDS Still Falling job.truth().remaining().secs();
}

impl Column {
    /// Returns whether the column reads the estimator.
    pub fn is_estimated(self) -> bool {
        matches!(self, Column::Estimate | Column::EstimateLeft)
    }

    /// Returns whether the column is never below 0.
    pub fn is_amount(self) -> bool {
        use Column::{Age, Attained, GpuTime, Gpus, Starts, Weight};
        use Column::{Estimate, EstimateLeft, TrueDuration, TrueLeft};
        let amounts = [Age, Attained, GpuTime, Gpus, Starts, Weight];
        let amounts = amounts.into_iter();
        let times = [Estimate, EstimateLeft, TrueDuration, TrueLeft];
        amounts.chain(times).any(|amount| amount == self)
    }
}

words! {
    /// A column with a text.
    TextColumn { User "user", VirtualCluster "virtual_cluster", Class "class" }
}

/// Texts of the column `class`.
pub(super) const CLASSES: [&str; 2] = ["guaranteed", "spot"];

impl TextColumn {
    /// Returns whether a job has a text in this column. A job without one has the empty text.
    pub fn is(self, job: &JobRef<'_>, text: &str) -> bool {
        let spec = job.spec();
        let own = match self {
            TextColumn::User => spec.user.as_deref(),
            TextColumn::VirtualCluster => spec.virtual_cluster.as_deref(),
            TextColumn::Class => Some(match job.class() {
                Class::Guaranteed => CLASSES[0],
                Class::Spot { .. } => CLASSES[1],
            }),
        };
        own.unwrap_or("") == text
    }
}
