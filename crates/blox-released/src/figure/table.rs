//! Numbers, claims and pictures of a figure, from its description and the measured numbers.

use super::{Cited, Claim, Figure, Findings, Read, Row};
use blox_core::{SortedMap, sort};
use blox_plot::{Axis, BarChart, Chart, Series};
use blox_results::statistics::Estimate;
use serde::Deserialize;
use std::cmp::Ordering;

/// Order of the printed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// Measure by measure.
    #[default]
    Measures,
    /// Group by group, and in it measure by measure.
    Groups,
    /// Cell by cell.
    Cells,
}

/// A measure: a number for each cell, or a number for each group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    what: String,
    decimals: usize,
    follows: Option<Follows>,
    /// Measure from which it follows.
    #[serde(default)]
    of: usize,
    /// Published numbers of the cells. `nan` marks a missing one.
    #[serde(default)]
    published: Vec<f64>,
    /// Published numbers of groups that are known only from the data.
    #[serde(default)]
    of_group: SortedMap<String, Vec<f64>>,
    /// Sources of the published numbers by column, instead of the sources of the figure.
    #[serde(default)]
    paper: Vec<String>,
    /// Place of the published numbers in the paper, instead of the place of the figure.
    read: Option<Read>,
    /// Numbers of the released program, as a count if `counted` has the numbers of all jobs by
    /// group.
    #[serde(default)]
    artifact: Vec<f64>,
    #[serde(default)]
    counted: Vec<f64>,
    /// Sources of the released program's numbers by column, instead of the sources of the figure.
    #[serde(default)]
    program: Vec<String>,
}

/// A number for each group that follows from the cells of a measure. The same follows from the
/// numbers of the released program if their source is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum Follows {
    /// Least number of some columns over the least of others. An empty list means all others, and
    /// a column beyond the last one means the last one.
    Ratio(Vec<usize>, Vec<usize>),
    /// Largest of the ratios of two columns in all groups.
    Largest(usize, usize),
    /// Mean of the columns.
    Mean,
    /// Mean of the columns of one group over the mean of the group's own columns.
    Over(usize),
    /// Difference of the mean from the released program's mean, in percent.
    Apart,
}

/// A claim. With `{g}` in its text, it is a claim about each group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    text: String,
    tests: Vec<Test>,
}

/// A condition on the numbers of a measure in some groups. Pairs are columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    #[serde(default)]
    row: usize,
    /// First group, and the group after the last.
    groups: Option<(usize, usize)>,
    /// The first is less than `by` times the second.
    #[serde(default)]
    less: Vec<(usize, usize)>,
    /// The first is at most `by` times the second.
    #[serde(default)]
    most: Vec<(usize, usize)>,
    #[serde(default = "one")]
    by: f64,
    /// All numbers differ from the numbers of the released program by less than this.
    same: Option<f64>,
    /// All numbers differ from the numbers of the released program by less than this fraction.
    like: Option<f64>,
    /// All numbers are at most this part of the published and the released program's ones.
    faster: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// A picture of a measure in some groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drawing {
    /// Name of its file, or the name of the figure.
    name: Option<String>,
    title: String,
    #[serde(default)]
    row: usize,
    groups: Option<(usize, usize)>,
    kind: Kind,
    /// Horizontal positions of the points of a line.
    #[serde(default)]
    at: Vec<f64>,
    x: Option<Scale>,
    y: Scale,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Bars of the columns, in groups.
    Bars,
    /// A bar for each cell, in a group of the name of its column.
    Apart,
    /// Bars of the groups, in a group of this name.
    Together(String),
    /// Bars of the number here and of the released program for each column.
    Beside,
    /// Bars of several measures with these names for each column.
    Measures(Vec<String>),
    /// A line over groups for each column.
    Lines,
    /// A line over columns for each group.
    Across,
    /// A distribution for each column.
    Distribution,
}

/// An axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    seconds: Option<String>,
    fraction: Option<String>,
    number: Option<String>,
    #[serde(default)]
    log: bool,
    from: Option<f64>,
    to: Option<f64>,
}

impl Scale {
    fn axis(&self) -> Axis {
        let mut axis = match (&self.seconds, &self.fraction, &self.number) {
            (Some(label), ..) => Axis::seconds(label),
            (_, Some(label), _) => Axis::fraction(label),
            (.., label) => Axis::new(label.as_deref().unwrap_or_default()),
        };
        if self.log {
            axis = axis.log();
        }
        axis = self.from.map_or(axis.clone(), |from| axis.from(from));
        self.to.map_or(axis.clone(), |to| axis.to(to))
    }
}

