//! The claims of papers, as data.

use crate::ClaimsError;
use crate::contestant::Contestant;
use crate::metric::Metric;
use crate::world::World;
use blox_core::suggest::did_you_mean;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use toml::{Table, Value};

/// The claims of a scheduler's paper, with the worlds in which they are checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// Name of the scheduler, from the name of the file.
    #[serde(skip)]
    pub name: String,
    /// Publication.
    pub paper: String,
    /// Source of the numbers.
    pub read: Read,
    /// Worlds by name. In a file, a world may be `like` another one with some other keys, and
    /// `every-kind` states keys of all its kinds of jobs.
    pub worlds: BTreeMap<String, World>,
    /// The claims, in order of their tables.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

impl Paper {
    /// Returns a line about each world of the claims: its name in their text, cluster, load, jobs and
    /// seeds.
    pub fn worlds_text(&self) -> Vec<String> {
        let line = |(name, world): (&String, &World)| match self.worlds.len() {
            1 => format!("world: {world}"),
            _ => format!("world *{}*: {world}", name.replace('-', " ")),
        };
        self.worlds.iter().map(line).collect()
    }
}

/// Source of a paper's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Read {
    /// The text of the paper was read.
    Text,
    /// Only the abstract was read.
    Abstract,
    /// The authors' slides were read.
    Slides,
    /// The released program or its results were read.
    Artifact,
    /// The number is from second hand.
    SecondHand,
    /// The number is not published. It follows from the paper's rules, or from a model of them.
    Derived,
}

impl Read {
    /// Returns the words in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Read::Text => "text",
            Read::Abstract => "abstract",
            Read::Slides => "slides",
            Read::Artifact => "artifact",
            Read::SecondHand => "second hand",
            Read::Derived => "derived",
        }
    }
}

/// A claim: a metric of a scheduler, compared with the same metric of baselines.
///
/// The claim has one of three forms:
///
/// - *factor*: with `against` and one world. For each seed, the metric of the best baseline is
///   divided by the scheduler's, or the reverse if more is better. A factor above 1 is better. The
///   result is the median of the factors over the seeds.
/// - *trend*: with `against` and several worlds. The factor must rise from world to world.
/// - *value*: without `against`. The median of the metric over the seeds must be within `between`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// Name, unique in the file.
    pub name: String,
    /// Section, table or figure of the paper.
    pub section: String,
    /// Source of the number, if it is not the source of the file.
    pub read: Option<Read>,
    /// Worlds; by default the only world of the file.
    #[serde(default)]
    pub worlds: Vec<String>,
    /// The scheduler, if it has parameters or other policies.
    pub ours: Option<Contestant>,
    /// Baselines. The best of them counts.
    #[serde(default)]
    pub against: Vec<Contestant>,
    /// Metric.
    pub metric: Metric,
    /// Size in the paper: a factor, a range of factors, a factor for each world, or a value. `None`
    /// if the paper states only the direction.
    pub paper: Option<Size>,
    /// Least factor at which the claim holds. It is the tolerance: the worlds are smaller than the
    /// paper's. With 1 or less, the scheduler need not be better.
    #[serde(default = "one")]
    pub holds_from: f64,
    /// True if the factor of every single seed must reach `holds-from`.
    #[serde(default)]
    pub every_seed: bool,
    /// Least and largest value.
    pub between: Option<(f64, f64)>,
    /// True if the claim is not in the fast set.
    #[serde(default)]
    pub slow: bool,
    /// Expected verdict.
    #[serde(default)]
    pub expect: Verdict,
    /// Reason for an expected verdict other than `holds`.
    pub reason: Option<String>,
    /// Condition of the result, for a claim that holds.
    pub note: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// Size of a claim in the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// A number.
    Number(f64),
    /// A range, or a number for each world of a trend.
    Numbers(Vec<f64>),
}

/// Verdict about a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The factor reaches `holds-from` and is above 1 in the whole interval of 95 %. Or the value is
    /// within its bounds.
    #[default]
    Holds,
    /// The mean factor is above 1, but smaller or less certain.
    Weaker,
    /// The direction is wrong, a run failed, or the scheduler left jobs unfinished.
    DoesNotHold,
}

