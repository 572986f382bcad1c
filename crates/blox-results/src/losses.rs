//! Notices of jobs that the figures leave out, and of parts that an option replaces. `--quiet` does not
//! hide them.

use super::chrome::MOST_SLICES;
use super::grid::decimal;
use super::text::{in_groups, number_of, whole};
use blox_core::{NodeAction, Time};
use blox_sim::workload::{NoticeKind, Notices};
use blox_sim::{Ended, Report};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Losses of one run, or of several runs of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lost {
    /// Lines of [`of_input`].
    pub input: Vec<String>,
    ends: Ends,
    idle_actions: IdleActions,
    /// Number of measured jobs that the scheduler ended.
    #[serde(skip)]
    ended_early: u64,
    /// Number of measured rigid jobs that ran on other numbers of GPUs than requested.
    #[serde(skip)]
    resized: u64,
    /// Number of measured jobs that were not submitted before the end.
    unsubmitted: u64,
    /// The same number if the figures are also by group.
    ungrouped: u64,
    /// Number of slices that `trace.json` leaves out.
    pub untraced: u64,
    /// Numbers of jobs with the data that the scheduler is about.
    known: Vec<Known>,
    /// True if the scheduler read true durations of jobs.
    pub knew_truth: bool,
    /// Number of measured jobs with speeds by type of GPU, and of all measured jobs that were
    /// submitted.
    pub with_speeds: (u64, u64),
    /// True if a job has training data.
    pub with_training: bool,
}

/// The runs that ended early.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Ends {
    /// Number of all runs.
    runs: u64,
    early: Vec<Early>,
}

/// The runs that ended early in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Early {
    how: Ended,
    runs: u64,
    first: Time,
    last: Time,
}