/// Returns an entry of a list. The last entry also stands for all further ones.
pub(super) fn nth<T>(list: &[T], i: usize) -> Option<&T> {
    list.get(i).or(list.last())
}

/// Measured numbers of a figure.
#[derive(Default)]
pub(crate) struct Numbers {
    /// Numbers of all cells, for each measure that does not follow from others.
    pub measures: Vec<Vec<f64>>,
    /// Values of each column in a distribution.
    pub samples: Vec<Vec<f64>>,
    /// Groups that are known only from the data.
    pub groups: Vec<String>,
}

impl Numbers {
    /// Creates the numbers of these measures.
    pub fn of(measures: impl Into<Vec<Vec<f64>>>) -> Self {
        Numbers {
            measures: measures.into(),
            ..Numbers::default()
        }
    }
}

/// The numbers of a measure, by group and column.
type Cells = Vec<Vec<f64>>;

impl Figure {
    /// Returns the names of the groups.
    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Returns the names of the columns of a group.
    pub(crate) fn columns(&self, group: usize) -> &[String] {
        nth(&self.columns, group).map_or(&[], |columns| columns)
    }

    /// Returns the rows, claims and pictures of measured numbers, and the figure's notes.
    pub(crate) fn findings(&'static self, numbers: Numbers) -> Findings {
        self.findings_over(vec![numbers])
    }

    /// Returns the findings from the numbers of several workloads. The first is the one on which
    /// the released program ran.
    pub(crate) fn findings_over(&'static self, mut all: Vec<Numbers>) -> Findings {
        let mut numbers = match all.is_empty() {
            true => Numbers::default(),
            false => all.remove(0),
        };
        let mut groups = &self.groups;
        if groups.is_empty() {
            groups = &numbers.groups;
        }
        let groups = match &groups[..] {
            [] => &[String::new()][..],
            groups => groups,
        };
        let mut shown = Shown::of(self, groups, numbers.measures);
        for others in all {
            shown
                .others
                .push(Shown::of(self, groups, others.measures).ours);
            let pairs = numbers.samples.iter_mut().zip(others.samples);
            pairs.for_each(|(all, more)| all.extend(more));
        }
        let mut findings = Findings {
            rows: shown.rows(),
            claims: shown.claims(),
            notes: self.notes.clone(),
            pictures: Vec::new(),
        };
        for drawing in &self.pictures {
            let name = drawing.name.as_ref().unwrap_or(&self.name);
            findings.picture(name, shown.draw(drawing, &numbers.samples));
        }
        findings
    }
}

/// A figure with its numbers.
struct Shown<'a> {
    figure: &'static Figure,
    groups: &'a [String],
    /// Numbers of each measure here, of the released program, and of the publication.
    ours: Vec<Cells>,
    /// Numbers of each measure here with each other seed.
    others: Vec<Vec<Cells>>,
    theirs: Vec<Cells>,
    published: Vec<Cells>,
}

impl<'a> Shown<'a> {
    fn of(figure: &'static Figure, groups: &'a [String], measures: Vec<Vec<f64>>) -> Self {
        let mut shown = Shown {
            figure,
            groups,
            ours: Vec::new(),
            others: Vec::new(),
            theirs: Vec::new(),
            published: Vec::new(),
        };
        let mut measures = measures.into_iter();
        for rows in &figure.rows {
            let (ours, theirs) = match &rows.follows {
                None => {
                    let mut theirs = shown.cells(&rows.artifact);
                    for (g, cells) in theirs.iter_mut().enumerate() {
                        let all = nth(&rows.counted, g).unwrap_or(&1.0);
                        cells.iter_mut().for_each(|count| *count /= all);
                    }
                    (shown.cells(&measures.next().unwrap_or_default()), theirs)
                }
                Some(Follows::Apart) => {
                    let pairs = shown.ours[rows.of].iter().zip(&shown.theirs[rows.of]);
                    let apart = pairs.map(|(a, b)| vec![100.0 * (mean(a) / mean(b) - 1.0).abs()]);
                    (apart.collect(), shown.cells(&[]))
                }
                Some(follows) => {
                    let source = |of: &Vec<Cells>| follows.of(&of[rows.of]);
                    let theirs = match rows.program.is_empty() {
                        true => shown.cells(&[]),
                        false => source(&shown.theirs),
                    };
                    (source(&shown.ours), theirs)
                }
            };
            shown.ours.push(ours);
            shown.theirs.push(theirs);
            let mut published = shown.cells(&rows.published);
            for (cells, group) in published.iter_mut().zip(groups) {
                if let Some(numbers) = rows.of_group.get(group) {
                    cells.clone_from(numbers);
                }
            }
            shown.published.push(published);
        }
        shown
    }

