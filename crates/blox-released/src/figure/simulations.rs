//! Simulations of a figure, from its description.

use super::table::{Numbers, nth};
use super::{Figure, Plan, ReproduceError, Run, jct_s};
use blox_core::ClusterSpec;
use blox_experiment::{Replacements, replace, scheduler};
use blox_registry::{ComponentSpec, Registry};
use blox_results::Summary;
use blox_sim::registry::World;
use blox_sim::workload::{Limited, Workload};
use blox_sim::{Measure, Report, Simulation};
use blox_traces::generate::with_losses;
use serde::Deserialize;
use std::sync::LazyLock;

/// Components of the simulations by name.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = blox_sim::registry::register(blox_schedulers::registry());
    crate::register(blox_traces::registry::register(registry))
});

/// Texts by group and column. A list that is too short is continued by its last entry.
type Texts = Vec<Vec<String>>;

/// A simulation for each cell of a figure. Its components are named as in the registry.
///
/// In texts, `{g}` is the group, `{c}` the column, and `{v}` the value of the group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Simulations {
    /// Names in messages.
    label: Texts,
    /// Values of the groups.
    values: Vec<String>,
    cluster: String,
    scheduler: Texts,
    /// Name of the scheduler in results, if it is not its own.
    named: Option<String>,
    /// Admission and placement policies. An empty text keeps the policy of the scheduler.
    admission: Texts,
    placement: Texts,
    /// Execution models. An empty text means that all jobs run at the rate in their specification.
    execution: Texts,
    completion: Texts,
    /// The workload, unless a function creates it.
    workload: Texts,
    /// Seeds of the workload and of the scheduler.
    seeds: (u64, u64),
    /// Number of workloads, with seeds from the first one up. 0 means 1.
    repeats: u64,
    /// Number of jobs, if the workload is longer.
    jobs: Option<u64>,
    /// True if jobs get made-up losses.
    losses: bool,
    /// First and last measured job, or `None` if all are measured.
    measured: Option<(u32, u32)>,
    measures: Vec<Number>,
}

/// A number of a report, in seconds unless stated.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Number {
    /// Average JCT.
    Jct,
    /// Average JCT in hours.
    Hours,
    /// Average responsiveness as Blox's released program measures it: to the first report, one
    /// round after the start.
    Responsiveness,
    /// End of the last job.
    End,
}

impl Number {
    fn of(self, report: &Report) -> f64 {
        match self {
            Number::Jct => jct_s(report),
            Number::Hours => jct_s(report) / 3600.0,
            Number::Responsiveness => Summary::of(report).avg_responsiveness_s + 300.0,
            Number::End => report.end.secs(),
        }
    }
}

impl Figure {
    /// Plans the described simulations. `jobs` creates a workload that is not described, from its
    /// group and seed.
    pub(crate) fn simulated(
        &'static self,
        jobs: impl Fn(usize, u64) -> Box<dyn Workload>,
    ) -> Result<Plan, ReproduceError> {
        self.simulated_with(jobs, |_, _, _| Vec::new())
    }

    /// Plans the described simulations, with further measures of each report from its group and
    /// seed. They come after the described measures.
    pub(crate) fn simulated_with(
        &'static self,
        jobs: impl Fn(usize, u64) -> Box<dyn Workload>,
        more: impl Fn(&Report, usize, u64) -> Vec<f64> + Send + 'static,
    ) -> Result<Plan, ReproduceError> {
        let all = &self.simulations;
        let groups = 0..self.groups.len().max(1);
        let of_columns = |g| (0..self.columns(g).len()).map(move |c| (g, c));
        let cells: Vec<(usize, usize)> = groups.flat_map(of_columns).collect();
        let mut runs = Vec::new();
        for repeat in 0..all.repeats.max(1) {
            for cell in &cells {
                runs.push(all.run(self, *cell, repeat, &jobs)?);
            }
        }
        Ok(Plan::of(runs, move |reports| {
            let of_workload = |(seed, reports): (u64, &[Report])| {
                let of = |number: &Number| reports.iter().map(|r| number.of(r)).collect();
                let mut measures: Vec<Vec<f64>> = all.measures.iter().map(of).collect();
                let each = reports.iter().zip(&cells);
                let further: Vec<_> = each.map(|(r, (g, _))| more(r, *g, seed)).collect();
                for m in 0..further.first().map_or(0, Vec::len) {
                    measures.push(further.iter().map(|of| of[m]).collect());
                }
                Numbers {
                    samples: reports.iter().map(jcts).collect(),
                    ..Numbers::of(measures)
                }
            };
            let by_workload = (all.seeds.0..).zip(reports.chunks(cells.len().max(1)));
            self.findings_over(by_workload.map(of_workload).collect())
        }))
    }
}

