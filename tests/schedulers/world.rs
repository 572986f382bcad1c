//! Tests of execution models, other world components and collectors by name, both built-in and
//! external.

use crate::cases::{self, composed};
use crate::support::run_with;
use blox::core::{
    Assignment, ClusterManager, ClusterSpec, GpuCount, JobRef, JobSpec, MetricCollector,
    NodeAction, NodeActionKinds, NodeActions, NodeId, NodeSpec, Offer, OfferId, Plan, Seconds,
    Stateless, Time, Validity, View,
};
use blox::policies::placement::{Consolidated, InOrder};
use blox::policies::scheduling::Fifo;
use blox::registry::{Registry, param};
use blox::sim::Simulation;
use blox::sim::execution::ExecutionModel;
use blox::sim::overheads::FixedOverheads;
use blox::sim::registry::World;
use blox::sim::workload::{Jobs, Notices, Workload, WorkloadError, WorkloadSource};

/// An execution model that speeds up every job by one factor.
struct Faster(f64);

impl Stateless for Faster {}

impl ExecutionModel for Faster {
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.own_rate() * self.0
    }
}

/// A collector that counts decisions.
#[derive(Clone, Default)]
struct Decisions(u32);

impl MetricCollector for Decisions {
    fn on_decision(&mut self, _: View<'_>, _: &Plan) {
        self.0 += 1;
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![("visited".to_owned(), f64::from(self.0))]
    }
}

/// Batches of jobs, one job for each GPU. The seed shifts the first batch by seconds.
struct Batches {
    count: u64,
    gap_s: f64,
    seed: u64,
}

impl WorkloadSource for Batches {
    fn open(&self, cluster: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        let submits = (0..self.count).map(|i| self.seed as f64 + i as f64 * self.gap_s);
        let jobs = submits.flat_map(|at| {
            let job = JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(600.0));
            (0..cluster.total_gpus()).map(move |_| job.clone())
        });
        Ok(Box::new(Jobs::new(jobs.collect())))
    }
}

/// Jobs at equal distances, without an end.
#[derive(Clone)]
struct Steady {
    load: f64,
    made: f64,
    notices: Notices,
}

impl Workload for Steady {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        self.made += 1.0;
        let at = Time::new(self.made * 3600.0 / self.load);
        Ok(Some(JobSpec::new(at, GpuCount(1), Seconds::new(60.0))))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        format!("{} steady jobs per hour", self.load)
    }
}

impl WorkloadSource for Steady {
    fn open(&self, _: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        Ok(Box::new(self.clone()))
    }

    fn jobs_per_hour(&self, _: &ClusterSpec) -> Option<f64> {
        Some(self.load)
    }
}

fn registry() -> Registry {
    let mut registry = blox::registry();
    let params = [
        param("count", "2", "batches"),
        param("gap_s", "900", "seconds between batches"),
    ];
    registry
        .workloads_mut()
        .add("batches", "a job for each GPU", &params, |p, seed| {
            let (count, gap_s) = (p.u64("count")?, p.f64("gap_s")?);
            Ok(Box::new(Batches { count, gap_s, seed }))
        });
    let load = param("load", "30", "jobs per hour");
    registry
        .workloads_mut()
        .add("steady", "equal distances", &[load], |p, _| {
            let (load, notices) = (p.f64("load")?, Notices::default());
            let made = 0.0;
            Ok(Box::new(Steady {
                load,
                made,
                notices,
            }))
        });
    let factor = param("factor", "2", "multiple of a job's own rate");
    registry
        .execution_models_mut()
        .add("faster", "jobs are faster", &[factor], |p, _| {
            Ok(Box::new(Faster(p.f64("factor")?)))
        });
    registry
        .collectors
        .add("decisions", "counts them", &[], |_, _| {
            Ok(Box::new(Decisions::default()))
        });
    let fifo = registry.schedulers.get("fifo").cloned();
    assert!(fifo.is_some());
    let build = |_: &_, _| Ok(blox::schedulers::fifo());
    let entry = registry.schedulers.add("fast-fifo", "", &[], build);
    entry.with_execution("faster");
    let entry = registry.schedulers.add("slow-fifo", "", &[], build);
    entry.with_overheads("groups");
    registry
}

/// Returns standard output, or standard error after an error.
fn run(line: &str) -> String {
    run_in(line).1
}

