use super::{Claim, DataFile, Figure, Findings, Picture, ReproduceError, Row, Run, file};
use crate::schedulers::{pollux, sia};
use blox_core::{
    Adapts, ClusterSpec, Composition, Event, JobSpec, Outlook, Part, Pipeline, Requests,
    RestoreError, Rounds, SchedulingPolicy, Seconds, Time, View,
};
use blox_plot::{Axis, BarChart};
use blox_policies::placement::{KeepNodes, OnNodes};
use blox_policies::scheduling::{Pollux, Sia};
use blox_sim::compat::sia::read_jobs;
use blox_sim::execution::Training;
use blox_sim::execution::training::{Applications, built_in, read_dir};
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Sia's average JCT over arrival rates.
pub(super) struct SiaFig7;

/// How long a round's decision takes.
pub(super) struct SiaScale;

const FROM: &str =
    "https://github.com/siasosp23/artifacts, folder `sia-simulator` (no licence statement)";
const TRACES: DataFile = DataFile {
    path: "traces",
    from: FROM,
};
const PHILLY: DataFile = DataFile {
    path: "workloads/philly",
    from: FROM,
};
const PAPER: &str = "Sia (SOSP 2023), section 5.6 and figure 9, of the submission";
const RELEASED: &str =
    "siasosp23/artifacts aaf7a0d, its simulator, the first jobs of Philly workload 1, 64 GPUs";

/// Jobs an hour.
const RATES: [u32; 5] = [10, 20, 30, 40, 50];
/// Hours of arrivals.
const HOURS: f64 = 8.0;
/// Workloads of each rate.
const DRAWS: u64 = 2;

/// Jobs drawn from a pool, coming at random at a rate.
fn drawn(pool: &[JobSpec], per_hour: f64, hours: f64, seed: u64) -> Vec<JobSpec> {
    let mut state = seed;
    let mut unit = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut jobs = Vec::new();
    let mut at = 0.0;
    while !pool.is_empty() {
        at += -libm::log(1.0 - unit()) * 3600.0 / per_hour;
        if at >= hours * 3600.0 {
            break;
        }
        let mut job = pool[(unit() * pool.len() as f64) as usize].clone();
        job.submit = Time::new(at);
        job.name = None;
        jobs.push(job);
    }
    jobs
}

/// The jobs of the published Philly workloads, whenever they come.
fn pool(
    figure: &dyn Figure,
    data: Option<&Path>,
    applications: &Applications,
) -> Result<Vec<JobSpec>, ReproduceError> {
    let folder = file(figure, data, PHILLY.path)?;
    let mut all = Vec::new();
    for number in 1..=8 {
        let path = folder.join(format!("workload-{number}.csv"));
        all.extend(collect(&mut read_jobs(path)?)?);
    }
    for job in &mut all {
        applications.describe(job, Adapts::All);
    }
    Ok(all)
}

type Build = fn() -> Pipeline;
const SCHEDULERS: [(&str, Build); 2] = [("Sia", sia), ("Pollux", pollux)];

