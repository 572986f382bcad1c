//! Axes: label, unit, bounds, scale and ticks.

use crate::svg::width_of;

/// A unit of time of an axis, a column or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Days.
    Days,
}

impl TimeUnit {
    /// Returns the largest unit of which `seconds` is at least three.
    pub fn of(seconds: f64) -> Self {
        let units = [TimeUnit::Days, TimeUnit::Hours, TimeUnit::Minutes];
        let fits = |unit: &TimeUnit| seconds.abs() >= 3.0 * unit.secs();
        units.into_iter().find(fits).unwrap_or(TimeUnit::Seconds)
    }

    /// Returns the length of the unit in seconds.
    pub fn secs(self) -> f64 {
        match self {
            TimeUnit::Seconds => 1.0,
            TimeUnit::Minutes => MINUTE,
            TimeUnit::Hours => HOUR,
            TimeUnit::Days => DAY,
        }
    }

    /// Returns the name for a label, for example `hours`.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Minutes => "minutes",
            TimeUnit::Hours => "hours",
            TimeUnit::Days => "days",
        }
    }

    /// Returns the symbol behind a number, for example `h`.
    pub fn symbol(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Minutes => "min",
            TimeUnit::Hours => "h",
            TimeUnit::Days => "d",
        }
    }

    /// Formats seconds in this unit with three significant digits, for example `0.25 h`.
    pub fn text(self, seconds: f64) -> String {
        format!("{} {}", short(seconds / self.secs()), self.symbol())
    }
}

/// An axis: a label with a unit, linear or logarithmic.
///
/// The axis ends at the data. A vertical axis, and a horizontal axis of lines, have a margin of
/// 4 % at both ends. [`from`](Axis::from) and [`to`](Axis::to) extend the axis beyond the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    label: String,
    unit: Unit,
    log: bool,
    min: Option<f64>,
    max: Option<f64>,
}

