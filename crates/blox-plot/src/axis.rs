//! Axes: what they show, their scale and ticks.

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// An axis: its name and unit, linear or logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    label: String,
    unit: Unit,
    log: bool,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Plain,
    Seconds,
    Fraction,
}

impl Unit {
    fn name(self, v: f64) -> String {
        match self {
            Unit::Seconds => duration(v),
            Unit::Fraction => format!("{} %", short(v * 100.0)),
            Unit::Plain => short(v),
        }
    }
}

impl Axis {
    /// Numbers as they are. Say the unit in the label: `load (jobs/h)`.
    pub fn new(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            unit: Unit::Plain,
            log: false,
            min: None,
            max: None,
        }
    }

    /// Seconds, shown as seconds, minutes, hours or days, whichever suits.
    /// The label does not say the unit.
    pub fn seconds(label: impl Into<String>) -> Self {
        Axis {
            unit: Unit::Seconds,
            ..Axis::new(label)
        }
    }

    /// Fractions of one, shown as percentages.
    pub fn fraction(label: impl Into<String>) -> Self {
        Axis {
            unit: Unit::Fraction,
            ..Axis::new(label)
        }
    }

    /// Logarithmic. What is zero or below is drawn at the lower end.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Reaches down to this, whatever the data.
    #[must_use]
    pub fn from(mut self, min: f64) -> Self {
        self.min = Some(min);
        self
    }

    /// Reaches up to this, whatever the data.
    #[must_use]
    pub fn to(mut self, max: f64) -> Self {
        self.max = Some(max);
        self
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log
    }

    /// Bounds and ticks for these data, with about so many ticks.
    pub(crate) fn fit(&self, data: impl Iterator<Item = f64>, ticks: usize) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut clamped = false;
        for v in data.chain(self.min).chain(self.max) {
            if !v.is_finite() {
                continue;
            }
            if self.log && v <= 0.0 {
                clamped = true;
                continue;
            }
            low = low.min(v);
            high = high.max(v);
        }
        if low > high {
            (low, high) = if self.log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if self.log {
            self.log_scale(low, high, clamped)
        } else {
            self.linear_scale(low, high, ticks)
        }
    }

    fn linear_scale(&self, low: f64, high: f64, ticks: usize) -> Scale {
        let (unit, name) = match self.unit {
            Unit::Seconds if high.abs() >= 3.0 * DAY => (DAY, "days"),
            Unit::Seconds if high.abs() >= 3.0 * HOUR => (HOUR, "hours"),
            Unit::Seconds if high.abs() >= 3.0 * MINUTE => (MINUTE, "minutes"),
            Unit::Seconds => (1.0, "s"),
            Unit::Fraction => (0.01, ""),
            Unit::Plain => (1.0, ""),
        };
        let (mut a, mut b) = (low / unit, high / unit);
        if a == b {
            // One value: from zero, or a step around zero.
            (a, b) = if a == 0.0 {
                (0.0, 1.0)
            } else {
                (a.min(0.0), b.max(0.0))
            };
        }
        let step = nice_step((b - a) / ticks.max(1) as f64);
        // A bound that was asked for stays where it is.
        let lo = self.min.map_or((a / step).floor(), |m| m / unit / step);
        let hi = self
            .max
            .map_or((b / step - 1e-9).ceil(), |m| m / unit / step);
        let places = (-step.log10().floor()).max(0.0) as usize;
        let suffix = if self.unit == Unit::Fraction {
            " %"
        } else {
            ""
        };
        let ticks = (lo.ceil() as i64..=hi.floor() as i64)
            .map(|i| {
                let v = i as f64 * step;
                (v * unit, format!("{}{suffix}", grouped(v, places)))
            })
            .collect();
        let label = match name {
            "" => self.label.clone(),
            name => format!("{} ({name})", self.label),
        };
        Scale {
            low: lo * step * unit,
            high: hi * step * unit,
            log: false,
            ticks,
            label,
            unit: self.unit,
        }
    }

    fn log_scale(&self, low: f64, high: f64, clamped: bool) -> Scale {
        // From coarse to fine: the finest that is not crowded.
        let sets: [&[f64]; 3] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]];
        let mut best: Option<Vec<f64>> = None;
        for set in sets {
            let all = match self.unit {
                Unit::Seconds => time_ticks(set),
                _ => decimal_ticks(set),
            };
            let first = all.iter().rposition(|t| *t <= low).unwrap_or(0);
            let last = all
                .iter()
                .position(|t| *t >= high)
                .unwrap_or(all.len() - 1)
                .max(first + 1)
                .min(all.len() - 1);
            let chosen = &all[first..=last];
            if best.is_none() || chosen.len() <= 8 {
                best = Some(chosen.to_vec());
            }
        }
        let ticks = best.unwrap_or_default();
        let skip = ticks.len().div_ceil(9).max(1);
        let name = |v: f64| self.unit.name(v);
        let bounds = (
            ticks.first().copied().unwrap_or(1.0),
            ticks.last().copied().unwrap_or(10.0),
        );
        let ticks = ticks
            .iter()
            .enumerate()
            .filter(|(i, _)| i % skip == 0)
            .map(|(i, v)| {
                let below = if clamped && i == 0 { "≤ " } else { "" };
                (*v, format!("{below}{}", name(*v)))
            })
            .collect();
        Scale {
            low: bounds.0,
            high: bounds.1,
            log: true,
            ticks,
            label: format!("{} (log scale)", self.label),
            unit: self.unit,
        }
    }
}