impl Ends {
    fn of(how: Ended, at: Time) -> Self {
        let early = Early {
            how,
            runs: 1,
            first: at,
            last: at,
        };
        Ends {
            runs: 1,
            early: [early]
                .into_iter()
                .filter(|_| how != Ended::Finished)
                .collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        for theirs in &other.early {
            match self.early.iter_mut().find(|ours| ours.how == theirs.how) {
                Some(ours) => {
                    ours.runs += theirs.runs;
                    ours.first = ours.first.min(theirs.first);
                    ours.last = ours.last.max(theirs.last);
                }
                None => self.early.push(theirs.clone()),
            }
        }
    }

    fn text(&self) -> Option<String> {
        let early = self.early.iter();
        let lines: Vec<String> = early.map(|early| early.text(self.runs)).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

impl Early {
    /// Describes why `self.runs` of `all` runs ended early.
    fn text(&self, all: u64) -> String {
        let (first, last) = (decimal(self.first.secs(), 0), decimal(self.last.secs(), 0));
        let at = match first == last {
            true => format!("at {last} s"),
            false => format!("from {first} s to {last} s"),
        };
        let of = match self.runs == all {
            true => String::new(),
            false => format!(" (in {} of {})", whole(self.runs), number_of(all, "run")),
        };
        match self.how {
            Ended::Finished => String::new(),
            Ended::Standstill => {
                format!("at a standstill {at}{of}: no job starts, works or ends any more")
            }
            Ended::Starved => {
                format!("ended {at}{of}: the measured jobs that are left starve (see --until)")
            }
            Ended::Horizon => format!("ended {at}{of}, the limit of --until"),
            Ended::NoProgress => format!(
                "ended {at}{of}, since jobs crashed or failed to be launched 1,000,000 times in a \
                 row and kept no more of their work (see --checkpoint-every-s)"
            ),
            Ended::Interrupted => format!("interrupted {at}{of}"),
        }
    }
}

/// Describes why a run ended early at `at`; `None` if it did not.
pub fn cut_short(how: Ended, at: Time) -> Option<String> {
    Ends::of(how, at).text()
}

/// Start of the description of a request for nodes.
const GROW: &str = "`grow` by";

/// Node actions of a cluster manager that had no effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct IdleActions {
    count: u64,
    /// Description of the first action.
    first: Option<String>,
}

/// Returns the number of measured jobs that were submitted.
pub fn submitted_measured(report: &Report) -> u64 {
    report.jobs.iter().filter(|job| job.measured).count() as u64
}

/// The form of [`Lost`] in files that repeat all of its notices. Manifests leave out two counts.
pub mod whole {
    use super::Lost;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the losses with all of their counts.
    ///
    /// # Errors
    /// An error of the serializer.
    pub fn serialize<S: Serializer>(lost: &Lost, to: S) -> Result<S::Ok, S::Error> {
        (lost, lost.ended_early, lost.resized).serialize(to)
    }

    /// Reads what [`serialize()`] writes.
    ///
    /// # Errors
    /// An error of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Lost, D::Error> {
        let (lost, ended_early, resized) = Deserialize::deserialize(from)?;
        Ok(Lost {
            ended_early,
            resized,
            ..lost
        })
    }
}

impl Lost {
    /// Returns the losses of a run. `grouped` is true if its figures are also by group. `known` are the
    /// numbers of jobs with the data that the scheduler is about.
    pub fn of(report: &Report, notices: &Notices, grouped: bool, known: Vec<Known>) -> Self {
        let first = report.stale_action.as_ref();
        Lost {
            input: of_input(notices),
            ends: Ends::of(report.ended, report.end),
            idle_actions: IdleActions {
                count: report.counters.stale_actions,
                first: first.map(|action| match (action.node(), action) {
                    (Some(node), _) => format!("`{}` of node {node}", action.name()),
                    (None, NodeAction::Grow { offer, count }) => {
                        format!("{GROW} {count} nodes of offer {offer}")
                    }
                    (None, _) => format!("`{}`", action.name()),
                }),
            },
            ended_early: report.ended_early(),
            resized: report.resized,
            unsubmitted: report.unsubmitted,
            ungrouped: if grouped { report.unsubmitted } else { 0 },
            untraced: 0,
            known,
            knew_truth: report.knew_truth,
            with_speeds: (report.workload_info.speeds, submitted_measured(report)),
            with_training: report.workload_info.training > 0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.ends.add(&other.ends);
        self.ended_early += other.ended_early;
        self.resized += other.resized;
        self.unsubmitted += other.unsubmitted;
        self.ungrouped += other.ungrouped;
        self.untraced += other.untraced;
        self.idle_actions.count += other.idle_actions.count;
        let first = &mut self.idle_actions.first;
        *first = first.take().or_else(|| other.idle_actions.first.clone());
        for theirs in &other.known {
            match self.known.iter_mut().find(|ours| ours.what == theirs.what) {
                Some(ours) => {
                    ours.jobs += theirs.jobs;
                    ours.with += theirs.with;
                    ours.wrong.add(&theirs.wrong);
                }
                None => self.known.push(theirs.clone()),
            }
        }
    }

    /// Returns a notice about jobs that the scheduler ended early. They shorten the averages.
    fn ended_early(&self) -> Option<String> {
        let jobs = (self.ended_early > 0).then(|| number_of(self.ended_early, "job"))?;
        Some(format!(
            "ended {jobs} before all work was done, counted as completed"
        ))
    }

    /// Returns a notice about rigid jobs on other numbers of GPUs; their speed is an assumption.
    fn resized(&self) -> Option<String> {
        let jobs = (self.resized > 0).then(|| number_of(self.resized, "rigid job"))?;
        Some(format!(
            "{jobs} ran on other numbers of GPUs than asked for, taken to be as fast in proportion"
        ))
    }

    /// Returns a notice about missing or wrong data of jobs, if the scheduler is about these data.
    pub fn lacking(&self) -> Option<String> {
        let known = self.known.iter();
        let lines: Vec<String> = known.filter_map(|k| k.notice(self.unsubmitted)).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    /// Returns a notice about unfinished jobs whose group is unknown.
    fn ungrouped(&self) -> Option<String> {
        let jobs = (self.ungrouped > 0).then(|| number_of(self.ungrouped, "unfinished job"))?;
        Some(format!(
            "{jobs} not submitted before the end, counted in no group of --by"
        ))
    }

    /// Returns a notice about the part of a run that `trace.json` lacks.
    fn untraced(&self) -> Option<String> {
        (self.untraced > 0).then(|| {
            format!(
                "trace.json holds the first {} slices, {} later ones are left out",
                whole(MOST_SLICES),
                whole(self.untraced)
            )
        })
    }

    fn idle_actions(&self) -> Option<String> {
        let IdleActions { count, first } = &self.idle_actions;
        let actions = (*count > 0).then(|| number_of(*count, "node action"))?;
        let first = first.as_deref().unwrap_or_default();
        let why = match first.starts_with(GROW) {
            true => "the offer had fewer nodes left",
            false => "the node was busy, unknown or in the wrong state",
        };
        let first = match first {
            "" => String::new(),
            first => format!(" (first: {first})"),
        };
        Some(format!("{actions} had no effect{first}: {why}"))
    }
}

/// Number of measured jobs with some data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The data.
    pub what: String,
    /// The effect of its absence.
    #[serde(default)]
    pub without: String,
    /// Number of these jobs.
    pub jobs: u64,
    /// Number of those with the data.
    pub with: u64,
    /// Jobs with a value that is out of range.
    #[serde(default)]
    pub wrong: Wrong,
}

/// Measured jobs with values that are out of range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wrong {
    /// Number of these jobs.
    pub count: u64,
    /// The first of them, with its value and the expected range.
    pub first: String,
}

impl Wrong {
    fn add(&mut self, other: &Self) {
        if self.count == 0 {
            self.first.clone_from(&other.first);
        }
        self.count += other.count;
    }
}

/// Returns the number of measured jobs that were submitted. The figures also count those that were
/// not.
pub fn measured_jobs(submitted: u64, unsubmitted: u64) -> String {
    let what = match unsubmitted {
        0 => "measured job",
        _ => "measured and submitted job",
    };
    number_of(submitted, what)
}

impl Known {
    /// Returns a notice if values are out of range, or if no job has the data. This number of
    /// measured jobs was not submitted.
    fn notice(&self, unsubmitted: u64) -> Option<String> {
        let none = self.jobs > 0 && self.with == 0;
        let jobs = measured_jobs(self.jobs, unsubmitted);
        if self.wrong.count > 0 {
            let (count, first) = (whole(self.wrong.count), &self.wrong.first);
            let effect = match none {
                true => format!("; {}", self.without),
                false => String::new(),
            };
            return Some(format!(
                "{count} of {jobs} have a wrong value: {first}{effect}"
            ));
        }
        none.then(|| format!("none of {jobs} has {}: {}", self.what, self.without))
    }
}

/// One kind of notice about losses.
type Kind = fn(&Lost) -> Option<String>;

/// Returns a notice for each scheduler and each of its losses, from the losses of its runs. If
/// `quiet`, jobs that the scheduler ended early or that ran on other numbers of GPUs are left out.
pub fn of_runs<'a>(
    runs: impl IntoIterator<Item = (&'a str, &'a Lost)>,
    quiet: bool,
) -> Vec<String> {
    let total = |(scheduler, runs): (_, Vec<&Lost>)| {
        let mut total = Lost::default();
        runs.into_iter().for_each(|lost| total.add(lost));
        (scheduler, total)
    };
    let totals: Vec<(&str, Lost)> = in_groups(runs).into_iter().map(total).collect();
    let kinds: [(bool, Kind); 7] = [
        (true, |lost| lost.ends.text()),
        (false, Lost::ended_early),
        (false, Lost::resized),
        (true, Lost::ungrouped),
        (true, Lost::untraced),
        (true, Lost::idle_actions),
        (true, Lost::lacking),
    ];
    let each = |kind: Kind| {
        let line =
            move |(scheduler, total): &(&str, Lost)| Some(format!("{scheduler}: {}", kind(total)?));
        totals.iter().filter_map(line).collect::<Vec<_>>()
    };
    let shown = kinds.into_iter().filter(|(loud, _)| *loud || !quiet);
    shown.flat_map(|(_, kind)| each(kind)).collect()
}

