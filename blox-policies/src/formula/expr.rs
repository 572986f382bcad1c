//! The tree of a formula, its value for a job, and its text.

use super::column::{Column, TextColumn, Unit};
use super::words::words;
use blox_core::estimate::Estimator;
use blox_core::{JobRef, Name};
use std::fmt::{self, Display};

/// An expression with a number as its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// A number as written, and the unit after it.
    Number(f64, Option<Suffix>),
    Column(Column),
    /// An attribute of a job, without unit.
    Attribute(Name),
    Negative(Box<Expr>),
    Binary(Operator, Box<[Expr; 2]>),
    Where(Box<Choice>),
    /// At least one argument.
    Call(Function, Vec<Expr>),
}

/// A column that a formula reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read<'a> {
    Number(Column),
    Text(TextColumn),
    /// The name of an attribute.
    Attribute(&'a str),
}

impl Display for Read<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Read::Number(column) => f.write_str(column.text()),
            Read::Text(column) => f.write_str(column.text()),
            Read::Attribute(name) => write!(f, "{ATTRIBUTES}{name}"),
        }
    }
}

/// One of two values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub condition: Condition,
    pub values: [Expr; 2],
}

/// An expression that holds for a job or does not.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Compare(Comparison, Box<[Expr; 2]>),
    /// A text of the job equals another, or differs from it if the flag is false.
    Text(TextColumn, bool, Name),
    Not(Box<Condition>),
    Both(Box<[Condition; 2]>),
    Either(Box<[Condition; 2]>),
}

words! {
    /// A unit behind a number.
    Suffix { Seconds "s", Minutes "min", Hours "h", Days "d", Gpus "gpus" }
}

words! {
    Operator { Add "+", Subtract "-", Multiply "*", Divide "/" }
}

words! {
    Comparison { Less "<", LessOrEqual "<=", Greater ">", GreaterOrEqual ">=", Equal "==", Other "!=" }
}

words! {
    Function { Min "min", Max "max", Abs "abs", Log "log" }
}

impl Suffix {
    pub fn unit(self) -> Unit {
        match self {
            Suffix::Gpus => Unit::GPUS,
            _ => Unit::SECONDS,
        }
    }

    fn factor(self) -> f64 {
        match self {
            Suffix::Seconds | Suffix::Gpus => 1.0,
            Suffix::Minutes => 60.0,
            Suffix::Hours => 3600.0,
            Suffix::Days => 86_400.0,
        }
    }
}

impl Comparison {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
            Comparison::Equal => a == b,
            Comparison::Other => a != b,
        }
    }
}

impl Expr {
    pub const ZERO: Expr = Expr::Number(0.0, None);
    pub const ONE: Expr = Expr::Number(1.0, None);

    /// Returns the value for a job.
    pub fn value(&self, job: &JobRef<'_>, estimator: &dyn Estimator) -> f64 {
        let of = |expr: &Expr| expr.value(job, estimator);
        match self {
            Expr::Column(column) => column.value(job, estimator),
            Expr::Number(number, None) => *number,
            Expr::Number(number, Some(suffix)) => number * suffix.factor(),
            Expr::Attribute(name) => {
                let value = job.spec().extras().attributes.get(name);
                value.and_then(|v| v.as_f64()).unwrap_or(f64::INFINITY)
            }
            Expr::Negative(inner) => -of(inner),
            Expr::Binary(operator, sides) => {
                let (a, b) = (of(&sides[0]), of(&sides[1]));
                match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                }
            }
            Expr::Where(choice) => {
                let holds = choice.condition.holds(job, estimator);
                of(&choice.values[usize::from(!holds)])
            }
            Expr::Call(function, arguments) => {
                let mut values = arguments.iter().map(of);
                let first = values.next().unwrap_or(f64::NAN);
                // A value that is no number passes on, unlike with `f64::min`.
                match function {
                    Function::Min => {
                        values.fold(first, |a, b| if b.is_nan() || b < a { b } else { a })
                    }
                    Function::Max => {
                        values.fold(first, |a, b| if b.is_nan() || b > a { b } else { a })
                    }
                    Function::Abs => first.abs(),
                    Function::Log => libm::log(first),
                }
            }
        }
    }

    /// Calls a function for each column.
    pub fn each_column<'a>(&'a self, see: &mut impl FnMut(Read<'a>)) {
        match self {
            Expr::Number(..) => {}
            Expr::Attribute(name) => see(Read::Attribute(name)),
            Expr::Column(column) => see(Read::Number(*column)),
            Expr::Negative(inner) => inner.each_column(see),
            Expr::Binary(_, sides) => sides.iter().for_each(|side| side.each_column(see)),
            Expr::Where(choice) => {
                choice.condition.each_column(see);
                choice.values.iter().for_each(|v| v.each_column(see));
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|a| a.each_column(see)),
        }
    }

    /// Binding strength of the outermost operator; a larger one binds more tightly.
    fn strength(&self) -> u8 {
        match self {
            Expr::Binary(Operator::Add | Operator::Subtract, _) => SUM,
            Expr::Binary(..) => SUM + 1,
            Expr::Negative(_) => SUM + 2,
            _ => SUM + 3,
        }
    }
}

