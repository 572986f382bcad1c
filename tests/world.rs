//! Tests of execution models, other world components and collectors by name, both built-in and
//! external.

#[path = "support/codes.rs"]
mod codes;

use blox::core::registry::{Registry, param};
use blox::core::{Assignment, JobRef, MetricCollector, Plan, Stateless, View};
use blox::sim::execution::ExecutionModel;
use blox::sim::registry::World;

/// An execution model that speeds up every job by one factor.
struct Faster(f64);

impl Stateless for Faster {}

impl ExecutionModel for Faster {
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.spec().work.rate * self.0
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

fn registry() -> Registry {
    let mut registry = blox::registry();
    let factor = param("factor", "2", "multiple of a job's own rate");
    registry
        .execution_models_mut()
        .add("faster", "jobs are faster", &[factor], |p, _| {
            Ok(Box::new(Faster(p.f64("factor", 2.0)?)))
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

fn run_in(line: &str) -> (i32, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("blox").chain(line.split_whitespace());
    let code = blox::cli::run_with(&registry(), args, &mut out, &mut err);
    let text = if code == 0 { out } else { err };
    (code, codes::without(&text))
}

const JOBS: &str = "--workload poisson --load 4 --jobs 20 --durations fixed:6000 --cluster 4x4 \
                    --on-event 0";

fn average(line: &str) -> f64 {
    let text = run(&format!("simulate {line} {JOBS} --json"));
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
    let text = run(&format!("compare fifo fast-fifo {JOBS} --json"));
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
        assert_eq!(code, 2, "{line}: {text}");
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
        "collectors (--collect NAME)",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    assert!(run("policies faster").contains("factor=2"));
}