impl Axis {
    /// Shows plain numbers. State the unit in the label: `load (jobs/h)`.
    pub fn new(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            unit: Unit::Plain,
            log: false,
            min: None,
            max: None,
        }
    }

    /// Takes seconds and shows seconds, minutes, hours or days, by the largest value. A logarithmic
    /// axis has a unit for each tick. The axis adds the unit to the label.
    ///
    /// [`in_unit`](Axis::in_unit) selects one unit for all values.
    pub fn seconds(label: impl Into<String>) -> Self {
        Axis {
            unit: Unit::Seconds(None),
            ..Axis::new(label)
        }
    }

    /// Takes fractions of one and shows percentages.
    pub fn fraction(label: impl Into<String>) -> Self {
        Axis {
            unit: Unit::Fraction,
            ..Axis::new(label)
        }
    }

    /// Shows every value of an axis of [seconds](Axis::seconds) in this unit. Other axes are not
    /// changed.
    #[must_use]
    pub fn in_unit(mut self, unit: TimeUnit) -> Self {
        if let Unit::Seconds(of) = &mut self.unit {
            *of = Some(unit);
        }
        self
    }

    /// Makes the axis logarithmic, over at most six decades. Smaller values, zero and negative
    /// values are drawn at the lower end, and the first tick then reads `≤`.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Extends the axis down to `min`.
    #[must_use]
    pub fn from(mut self, min: f64) -> Self {
        self.min = Some(min);
        self
    }

    /// Extends the axis up to `max`.
    #[must_use]
    pub fn to(mut self, max: f64) -> Self {
        self.max = Some(max);
        self
    }

    /// Chooses bounds for the data, and ticks with names that do not overlap.
    pub(crate) fn fit(&self, data: impl Iterator<Item = f64>, room: &Room) -> Scale {
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
            self.log_scale(low, high, clamped, room)
        } else {
            self.linear_scale(low, high, room)
        }
    }

    fn linear_scale(&self, low: f64, high: f64, room: &Room) -> Scale {
        let (unit, name, symbol) = match self.unit {
            Unit::Seconds(unit) => {
                let unit = unit.unwrap_or_else(|| TimeUnit::of(high));
                (unit.secs(), unit.name(), unit.symbol())
            }
            Unit::Fraction => (0.01, "", "%"),
            Unit::Plain => (1.0, "", ""),
        };
        let (mut a, mut b) = (low / unit, high / unit);
        if a == b {
            // One value: from zero, or a step above zero.
            (a, b) = if a == 0.0 {
                (0.0, 1.0)
            } else {
                (a.min(0.0), b.max(0.0))
            };
        }
        if room.margin > 0.0 {
            let margin = (b - a) * room.margin;
            if self.min.is_none() && a != 0.0 {
                a -= margin;
            }
            if self.max.is_none() && b != 0.0 {
                // Nothing is above 100 %.
                let full = self.unit == Unit::Fraction && b <= 100.0;
                b = if full {
                    (b + margin).min(100.0)
                } else {
                    b + margin
                };
            }
        }
        let suffix = if self.unit == Unit::Fraction {
            " %"
        } else {
            ""
        };
        let mut scale = Scale {
            low: a * unit,
            high: b * unit,
            log: false,
            ticks: Vec::new(),
            label: match name {
                "" => self.label.clone(),
                name => format!("{} ({name})", self.label),
            },
            unit: Shown::In(unit, symbol),
        };
        let most = room.most_ticks();
        let mut step = nice_step((b - a) / (most * 2.5));
        // From fine to coarse: the finest step that is not crowded.
        for _ in 0..8 {
            let places = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
            let ticks: Vec<(f64, String)> = multiples(a / step, b / step)
                .map(|i| (i * step, format!("{}{suffix}", grouped(i * step, places))))
                .map(|(v, name)| (v * unit, name))
                .collect();
            if ticks.is_empty() {
                // The step is longer than the axis: one tick of the step before.
                scale.ticks.truncate(1);
                break;
            }
            scale.ticks = ticks;
            if scale.ticks.len() as f64 <= most + 1.0 && room.holds(&scale) {
                break;
            }
            step = nice_step(step * 1.5);
        }
        scale
    }

    fn log_scale(&self, low: f64, high: f64, clamped: bool, room: &Room) -> Scale {
        let (mut low, mut high) = (low, high);
        let clamped = clamped || low < high / DECADES;
        low = low.max(high / DECADES);
        if low == high {
            (low, high) = (low / 2.0, high * 2.0);
        }
        let all = |set: &[f64]| match self.unit {
            Unit::Seconds(None) => time_ticks(set),
            Unit::Seconds(Some(unit)) => {
                let ticks = decimal_ticks(set).into_iter();
                ticks.map(|t| t * unit.secs()).collect()
            }
            _ => decimal_ticks(set),
        };
        if clamped {
            // The first tick names the bound: a round one, if it is near.
            let fine = all(&FINEST);
            let round = fine.iter().rev().find(|t| **t <= low * (1.0 + 1e-9));
            low = round.copied().unwrap_or(low);
        } else {
            let margin = (high / low).powf(room.margin);
            (low, high) = (low / margin, high * margin);
        }
        let mut scale = Scale {
            low,
            high,
            log: true,
            ticks: Vec::new(),
            label: match self.unit {
                Unit::Seconds(Some(unit)) => format!("{} ({}, log scale)", self.label, unit.name()),
                _ => format!("{} (log scale)", self.label),
            },
            unit: match self.unit {
                Unit::Seconds(Some(unit)) => Shown::In(unit.secs(), unit.symbol()),
                unit => Shown::Fitting(unit),
            },
        };
        let named = |v: f64, below: bool| {
            let below = if below { "≤ " } else { "" };
            (v, format!("{below}{}", self.unit.name(v)))
        };
        let within = |t: &f64| *t >= low * (1.0 - 1e-9) && *t <= high * (1.0 + 1e-9);
        // From coarse to fine: the finest set that is not crowded.
        let sets: [&[f64]; 4] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &FINEST];
        let mut best = Vec::new();
        for set in sets {
            let ticks = all(set).into_iter().filter(within);
            scale.ticks = if clamped {
                let above = ticks.filter(|t| *t > low * (1.0 + 1e-9));
                let mut ticks = vec![named(low, true)];
                ticks.extend(above.map(|t| named(t, false)));
                ticks
            } else {
                ticks.map(|t| named(t, false)).collect()
            };
            if clamped && !room.holds(&scale) && scale.ticks.len() > 1 {
                // The neighbour of the first tick gives way.
                scale.ticks.remove(1);
            }
            if !room.holds(&scale) {
                break;
            }
            best = std::mem::take(&mut scale.ticks);
        }
        if best.is_empty() {
            let all = std::mem::take(&mut scale.ticks);
            self.thin_out(&mut scale, &all, room);
        } else {
            scale.ticks = best;
        }
        if high / low < 10.0 && (scale.ticks.len() < 3 || widest_gap(&scale) > WIDE_GAP) {
            self.even_ticks(&mut scale, room);
        }
        if scale.ticks.len() < 2 {
            let found = std::mem::take(&mut scale.ticks);
            scale.ticks = vec![named(low, clamped), named(high, false)];
            if !room.holds(&scale) && !found.is_empty() {
                scale.ticks = found;
            } else if !room.holds(&scale) {
                scale.ticks.truncate(1);
            }
        }
        scale
    }

    /// Replaces the ticks of a short logarithmic axis by multiples of one step, if more fit.
    fn even_ticks(&self, scale: &mut Scale, room: &Room) {
        let unit = match (self.unit, scale.high) {
            (Unit::Seconds(Some(unit)), _) => unit.secs(),
            (Unit::Seconds(None), high) if high >= DAY => DAY,
            (Unit::Seconds(None), high) if high >= HOUR => HOUR,
            (Unit::Seconds(None), high) if high >= MINUTE => MINUTE,
            _ => 1.0,
        };
        let before = std::mem::take(&mut scale.ticks);
        let most = room.most_ticks();
        let mut step = nice_step((scale.high - scale.low) / unit / (most * 2.5));
        while scale.low < scale.high && step * unit < scale.high {
            scale.ticks = multiples(scale.low / unit / step, scale.high / unit / step)
                .map(|i| i * step * unit)
                .map(|v| (v, self.unit.name(v)))
                .collect();
            if scale.ticks.len() as f64 <= most + 2.0 && room.holds(scale) {
                break;
            }
            step = nice_step(step * 1.5);
        }
        if scale.ticks.len() <= before.len() || !room.holds(scale) {
            scale.ticks = before;
        }
    }

    /// Chooses from ticks that overlap: of times, the units come first; of other values, every
    /// second, every third, and so on.
    fn thin_out(&self, scale: &mut Scale, all: &[(f64, String)], room: &Room) {
        if self.unit == Unit::Seconds(None) {
            let is_unit = |t: f64| [1.0, MINUTE, HOUR, DAY].contains(&t);
            for units in [true, false] {
                for tick in all.iter().filter(|t| is_unit(t.0) == units) {
                    let at = scale.ticks.partition_point(|t| t.0 < tick.0);
                    scale.ticks.insert(at, tick.clone());
                    if !room.holds(scale) {
                        scale.ticks.remove(at);
                    }
                }
            }
            return;
        }
        for skip in 2..=all.len().max(2) {
            scale.ticks = all.iter().step_by(skip).cloned().collect();
            if room.holds(scale) {
                return;
            }
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log
    }
}