impl Simulations {
    /// Returns the simulation of a group and column with a workload. `repeat` counts workloads
    /// from 0.
    fn run(
        &self,
        figure: &Figure,
        (g, c): (usize, usize),
        repeat: u64,
        jobs: impl Fn(usize, u64) -> Box<dyn Workload>,
    ) -> Result<Run, ReproduceError> {
        let (group, value) = (text(&figure.groups, g), text(&self.values, g));
        let column = text(figure.columns(g), c);
        let filled = |text: &str| {
            let text = text.replace("{g}", group).replace("{c}", column);
            text.replace("{v}", value)
        };
        let own = |texts: &Texts| filled(nth(texts, g).map_or("", |list| text(list, c)));
        let component = |texts: &Texts| {
            let text = Some(own(texts)).filter(|text| !text.is_empty());
            text.map(|text| text.parse::<ComponentSpec>()).transpose()
        };
        let (first, of_scheduler) = self.seeds;
        let of_jobs = first + repeat;
        let cluster: ClusterSpec = self.cluster.parse()?;
        let mut simulation = Simulation::new(cluster.clone());
        if let Some((first, last)) = self.measured {
            simulation = simulation.measure(Measure::Ids(first, last));
        }
        if let Some(model) = component(&self.execution)? {
            let model = REGISTRY.execution_models().build(&model, of_scheduler)?;
            simulation = simulation.execution(model);
        }
        if let Some(rule) = component(&self.completion)? {
            let rule = REGISTRY.completion_rules().build(&rule, of_scheduler)?;
            simulation = simulation.completion(rule);
        }
        let (_, scheduler) = scheduler(&REGISTRY, &own(&self.scheduler), of_scheduler)?;
        let (admission, placement) = (component(&self.admission)?, component(&self.placement)?);
        let by = Replacements {
            admission: admission.as_ref(),
            placement: placement.as_ref(),
            ..Replacements::default()
        };
        let replaced = replace(scheduler, &REGISTRY, by, of_scheduler);
        let mut scheduler = replaced.map_err(|(_, error)| *error)?;
        if let Some(name) = &self.named {
            scheduler = scheduler.renamed(filled(name));
        }
        let mut workload = match component(&self.workload)? {
            None => jobs(g, of_jobs),
            Some(named) => {
                let source = REGISTRY.workloads().build(&named, of_jobs)?;
                source.open(&cluster)?
            }
        };
        if let Some(count) = self.jobs {
            workload = Box::new(Limited::new(workload, count));
        }
        if self.losses {
            workload = Box::new(with_losses(workload, of_jobs));
        }
        let label = own(&self.label);
        let label = match self.repeats {
            0 | 1 => label,
            _ => format!("{label}, seed {of_jobs}"),
        };
        Ok(Run::of(label, simulation, scheduler, workload))
    }
}

fn text(list: &[String], at: usize) -> &str {
    nth(list, at).map_or("", String::as_str)
}

/// Returns the JCTs of the measured jobs in seconds.
fn jcts(report: &Report) -> Vec<f64> {
    let measured = report.jobs.iter().filter(|j| j.measured);
    measured.filter_map(|j| Some(j.jct()?.secs())).collect()
}
