//! Results of a plan whose settings vary: medians over seeds for each scheduler and setting.

use crate::assumptions::{Assumptions, Setting};
use crate::plan::{Cell, Plan, Planned, shown};
use crate::results::{assumed, measured_in_each};
use blox_results::grid::{About, Form, Grid};
use blox_results::losses::{self, Lost};
use blox_results::{
    Fields, FigureRow, MEDIANS, Rows, estimate, flattened, in_groups, intervals, of_rho, partial,
    table_of, whole,
};
use serde_json::Value;

/// A finished run of a sweep, without the rows of its jobs.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The [flat](flattened) figures of the run.
    pub row: Fields,
    /// The figures of each group of jobs.
    pub groups: Vec<Fields>,
    /// Jobs and data that the figures leave out.
    pub lost: Lost,
}

impl Finished {
    /// Returns what is kept of a run, from the content of its `summary.json`.
    pub fn of(figures: Fields, lost: Lost) -> Self {
        let groups = figures.get("groups").and_then(Value::as_array);
        let of_group = |group: &Value| {
            let mut group = group.as_object().cloned().unwrap_or_default();
            // These figures are of the run.
            for name in ["scheduler", "ended", "end_s"] {
                group.extend(figures.get(name).map(|v| (name.to_owned(), v.clone())));
            }
            flattened(group)
        };
        Finished {
            groups: groups.into_iter().flatten().map(of_group).collect(),
            row: flattened(figures),
            lost,
        }
    }
}

/// Rows that differ only in their seeds, with their scheduler and setting.
type Group<'a> = (Vec<String>, Vec<&'a Fields>);

/// Results of the finished runs of a plan.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct VariedResults<'a, 'r> {
    plan: &'a Plan<'r>,
    runs: Vec<(&'a Planned, &'a Finished)>,
}

impl<'a, 'r> VariedResults<'a, 'r> {
    /// Collects the runs of a plan, in its order; `None` for a run that is not finished.
    pub fn of(plan: &'a Plan<'r>, runs: impl IntoIterator<Item = Option<&'a Finished>>) -> Self {
        let runs = plan.runs.iter().zip(runs);
        VariedResults {
            plan,
            runs: runs.filter_map(|(run, done)| Some((run, done?))).collect(),
        }
    }