/// The space for the names of the ticks of an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Length of the axis in pixels.
    pub length: f64,
    /// Font size of the names.
    pub size: f64,
    /// True for a horizontal axis.
    pub across: bool,
    /// Margin at ends without a bound, as a share of the span of the data.
    pub margin: f64,
}

/// Distance in pixels that a name may extend beyond an end of a horizontal axis.
pub(crate) const SPILL: f64 = 10.0;

impl Room {
    /// A horizontal axis that ends at the data.
    pub fn across(length: f64, size: f64) -> Self {
        Room {
            length,
            size,
            across: true,
            margin: 0.0,
        }
    }

    /// A vertical axis.
    pub fn upwards(length: f64, size: f64) -> Self {
        Room {
            across: false,
            ..Room::across(length, size).with_margin()
        }
    }

    /// Adds a margin at both ends.
    pub fn with_margin(mut self) -> Self {
        self.margin = MARGIN;
        self
    }

    /// Returns the middle of a tick's name in pixels from the start of a horizontal axis.
    pub fn middle(&self, at: f64, name: &str) -> f64 {
        let half = width_of(name, self.size) / 2.0;
        let (first, last) = (half - SPILL, self.length + SPILL - half);
        (at * self.length).min(last).max(first)
    }

    fn most_ticks(&self) -> f64 {
        (self.length / if self.across { 48.0 } else { 32.0 }).clamp(2.0, 8.0)
    }

    /// Returns whether the names of the ticks are apart.
    fn holds(&self, scale: &Scale) -> bool {
        scale.ticks.windows(2).all(|pair| {
            let [(a, first), (b, second)] = pair else {
                return true;
            };
            let (a, b) = (scale.at(*a), scale.at(*b));
            if self.across {
                let widths = width_of(first, self.size) + width_of(second, self.size);
                self.middle(b, second) - self.middle(a, first) >= widths / 2.0 + 6.0
            } else {
                (b - a) * self.length >= self.size * 1.6
            }
        })
    }
}

/// An axis fitted to data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub low: f64,
    pub high: f64,
    pub log: bool,
    /// Values with their names.
    pub ticks: Vec<(f64, String)>,
    /// The label with its unit.
    pub label: String,
    unit: Shown,
}

