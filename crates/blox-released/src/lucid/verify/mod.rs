//! Cases of Lucid's released simulator, of Helios' energy service and of Chronus.

pub(crate) mod chronus;
pub(crate) mod energy;

use crate::compared::{Case, Compared, VerifyError, option};
use crate::lucid::files;
use crate::lucid::simulator::{ESTIMATE, SHARING_SCORE, set_attribute};
use crate::lucid::{self, Experiment, Input, Outcome, Placer, Policy};
use blox_core::{JobSpec, SortedMap};
use blox_perf::PairTable;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["job_id", "vc", "ckpt_times", "nodes", "queue"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let setting = Setting::of(case)?;
    let input = setting.read(case)?;
    let run = lucid::run(
        setting.policy,
        setting.placer,
        setting.experiment,
        lucid::Quirks::default(),
        &input,
    )
    .map_err(|e| case.failed(e))?;
    compare_jobs(case, setting.policy, &input, &run, out)?;
    if let Some(table) = case.table("profvc_scaling.csv")? {
        compare_scaling(&table, &run, out)?;
    }
    Ok(())
}

/// Returns the path of an input in the case's folder, or in a shared folder above it.
fn shared(case: &Case, folder: &str, name: &str) -> Result<PathBuf, VerifyError> {
    case.input_in(name, &["input", "inputs", folder])
}

/// Returns the command that made the case.
fn command(case: &Case) -> &str {
    case.text("command").unwrap_or_default()
}

/// Settings of a case.
struct Setting {
    policy: Policy,
    placer: Placer,
    experiment: Experiment,
}

impl Setting {
    fn of(case: &Case) -> Result<Self, VerifyError> {
        let command = command(case);
        let folder = case.dir().file_name().unwrap_or_default().to_string_lossy();
        let name = option(command, &["-s", "--scheduler"]).unwrap_or(&folder);
        let policy = case.choice("the scheduler", name, &Policy::NAMES)?;
        let name = option(command, &["-p", "--placer"]).unwrap_or("consolidate");
        let placer = case.choice("the placer", name, &Placer::NAMES)?;
        for own in ["--sweep", "--profiler-auto", "--num_gpus_per_node"] {
            let mut words = command.split_whitespace();
            if words.any(|w| w.split('=').next() == Some(own)) {
                let what = format!("the command has {own}, which is not compared");
                return Err(case.bad("summary.json", what));
            }
        }
        let experiment = match option(command, &["-e", "--experiment-name"]) {
            Some(name) => name.to_owned(),
            // Philly's log lacks job names.
            None if case.input("Philly_lgb.csv").is_ok() => "Philly".to_owned(),
            None => "Venus_Sept".to_owned(),
        };
        let is_philly = experiment.contains("Philly");
        if !is_philly && experiment != "Venus_Sept" {
            let expected = "Venus_Sept or one of Philly";
            return Err(case.wrong("the experiment", experiment, expected));
        }
        Ok(Setting {
            policy,
            placer,
            experiment: match is_philly {
                true => Experiment::PHILLY,
                false => Experiment::VENUS,
            },
        })
    }

    fn read(&self, case: &Case) -> Result<Input, VerifyError> {
        let clusters =
            blox_traces::lucid_cluster::read_virtual_clusters(case.input("vc_config.csv")?)?;
        let log = case.input("cluster_full_log.csv")?;
        let window = self.experiment.window;
        let mut jobs = files::read_log(&log, &clusters, window)?;
        self.check(&log, &jobs)?;
        let estimates = match (self.policy, self.experiment == Experiment::PHILLY) {
            (Policy::Qssf, false) => Some("Venus_Sept_lgb.csv"),
            (Policy::Qssf, true) => Some("Philly_lgb.csv"),
            (Policy::Lucid, false) => Some("Venus_Sept_ebm_weekly_updated.csv"),
            (Policy::Lucid, true) => Some("Philly_ebm.csv"),
            _ => None,
        };
        if let Some(name) = estimates {
            let path = shared(case, "estimates", name)?;
            let estimates = files::read_estimates(&path)?;
            for job in &mut jobs {
                let name = job.name.as_deref().unwrap_or_default();
                let missing = || VerifyError::bad(&path, format!("no estimate of job {name}"));
                let estimate = *estimates.get(name).ok_or_else(missing)?;
                let floor = self.policy == Policy::Lucid && self.experiment.adapts;
                let estimate = if floor && estimate < 0.0 {
                    1000.0
                } else {
                    estimate
                };
                set_attribute(job, ESTIMATE, estimate);
            }
        }
        let mut input = Input {
            clusters,
            jobs,
            ..Input::default()
        };
        if self.policy == Policy::Lucid {
            let path = shared(case, "models/packing", "single_data.csv")?;
            let scores = files::read_scores(&path)?;
            for job in &mut input.jobs {
                let key = PairTable::key_of(job).unwrap_or_default();
                let missing = || VerifyError::bad(&path, format!("no row for the profile {key}"));
                set_attribute(job, SHARING_SCORE, *scores.get(&key).ok_or_else(missing)?);
            }
            let path = shared(case, "models/packing", "colocate_info.csv")?;
            input.pairs = Arc::new(files::read_pairs(path)?);
            if self.experiment.adapts {
                let path = shared(case, "models/throughput", "Venus_throughput_pred.csv")?;
                let read = |column| files::read_forecast(&path, column, window.begin).map(Some);
                input.gpus = read("pred_gpu_num")?;
                input.coming = read("pred_gpu_job")?;
            }
        }
        Ok(input)
    }

