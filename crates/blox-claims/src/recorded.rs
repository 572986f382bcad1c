//! Recorded results, which the documentation shows.

use crate::check::{Checked, Interval};
use crate::paper::{Claim, Paper, Size, Verdict};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The recorded result of a claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Result as text: mean and interval of each world.
    pub here: String,
    /// Verdict.
    pub verdict: Verdict,
    /// The schedulers of the claim that read true durations of jobs.
    #[serde(default)]
    pub knowing: Vec<String>,
    /// Processor seconds of all runs of the claim, on the machine that recorded it.
    pub seconds: f64,
}

/// Recorded results by scheduler and name of the claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Records(BTreeMap<String, BTreeMap<String, Recorded>>);

static RECORDS: LazyLock<Records> = LazyLock::new(|| {
    let text = include_str!("../claims/recorded.toml");
    toml::from_str(text).unwrap_or_else(|e| panic!("claims/recorded.toml: {e}"))
});

/// Returns the recorded results.
pub fn records() -> &'static Records {
    &RECORDS
}

impl Records {
    /// Returns the result of a claim; `None` if it was never recorded.
    pub fn of(&self, paper: &Paper, claim: &Claim) -> Option<&Recorded> {
        self.0.get(&paper.name)?.get(&claim.name)
    }

    /// Returns these results after some claims were checked, without claims that no file has. A
    /// claim without a verdict keeps its record. The seconds stay unless they differ by more than
    /// half.
    #[must_use]
    pub fn updated(&self, checked: &[Checked]) -> Self {
        let mut all = Records::default();
        for paper in crate::papers() {
            for claim in &paper.claims {
                let before = self.of(paper, claim);
                let is = |c: &&Checked| c.paper.name == paper.name && c.claim.name == claim.name;
                let now = checked.iter().find(is).and_then(Checked::record);
                let Some(mut record) = now.or(before.cloned()) else {
                    continue;
                };
                let kept = before.map(|before| before.seconds);
                let near = |kept: &f64| (0.5..=1.5).contains(&(record.seconds / kept));
                record.seconds = kept.filter(near).unwrap_or(record.seconds);
                let of_paper = all.0.entry(paper.name.clone()).or_default();
                of_paper.insert(claim.name.clone(), record);
            }
        }
        all
    }

    /// Returns the text of the file of these results.
    pub fn file(&self) -> String {
        let mut text = String::from("# Generated: BLOX_BLESS=1 cargo test --test claims\n");
        for paper in crate::papers() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n[{}]", paper.name);
            for (claim, record) in self.rows(paper) {
                let _ = writeln!(
                    text,
                    "{} = {{ here = \"{}\", verdict = \"{}\", knowing = {:?}, seconds = {:.1} }}",
                    claim.name,
                    record.here,
                    record.verdict.as_str().replace(' ', "-"),
                    record.knowing,
                    record.seconds.max(0.1)
                );
            }
        }
        text
    }

    /// Returns the page of all claims in Markdown, below its title.
    pub fn page(&self) -> String {
        let mut text = String::new();
        for paper in crate::papers() {
            let _ = write!(
                text,
                "## {}\n\n{}. Source of the numbers: {}.\n\n\
                 | claim | section | paper | here | verdict | true durations |\n\
                 |---|---|---|---|---|---|\n",
                paper.name,
                paper.paper,
                paper.read.as_str()
            );
            for (claim, record) in self.rows(paper) {
                let source = claim.read.filter(|read| *read != paper.read);
                let source = source.map_or(String::new(), |read| format!(" ({})", read.as_str()));
                let _ = writeln!(
                    text,
                    "| {} | {}{source} | {} | {} | {} | {} |",
                    claim.text(paper),
                    claim.section,
                    claim.paper_text(),
                    record.here,
                    record.verdict,
                    record.known_to()
                );
            }
            let explained = paper.claims.iter().filter_map(|c| Some((c, c.remark()?)));
            let mut before = "\n";
            for line in paper.worlds_text() {
                let _ = writeln!(text, "{before}- {line}");
                before = "";
            }
            before = "\n";
            for (claim, reason) in explained {
                let _ = writeln!(text, "{before}- {}: {reason}", claim.text(paper));
                before = "";
            }
            text.push('\n');
        }
        text
    }

    /// Counts the verdicts of a paper's claims in a sentence.
    pub fn counts(&self, paper: &Paper) -> String {
        let of = |verdict| {
            let all = self.rows(paper);
            all.filter(|(_, record)| record.verdict == verdict).count()
        };
        let all = self.rows(paper).count();
        let [hold, weaker, wrong] = [Verdict::Holds, Verdict::Weaker, Verdict::DoesNotHold].map(of);
        let mut text = match (hold, all) {
            (1, 1) => return "The claim of the paper holds here".to_owned(),
            (2, 2) => return "Both claims of the paper hold here".to_owned(),
            (hold, all) if hold == all => {
                return format!("All {all} claims of the paper hold here");
            }
            (hold, all) => format!("{hold} of {all} claims of the paper hold here"),
        };
        for (count, one, many) in [
            (weaker, "is weaker", "are weaker"),
            (wrong, "does not hold", "do not hold"),
        ] {
            match count {
                0 => {}
                1 => text += &format!(", 1 {one}"),
                n => text += &format!(", {n} {many}"),
            }
        }
        text
    }

    /// Returns the recorded claims of a paper, in order.
    pub fn rows<'a>(&'a self, paper: &'a Paper) -> impl Iterator<Item = (&'a Claim, &'a Recorded)> {
        let claims = paper.claims.iter();
        claims.filter_map(|claim| Some((claim, self.of(paper, claim)?)))
    }
}