impl Verdict {
    /// Returns the words in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Weaker => "weaker",
            Verdict::DoesNotHold => "does not hold",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Claim {
    /// Returns the reason of the verdict, or what the result rests on.
    pub fn remark(&self) -> Option<&str> {
        self.reason.as_deref().or(self.note.as_deref())
    }

    /// Returns the worlds in which the claim is checked, in words.
    pub fn worlds_text(&self, paper: &Paper) -> String {
        let known = self.worlds.iter().filter_map(|name| paper.worlds.get(name));
        let worlds: Vec<String> = match self.worlds.is_empty() {
            true => paper
                .worlds
                .values()
                .take(1)
                .map(World::to_string)
                .collect(),
            false => known.map(World::to_string).collect(),
        };
        worlds.join("; ")
    }

    /// Returns the claim in words, such as ``average JCT against `fifo` ``.
    pub fn text(&self, paper: &Paper) -> String {
        let list = |all: &[Contestant]| {
            let names: Vec<String> = all.iter().map(|c| format!("`{c}`")).collect();
            match names.len() {
                0..=2 => names.join(" and "),
                n => format!("the best of {n} others, such as {}", names[0]),
            }
        };
        let mut text = self.metric.to_string();
        if let Some(ours) = &self.ours {
            text += &format!(" of `{ours}`");
        }
        if !self.against.is_empty() {
            text += &format!(" against {}", list(&self.against));
        }
        match self.worlds.as_slice() {
            [] => {}
            [_] if paper.worlds.len() == 1 => {}
            [world] => text += &format!(", {}", world.replace('-', " ")),
            all => text += &format!(", rising over {}", all.join(", ").replace('-', " ")),
        }
        text
    }

    /// Returns the scheduler of the claim.
    pub(crate) fn ours(&self, paper: &Paper) -> Contestant {
        self.ours
            .clone()
            .unwrap_or_else(|| Contestant::of(&paper.name))
    }

    /// Returns the names of the worlds.
    pub(crate) fn worlds<'a>(&'a self, paper: &'a Paper) -> Vec<&'a str> {
        match self.worlds.is_empty() {
            true => paper.worlds.keys().take(1).map(String::as_str).collect(),
            false => self.worlds.iter().map(String::as_str).collect(),
        }
    }
}

impl Paper {
    fn parsed(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let mut file: Table = toml::from_str(text)?;
        if let Some(Value::Table(worlds)) = file.get_mut("worlds") {
            let names: Vec<String> = worlds.keys().cloned().collect();
            for name in &names {
                inherit(name, worlds);
            }
            for (_, world) in worlds.iter_mut() {
                share(world);
            }
        }
        let mut paper: Paper = file.try_into()?;
        name.clone_into(&mut paper.name);
        Ok(paper)
    }
}

/// Takes the missing keys of a world from the world that it is `like`.
fn inherit(name: &str, worlds: &mut Table) {
    let Some(Value::Table(world)) = worlds.get_mut(name) else {
        return;
    };
    if let Some(Value::String(other)) = world.remove("like") {
        inherit(&other, worlds);
        let other = worlds.get(&other).cloned();
        if let (Some(Value::Table(world)), Some(Value::Table(other))) =
            (worlds.get_mut(name), other)
        {
            fill(world, &other);
        }
    }
}

/// Takes the missing keys of each kind of jobs from `every-kind`.
fn share(world: &mut Value) {
    let Value::Table(world) = world else { return };
    let Some(Value::Table(common)) = world.remove("every-kind") else {
        return;
    };
    if let Some(Value::Array(kinds)) = world.get_mut("kinds") {
        for kind in kinds {
            if let Value::Table(kind) = kind {
                fill(kind, &common);
            }
        }
    }
}

/// Adds the missing keys of a table.
fn fill(table: &mut Table, from: &Table) {
    for (key, value) in from {
        if !table.contains_key(key) {
            table.insert(key.clone(), value.clone());
        }
    }
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Names and texts of the files.
        const FILES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../claims/", $name, ".toml")))),*
        ];
    };
}

files![
    "tiresias",
    "gandiva",
    "themis",
    "optimus",
    "pollux",
    "sia",
    "shockwave",
    "gavel",
    "finish-time-fairness",
    "allox",
    "elasticflow",
    "chronus",
    "lucid",
    "qssf",
    "helios-ces",
    "synergy",
    "muri",
    "pal",
    "load-admission",
    "loss-termination",
    "bandwidth-placement",
    "synthesizer",
    "tiresias-plus",
    "eva",
    "gfs",
    "rubick",
    "cassini",
    "antman",
    "gandiva-fair",
    "hived",
];

static PAPERS: LazyLock<Vec<Paper>> = LazyLock::new(|| {
    let parsed = |(name, text): &(&str, &str)| {
        Paper::parsed(name, text).unwrap_or_else(|e| panic!("claims/{name}.toml: {e}"))
    };
    FILES.iter().map(parsed).collect()
});

/// Returns the claims of all papers, in the order of the publications.
pub fn papers() -> &'static [Paper] {
    &PAPERS
}