impl Condition {
    fn holds(&self, job: &JobRef<'_>, estimator: &dyn Estimator) -> bool {
        let of = |condition: &Condition| condition.holds(job, estimator);
        match self {
            Condition::Compare(comparison, sides) => {
                let [a, b] = [&sides[0], &sides[1]].map(|side| side.value(job, estimator));
                comparison.holds(a, b)
            }
            Condition::Text(column, equal, text) => (column.is(job, text)) == *equal,
            Condition::Not(inner) => !of(inner),
            Condition::Both(sides) => of(&sides[0]) && of(&sides[1]),
            Condition::Either(sides) => of(&sides[0]) || of(&sides[1]),
        }
    }

    /// Calls a function for each column.
    pub fn each_column<'a>(&'a self, see: &mut impl FnMut(Read<'a>)) {
        match self {
            Condition::Compare(_, sides) => sides.iter().for_each(|side| side.each_column(see)),
            Condition::Text(column, ..) => see(Read::Text(*column)),
            Condition::Not(inner) => inner.each_column(see),
            Condition::Both(sides) | Condition::Either(sides) => {
                sides.iter().for_each(|side| side.each_column(see));
            }
        }
    }

    fn strength(&self) -> u8 {
        match self {
            Condition::Either(_) => 0,
            Condition::Both(_) => 1,
            Condition::Not(_) => 2,
            Condition::Compare(..) | Condition::Text(..) => 3,
        }
    }
}

/// Binding strength of sums.
const SUM: u8 = 4;

/// A part of an expression, in parentheses if it binds less tightly than `least`.
struct Within<'a, T>(&'a T, u8, u8);

impl<T: Display> Display for Within<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Within(part, strength, least) = self;
        match strength < least {
            true => write!(f, "({part})"),
            false => part.fmt(f),
        }
    }
}

fn number(part: &Expr, least: u8) -> Within<'_, Expr> {
    Within(part, part.strength(), least)
}

fn condition(part: &Condition, least: u8) -> Within<'_, Condition> {
    Within(part, part.strength(), least)
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.strength();
        match self {
            Expr::Number(value, suffix) => {
                write!(f, "{value}{}", suffix.map_or("", Suffix::text))
            }
            Expr::Column(column) => f.write_str(column.text()),
            Expr::Attribute(name) => write!(f, "{ATTRIBUTES}{name}"),
            Expr::Negative(inner) => write!(f, "-{}", number(inner, own)),
            Expr::Binary(operator, sides) => {
                let (left, right) = (number(&sides[0], own), number(&sides[1], own + 1));
                write!(f, "{left} {} {right}", operator.text())
            }
            Expr::Where(choice) => {
                let [yes, no] = &choice.values;
                write!(f, "where({}, {yes}, {no})", choice.condition)
            }
            Expr::Call(function, arguments) => {
                write!(f, "{}(", function.text())?;
                for (i, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.strength();
        match self {
            Condition::Compare(comparison, sides) => {
                let (left, right) = (number(&sides[0], SUM), number(&sides[1], SUM));
                write!(f, "{left} {} {right}", comparison.text())
            }
            Condition::Text(column, equal, text) => {
                let operator = if *equal { "==" } else { "!=" };
                write!(f, "{} {operator} '{text}'", column.text())
            }
            Condition::Not(inner) => write!(f, "not {}", condition(inner, own)),
            Condition::Both(sides) => {
                let (left, right) = (condition(&sides[0], own), condition(&sides[1], own + 1));
                write!(f, "{left} and {right}")
            }
            Condition::Either(sides) => {
                let (left, right) = (condition(&sides[0], own), condition(&sides[1], own + 1));
                write!(f, "{left} or {right}")
            }
        }
    }
}

/// Start of the name of an attribute.
pub(super) const ATTRIBUTES: &str = "attributes.";