impl Recorded {
    /// Formats the schedulers that read true durations; a dash if none does.
    pub fn known_to(&self) -> String {
        let names = self.knowing.iter().map(|name| format!("`{name}`"));
        match self.knowing.is_empty() {
            true => "-".to_owned(),
            false => names.collect::<Vec<_>>().join(", "),
        }
    }
}

impl Checked {
    /// Returns the result as a record; `None` without a verdict.
    pub fn record(&self) -> Option<Recorded> {
        Some(Recorded {
            here: self.here_text(),
            verdict: self.verdict?,
            knowing: self.knowing.clone(),
            seconds: self.seconds,
        })
    }

    /// Formats the result: mean and interval of each world.
    pub fn here_text(&self) -> String {
        if self.here.is_empty() {
            return "-".to_owned();
        }
        let texts: Vec<String> = self.here.iter().map(ToString::to_string).collect();
        texts.join(" / ")
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&number(self.median))?;
        if self.low < self.high {
            write!(f, " ({} to {})", number(self.low), number(self.high))?;
        }
        Ok(())
    }
}

/// Formats a number with about three digits.
fn number(value: f64) -> String {
    let places = match value.abs() {
        _ if value.is_nan() => return "-".to_owned(),
        v if v.is_infinite() => return "infinite".to_owned(),
        0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    // A bound that is rounded to 0 has no sign.
    match text.trim_start_matches(['-', '0', '.']).is_empty() {
        true => "0".to_owned(),
        false => text,
    }
}

impl Claim {
    /// Formats the size in the paper; a dash if it states only the direction.
    pub fn paper_text(&self) -> String {
        let texts = |all: &[f64]| all.iter().map(|v| number(*v)).collect::<Vec<_>>();
        match &self.paper {
            None => "-".to_owned(),
            Some(Size::Number(value)) => number(*value),
            Some(Size::Numbers(all)) if self.worlds.len() > 1 => texts(all).join(" / "),
            Some(Size::Numbers(all)) => texts(all).join(" to "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let texts = [0.0, 0.004, -0.001, 1.0, 12.345, 1234.5, f64::INFINITY].map(number);
        assert_eq!(texts, ["0", "0", "0", "1.00", "12.3", "1234", "infinite"]);
        let interval = |low, high| {
            Interval {
                median: 2.0,
                low,
                high,
            }
            .to_string()
        };
        assert_eq!(interval(1.5, 2.75), "2.00 (1.50 to 2.75)");
        assert_eq!(interval(2.0, 2.0), "2.00");
    }

    #[test]
    fn records_are_written_as_read() {
        let again: Records = toml::from_str(&records().updated(&[]).file()).unwrap();
        assert_eq!(&again, records());
    }
}