/// Returns each line of several runs once, with the number of its runs unless all runs have it.
pub fn distinct<'a>(runs: impl Iterator<Item = &'a [String]>) -> Vec<String> {
    let runs: Vec<&[String]> = runs.collect();
    let all = runs.len() as u64;
    let found = in_groups(runs.into_iter().flatten().map(|line| (line, ())));
    let of_all = |(line, times): (&String, Vec<()>)| match times.len() as u64 {
        times if times == all => line.clone(),
        times => format!("{line} (in {} of {})", whole(times), number_of(all, "run")),
    };
    found.into_iter().map(of_all).collect()
}

/// Returns a counted line for ignored columns, one for dropped rows and one for altered values of
/// an input.
pub fn of_input(notices: &Notices) -> Vec<String> {
    let mut columns = Vec::new();
    let mut dropped = Vec::new();
    let (mut altered, mut values) = (Vec::new(), 0);
    for notice in notices.iter() {
        match &notice.kind {
            NoticeKind::IgnoredColumn(name) | NoticeKind::UnmappedColumn(name) => {
                columns.push(format!("`{name}`"));
            }
            NoticeKind::UnnamedColumn(number) => columns.push(format!("number {number}, unnamed")),
            NoticeKind::MisspeltColumn { column, known } => {
                columns.push(format!("`{column}`, did you mean `{known}`?"));
            }
            NoticeKind::Dropped(why) => dropped.push(format!("{why}: {}", whole(notice.count))),
            kind => {
                let how = match kind {
                    NoticeKind::PartOfGpu => "part of a GPU rounded up",
                    NoticeKind::GpusDiffer => "largest number of GPUs of several attempts taken",
                    NoticeKind::AttemptLeftOut => "attempt without start or end left out",
                    _ => continue,
                };
                values += notice.count;
                altered.push(format!("{how}: {}", whole(notice.count)));
            }
        }
    }
    let mut lines = Vec::new();
    if !columns.is_empty() {
        let count = number_of(columns.len() as u64, "column");
        // Questions are no items of a list.
        let comma = match columns.iter().any(|column| column.ends_with('?')) {
            true => " ",
            false => ", ",
        };
        lines.push(format!("{count} ignored ({})", columns.join(comma)));
    }
    if !dropped.is_empty() {
        let count = number_of(notices.dropped(), "row");
        lines.push(format!("{count} dropped ({})", dropped.join(", ")));
    }
    if !altered.is_empty() {
        let count = number_of(values, "value");
        lines.push(format!("{count} altered ({})", altered.join(", ")));
    }
    lines
}

