//! Results of a run.

use super::grid::number_of;
use super::losses::Lost;
use super::resolve::Experiment;
use blox_results::{Collected, Figures, Groups, Summary};
use blox_sim::{Ended, Report};

/// Results of one scheduler's run.
pub(super) struct Run {
    pub report: Report,
    pub summary: Summary,
    /// Notices about dropped or repaired jobs of the workload, one line for each.
    pub notices: Vec<String>,
    pub lost: Lost,
    /// Short description of the workload.
    pub workload: String,
    /// Figures of each collector, with the collector's name.
    pub collected: Collected,
    /// The jobs by their values in the column of `--by`.
    pub groups: Option<Groups>,
}

impl Run {
    /// Returns the content of `summary.json`.
    pub fn figures(&self, experiment: &Experiment<'_>) -> Figures<'_> {
        let why = experiment.options.why;
        let groups = self.groups.as_ref();
        Figures::of(&self.report, &self.summary, &self.collected, groups, why)
    }

    /// Fails with the reason if no job was measured, unless the run was interrupted.
    pub fn measured(&self, experiment: &Experiment<'_>) -> Result<(), String> {
        let s = &self.summary;
        let came = match s.jobs {
            0 => "there is no job".to_owned(),
            n => format!(
                "selects none of the {}, numbered from 0 to {}",
                number_of(n, "job"),
                n - 1
            ),
        };
        match &experiment.options.measure {
            Some(wanted) if s.measured == 0 && self.report.ended != Ended::Interrupted => {
                Err(format!("--measure is `{wanted}`, but {came}"))
            }
            _ => Ok(()),
        }
    }
}