/// Returns the claims that names select: `NAME` of a scheduler, or `NAME/CLAIM` for one claim.
/// Without names, all claims. With `fast`, only claims of the fast set.
///
/// # Errors
/// A name is unknown.
pub fn selected(
    names: &[String],
    fast: bool,
) -> Result<Vec<(&'static Paper, &'static Claim)>, ClaimsError> {
    let all = || {
        let papers = papers().iter();
        papers.flat_map(|paper| paper.claims.iter().map(move |claim| (paper, claim)))
    };
    let is = |name: &str, (paper, claim): &(&Paper, &Claim)| match name.split_once('/') {
        None => paper.name == name,
        Some((scheduler, rest)) => paper.name == scheduler && claim.name == rest,
    };
    for name in names {
        if !all().any(|claim| is(name, &claim)) {
            let of_claims = |(p, c): (&Paper, &Claim)| format!("{}/{}", p.name, c.name);
            let names = papers().iter().map(|p| p.name.clone());
            let known: Vec<String> = match name.split_once('/') {
                Some((scheduler, _)) if papers().iter().any(|p| p.name == scheduler) => all()
                    .filter(|(p, _)| p.name == scheduler)
                    .map(of_claims)
                    .collect(),
                _ => names.collect(),
            };
            return Err(ClaimsError::Unknown {
                suggestion: did_you_mean(name, known.iter().map(String::as_str), "; "),
                known: known.join(", "),
                name: name.clone(),
            });
        }
    }
    let chosen = |found: &(&Paper, &Claim)| {
        (names.is_empty() || names.iter().any(|name| is(name, found))) && !(fast && found.1.slow)
    };
    Ok(all().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_claim_is_complete() {
        for paper in papers() {
            let mut names = BTreeSet::new();
            assert!(paper.claims.iter().any(|c| !c.slow), "{}", paper.name);
            for claim in &paper.claims {
                let place = format!("{}/{}", paper.name, claim.name);
                assert!(names.insert(&claim.name), "{place}");
                let worlds = claim.worlds(paper);
                let known = |world: &&str| paper.worlds.contains_key(*world);
                assert!(worlds.iter().all(known), "{place}: {worlds:?}");
                assert!(
                    !claim.worlds.is_empty() || paper.worlds.len() == 1,
                    "{place}"
                );
                assert_eq!(claim.against.is_empty(), claim.between.is_some(), "{place}");
                assert!(!claim.section.is_empty(), "{place}");
                let explained = claim.reason.is_some();
                assert_eq!(explained, claim.expect != Verdict::Holds, "{place}");
                for world in worlds {
                    let world = &paper.worlds[world];
                    assert!(world.seeds >= 5, "{place}");
                    assert_eq!(world.kinds.is_empty(), world.workload.is_some(), "{place}");
                }
            }
            let used: BTreeSet<&str> = paper.claims.iter().flat_map(|c| c.worlds(paper)).collect();
            let all: BTreeSet<&str> = paper.worlds.keys().map(String::as_str).collect();
            assert_eq!(used, all, "{}: worlds without a claim", paper.name);
        }
    }

    #[test]
    fn a_world_takes_missing_keys_from_another() {
        let text = "paper = 'A'\nread = 'text'\nclaim = []\n\
            [worlds.a]\nlike = 'b'\njobs = 7\nkinds = [{ duration = 60 }, { share = 2, duration = 30 }]\n\
            [worlds.b]\ncluster = '1x4'\njobs = 9\nkinds = [{ duration = 60 }]\n\
            every-kind = { share = 3, gpus = [[1, 2]] }";
        let paper = Paper::parsed("a", text).unwrap();
        let (a, b) = (&paper.worlds["a"], &paper.worlds["b"]);
        assert_eq!((a.jobs, b.jobs, a.cluster.as_str()), (7, 9, "1x4"));
        let shares: Vec<f64> = a.kinds.iter().map(|kind| kind.share).collect();
        assert_eq!(shares, [3.0, 2.0]);
        assert_eq!(a.kinds[1].gpus, [(1.0, 2)]);
    }

    #[test]
    fn unknown_name_suggests_a_known_one() {
        let text = |name: &str| {
            selected(&[name.to_owned()], false)
                .err()
                .map(|e| e.to_string())
        };
        let error = text("tiresia").unwrap();
        assert!(
            error.starts_with("there are no claims of `tiresia`, did you mean `tiresias`? known: "),
            "{error}"
        );
        let error = text("tiresias/fif").unwrap();
        assert!(error.contains("known: tiresias/"), "{error}");
        assert_eq!(text("tiresias"), None);
    }
}