    /// Arranges numbers by group and column.
    fn cells(&self, list: &[f64]) -> Cells {
        let mut all = (0..).map(|i| nth(list, i).copied().unwrap_or(f64::NAN));
        let group = |g| all.by_ref().take(self.figure.columns(g).len()).collect();
        (0..self.groups.len()).map(group).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let mut all = Vec::new();
        for (r, rows) in self.figure.rows.iter().enumerate() {
            for (g, cells) in self.ours[r].iter().enumerate() {
                for (c, ours) in cells.iter().enumerate() {
                    let column = self.figure.columns(g).get(c).map_or("", String::as_str);
                    let what = rows.what.replace("{g}", &self.groups[g]);
                    let what = what.replace("{c}", column);
                    let read = rows.read.unwrap_or(self.figure.read);
                    let cite =
                        |of: &Cells, own: &'static [String], all: &'static [String], read| {
                            let source = nth(own, c).or(nth(all, c))?;
                            let value = of.get(g)?.get(c).copied().filter(|v| !v.is_nan())?;
                            Some(Cited {
                                value,
                                source,
                                read,
                            })
                        };
                    let (paper, program) = (&self.figure.paper, &self.figure.program);
                    let row = Row {
                        what: what.trim_end_matches(", ").to_owned(),
                        published: cite(&self.published[r], &rows.paper, paper, Some(read)),
                        artifact: cite(&self.theirs[r], &rows.program, program, None),
                        ours: *ours,
                        seeds: self.estimate(r, g, c),
                        decimals: rows.decimals,
                    };
                    all.push((g, c, row));
                }
            }
        }
        let order = self.figure.order;
        sort::by(&mut all, |a, b| match order {
            Order::Measures => Ordering::Equal,
            Order::Groups => a.0.cmp(&b.0),
            Order::Cells => (a.0, a.1).cmp(&(b.0, b.1)),
        });
        all.into_iter().map(|(.., row)| row).collect()
    }