    /// Fails for a job that the original cannot end.
    fn check(&self, log: &std::path::Path, jobs: &[JobSpec]) -> Result<(), VerifyError> {
        let counts_down = matches!(self.policy, Policy::Srtf | Policy::Tiresias);
        for job in jobs {
            let seconds = job.duration().secs();
            if seconds.fract() != 0.0 || (seconds == 0.0 && !counts_down) {
                let name = job.name.as_deref().unwrap_or_default();
                let what = format!(
                    "job {name}: the duration is {seconds}, with which the original never ends; \
                     expected whole seconds, at least 1"
                );
                return Err(VerifyError::bad(log, what));
            }
        }
        Ok(())
    }
}

fn compare_jobs(
    case: &Case,
    policy: Policy,
    input: &Input,
    run: &lucid::Run,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let by_name: SortedMap<&str, usize> = input
        .jobs
        .iter()
        .enumerate()
        .map(|(i, j)| (j.name.as_deref().unwrap_or_default(), i))
        .collect();
    let mut sums = (0.0, 0.0);
    let find = |name: &str| by_name.get(name).copied();
    out.rows(case, "job_id", find, |out, what, row, at| {
        let (job, outcome) = (&input.jobs[at], run.outcomes[at].as_ref());
        let submit = job.submit.secs();
        let of = |f: &dyn Fn(&Outcome) -> f64| outcome.map(f);
        sums.0 += of(&|o| o.record.end as f64 - submit).unwrap_or(0.0);
        sums.1 += of(&|o| o.record.queue as f64).unwrap_or(0.0);
        let mut columns = vec![
            ("gpu_num", Some(f64::from(job.gpus.get()))),
            ("submit_time", Some(submit)),
            ("duration", Some(job.duration().secs())),
            ("start_time", of(&|o| o.record.start as f64)),
            ("end_time", of(&|o| o.record.end as f64)),
            ("queue", of(&|o| o.record.queue as f64)),
            ("jct", of(&|o| o.record.end as f64 - submit)),
            ("ckpt_times", of(&|o| f64::from(o.record.preemptions))),
            ("priority", of(&|o| o.record.priority)),
        ];
        if policy == Policy::Lucid {
            let flag = |f: &dyn Fn(&Outcome) -> bool| of(&|o| f64::from(u8::from(f(o))));
            let score = job.extras().attributes.get(SHARING_SCORE);
            let left = outcome.filter(|o| !o.skipped);
            let score = left.and_then(|_| score?.as_f64());
            columns.extend([
                ("profiled", flag(&|o| o.profiled.is_some())),
                ("profqueue", of(&|o| o.profiled.unwrap_or(0) as f64)),
                ("toskip", flag(&|o| o.skipped)),
                ("sharescore", score),
                ("exclusive", flag(&|o| o.record.exclusive)),
                ("rate", of(&|o| o.record.rate)),
                ("remain", of(&|o| o.record.remain)),
                ("Tcolocate", of(&|o| o.record.colocated as f64)),
                ("Tdelocate", of(&|o| o.record.separated as f64)),
            ]);
        }
        out.numbers(what, case, row, columns);
        let nodes = outcome.map_or("nothing".to_owned(), |o| shown_nodes(&o.record.nodes));
        let texts = [
            ("vc", job.virtual_cluster.as_deref().unwrap_or_default()),
            (
                "status",
                if outcome.is_some() {
                    "end"
                } else {
                    "unfinished"
                },
            ),
            ("nodes", &nodes),
        ];
        out.texts(what, case, row, &texts);
    })?;
    out.count("job_id", case, input.jobs.len());
    let jobs = input.jobs.len().max(1) as f64;
    let records = run.outcomes.iter().flatten().map(|o| &o.record);
    let first = input.jobs.iter().map(|j| j.submit.secs());
    let last = records.clone().map(|r| r.end as f64).fold(0.0, f64::max);
    let preemptions: u32 = records.map(|r| r.preemptions).sum();
    let figures = [
        ("jobs", input.jobs.len() as f64),
        ("avg_jct_s", sums.0 / jobs),
        ("avg_queue_s", sums.1 / jobs),
        ("preemptions", f64::from(preemptions)),
        ("makespan_s", last - first.fold(f64::INFINITY, f64::min)),
    ];
    out.figures(case, &figures)
}

/// Formats nodes as Python prints a list of dictionaries.
fn shown_nodes(nodes: &[(u32, Vec<u32>)]) -> String {
    let part = |(node, gpus): &(u32, Vec<u32>)| {
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        format!("{{{node}: [{}]}}", gpus.join(", "))
    };
    let parts: Vec<String> = nodes.iter().map(part).collect();
    format!("[{}]", parts.join(", "))
}

fn compare_scaling(
    table: &blox_traces::Cells,
    run: &lucid::Run,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let (time, nodes) = (table.column("time")?, table.column("scaling_num")?);
    for i in 0..table.rows.len().max(run.scalings.len()) {
        let what = format!("change {} of the profiler", i + 1);
        let found = run.scalings.get(i);
        let row = table.rows.get(i);
        let expected = |c: usize| row.map_or("", |r| &r[c]);
        out.number(&what, "time", expected(time), found.map(|s| s.at as f64));
        out.number(
            &what,
            "scaling_num",
            expected(nodes),
            found.map(|s| f64::from(s.nodes)),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_shown_as_python_shows_them() {
        let nodes = [(0, vec![0, 1]), (9999, vec![3])];
        assert_eq!(shown_nodes(&nodes), "[{0: [0, 1]}, {9999: [3]}]");
        assert_eq!(shown_nodes(&[]), "[]");
    }
}
