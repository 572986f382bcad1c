//! Results of schedulers over several seeds.
//!
//! Schedulers are compared within a seed, on the same jobs and faults. Each seed gives one mean
//! difference over jobs and one ratio of averages. The table shows medians over seeds with their
//! intervals. Differences between seeds alone, such as a heavier load, do not widen them.

use crate::assumptions::Assumptions;
use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::results::{Failed, Results, assumed, failures, measured_in_each};
use blox_results::grid::{About, Form};
use blox_results::losses::{self, Lost};
use blox_results::statistics::CONFIDENCE;
use blox_results::{
    ALIKE, Entry, Fields, MEDIANS, OverSeeds, Run, SeedRun, intervals, number_of, of_rho,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A run of a comparison over seeds, without the rows of its jobs. A file can keep it for another
/// process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptRun {
    seed: u64,
    run: SeedRun,
    notices: Vec<String>,
    #[serde(with = "blox_results::losses::whole")]
    lost: Lost,
    workload: String,
    /// Reason if no job was measured.
    nothing_measured: Option<String>,
}

impl KeptRun {
    /// Returns what is kept of a run of an experiment.
    pub fn of(run: &Run, experiment: &Prepared<'_>) -> Self {
        let measured = experiment.check_measured(run);
        KeptRun {
            seed: experiment.seed,
            run: SeedRun::of(run, experiment.given.records.waits),
            notices: Results::of(experiment, [run], &[]).about_runs(),
            nothing_measured: measured.err().map(|e| e.to_string()),
            lost: run.lost.clone(),
            workload: run.workload.clone(),
        }
    }
}

/// Results of the schedulers of a plan over its seeds.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct SeedResults<'a, 'r> {
    plan: &'a Plan<'r>,
    /// The schedulers without an error, compared within each seed.
    pub figures: OverSeeds<'a>,
    /// The first error of each scheduler that failed, with the number of its other errors.
    pub errors: Vec<String>,
    /// Number of seeds with a run of each of these schedulers.
    pub whole: usize,
    /// The runs of each of these schedulers.
    kept: Vec<Vec<&'a KeptRun>>,
    failed: Vec<Failed>,
    /// The seeds of which no job was measured.
    left_out: Vec<u64>,
}

impl<'a, 'r> SeedResults<'a, 'r> {
    /// Collects the runs of a plan, in its order. A run is a message if it failed, and `None` if it was
    /// prevented. A scheduler with an error is left out, and so is a seed with a missing run.
    ///
    /// # Errors
    /// `measure` selects no job of any seed.
    pub fn of(
        plan: &'a Plan<'r>,
        kept: &'a [Option<Result<KeptRun, String>>],
    ) -> Result<Self, ExperimentError> {
        let labels: Vec<&str> = plan.schedulers().collect();
        let width = labels.len();
        let errors: Vec<Option<String>> = (0..width)
            .map(|i| error_of(kept.iter().skip(i).step_by(width)))
            .collect();
        // The schedulers without an error, by their place among all.
        let sound: Vec<usize> = (0..width).filter(|i| errors[*i].is_none()).collect();
        let named = labels.iter().zip(&errors);
        let failed = named.filter_map(|(label, error)| Some(Failed::of(label, error.as_ref()?)));
        // An interruption may leave other seeds incomplete.
        let seeds = kept.chunks(width.max(1)).filter_map(|seed| {
            let runs = sound.iter().map(|i| seed.get(*i)?.as_ref()?.as_ref().ok());
            runs.collect::<Option<Vec<&KeptRun>>>()
        });
        let seeds: Vec<Vec<&KeptRun>> = seeds.collect();
        let whole = seeds.len();
        let (measured, left_out): (Vec<_>, Vec<_>) = seeds
            .into_iter()
            .partition(|runs| runs.iter().all(|k| k.nothing_measured.is_none()));
        let mut why = left_out.iter().flatten();
        if let Some(why) = why.find_map(|kept| kept.nothing_measured.clone())
            && measured.is_empty()
            && whole == plan.cells.len()
        {
            return Err(ExperimentError::Setting(why));
        }
        let shown: Vec<&str> = sound.iter().map(|i| labels[*i]).collect();
        let runs = |seed: &Vec<&'a KeptRun>| seed.iter().map(|kept| &kept.run).collect();
        let runs: Vec<Vec<&SeedRun>> = measured.iter().map(runs).collect();
        // Without their baseline, the others are compared with nothing.
        let base = sound.iter().position(|i| *i == plan.baseline());
        let of_scheduler = |k: usize| measured.iter().map(|seed| seed[k]).collect();
        Ok(SeedResults {
            figures: OverSeeds::of(&shown, &runs, base),
            kept: (0..sound.len()).map(of_scheduler).collect(),
            failed: failed.collect(),
            errors: errors.into_iter().flatten().collect(),
            left_out: left_out.iter().map(|runs| runs[0].seed).collect(),
            whole,
            plan,
        })
    }

    /// Returns what the figures assume.
    pub fn assumptions(&self) -> Option<Assumptions> {
        let cell = self.plan.cells.first()?;
        Some(Assumptions::of(&cell.experiment, self.lost()))
    }

    /// Formats the tables: medians of the schedulers, and of groups of jobs if requested.
    pub fn tables(&self, form: Form) -> String {
        let mut text = self.figures.table(None).text(form);
        if let Some(by) = self.by() {
            text.push('\n');
            text.push_str(&self.figures.table(Some(by)).text(form));
        }
        text
    }

    /// Returns the column of groups of jobs.
    pub fn by(&self) -> Option<&str> {
        self.plan.by()
    }