    /// Returns a number with every seed.
    fn with_seeds(&self, r: usize, g: usize, c: usize) -> impl Iterator<Item = f64> + '_ {
        let all = std::iter::once(&self.ours).chain(&self.others);
        all.filter_map(move |measures| measures[r].get(g)?.get(c).copied())
    }

    /// Returns the median of a number over seeds, if there are several.
    fn estimate(&self, r: usize, g: usize, c: usize) -> Option<Estimate> {
        let values: Vec<f64> = self.with_seeds(r, g, c).collect();
        Estimate::of(&values).filter(|e| e.n > 1)
    }

    /// Returns the medians over seeds of the numbers of a group.
    fn medians(&self, r: usize, g: usize) -> Vec<f64> {
        let one = |(c, ours): (usize, &f64)| self.estimate(r, g, c).map_or(*ours, |e| e.median);
        self.ours[r][g].iter().enumerate().map(one).collect()
    }

    fn claims(&self) -> Vec<Claim> {
        let of_groups = |claim: &&Statement| claim.text.contains("{g}");
        let claims = self.figure.claims.iter();
        let mut all = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            for claim in claims.clone().filter(of_groups) {
                if claim.tests.iter().all(|t| within(t.groups, g)) {
                    let holds = claim.tests.iter().all(|t| self.holds(t, g));
                    all.push(Claim::new(claim.text.replace("{g}", group), holds));
                }
            }
        }
        for claim in claims.filter(|claim| !of_groups(claim)) {
            let in_all = |t: &Test| {
                let mut groups = (0..self.groups.len()).filter(|g| within(t.groups, *g));
                groups.all(|g| self.holds(t, g))
            };
            all.push(Claim::new(&claim.text, claim.tests.iter().all(in_all)));
        }
        all
    }

    /// Returns true if a condition holds in a group. It does not compare missing columns.
    ///
    /// Columns are compared seed by seed, by the median of their differences, and with known numbers
    /// by the first seed.
    fn holds(&self, test: &Test, group: usize) -> bool {
        let ours = &self.ours[test.row][group];
        let pair = |(a, b): &(usize, usize), holds: fn(f64) -> bool| {
            let of = |column: usize| self.with_seeds(test.row, group, column);
            let apart: Vec<f64> = of(*a).zip(of(*b)).map(|(a, b)| a - test.by * b).collect();
            Estimate::of(&apart).is_none_or(|e| holds(e.median))
        };
        let all = |within: Option<f64>, apart: fn(f64, f64) -> f64| {
            let mut both = ours.iter().zip(&self.theirs[test.row][group]);
            within.is_none_or(|w| both.all(|(a, b)| b.is_nan() || apart(*a, *b).abs() < w))
        };
        test.less.iter().all(|p| pair(p, |apart| apart < 0.0))
            && test.most.iter().all(|p| pair(p, |apart| apart <= 0.0))
            && all(test.same, |a, b| a - b)
            && all(test.like, |a, b| a / b - 1.0)
            && test.faster.is_none_or(|part| {
                let known = [&self.published, &self.theirs].map(|of| &of[test.row][group]);
                let within = |(a, b): (&f64, &f64)| b.is_nan() || *a <= part * b;
                known
                    .iter()
                    .all(|known| ours.iter().zip(*known).all(within))
            })
    }

    fn draw(&self, drawing: &Drawing, samples: &[Vec<f64>]) -> String {
        let (title, y) = (&drawing.title, drawing.y.axis());
        let (first, columns) = (&self.ours[drawing.row], self.figure.columns(0));
        let medians = (0..first.len()).map(|g| self.medians(drawing.row, g));
        let ours: Vec<Vec<f64>> = medians.collect();
        let groups = (0..self.groups.len()).filter(|g| within(drawing.groups, *g));
        let named = |g: usize| (&self.groups[g], self.figure.columns(g).iter().zip(&ours[g]));
        let x = drawing.x.as_ref().map_or(Axis::new(""), Scale::axis);
        let at = || drawing.at.iter().copied();
        let bars = BarChart::new(title, y.clone());
        let bars = match &drawing.kind {
            Kind::Distribution => {
                let lines = columns.iter().zip(samples);
                let lines = lines.map(|(name, all)| Series::distribution(name, all.clone()));
                return Chart::distribution(title, y).with_all(lines).svg();
            }
            Kind::Lines => {
                let line = |(c, name): (usize, &String)| {
                    Series::line(name, at().zip(groups.clone().map(|g| ours[g][c])))
                };
                let lines = columns.iter().enumerate().map(line);
                return Chart::new(title, x, y).with_all(lines).svg();
            }
            Kind::Across => {
                let line = |g: usize| Series::line(&self.groups[g], at().zip(ours[g].clone()));
                return Chart::new(title, x, y).with_all(groups.map(line)).svg();
            }
            Kind::Bars => groups.map(named).fold(bars, |bars, (group, cells)| {
                bars.with(group, cells.map(|(name, v)| (name, *v)))
            }),
            Kind::Apart => groups.map(named).fold(bars, |bars, (group, cells)| {
                cells.fold(bars, |bars, (name, v)| bars.with(name, [(group, *v)]))
            }),
            Kind::Together(name) => bars.with(name, groups.map(|g| (&self.groups[g], ours[g][0]))),
            Kind::Beside => columns.iter().enumerate().fold(bars, |bars, (c, name)| {
                let theirs = self.theirs[drawing.row][0][c];
                bars.with(name, [("here", first[0][c]), ("original program", theirs)])
            }),
            Kind::Measures(names) => columns.iter().enumerate().fold(bars, |bars, (c, name)| {
                let numbers = (0..self.ours.len()).map(|r| self.medians(r, 0)[c]);
                bars.with(name, names.iter().zip(numbers))
            }),
        };
        bars.svg()
    }
}

fn within(groups: Option<(usize, usize)>, group: usize) -> bool {
    groups.is_none_or(|(from, to)| (from..to).contains(&group))
}

impl Follows {
    /// Returns the numbers that follow from the cells of a measure.
    fn of(&self, cells: &Cells) -> Cells {
        match self {
            Follows::Ratio(above, below) => {
                let least = |cells: &[f64], some: &[usize], others: &[usize]| {
                    let last = cells.len().saturating_sub(1);
                    let has = |list: &[usize], c| list.iter().any(|l| c == last.min(*l));
                    let counts = |c: &usize| match some {
                        [] => !has(others, *c),
                        some => has(some, *c),
                    };
                    let some = (0..cells.len()).filter(counts).map(|c| cells[c]);
                    some.fold(f64::INFINITY, f64::min)
                };
                let ratio = |group: &Vec<f64>| {
                    vec![least(group, above, below) / least(group, below, above)]
                };
                cells.iter().map(ratio).collect()
            }
            Follows::Largest(above, below) => {
                let ratios = cells.iter().map(|group| group[*above] / group[*below]);
                vec![vec![ratios.fold(0.0, f64::max)]]
            }
            Follows::Mean => cells.iter().map(|group| vec![mean(group)]).collect(),
            Follows::Apart => Cells::new(),
            Follows::Over(one) => {
                let one = cells.get(*one).map_or(f64::NAN, |group| mean(group));
                cells.iter().map(|group| vec![one / mean(group)]).collect()
            }
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |sum, v| sum + v) / values.len() as f64
}