fn run_in(line: &str) -> (Option<i32>, String) {
    let seen = run_with(&registry(), &format!("blox {line}"));
    let good = seen.code == Some(0);
    (seen.code, if good { seen.out } else { seen.err })
}

const JOBS: &str = "--workload poisson --load 4 --jobs 20 --durations fixed:6000 --cluster 4x4 \
                    --on-event 0";

fn average(line: &str) -> f64 {
    let free = match line.contains("--overheads") {
        true => "",
        false => "--overheads none",
    };
    let text = run(&format!("simulate {line} {JOBS} {free} --json"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["median_jct_s"].as_f64().unwrap()
}

#[test]
fn an_own_execution_model_works_by_name() {
    assert_eq!(average("fifo"), 6000.0);
    assert_eq!(average("fifo --execution faster"), 3000.0);
    assert_eq!(average("fifo --execution faster{factor=4}"), 1500.0);
}

#[test]
fn a_scheduler_names_its_execution_model() {
    assert_eq!(average("fast-fifo"), 3000.0);
    // A command-line option has precedence over the scheduler's world.
    assert_eq!(average("fast-fifo --execution fixed-rate"), 6000.0);
    let text = run(&format!(
        "compare fifo fast-fifo {JOBS} --overheads none --json"
    ));
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    let medians = [0, 1].map(|i| rows[i]["median_jct_s"].as_f64());
    assert_eq!(medians, [Some(6000.0), Some(3000.0)]);
    // A notice states that the worlds differ.
    let notice = "fast-fifo: jobs run under its own `faster`, unlike those of other schedulers";
    let text = run(&format!("compare fifo fast-fifo {JOBS}"));
    assert!(text.contains(notice), "{text}");
    let same = run(&format!("compare fifo fast-fifo --execution faster {JOBS}"));
    assert!(!same.contains("unlike those"), "{same}");
}

#[test]
fn a_replaced_model_of_a_scheduler_is_named() {
    for (options, notice) in [
        (
            "fast-fifo --execution fixed-rate",
            "--execution fixed-rate replaces fast-fifo's own execution model `faster`",
        ),
        (
            "slow-fifo --overheads fixed",
            "--overheads fixed replaces slow-fifo's own overheads `groups`",
        ),
        (
            "slow-fifo --restart-s 5",
            "--restart-s 5 replaces slow-fifo's own overheads `groups`",
        ),
        (
            "slow-fifo --group-overheads-s 4,4",
            "--group-overheads-s 4,4 replaces slow-fifo's own overheads `groups`",
        ),
    ] {
        let text = run(&format!("simulate {options} {JOBS}"));
        assert_eq!(text.matches(notice).count(), 1, "{notice}: {text}");
    }
    // The same model replaces nothing, and other options concern other models.
    for options in [
        "fast-fifo --execution faster",
        "fast-fifo --overheads groups",
        "slow-fifo --overheads groups",
        "slow-fifo --execution faster",
        "fifo --execution faster --restart-s 5",
    ] {
        let text = run(&format!("simulate {options} {JOBS}"));
        assert!(!text.contains(" replaces "), "{options}: {text}");
    }
}

#[test]
fn a_collector_shows_its_figures() {
    let text = run(&format!(
        "compare fifo las {JOBS} --collect queue --collect decisions"
    ));
    for line in [
        "fifo       queue      longest_jobs",
        "las        decisions  visited",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = run(&format!("simulate fifo {JOBS} --collect decisions --json"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["collected"]["decisions"]["visited"].as_f64() > Some(1.0));
    let text = run(&format!(
        "compare fifo las {JOBS} --collect queue --output-format csv"
    ));
    let head = text.lines().next().unwrap_or_default();
    assert!(
        head.ends_with(",queue_longest_jobs,queue_mean_jobs"),
        "{head}"
    );
}

#[test]
fn a_sweep_varies_execution_models_and_keeps_figures() {
    let line = "sweep fifo --vary execution=faster|faster{factor=3} --collect queue";
    let text = run(&format!("{line} {JOBS} --output-format csv"));
    let mut rows = text.lines();
    let head = rows.next().unwrap_or_default();
    assert!(
        head.contains(",execution,") && head.ends_with(",queue_mean_jobs"),
        "{head}"
    );
    assert!(text.contains("faster{factor=3}"), "{text}");
    assert_eq!(rows.count(), 2);
}

#[test]
fn a_step_takes_both() {
    // Without input it ends immediately.
    let line = format!("step fifo {JOBS} --execution faster --collect decisions");
    assert!(run(&line).ends_with("decisions: visited 0\n"));
}

#[test]
fn overheads_and_completion_rules_have_names() {
    let base = average("fifo");
    let launched = "fifo --overheads fixed{launch_s=50}";
    assert_eq!(average(launched), base + 50.0);
}

/// Powers the second node off at the start. Once a job waits, powers it on or requests a third.
struct OneMore {
    grows: bool,
}

impl Stateless for OneMore {}

impl ClusterManager for OneMore {
    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::ALL
    }

    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let waits = view.waiting_count() > 0 && view.now() > Time::ZERO;
        let node = NodeId(1);
        if view.now() == Time::ZERO {
            out.push(NodeAction::Power { node, on: false });
        } else if waits && !self.grows {
            out.push(NodeAction::Power { node, on: true });
        } else if waits && view.cluster().coming() == 0 {
            let offer = OfferId(0);
            out.push(NodeAction::Grow { offer, count: 1 });
        }
        Validity::NextRound
    }
}

#[test]
fn node_is_up_after_the_time_of_its_boot() {
    let second_start = |grows, boot| {
        let fifo = composed(
            "one-more",
            Fifo::default(),
            InOrder::new(Consolidated::default()),
        );
        let scheduler = fifo.with_cluster(OneMore { grows }).unwrap();
        let booting = FixedOverheads {
            boot: Seconds::new(boot),
            ..FixedOverheads::default()
        };
        let cluster = ClusterSpec {
            offers: vec![Offer::new("more", NodeSpec::with_gpus(1), 1)],
            ..ClusterSpec::uniform(2, 1)
        };
        let nodes = Simulation::new(cluster).overheads(booting);
        let jobs = [0.0, 100.0].map(|at| cases::job(at, 1, 5000.0));
        let report = cases::run(&nodes, scheduler, &jobs);
        report.jobs[1].first_start.map(Time::secs)
    };
    // The job is admitted at 300 s, and the node is requested at 600 s.
    for grows in [false, true] {
        assert_eq!(second_start(grows, 0.0), Some(900.0));
        assert_eq!(second_start(grows, 400.0), Some(1200.0));
    }
}

/// Returns the standard output of a line that must succeed.
fn good(line: &str) -> String {
    let (code, text) = run_in(line);
    assert_eq!(code, Some(0), "{line}: {text}");
    text
}

#[test]
fn own_workload_has_parameters_and_seed_everywhere() {
    let seen = good("simulate fifo --workload batches{count=3} --cluster 2x4");
    assert!(seen.contains("workload   24 jobs in memory"), "{seen}");
    let line = "compare fifo las --workload batches --cluster 1x4 --seeds 1,2 --output-format csv";
    let seen = good(line);
    assert!(seen.contains("fifo") && seen.contains("las"), "{seen}");
    let line = "sweep fifo --vary workload=batches|batches{count=4} --cluster 1x4 --seeds 1..2 \
                --output-format csv";
    let seen = good(line);
    for (workload, jobs) in [("batches", "8"), ("batches{count=4}", "16")] {
        let rows = seen
            .lines()
            .filter(|row| row.contains(&format!(",{workload},")));
        let rows: Vec<&str> = rows.collect();
        assert_eq!(rows.len(), 2, "{seen}");
        let jobs = format!(",{jobs},");
        assert!(rows.iter().all(|row| row.contains(&jobs)), "{seen}");
    }
    let seen = good("step fifo --workload batches --cluster 1x4");
    assert!(seen.contains("8 jobs in memory"), "{seen}");
    let line = "trace generate --workload batches{gap_s=50} --cluster 1x2 --jobs 3 --seed";
    for (seed, submits) in [(1, ["1", "1", "51"]), (7, ["7", "7", "57"])] {
        let seen = good(&format!("{line} {seed}"));
        let mut csv = csv::Reader::from_reader(seen.as_bytes());
        let at = csv.headers().unwrap().iter().position(|h| h == "submit_s");
        let found: Vec<String> = csv
            .records()
            .map(|row| row.unwrap()[at.unwrap()].to_owned())
            .collect();
        assert_eq!(found, submits, "{seen}");
    }
}

#[test]
fn option_named_as_a_parameter_sets_own_workload() {
    for (options, load) in [
        ("steady", "30"),
        ("steady{load=6}", "6"),
        ("steady --load 12", "12"),
    ] {
        let seen = good(&format!("simulate fifo --workload {options} --jobs 3"));
        let about = format!("workload   the first 3 jobs of {load} steady jobs per hour");
        assert!(seen.contains(&about), "{options}: {seen}");
    }
    let seen = good("sweep fifo --workload steady --jobs 3 --loads 2,4 --output-format csv");
    assert_eq!(seen.lines().count(), 3, "{seen}");
}

#[test]
fn built_in_workloads_take_braces_and_options_alike() {
    let of = |workload: &str| {
        good(&format!(
            "trace generate --workload {workload} --jobs 9 --cluster 1x4"
        ))
    };
    let options = of(
        "bursty --load-of-capacity 0.5 --durations lognormal:600,1 --gpu-mix 1:7,2:3 --burst-h 1",
    );
    let braces = "bursty{load_of_capacity=0.5,durations=lognormal:600,1,gpu_mix=1:7,2:3,burst_h=1}";
    assert_eq!(of(braces), options);
    assert_eq!(of("blox{load=4}"), of("blox --load 4"));
}

#[test]
fn wrong_workloads_are_one_sentence() {
    for (line, sentence) in [
        (
            "--workload baches",
            "--workload is `baches`, expected one of batches, blox, bursty, diurnal, poisson, services, steady; did you mean `batches`?",
        ),
        (
            "--workload batches{cuont=3}",
            "workload `batches` has no parameter `cuont`, did you mean `count`? it has: count, gap_s",
        ),
        (
            "--workload batches{count=x}",
            "--workload: parameter `count` is `x`, expected a whole number from 0",
        ),
        (
            "--workload batches{",
            "--workload: `batches{` is not understood, expected NAME or NAME{PARAMETER=VALUE,...}",
        ),
        (
            "--workload batches --load 3",
            "--load has no meaning with --workload batches, only with --workload blox, bursty, diurnal, poisson or steady; `batches` has count, gap_s",
        ),
        (
            "--workload steady{load=3} --load 3",
            "--load and `load` of --workload are both given, expected one of them",
        ),
        (
            "--workload steady --load nan",
            "--load is `nan`, expected a number of jobs an hour, from 1e-6 to 1e9",
        ),
        (
            "--workload steady",
            "--workload steady never ends: give --jobs N, --measure A..B or --until WHEN",
        ),
    ] {
        let (code, text) = run_in(&format!("simulate fifo {line}"));
        assert_eq!(code, Some(2), "{line}: {text}");
        assert!(
            text.starts_with(&format!("error: {sentence}")),
            "{line}: {text}"
        );
    }
}

#[test]
fn wrong_names_of_the_world_are_one_sentence() {
    for (line, sentence) in [
        (
            "simulate fifo --execution fster",
            "unknown execution model `fster`, did you mean `faster`? known: as-specified, ",
        ),
        (
            "simulate fifo --execution faster{factor=x}",
            "--execution: parameter `factor` is `x`, expected a number",
        ),
        (
            "simulate fifo --collect x",
            "--collect: unknown collector `x`; known: decisions, nodes, queue",
        ),
        (
            "simulate fifo --collect queue --collect queue",
            "--collect is `queue`, expected each collector once",
        ),
        (
            "simulate fifo --overheads fixed --launch-s 5",
            "--overheads is given beside other overheads, expected one or the other",
        ),
        (
            "simulate fifo --completion x",
            "--completion is `x`, expected one of round, exact",
        ),
    ] {
        let (code, text) = run_in(line);
        assert_eq!(code, Some(2), "{line}: {text}");
        assert!(text.contains(sentence), "{line}: {text}");
    }
}

#[test]
fn the_policies_command_lists_the_world() {
    let text = run("policies");
    for title in [
        "execution models (--execution NAME)",
        "overheads (--overheads NAME)",
        "completion rules (--completion NAME)",
        "workloads (--workload NAME)",
        "collectors (--collect NAME)",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    assert!(run("policies faster").contains("factor=2"));
}