    /// Returns the figures of the runs.
    pub fn rows(&self) -> impl Iterator<Item = &'a Fields> {
        self.runs.iter().map(|(_, done)| &done.row)
    }

    /// Returns the figures of the groups of jobs of the runs.
    pub fn group_rows(&self) -> impl Iterator<Item = &'a Fields> {
        self.runs.iter().flat_map(|(_, done)| &done.groups)
    }

    /// Returns the axes other than seeds.
    fn axes(&self) -> Vec<usize> {
        let all = 0..self.plan.axes.len();
        all.filter(|i| self.plan.axes[*i].key != "seed").collect()
    }

    /// Returns the values of these axes.
    fn setting(&self, cell: &Cell<'_>) -> impl Iterator<Item = String> {
        let axes = self.axes().into_iter();
        axes.map(|i| shown(&cell.varied[i]))
    }

    /// Returns the scheduler and the setting of a run.
    fn key(&self, run: &Planned) -> Vec<String> {
        let mut key = vec![self.plan.label(run).to_owned()];
        key.extend(self.setting(&self.plan.cells[run.cell]));
        key
    }

    /// Groups rows by scheduler and setting, in order of their first run.
    fn groups(&self) -> Vec<Group<'a>> {
        let runs = self.runs.iter();
        in_groups(runs.map(|(run, finished)| (self.key(run), &finished.row)))
    }

    /// Groups the rows of groups of jobs by scheduler, setting and value of the column.
    fn groups_of_jobs(&self, by: &str) -> Vec<Group<'a>> {
        // Jobs without a value have an empty one.
        let value = |row: &Fields| {
            let text = row.get(by).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let rows = self.runs.iter().flat_map(|(run, finished)| {
            finished.groups.iter().map(move |row| {
                let mut key = self.key(run);
                key.push(value(row));
                (key, row)
            })
        });
        in_groups(rows)
    }

    /// Returns whether there are several seeds and none of them changes the results.
    pub fn are_alike(&self) -> bool {
        let figures = |row: &Fields| {
            let mut row = row.clone();
            row.retain(|key, _| key != "seed" && key != "run");
            row
        };
        let alike = |(_, rows): &Group<'_>| {
            let mut others = rows.iter().skip(1);
            others.all(|row| figures(row) == figures(rows[0]))
        };
        let groups = self.groups();
        groups.iter().any(|(_, rows)| rows.len() > 1) && groups.iter().all(alike)
    }

    /// Formats the tables: medians over seeds, one row for each scheduler and setting, and for each
    /// group of jobs if requested.
    pub fn tables(&self, form: Form) -> String {
        let axes = self.axes().into_iter();
        let heads = axes.map(|i| self.plan.axes[i].key.as_str());
        let mut heads: Vec<&str> = heads.collect();
        let mut text = table(&self.groups(), &heads).text(form);
        if let Some(by) = self.plan.by() {
            heads.push(by);
            text.push('\n');
            text.push_str(&table(&self.groups_of_jobs(by), &heads).text(form));
        }
        text
    }

    /// Returns whether an average is marked as partial.
    fn has_marks(&self) -> bool {
        let marked = |(_, list): &Group<'_>| {
            let rows = || list.iter().copied();
            partial(rows()).is_some() && estimate(rows(), "avg_jct_s").is_some()
        };
        self.groups().iter().any(marked)
    }

    /// Describes only what the figures assume, and the mark of partial averages if there is one.
    pub fn assumed(&self) -> About {
        assumed(&self.assumptions(), self.has_marks())
    }

    /// Describes the figures, one line for each entry.
    pub fn about(&self) -> About {
        let mut about = About::default();
        let (finished, all) = (self.runs.len() as u64, self.plan.runs.len() as u64);
        let runs = match finished == all {
            true => whole(all),
            false => format!("{} of {}", whole(finished), whole(all)),
        };
        about.add("runs", runs);
        for axis in &self.plan.axes {
            let values: Vec<String> = axis.values.iter().map(shown).collect();
            about.add(&axis.key, values.join(", "));
        }
        // A default follows from the workload.
        let cells = self.plan.cells.iter();
        let mut measures = cells.map(|c| c.experiment.given.measure.as_deref());
        let first = measures.next().flatten();
        if measures.all(|m| m == first) {
            about.add("measured", measured_in_each(first, self.rows()));
        }
        about.0.extend(self.assumptions().lines());
        about.add("figures", MEDIANS);
        let groups = self.groups();
        let seeds = groups.iter().map(|(_, list)| list.len()).max();
        about.0.push(intervals(seeds.unwrap_or(0)));
        let mut rated = groups.iter().map(|(_, list)| list.iter().copied());
        let rated = rated.any(|list| estimate(list, "fairness_mean").is_some());
        about.0.extend(rated.then(of_rho));
        about.0.extend(self.has_marks().then(blox_results::marks));
        about
    }

    /// Returns the assumptions of the finished runs. Seeds are no settings.
    pub fn assumptions(&self) -> Assumptions {
        let cells = self.plan.cells.iter();
        let mut by_cell: Vec<Vec<(&str, &Lost)>> = cells.map(|_| Vec::new()).collect();
        for (run, done) in &self.runs {
            by_cell[run.cell].push((self.plan.label(run), &done.lost));
        }
        let cells = self.plan.cells.iter().zip(by_cell);
        let keyed = cells.map(|(cell, runs)| {
            let values: Vec<String> = self.setting(cell).collect();
            (values, (cell, runs))
        });
        let keys: Vec<&str> = self
            .axes()
            .into_iter()
            .map(|i| &*self.plan.axes[i].key)
            .collect();
        let settings = in_groups(keyed).into_iter().map(|(values, cells)| Setting {
            varied: keys.iter().copied().zip(values).collect(),
            experiment: &cells[0].0.experiment,
            runs: cells.into_iter().flat_map(|(_, runs)| runs).collect(),
        });
        Assumptions::of_settings(&settings.collect::<Vec<_>>())
    }

    /// Returns a counted line for each loss: of the input, settings and each scheduler.
    pub fn losses(&self) -> Vec<String> {
        let runs = || self.runs.iter();
        let mut lines = losses::distinct(runs().map(|(_, done)| done.lost.input.as_slice()));
        lines.extend(losses::of_figures(self.rows()));
        lines.extend(self.plan.notices());
        let lost = runs().map(|(run, done)| (self.plan.label(run), &done.lost));
        lines.extend(losses::of_runs(lost, true));
        lines
    }
}

/// Returns the table of medians: the scheduler, the columns of `heads`, and the figures.
fn table(groups: &[Group<'_>], heads: &[&str]) -> Grid {
    let rows = groups.iter().map(|(keys, runs)| FigureRow {
        keys: keys.clone(),
        runs: runs.clone(),
    });
    let rows: Vec<FigureRow<'_>> = rows.collect();
    table_of(&rows, heads, Rows::Settings)
}
