//! Results of a plan as text.

use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::results::Results;
use crate::seeds::{KeptRun, SeedResults};
use crate::varied::{Finished, VariedResults};
use blox_results::Run;
use blox_results::grid::{About, Form};

impl Plan<'_> {
    /// Formats the results of [`Plan::run`] as the command line prints them: the tables, and a
    /// description of their figures.
    ///
    /// One run of each scheduler is shown as by `blox compare`, several seeds as by `blox compare
    /// --seeds`, and other lists as by `blox sweep`. [`Results`], [`SeedResults`] and
    /// [`VariedResults`] have the parts.
    ///
    /// # Errors
    /// `measure` selects no job of a run, or of any seed.
    pub fn text(&self, runs: &[Run], form: Form) -> Result<String, ExperimentError> {
        let page = |tables: String, about: &About| tables + "\n" + &about.text(form);
        let experiments = self.runs.iter().map(|run| self.experiment(run));
        let runs = || experiments.clone().zip(runs);
        match (self.axes.as_slice(), self.cells.as_slice()) {
            ([], [only]) => {
                runs().try_for_each(|(experiment, run)| experiment.check_measured(run))?;
                let results = Results::of(&only.experiment, runs().map(|(_, run)| run), &[]);
                Ok(page(results.tables(form), &results.about()))
            }
            ([seeds], _) if seeds.key == "seed" => {
                let kept = runs().map(|(experiment, run)| Some(Ok(KeptRun::of(run, experiment))));
                let kept: Vec<_> = kept.collect();
                let results = SeedResults::of(self, &kept)?;
                Ok(page(results.tables(form), &results.about()))
            }
            _ => {
                let done = runs().map(|(experiment, run)| {
                    experiment.check_measured(run)?;
                    let figures = run.figures(experiment.given.records.waits);
                    Ok(Finished::of(figures.fields(), run.lost.clone()))
                });
                let done: Vec<Finished> = done.collect::<Result<_, ExperimentError>>()?;
                let results = VariedResults::of(self, done.iter().map(Some));
                Ok(page(results.tables(form), &results.about()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Experiment;
    use serde_json::json;

    /// Returns the text of two schedulers with these settings.
    fn text(settings: &[(&str, &str)], change: impl FnOnce(&mut Experiment)) -> String {
        let registry = blox_sim::registry::register(blox_schedulers::registry());
        let registry = blox_traces::registry::register(registry);
        let mut experiment = Experiment {
            schedulers: Some(vec!["fifo".to_owned(), "srtf".to_owned()]),
            ..Experiment::default()
        };
        let own = [("workload", "poisson"), ("jobs", "20"), ("cluster", "2x4")];
        for (key, value) in own.iter().chain(settings) {
            let value = value
                .parse()
                .map_or_else(|_| json!(value), |n: u64| json!(n));
            experiment.set(key, value).unwrap();
        }
        change(&mut experiment);
        let plan = Plan::of(experiment, &registry).unwrap();
        plan.text(&plan.run().unwrap(), Form::Lines).unwrap()
    }

    /// Returns the first words of the lines of a text.
    fn labels(text: &str) -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.split("  ").next());
        lines.filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn one_run_of_each_is_a_comparison() {
        let text = text(&[("load", "4")], |e| e.records.by = "gpus".parse().ok());
        let expected = [
            "cluster",
            "workload",
            "measured",
            "rounds",
            "durations",
            "overheads",
            "jobs end",
            "relative",
        ];
        let found = labels(&text);
        assert!(found.ends_with(&expected), "{text}");
        assert!(text.contains("2x4: 2 nodes, 8 GPUs"), "{text}");
        // Each scheduler has a row, and another for each number of GPUs.
        let rows = found.iter().filter(|word| **word == "srtf").count();
        assert!(rows > 1, "{text}");
    }

    #[test]
    fn several_seeds_are_compared_within_each() {
        let text = text(&[("load", "4")], |e| e.seeds = "1..2".parse().ok());
        assert!(text.contains("\nseeds      1, 2\n"), "{text}");
        let compared = "\ncompared   with fifo at the same seed, job by job\n";
        assert!(text.contains(compared), "{text}");
    }

    #[test]
    fn other_lists_are_columns() {
        let text = text(&[], |e| e.loads = "2,4".parse().ok());
        let heads: Vec<&str> = text.split_whitespace().take(4).collect();
        assert!(heads.contains(&"load"), "{text}");
        assert!(text.contains("\nruns       4\nload       2, 4\n"), "{text}");
    }

    #[test]
    fn a_measure_without_jobs_is_an_error() {
        let registry = blox_sim::registry::register(blox_schedulers::registry());
        let registry = blox_traces::registry::register(registry);
        let experiment = Experiment {
            scheduler: Some("fifo".to_owned()),
            workload: "poisson{load=4}".parse().ok(),
            jobs: std::num::NonZeroU64::new(5),
            measure: "100..200".parse().ok(),
            ..Experiment::default()
        };
        let plan = Plan::of(experiment, &registry).unwrap();
        let error = plan.text(&plan.run().unwrap(), Form::Lines).unwrap_err();
        let expected =
            "measure is `100..200`, but selects none of the 5 jobs, numbered from 0 to 4";
        assert_eq!(error.to_string(), expected);
    }
}