    /// Describes only what the figures assume, and the mark of partial averages if there is one.
    pub fn assumed(&self) -> About {
        assumed(
            &self.assumptions().unwrap_or_default(),
            self.figures.has_marks(),
        )
    }

    /// Describes the figures, one line for each entry.
    pub fn about(&self) -> About {
        let mut about = About::default();
        let Some(cell) = self.plan.cells.first() else {
            return about;
        };
        let experiment = &cell.experiment;
        about.add("cluster", experiment.cluster_line());
        if let Some(first) = self.runs().next() {
            let seed = format!(", seed {}", first.seed);
            let workload = first.workload.trim_end_matches(&seed);
            about.add("workload", workload);
        }
        let given = experiment.given.measure.as_deref();
        let figures = self.runs().map(|kept| &kept.run.figures);
        about.add("measured", measured_in_each(given, figures));
        about.0.extend(self.assumed().0);
        let seeds: Vec<String> = self.seeds().iter().map(u64::to_string).collect();
        about.add("seeds", seeds.join(", "));
        about.add("figures", MEDIANS);
        let base = self.plan.schedulers().nth(self.plan.baseline());
        let mut entries = self.figures.0.iter();
        if let Some(base) = base.filter(|base| entries.any(|e| e.scheduler == *base)) {
            let line = format!("with {base} at the same seed, job by job");
            about.add("compared", line);
            about.add("relative", format!("avg JCT / avg JCT of {base}"));
            about.add("diff.", format!("mean over jobs of JCT - JCT under {base}"));
        }
        about.0.push(intervals(seeds.len()));
        about.0.extend(experiment.given.fairness.then(of_rho));
        let failures = failures(experiment, &self.failed, true);
        for notice in failures.into_iter().chain(self.notices()) {
            about.add("notice", notice);
        }
        about
    }

    fn runs(&self) -> impl Iterator<Item = &'a KeptRun> {
        self.kept.iter().flatten().copied()
    }

    fn lost(&self) -> impl Iterator<Item = (&'a str, &'a Lost)> {
        let each = self.figures.0.iter().zip(&self.kept);
        each.flat_map(|(e, kept)| kept.iter().map(|kept| (e.scheduler, &kept.lost)))
    }

    /// Returns the seeds with which all schedulers were simulated.
    fn seeds(&self) -> Vec<u64> {
        let first = self.kept.first().into_iter().flatten();
        first.map(|kept| kept.seed).collect()
    }

    /// Returns a counted line for each loss: of the input, each scheduler and settings.
    pub fn losses(&self) -> Vec<String> {
        let first = self.runs().next();
        let mut lines = first.map_or_else(Vec::new, |kept| kept.lost.input.clone());
        lines.extend(self.incomplete());
        lines.extend(self.plan.notices());
        lines.extend(losses::of_runs(self.lost(), true));
        lines
    }

    /// Returns one line for each scheduler with measured jobs that did not complete.
    fn incomplete(&self) -> impl Iterator<Item = String> {
        self.figures.0.iter().filter_map(|e| {
            let line = losses::of_figures(e.results.rows.iter())?;
            Some(format!("{}: {line}", e.scheduler))
        })
    }

    /// Returns the notices of all runs without repetitions; most are the same for every seed.
    pub fn notices(&self) -> Vec<String> {
        let mut lines = losses::distinct(self.runs().map(|kept| kept.notices.as_slice()));
        lines.extend(self.incomplete());
        lines.extend(self.plan.notices());
        lines.extend(losses::of_runs(self.lost(), false));
        if self.figures.are_alike() {
            lines.push(ALIKE.to_owned());
        }
        if !self.left_out.is_empty() {
            let all = self.left_out.len() + self.seeds().len();
            lines.push(format!(
                "{} of {} left out: {} selects none of their jobs",
                self.left_out.len(),
                number_of(all as u64, "seed"),
                self.plan.option("measure")
            ));
        }
        let unpaired = self.figures.unpaired();
        if unpaired > 0 {
            lines.push(format!(
                "averages are over different jobs: {} completed under one scheduler but not under the other",
                number_of(unpaired, "job")
            ));
        }
        lines
    }

    /// Returns the medians with their intervals, the assumptions and the seeds, as JSON.
    pub fn fields(&self) -> Value {
        let with_groups = |(e, kept): (&Entry<'_>, &Vec<&KeptRun>)| {
            let mut all: Fields = e.fields().into_iter().collect();
            if let Some(by) = self.by() {
                let groups = e.group_fields(by).into_iter();
                let groups: Vec<Fields> = groups.map(|g| g.into_iter().collect()).collect();
                all.insert("groups".to_owned(), json!(groups));
            }
            let knew = kept.iter().any(|kept| kept.lost.knew_truth);
            all.insert("knew_true_durations".to_owned(), json!(knew));
            all
        };
        let entries = self.figures.0.iter().zip(&self.kept);
        json!({
            "assumptions": self.assumptions().map(|a| a.fields()),
            "seeds": self.seeds(),
            "seeds_left_out": self.left_out,
            "baseline": self.plan.schedulers().nth(self.plan.baseline()),
            "confidence": CONFIDENCE,
            "schedulers": entries.map(with_groups).collect::<Vec<_>>(),
        })
    }
}

/// Returns the first error of a scheduler's runs, with the number of runs that failed.
fn error_of<'a>(runs: impl Iterator<Item = &'a Option<Result<KeptRun, String>>>) -> Option<String> {
    let errors = runs.filter_map(|run| run.as_ref()?.as_ref().err());
    let errors: Vec<&String> = errors.collect();
    let first = errors.first()?;
    Some(match errors.len() {
        1 => (*first).clone(),
        n => format!(
            "{first} (and with {})",
            number_of(n as u64 - 1, "other seed")
        ),
    })
}