impl Figure for SiaFig7 {
    fn name(&self) -> &'static str {
        "sia-fig7"
    }

    fn title(&self) -> &'static str {
        "Sia (SOSP 2023), figure 7: average JCT under Sia and Pollux, 10 to 50 jobs an hour on 64 GPUs of three types"
    }

    fn data(&self) -> &'static [DataFile] {
        &[TRACES, PHILLY]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let applications = read_dir(file(self, data, TRACES.path)?)?;
        let pool = pool(self, data, &applications)?;
        let cluster: ClusterSpec = "6x4:aws,2x8:dgx-ext,3x8:rtx".parse()?;
        let mut runs = Vec::new();
        for rate in RATES {
            for (name, build) in SCHEDULERS {
                for seed in 1..=DRAWS {
                    let jobs = drawn(&pool, f64::from(rate), HOURS, seed);
                    runs.push(Run {
                        label: format!("{name}, {rate} jobs an hour, {seed}"),
                        simulation: Simulation::new(cluster.clone())
                            .execution(Training::of(applications.clone()))
                            .overheads(CheckpointRestart::default()),
                        scheduler: build(),
                        workload: Box::new(Jobs::new(jobs)),
                    });
                }
            }
        }
        Ok(runs)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let mut findings = Findings {
            notes: vec![format!(
                "{DRAWS} workloads a rate: jobs of the published Philly workloads that come at random for {HOURS} hours; the paper draws ten a rate from other traces"
            )],
            ..Findings::default()
        };
        let mut bars = BarChart::new("Average JCT by jobs an hour", Axis::new("hours"));
        let mut chunks = reports.chunks(DRAWS as usize);
        let mut half = !reports.is_empty();
        for rate in RATES {
            let mut averages = Vec::new();
            for (name, _) in SCHEDULERS {
                let own = chunks.next().unwrap_or_default();
                let jcts: f64 = own.iter().map(|r| r.summary.avg_jct_s).sum();
                let ours = jcts / own.len().max(1) as f64 / 3600.0;
                let what = format!("avg JCT h, {name}, {rate} jobs an hour");
                findings.rows.push(Row::new(what, ours, 2));
                averages.push((name, ours));
            }
            if let [(_, sia), (_, pollux)] = averages[..] {
                half &= sia <= 0.5 * pollux;
            }
            bars = bars.with(format!("{rate}"), averages);
        }
        let text = "the average JCT under Sia is at most half of that under Pollux at each rate";
        findings.claims.push(Claim::new(text, half));
        findings.pictures.push(Picture {
            name: "sia-fig7".to_owned(),
            svg: bars.svg(),
        });
        findings
    }
}

/// Notes how long each decision of another policy takes.
#[derive(Clone)]
struct Timed {
    policy: Box<dyn SchedulingPolicy>,
    times: Arc<Mutex<Vec<f64>>>,
}

impl Part for Timed {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.policy.observe(view, event);
    }

    fn save(&self) -> Option<serde_json::Value> {
        self.policy.save()
    }

    fn restore(&mut self, memory: serde_json::Value) -> Result<(), RestoreError> {
        self.policy.restore(memory)
    }
}

impl SchedulingPolicy for Timed {
    #[allow(clippy::disallowed_methods, reason = "no decision depends on it")]
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        let start = Instant::now();
        let outlook = self.policy.schedule(view, out);
        if let Ok(mut times) = self.times.lock() {
            times.push(start.elapsed().as_secs_f64());
        }
        outlook
    }
}

/// GPUs in units of the paper's cluster of 64; whether Pollux is timed there as well; what the paper gives for
/// Sia, in milliseconds.
const SIZES: [(u32, bool, Option<f64>); 4] = [
    (1, true, Some(96.0)),
    (4, true, None),
    (16, false, None),
    (32, false, Some(1000.0)),
];
/// Hours of arrivals, at 20 jobs an hour for 64 GPUs.
const BUSY_HOURS: f64 = 2.0;

/// Milliseconds of each decision: the median, and what 95 % stay below.
fn decisions(
    size: u32,
    policy: Box<dyn SchedulingPolicy>,
    over_nodes: bool,
    pool: &[JobSpec],
    applications: &Applications,
) -> Result<[f64; 2], ReproduceError> {
    let cluster: ClusterSpec = format!(
        "{}x4:aws,{}x8:dgx-ext,{}x8:rtx",
        6 * size,
        2 * size,
        3 * size
    )
    .parse()?;
    let times = Arc::new(Mutex::new(Vec::new()));
    let timed = Timed {
        policy,
        times: Arc::clone(&times),
    };
    let base = Composition::new("timed");
    let base = match Rounds::every(Seconds::new(60.0)) {
        Some(rounds) => base.cadence(rounds),
        None => base,
    };
    let base = base.scheduling(timed);
    let scheduler = match over_nodes {
        true => base.placement(OnNodes).build(),
        false => base.placement(KeepNodes).build(),
    };
    let jobs = drawn(pool, 20.0 * f64::from(size), BUSY_HOURS, 1);
    Simulation::new(cluster)
        .execution(Training::of(applications.clone()))
        .overheads(CheckpointRestart::default())
        .run(scheduler, &mut Jobs::new(jobs))
        .map_err(|error| ReproduceError::Simulation {
            label: format!("{} GPUs", 64 * size),
            error: Box::new(error),
        })?;
    let mut all = times.lock().map(|t| t.clone()).unwrap_or_default();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * all.len() as f64) as usize;
        1000.0 * all.get(place).copied().unwrap_or(0.0)
    };
    Ok([at(0.5), at(0.95)])
}