/// The unit of single values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    /// One unit for all values: its size and symbol.
    In(f64, &'static str),
    /// The largest unit of each value.
    Fitting(Unit),
}

impl Scale {
    /// Returns a value with its unit, as text.
    pub fn value_name(&self, value: f64) -> String {
        match self.unit {
            Shown::In(unit, "") => short(value / unit),
            Shown::In(unit, symbol) => format!("{} {symbol}", short(value / unit)),
            Shown::Fitting(unit) => unit.name(value),
        }
    }

    /// Returns the position of a value on the axis, from 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high, v) = if self.log {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((v - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Formats a number to `places` decimal places, with a comma between thousands.
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

/// Formats a duration in its largest unit.
pub(crate) fn duration(s: f64) -> String {
    match s.abs() {
        a if a >= DAY => format!("{} d", short(s / DAY)),
        a if a >= HOUR => format!("{} h", short(s / HOUR)),
        a if a >= MINUTE => format!("{} min", short(s / MINUTE)),
        _ => format!("{} s", short(s)),
    }
}

/// Formats a number with three significant digits, or as an integer from 100 on.
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Plain,
    /// Seconds, and the unit of all values if one was selected.
    Seconds(Option<TimeUnit>),
    Fraction,
}

impl Unit {
    fn name(self, v: f64) -> String {
        match self {
            // The label has the unit.
            Unit::Seconds(Some(unit)) => short(v / unit.secs()),
            Unit::Seconds(None) => duration(v),
            Unit::Fraction => format!("{} %", short(v * 100.0)),
            Unit::Plain => short(v),
        }
    }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// The margin of an axis that has one, as a share of the span of the data.
const MARGIN: f64 = 0.04;
/// The most that the ends of a logarithmic axis differ.
const DECADES: f64 = 1e6;
/// The share of a short logarithmic axis without a tick from which even ticks are tried.
const WIDE_GAP: f64 = 0.4;
const FINEST: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

/// Returns the longest part of a scale without a tick, as a share of its length.
fn widest_gap(scale: &Scale) -> f64 {
    let places = scale.ticks.iter().map(|(v, _)| scale.at(*v)).chain([1.0]);
    let (mut widest, mut last) = (0.0f64, 0.0);
    for place in places {
        widest = widest.max(place - last);
        last = place;
    }
    widest
}

/// Returns the whole numbers between two numbers, at most 100. Rounding errors are tolerated.
fn multiples(first: f64, last: f64) -> impl Iterator<Item = f64> {
    let all = (first - 1e-9).ceil() as i64..=(last + 1e-9).floor() as i64;
    all.take(100).map(|i| i as f64)
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ACROSS: Room = Room {
        length: 330.0,
        size: 11.0,
        across: true,
        margin: 0.0,
    };
    const UPWARDS: Room = Room {
        length: 210.0,
        size: 11.0,
        across: false,
        margin: MARGIN,
    };

    fn names(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, n)| n.as_str()).collect()
    }

    #[test]
    fn linear_axis_ticks_are_round() {
        let s = Axis::new("load").fit([0.0, 9.0].into_iter(), &ACROSS);
        assert_eq!(names(&s), ["0", "2", "4", "6", "8"]);
        let s = Axis::new("x").fit([0.0, 0.25].into_iter(), &ACROSS);
        assert_eq!(names(&s), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"]);
        let s = Axis::fraction("util")
            .from(0.0)
            .to(1.0)
            .fit([0.5].into_iter(), &UPWARDS);
        assert_eq!(names(&s), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        // One value, no value, and no finite value.
        assert_eq!(Axis::new("x").fit([5.0].into_iter(), &ACROSS).low, 0.0);
        assert_eq!(
            Axis::new("x").fit([f64::NAN].into_iter(), &ACROSS).high,
            1.0
        );
    }

    #[test]
    fn axis_without_bounds_ends_at_the_data() {
        let s = Axis::new("load").fit([1.0, 9.3].into_iter(), &ACROSS);
        assert_eq!((s.low, s.high), (1.0, 9.3));
        // A long tail: the axis ends at the largest value, not at 100 days.
        let s = Axis::seconds("JCT")
            .log()
            .fit([30.0, 12.0 * DAY].into_iter(), &ACROSS);
        assert_eq!((s.low, s.high), (30.0, 12.0 * DAY));
        let s = Axis::new("jobs")
            .from(0.0)
            .fit([50.0].into_iter(), &UPWARDS);
        assert_eq!((s.low, s.high), (0.0, 52.0));
        // Percentages have no margin above 100 %.
        let s = Axis::fraction("busy")
            .from(0.0)
            .fit([0.99].into_iter(), &UPWARDS);
        assert_eq!(s.high, 1.0);
    }

    #[test]
    fn tick_names_never_overlap() {
        let bounds = [
            (0.0, 1.0),
            (1.0, 7.0),
            (0.1, 3e5),
            (0.0, 8e6),
            (90.0, 4e7),
            (0.2, 0.3),
        ];
        for (low, high) in bounds {
            for axis in [Axis::new("x"), Axis::seconds("x"), Axis::fraction("x")] {
                for length in [90.0, 160.0, 330.0] {
                    let room = Room::across(length, 11.0);
                    for axis in [axis.clone(), axis.clone().log()] {
                        let s = axis.fit([low, high].into_iter(), &room);
                        assert!(room.holds(&s), "{low} {high} {length} {:?}", names(&s));
                        assert!(!s.ticks.is_empty(), "{low} {high} {length} {axis:?} {s:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn seconds_are_shown_in_a_fitting_unit() {
        let s = Axis::seconds("time").fit([0.0, 10.0 * DAY].into_iter(), &ACROSS);
        assert_eq!((s.label.as_str(), names(&s).len()), ("time (days)", 6));
        // Single values have the unit of the axis.
        assert_eq!(s.value_name(3.0 * HOUR), "0.125 d");
        let s = Axis::seconds("time").fit([0.0, 100.0].into_iter(), &ACROSS);
        assert_eq!(s.label, "time (s)");
    }

    #[test]
    fn log_time_axis_ticks_are_common_times() {
        let s = Axis::seconds("JCT")
            .log()
            .fit([30.0, 2e6].into_iter(), &ACROSS);
        assert_eq!(names(&s), ["1 min", "10 min", "1 h", "1 d", "10 d"]);
        assert_eq!((s.at(30.0), s.at(2e6)), (0.0, 1.0));
        let s = Axis::seconds("wait")
            .log()
            .fit([0.0, 5.0, 50.0].into_iter(), &ACROSS);
        assert_eq!(names(&s)[0], "≤ 5 s");
        assert_eq!(s.at(0.0), 0.0);
        // A short axis has even ticks.
        let s = Axis::new("rho").log().fit([1.0, 1.14].into_iter(), &ACROSS);
        assert_eq!(names(&s).len(), 8, "{:?}", names(&s));
        // Without even ticks, the right half had none.
        let s = Axis::new("rho")
            .log()
            .fit([0.55, 1.75].into_iter(), &ACROSS);
        assert!(names(&s).contains(&"1.4"), "{:?}", names(&s));
        assert!(widest_gap(&s) < WIDE_GAP);
        // Six decades at most.
        let s = Axis::new("x").log().fit([1e-9, 1.0].into_iter(), &ACROSS);
        assert_eq!((s.low, names(&s)[0]), (1e-6, "≤ 0.000001"));
    }

    #[test]
    fn axis_in_a_unit_shows_every_value_in_it() {
        let axis = Axis::seconds("JCT").in_unit(TimeUnit::Hours);
        let s = axis.fit([0.0, 10.0 * DAY].into_iter(), &ACROSS);
        assert_eq!(s.label, "JCT (hours)");
        assert_eq!(names(&s), ["0", "50", "100", "150", "200"]);
        assert_eq!(s.value_name(180.0), "0.05 h");
        let s = axis.clone().log().fit([36.0, 2e6].into_iter(), &ACROSS);
        assert_eq!(s.label, "JCT (hours, log scale)");
        let ticks = [
            "0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "100", "300",
        ];
        assert_eq!(names(&s), ticks);
        let s = axis.log().fit([0.0, 36.0, 3600.0].into_iter(), &ACROSS);
        assert_eq!(names(&s)[0], "≤ 0.01");
        // Other axes have no unit of time.
        let s = Axis::new("load").in_unit(TimeUnit::Days);
        assert_eq!(s, Axis::new("load"));
    }

    #[test]
    fn unit_of_time_is_the_largest_that_fits_three_times() {
        let units = [179.0, 180.0, 10_800.0, 259_200.0].map(TimeUnit::of);
        let names = units.map(TimeUnit::name);
        assert_eq!(names, ["s", "minutes", "hours", "days"]);
        assert_eq!(TimeUnit::Minutes.text(90.0), "1.5 min");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(90.0), "1.5 min");
        assert_eq!(duration(188_995.2), "2.19 d");
        assert_eq!(short(1_234_567.8), "1,234,568");
        assert_eq!(short(-0.004_56), "-0.00456");
    }
}
