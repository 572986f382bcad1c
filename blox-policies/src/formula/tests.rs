//! Tests of formulas: parser, values and motion.

use super::*;
use crate::splitmix;
use blox_core::estimate::UserEstimate;
use blox_core::{
    AdmissionDecision, ClusterSpec, Event, Extras, GpuCount, JobId, JobSpec, Seconds, State, Time,
};
use column::TextColumn;
use expr::{Choice, Comparison, Condition, Function, Operator, Suffix};
use std::collections::BTreeSet;

fn formula(text: &str) -> Formula {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn message(text: &str) -> String {
    text.parse::<Formula>().unwrap_err().to_string()
}

#[test]
fn wrong_formulas_name_place_and_expectation() {
    for (text, expected) in [
        (
            "",
            "character 1: found the end, expected a number, a column or a function",
        ),
        (
            "submit,",
            "character 8: found the end, expected a number, a column or a function",
        ),
        (
            "attained < 8h",
            "character 1: found `attained < 8h`, a condition, expected a number; \
             `where(CONDITION, 0, 1)` makes one",
        ),
        (
            "where(attained < 8, 0, 1)",
            "character 18: found `8`, which has no unit, expected a value in s, as `attained` before it",
        ),
        (
            "gpu_time + attained",
            "character 12: found `attained`, which has the unit s, expected a value in GPU s, as \
             `gpu_time` before it",
        ),
        (
            "where(gpus > 4gpus, 0, 1h)",
            "character 24: found `1h`, which has the unit s, expected a value without unit, as `0` before it",
        ),
        (
            "where(attained, 0, 1)",
            "character 7: found `attained`, a number, expected a condition such as `attained < 8h`",
        ),
        (
            "where(attained = 8h, 0, 1)",
            "character 16: found `=`, expected `==`",
        ),
        (
            "where(user == ann, 0, 1)",
            "character 15: found `ann`, expected one of submit, now, age, waiting, attained, gpu_time, \
             gpus, priority, weight, deadline, starts, first_start, estimate, estimate_left, \
             true_duration, true_left, user, virtual_cluster, class, where, min, max, abs, log",
        ),
        (
            "where(class == 'spt', 0, 1)",
            "character 16: found `'spt'`, a text, expected one of guaranteed, spot; did you mean `spot`?",
        ),
        (
            "where(user < 'ann', 0, 1)",
            "character 14: found `'ann'`, a text, expected a text in single quotes behind == or !=",
        ),
        (
            "8x",
            "character 2: found `x`, expected an operator, or a unit: one of s, min, h, d, gpus",
        ),
        (
            "8hr",
            "character 2: found `hr`, expected an operator, or a unit: one of s, min, h, d, gpus",
        ),
        (
            "log(attained)",
            "character 5: found `attained`, which has the unit s, expected a value without unit, such as \
             `attained / 1s`",
        ),
        (
            "min(age)",
            "character 1: found `min(age)`, expected two or more values in the parentheses",
        ),
        ("(age", "character 5: found the end, expected `)`"),
        (
            "age age",
            "character 5: found `age`, expected an operator, a comma before another key, or the end",
        ),
        (
            "1e999",
            "character 1: found `1e999`, expected a finite number such as 0.5",
        ),
        (
            "ä + age",
            "character 1: found `ä`, expected a number, a column, an operator or a parenthesis",
        ),
        (
            "where(user == 'ä', 0, $)",
            "character 23: found `$`, expected a number, a column, an operator or a parenthesis",
        ),
    ] {
        assert_eq!(message(text), expected, "{text}");
    }
    let slip = message("where(attaned < 8h, 0, 1)");
    assert!(slip.ends_with("; did you mean `attained`?"), "{slip}");
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(message(&deep).contains("at most 64 parts within each other"));
    let signs = format!("{}1", "-".repeat(1000));
    assert!(message(&signs).contains("at most 64 parts within each other"));
    let long = vec!["1"; 50_000].join("+");
    assert!(message(&long).contains("at most 2000 words and signs"));
}

#[test]
fn texts_become_canonical() {
    for (text, canonical) in [
        ("8m", "8min"),
        ("8 h", "8h"),
        ("1gpu*8h", "1gpus * 8h"),
        ("((age))", "age"),
        ("age-(waiting-attained)", "age - (waiting - attained)"),
        ("(age-waiting)-attained", "age - waiting - attained"),
        ("-(age*2)", "-(age * 2)"),
        ("-age*2", "-age * 2"),
        ("- -age", "--age"),
        ("1.50", "1.5"),
        (
            "where(not (user=='a' or class!='spot') and age<1d,0,1)",
            "where(not (user == 'a' or class != 'spot') and age < 1d, 0, 1)",
        ),
        ("attributes.my_key,submit", "attributes.my_key, submit"),
        ("attributes.cost-1", "attributes.cost - 1"),
    ] {
        assert_eq!(formula(text).to_string(), canonical, "{text}");
        assert_eq!(formula(canonical), formula(text), "{text}");
    }
    let json = serde_json::to_string(&formula("-age,submit")).unwrap();
    assert_eq!(json, "\"-age, submit\"");
    let back: Formula = serde_json::from_str(&json).unwrap();
    assert_eq!(back, formula("-age, submit"));
    assert!(serde_json::from_str::<Formula>("\"agee\"").is_err());
}

/// Random formulas, and the words that they reach.
struct Random {
    state: u64,
    reached: BTreeSet<&'static str>,
}

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (splitmix::next(&mut self.state) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn reach(&mut self, word: &'static str) {
        self.reached.insert(word);
    }

    /// Returns an expression in seconds, GPUs or without unit.
    fn expr(&mut self, unit: Unit, depth: usize) -> Expr {
        let choice = if depth == 0 {
            self.below(2)
        } else {
            self.below(8)
        };
        let mut next = |of: Unit| self.expr(of, depth.saturating_sub(1));
        match choice {
            0 => {
                let numbers = [0.0, 1.0, 0.1, 8.0, 1e21, 2.5e-7];
                let suffixes: Vec<Option<Suffix>> = match unit {
                    Unit::NONE => vec![None],
                    unit => Suffix::ALL
                        .iter()
                        .filter(|s| s.unit() == unit)
                        .map(|s| Some(*s))
                        .collect(),
                };
                let suffix = self.of(&suffixes);
                suffix.into_iter().for_each(|s| self.reach(s.text()));
                Expr::Number(self.of(&numbers), suffix)
            }
            1 => {
                let of_unit = Column::ALL.iter().filter(|c| c.unit() == unit).copied();
                let columns: Vec<Column> = of_unit.collect();
                let at = self.below(columns.len() + 1);
                match columns.get(at) {
                    Some(column) => {
                        self.reach(column.text());
                        Expr::Column(*column)
                    }
                    None if unit == Unit::NONE => Expr::Attribute("my_key_2.x".into()),
                    None => Expr::Column(columns[0]),
                }
            }
            2 => Expr::Negative(Box::new(next(unit))),
            3 => {
                let sides = Box::new([next(unit), next(unit)]);
                let operator = self.of(&[Operator::Add, Operator::Subtract]);
                self.reach(operator.text());
                Expr::Binary(operator, sides)
            }
            4 => {
                let sides = Box::new([next(unit), next(Unit::NONE)]);
                let operator = self.of(&[Operator::Multiply, Operator::Divide]);
                self.reach(operator.text());
                Expr::Binary(operator, sides)
            }
            5 => {
                let values = [next(unit), next(unit)];
                let condition = self.condition(depth - 1);
                Expr::Where(Box::new(Choice { condition, values }))
            }
            6 => {
                let function = if unit == Unit::NONE {
                    Function::Log
                } else {
                    Function::Abs
                };
                let arguments = vec![next(unit)];
                self.reach(function.text());
                Expr::Call(function, arguments)
            }
            _ => {
                let mut arguments = vec![next(unit), next(unit)];
                if self.below(2) == 0 {
                    arguments.push(self.expr(unit, depth - 1));
                }
                let function = self.of(&[Function::Min, Function::Max]);
                self.reach(function.text());
                Expr::Call(function, arguments)
            }
        }
    }

    fn condition(&mut self, depth: usize) -> Condition {
        match if depth == 0 {
            self.below(2)
        } else {
            self.below(5)
        } {
            0 => {
                let unit = self.of(&[Unit::NONE, Unit::SECONDS, Unit::GPUS]);
                let sides = Box::new([self.expr(unit, depth), self.expr(unit, depth)]);
                let comparison = self.of(Comparison::ALL);
                self.reach(comparison.text());
                Condition::Compare(comparison, sides)
            }
            1 => {
                let column = self.of(TextColumn::ALL);
                self.reach(column.text());
                let texts: &[&str] = match column {
                    TextColumn::Class => &column::CLASSES,
                    _ => &["ann", "", "ü b"],
                };
                Condition::Text(column, self.below(2) == 0, self.of(texts).into())
            }
            2 => Condition::Not(Box::new(self.condition(depth - 1))),
            at => {
                let sides = Box::new([self.condition(depth - 1), self.condition(depth - 1)]);
                match at {
                    3 => Condition::Both(sides),
                    _ => Condition::Either(sides),
                }
            }
        }
    }
}

use column::Unit;

#[test]
fn random_formulas_survive_their_text() {
    let mut random = Random {
        state: 1,
        reached: BTreeSet::new(),
    };
    let mut parts = 0;
    for case in 0..3000 {
        let count = 1 + random.below(3);
        let depth = random.below(5);
        let key = |_| {
            let unit = random.of(&[Unit::NONE, Unit::SECONDS, Unit::GPUS]);
            random.expr(unit, depth)
        };
        let random = Formula {
            keys: (0..count).map(key).collect(),
        };
        let text = random.to_string();
        parts = parts.max(text.len());
        let back = text.parse();
        assert_eq!(back.as_ref(), Ok(&random), "case {case}: {text}");
    }
    assert!(parts > 500, "longest text {parts}");
    let columns = Column::ALL.iter().filter(|c| **c != Column::GpuTime);
    let words = columns.map(|c| c.text());
    let words = words.chain(TextColumn::ALL.iter().map(|c| c.text()));
    let words = words.chain(Operator::ALL.iter().map(|o| o.text()));
    let words = words.chain(Comparison::ALL.iter().map(|c| c.text()));
    let words = words.chain(Function::ALL.iter().map(|f| f.text()));
    let words = words.chain(Suffix::ALL.iter().map(|s| s.text()));
    let missed: Vec<&str> = words
        .filter(|word| !random.reached.contains(word))
        .collect();
    assert_eq!(missed, [""; 0]);
}

#[test]
fn random_texts_are_read_or_refused_with_their_place() {
    let words = [
        "age", "gpus", "8h", "1", "'a'", "user", "where", "min", "(", ")", ",", "+", "-", "*", "<",
        "==", "and", "not", "or", "é", "4gpus", "log", " ",
    ];
    let mut random = Random {
        state: 2,
        reached: BTreeSet::new(),
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..40_000 {
        let count = 1 + random.below(7);
        let text: Vec<&str> = (0..count).map(|_| random.of(&words)).collect();
        let text = text.concat();
        match text.parse::<Formula>() {
            Ok(formula) => {
                assert_eq!(formula.to_string().parse().as_ref(), Ok(&formula), "{text}");
                read += 1;
            }
            Err(error) => {
                let most = text.chars().count() + 1;
                assert!((1..=most).contains(&error.at), "{text}: {error}");
                refused += 1;
            }
        }
    }
    assert!(
        read > 500 && refused > 10_000,
        "{read} read, {refused} refused"
    );
}

/// A state at 1000 s: job 0 was submitted at 100 s, is accepted and waits.
fn state() -> State {
    let mut state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
    let mut spec = JobSpec::new(Time::new(100.0), GpuCount(2), Seconds::new(500.0)).owned_by("ann");
    spec.priority = 7;
    let spec = spec.with_extras(Extras {
        user_estimate: Some(Seconds::new(600.0)),
        attributes: [("stages".into(), 3.into())].into(),
        ..Extras::default()
    });
    let job = JobId(0);
    let spec = spec.into();
    state
        .apply(Time::new(100.0), &Event::Submitted { job, spec })
        .unwrap();
    let admission = AdmissionDecision::Accept {
        class: None,
        deadline: Some(Time::new(5000.0)),
    };
    let accepted = Event::AdmissionDecided { job, admission };
    state.apply(Time::new(1000.0), &accepted).unwrap();
    state
}

#[test]
fn values_of_columns_and_functions_are_these() {
    let state = state();
    let job = state.job(JobId(0)).unwrap();
    for (text, value) in [
        ("submit", 100.0),
        ("now", 1000.0),
        ("age", 900.0),
        ("attained", 0.0),
        ("gpu_time", 0.0),
        ("gpus", 2.0),
        ("priority", 7.0),
        ("weight", 1.0),
        ("deadline", 5000.0),
        ("starts", 0.0),
        ("first_start", f64::MAX),
        ("estimate", 600.0),
        ("estimate_left", 600.0),
        ("true_duration", 500.0),
        ("true_left", 500.0),
        ("attributes.stages", 3.0),
        ("attributes.none", f64::MAX),
        ("-attributes.none", f64::MIN),
        ("2d - 1h - 1min - 1s", 169_139.0),
        ("1 - 2 * 3 / 4", -0.5),
        ("min(3, -priority, 5)", -7.0),
        ("max(3, priority, 5)", 7.0),
        ("abs(3 - priority)", 4.0),
        ("log(age / 900s)", 0.0),
        ("where(user == 'ann' and class != 'spot', 1, 2)", 1.0),
        ("where(not virtual_cluster == '', 1, 2)", 2.0),
        ("where(age > 1h or gpus >= 2gpus, 1, 2)", 1.0),
        ("where(age <= 900s, 1, 0 / 0)", 1.0),
        ("where(gpus == 2gpus, where(gpus != 2gpus, 1, 2), 3)", 2.0),
    ] {
        let found = formula(text).key(0, &job, &UserEstimate);
        assert_eq!(found, value, "{text}");
    }
    for text in [
        "min(1, 0 / 0)",
        "min(0 / 0, 1)",
        "max(1, 0 / 0, 2)",
        "max(0 / 0, 1)",
    ] {
        let odd = formula(text).key(0, &job, &UserEstimate);
        assert!(odd.is_nan(), "{text}");
    }
}

#[test]
fn columns_are_described_with_their_units() {
    let page = include_str!("columns.md");
    for column in Column::ALL {
        let unit = match column.unit() {
            Unit::NONE => String::new(),
            unit => format!(" {unit}"),
        };
        let row = format!("| `{}` |{unit} | ", column.text());
        assert!(page.contains(&row), "no row begins with {row}");
    }
    for column in TextColumn::ALL {
        assert!(page.contains(&format!("`{}`", column.text())));
    }
}

#[test]
fn pace_follows_from_the_columns() {
    let even = |text: &str| match formula(text).pace() {
        Pace::Even(Rate(rate)) => Some(rate.to_string()),
        _ => None,
    };
    for still in [
        "submit",
        "-priority, submit",
        "where(attained < 8h, 0, 1), submit",
        "min(true_left, estimate) * gpus, log(gpus / 1gpus)",
        "deadline, submit, gpus",
    ] {
        assert_eq!(formula(still).pace(), Pace::Still, "{still}");
    }
    assert_eq!(even("-age").as_deref(), Some("-1"));
    assert_eq!(
        even("-((age + true_left) / true_duration), submit").as_deref(),
        Some("-((1 + 0) / true_duration)")
    );
    assert_eq!(
        even("where(user == 'ann', 2 * waiting, deadline - now)").as_deref(),
        Some("where(user == 'ann', 2 * 1, 0 - 1)")
    );
    for uneven in [
        "submit, age",
        "where(age < 1h, 0, 1)",
        "max(age, attained)",
        "abs(deadline - now)",
        "age * age",
        "1 / age",
        "log(age / 1s)",
    ] {
        assert_eq!(formula(uneven).pace(), Pace::Uneven, "{uneven}");
    }
}

#[test]
fn courses_of_running_jobs_follow_from_the_columns() {
    for (text, together, favours) in [
        ("submit", true, true),
        ("attained", true, false),
        ("attained + 1h, submit", true, false),
        ("attained, attained", false, false),
        ("gpu_time", false, false),
        ("2 * attained", false, false),
        ("-attained", false, true),
        ("true_left", false, true),
        ("true_left * gpus, submit", false, true),
        ("true_left * priority", false, false),
        ("true_left / (true_duration + 1s)", false, true),
        ("-true_left", false, false),
        ("where(attained < 8h, 0, 1)", false, false),
        ("where(user == 'ann', true_left, -attained)", false, true),
        ("min(true_left, 1h)", false, true),
        ("abs(true_left)", false, false),
        ("true_left - attained", false, true),
        ("true_left + attained", false, false),
    ] {
        let formula = formula(text);
        assert_eq!(formula.advances_together(), together, "{text}");
        assert_eq!(formula.favours_running(), favours, "{text}");
    }
}