/// Jobs of built-in applications in the sizes that their owners would ask for.
fn plain_pool(applications: &Applications) -> Vec<JobSpec> {
    let kinds = [
        ("cifar10", 4, 512),
        ("cifar10", 1, 128),
        ("cifar10", 8, 1024),
        ("cifar10", 2, 256),
        ("deepspeech2", 4, 160),
        ("bert", 2, 24),
        ("yolov3", 4, 64),
        ("imagenet", 16, 3200),
    ];
    let mut all = Vec::new();
    for (model, gpus, batch) in kinds {
        let gpus = blox_core::GpuCount(gpus);
        let extras = blox_core::Extras {
            model: Some(model.into()),
            batch_size: Some(batch),
            ..blox_core::Extras::default()
        };
        let mut job = JobSpec::new(Time::ZERO, gpus, Seconds::new(1.0)).with_extras(extras);
        if applications.describe(&mut job, Adapts::All) {
            all.push(job);
        }
    }
    all
}

fn scale() -> Result<Findings, ReproduceError> {
    let applications = built_in();
    let pool = plain_pool(&applications);
    let mut findings = Findings {
        notes: vec![
            "of this machine, and of this run: times differ from run to run".to_owned(),
            "built-in applications, 20 jobs an hour for every 64 GPUs, for two hours".to_owned(),
        ],
        ..Findings::default()
    };
    let mut tenth = true;
    for (size, both, published) in SIZES {
        let gpus = 64 * size;
        let sia = Box::new(Sia::default());
        let [median, high] = decisions(size, sia, false, &pool, &applications)?;
        let mut row = Row::new(format!("ms a round, Sia, {gpus} GPUs, median"), median, 2);
        if let Some(published) = published {
            row = row.published(published, PAPER);
            tenth &= median <= 0.1 * published;
        }
        if size == 1 {
            row = row.artifact(13.5, RELEASED);
            tenth &= median <= 1.35;
        }
        findings.rows.push(row);
        let what = format!("ms a round, Sia, {gpus} GPUs, 95 %");
        let row = Row::new(what, high, 2);
        findings.rows.push(match size {
            1 => row.published(426.0, PAPER),
            _ => row,
        });
        if !both {
            continue;
        }
        let pollux = Box::new(Pollux::default());
        let [median, high] = decisions(size, pollux, true, &pool, &applications)?;
        let what = |which| format!("ms a round, Pollux, {gpus} GPUs, {which}");
        let (mut middle, mut last) = (
            Row::new(what("median"), median, 2),
            Row::new(what("95 %"), high, 2),
        );
        if size == 1 {
            middle = middle.published(2200.0, PAPER).artifact(1461.2, RELEASED);
            last = last.published(4800.0, PAPER);
            tenth &= median <= 146.1;
        }
        findings.rows.extend([middle, last]);
    }
    let text =
        "a round's decision takes at most a tenth of what the paper and the released program take";
    findings.claims.push(Claim::new(text, tenth));
    Ok(findings)
}

impl Figure for SiaScale {
    fn name(&self) -> &'static str {
        "sia-scale"
    }

    fn title(&self) -> &'static str {
        "Sia (SOSP 2023), figure 9: how long a round's decision takes on 64 to 2,048 GPUs"
    }

    fn runs(&self, _: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        Ok(Vec::new())
    }

    fn findings(&self, _: &[Report]) -> Findings {
        Findings::default()
    }

    fn whole(&self, _: Option<&Path>) -> Option<Result<Findings, ReproduceError>> {
        Some(scale())
    }
}