/// An axis that fits data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub low: f64,
    pub high: f64,
    pub log: bool,
    /// Values with their names.
    pub ticks: Vec<(f64, String)>,
    /// With its unit.
    pub label: String,
    unit: Unit,
}

impl Scale {
    /// A value with its unit.
    pub fn value_name(&self, value: f64) -> String {
        self.unit.name(value)
    }

    /// Returns where a value lies, from 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high, v) = if self.log {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((v - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at least this.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powi(least.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

fn decimal_ticks(set: &[f64]) -> Vec<f64> {
    let decade = |p: i32| set.iter().map(move |m| m * 10f64.powi(p));
    (-9..=18).flat_map(decade).collect()
}

fn time_ticks(set: &[f64]) -> Vec<f64> {
    let below = (-6..0).flat_map(|p| set.iter().map(move |m| m * 10f64.powi(p)));
    let within = |unit: f64, next: f64| {
        (0..5)
            .flat_map(move |p| set.iter().map(move |m| m * 10f64.powi(p) * unit))
            .filter(move |t| *t <= next / 1.9)
    };
    below
        .chain(within(1.0, MINUTE))
        .chain(within(MINUTE, HOUR))
        .chain(within(HOUR, DAY))
        .chain(within(DAY, f64::INFINITY))
        .collect()
}

/// A duration as a person says it.
pub(crate) fn duration(s: f64) -> String {
    match s.abs() {
        a if a >= DAY => format!("{} d", short(s / DAY)),
        a if a >= HOUR => format!("{} h", short(s / HOUR)),
        a if a >= MINUTE => format!("{} min", short(s / MINUTE)),
        _ => format!("{} s", short(s)),
    }
}

/// A number with about three digits that matter.
pub(crate) fn short(v: f64) -> String {
    let a = v.abs();
    let places = match a {
        _ if a == 0.0 || a >= 100.0 => 0,
        _ => (2 - a.log10().floor() as i32).clamp(0, 12) as usize,
    };
    let text = grouped(v, places);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number to some places, with a comma between thousands.
///
/// ```
/// assert_eq!(blox_plot::grouped(-188_995.176, 1), "-188,995.2");
/// ```
pub fn grouped(v: f64, places: usize) -> String {
    let text = format!("{:.places$}", v.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    if v < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        out.push('-');
    }
    for (i, d) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, n)| n.as_str()).collect()
    }

    #[test]
    fn linear_axes_have_round_ticks() {
        let s = Axis::new("load").fit([1.0, 9.0].into_iter(), 5);
        assert_eq!(names(&s), ["0", "2", "4", "6", "8", "10"]);
        let s = Axis::new("x").fit([0.0, 0.25].into_iter(), 5);
        assert_eq!(names(&s), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"]);
        let s = Axis::fraction("util")
            .from(0.0)
            .to(1.0)
            .fit([0.5].into_iter(), 5);
        assert_eq!(names(&s), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        // One value, no value, and none that is finite.
        assert_eq!(Axis::new("x").fit([5.0].into_iter(), 5).low, 0.0);
        assert_eq!(Axis::new("x").fit([f64::NAN].into_iter(), 5).high, 1.0);
    }

    #[test]
    fn seconds_are_shown_in_a_unit_that_suits() {
        let s = Axis::seconds("time").fit([0.0, 10.0 * DAY].into_iter(), 5);
        assert_eq!((s.label.as_str(), names(&s).len()), ("time (days)", 6));
        let s = Axis::seconds("time").fit([0.0, 100.0].into_iter(), 5);
        assert_eq!(s.label, "time (s)");
    }

    #[test]
    fn logarithmic_time_has_ticks_that_people_know() {
        let s = Axis::seconds("JCT").log().fit([30.0, 2e6].into_iter(), 5);
        assert_eq!(
            names(&s),
            [
                "10 s", "1 min", "10 min", "1 h", "10 h", "1 d", "10 d", "100 d"
            ]
        );
        assert_eq!((s.at(10.0), s.at(8_640_000.0)), (0.0, 1.0));
        let s = Axis::seconds("wait")
            .log()
            .fit([0.0, 5.0, 50.0].into_iter(), 5);
        assert_eq!(names(&s)[0], "≤ 5 s");
        assert_eq!(s.at(0.0), 0.0);
    }

    #[test]
    fn durations_are_said_shortly() {
        assert_eq!(duration(90.0), "1.5 min");
        assert_eq!(duration(188_995.2), "2.19 d");
        assert_eq!(short(1_234_567.8), "1,234,568");
        assert_eq!(short(-0.004_56), "-0.00456");
    }
}