/// Returns all notices about an input. If `quiet`, returns only the lines of [`of_input`].
pub fn shown(notices: &Notices, quiet: bool) -> Vec<String> {
    match quiet {
        true => of_input(notices),
        false => notices.iter().map(ToString::to_string).collect(),
    }
}

/// Returns each line once.
pub fn each_once<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    let lines = in_groups(lines.map(|line| (line, ()))).into_iter();
    lines.map(|(line, _)| line.clone()).collect()
}

/// Returns a line for the measured jobs of several runs that did not complete, from the figures
/// of `summary.json`.
pub fn of_figures<'a>(rows: impl Iterator<Item = &'a Map<String, Value>>) -> Option<String> {
    const KINDS: [&str; 3] = ["rejected", "failed", "unfinished"];
    let (mut sums, mut runs, mut with) = ([0; KINDS.len()], 0_u64, 0_u64);
    for row in rows {
        let counts = KINDS.map(|kind| row.get(kind).and_then(Value::as_u64).unwrap_or(0));
        runs += 1;
        with += u64::from(counts.iter().any(|n| *n > 0));
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    let lost = KINDS.iter().zip(sums).filter(|(_, n)| *n > 0);
    let parts: Vec<String> = lost
        .map(|(kind, n)| format!("{} {kind}", whole(n)))
        .collect();
    let of = number_of(runs, "run");
    (!parts.is_empty()).then(|| format!("{} in {} of {of}", parts.join(", "), whole(with)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_sim::workload::Dropped;
    use serde_json::json;

    #[test]
    fn of_input_counts_columns_and_rows() {
        let mut notices = Notices::default();
        notices.add(NoticeKind::UnmappedColumn("a".into()), 1);
        notices.add(NoticeKind::NoWork, 3);
        notices.add(NoticeKind::Dropped(Dropped::NoGpus), 4);
        notices.add(NoticeKind::Dropped(Dropped::NoGpus), 5);
        notices.add(NoticeKind::IgnoredColumn("b".into()), 1);
        assert_eq!(
            of_input(&notices),
            [
                "2 columns ignored (`a`, `b`)",
                "2 rows dropped (asks for no GPU: 2)"
            ]
        );
        assert_eq!(of_input(&Notices::default()), [""; 0]);
        let mut unnamed = Notices::default();
        unnamed.add(NoticeKind::UnnamedColumn(1), 1);
        assert_eq!(of_input(&unnamed), ["1 column ignored (number 1, unnamed)"]);
        notices.add(NoticeKind::PartOfGpu, 6);
        notices.add(NoticeKind::PartOfGpu, 7);
        notices.add(NoticeKind::GpusDiffer, 8);
        notices.add(NoticeKind::AttemptLeftOut, 9);
        assert_eq!(
            of_input(&notices)[2..],
            [
                "4 values altered (part of a GPU rounded up: 2, largest number of GPUs of several \
                 attempts taken: 1, attempt without start or end left out: 1)"
            ]
        );
    }

    #[test]
    fn distinct_lines_state_the_number_of_their_runs() {
        let runs = [vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
        let lines = distinct(runs.iter().map(Vec::as_slice));
        assert_eq!(lines, ["a", "b (in 1 of 2 runs)"]);
    }

    #[test]
    fn losses_of_several_runs_are_one_notice() {
        let run = |count, first: Option<&str>| Lost {
            idle_actions: IdleActions {
                count,
                first: first.map(str::to_owned),
            },
            resized: count,
            ..Lost::default()
        };
        let runs = [run(0, None), run(2, Some("`grow`"))];
        let named = || runs.iter().chain(&runs).map(|lost| ("x", lost));
        let idle = "x: 4 node actions had no effect (first: `grow`): \
                    the node was busy, unknown or in the wrong state";
        assert_eq!(of_runs(named(), true), [idle]);
        let all = of_runs(named(), false);
        assert!(all[0].starts_with("x: 4 rigid jobs ran on") && all[1] == idle);
        assert_eq!(of_runs(named().take(1), false), [""; 0]);
    }

    #[test]
    fn early_ends_are_stated_for_each_scheduler() {
        let run = |how, at| Lost {
            ends: Ends::of(how, Time::new(at)),
            ..Lost::default()
        };
        let runs = [
            run(Ended::Horizon, 900.0),
            run(Ended::Finished, 1e4),
            run(Ended::Horizon, 1200.0),
        ];
        let named = || runs.iter().map(|lost| ("x", lost));
        let line = "x: ended from 900 s to 1,200 s (in 2 of 3 runs), the limit of --until";
        assert_eq!(of_runs(named(), true), [line]);
        assert_eq!(of_runs(named(), false), [line]);
        let alone = of_runs(named().take(1), true);
        assert_eq!(alone, ["x: ended at 900 s, the limit of --until"]);
        assert_eq!(of_runs(named().skip(1).take(1), false), [""; 0]);
    }

    #[test]
    fn of_figures_sums_runs_with_losses() {
        let rows = [json!({"rejected": 2, "failed": 0}), json!({"rejected": 0})];
        let rows: Vec<_> = rows.iter().filter_map(Value::as_object).collect();
        let line = of_figures(rows.iter().copied());
        assert_eq!(line.as_deref(), Some("2 rejected in 1 of 2 runs"));
        assert_eq!(of_figures(rows.into_iter().skip(1)), None);
    }
}
