//! Speeds that an execution model gives, or fails to give.

use crate::{composed, fifo, run};
use blox_core::{
    Adapts, Answer, Assignment, ClusterSpec, Draft, Extras, GpuCount, GpuId, JobId, JobQueue,
    JobRef, JobSpec, PlacementPolicy, Seconds, Stateless, Time, TrainingSpec, TypeLimits,
    TypeSpeeds, Validity, View,
};
use blox_results::Summary;
use blox_sim::completion::Exact;
use blox_sim::execution::{ExecutionModel, Stretch, Turn};
use blox_sim::overheads::FixedOverheads;
use blox_sim::workload::Jobs;
use blox_sim::{Report, SimError, Simulation};
use std::sync::Arc;

fn job(extras: Extras) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(900.0)).with_extras(extras)
}

/// A job of a model, with speeds alone by GPU type.
fn measured(model: &str, alone: &[(&str, f64)]) -> Extras {
    let mut speeds = TypeSpeeds::default();
    for (gpu_type, rate) in alone {
        speeds.set(*gpu_type, *rate);
    }
    Extras {
        model: Some(model.into()),
        speeds: Some(Arc::new(speeds)),
        ..Extras::default()
    }
}

fn on(cluster: &str) -> Simulation {
    Simulation::new(cluster.parse::<ClusterSpec>().unwrap()).completion(Exact)
}

fn finishes(report: &Report) -> Vec<Option<f64>> {
    let finishes = report.jobs.iter().map(|j| j.finish);
    finishes.map(|at| at.map(Time::secs)).collect()
}

#[test]
fn jobs_run_only_on_types_on_which_they_have_a_speed() {
    // The first nodes are of a type on which the first job does not run. For the second one, it was
    // not measured.
    let jobs = [
        job(measured("a", &[("k80", 0.0), ("v100", 1.0)])),
        job(measured("b", &[("v100", 0.5)])),
        job(measured("c", &[("k80", 0.25), ("v100", 1.0)])),
    ];
    let report = run(&on("1x1:k80,1x2:v100"), fifo(), &jobs);
    assert_eq!(finishes(&report), [Some(900.0), Some(1800.0), Some(3600.0)]);
}

/// Places the second job beside the first one.
struct Pair;

impl Stateless for Pair {}

impl PlacementPolicy for Pair {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        while let Some(request) = draft.next_candidate(requests) {
            let mut on = Assignment::of([GpuId(0)]);
            if request.job != JobId(0) {
                on.share = on.share.overlapping();
            }
            draft.assign(request.job, on)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    }
}

fn pair(simulation: &Simulation, jobs: [Extras; 2]) -> Result<Report, SimError> {
    let order = blox_core::policy::by_key(|job: &JobRef<'_>| {
        blox_core::order::SortKey::by(f64::from(job.id().0))
    });
    let order = order.valid_until_event();
    simulation.run(
        composed("pair", order, Pair),
        &mut Jobs::new(jobs.map(job).to_vec()),
    )
}

#[test]
fn unmeasured_pair_shares_by_stages_or_utilisation() {
    let staged = |stages: [f64; 4]| Extras {
        attributes: [("stages".into(), serde_json::json!(stages))].into(),
        ..measured("a", &[("v100", 1.0)])
    };
    // Different stages: the jobs alternate without loss.
    let report = pair(
        &on("1x1:v100"),
        [staged([0.0, 0.5, 0.5, 0.0]), staged([0.5, 0.0, 0.0, 0.5])],
    );
    assert_eq!(finishes(&report.unwrap()), [Some(900.0), Some(900.0)]);
    // Only one has stages: both use the whole GPU.
    let report = pair(
        &on("1x1:v100"),
        [
            staged([0.0, 0.5, 0.5, 0.0]),
            measured("b", &[("v100", 1.0)]),
        ],
    );
    assert_eq!(finishes(&report.unwrap()), [Some(1800.0), Some(1800.0)]);
}

#[test]
fn launch_without_speed_is_refused_with_the_pair() {
    let mut speeds = TypeSpeeds::default();
    speeds.set("v100", 1.0);
    speeds.set_beside("v100", "b", 1.0, 0.0);
    let first = Extras {
        speeds: Some(Arc::new(speeds)),
        ..measured("a", &[])
    };
    let expected = "at 0 s: execution model `Training` gives job 1 no speed as b on GPU type v100 \
                    beside job 0 (a)";
    for launch in [0.0, 10.0] {
        let simulation = on("1x1:v100").overheads(FixedOverheads {
            launch: Seconds::new(launch),
            ..FixedOverheads::default()
        });
        let report = pair(
            &simulation,
            [first.clone(), measured("b", &[("v100", 1.0)])],
        );
        let error = report.unwrap_err().to_string();
        let expected = expected.replace("at 0 s", &format!("at {launch} s"));
        assert_eq!(error, expected);
    }
}

#[test]
fn training_on_a_type_without_step_times_is_refused() {
    let limits = TypeLimits {
        per_gpu: (1, 8),
        one_gpu_rate: 1.0,
        stages: 1,
    };
    let bert = Extras {
        model: Some("bert".into()),
        training: Some(Arc::new(TrainingSpec {
            initial_batch: 8,
            max_batch: 8,
            adapts: Adapts::Nothing,
            restart: Seconds::ZERO,
            types: [("v100".into(), limits)].into_iter().collect(),
        })),
        ..Extras::default()
    };
    let report = on("1x8:v100").run(fifo(), &mut Jobs::new(vec![job(bert)]));
    assert_eq!(
        report.unwrap_err().to_string(),
        "at 0 s: execution model `Training` gives job 0 no speed as bert on GPU type v100"
    );
}

/// A user's model that gives a rate at the launch, and one after 100 s.
struct Mine(f64, f64);

impl Stateless for Mine {}

impl ExecutionModel for Mine {
    fn rate(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>, _: &Assignment) -> f64 {
        self.0
    }

    fn stretch(&self, (): &mut (), view: View<'_>, _: &JobRef<'_>) -> Option<Stretch> {
        Some(Stretch {
            until: view.now() + Seconds::new(100.0),
            ends: false,
            config: blox_core::Config::NONE,
        })
    }

    fn turn(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>, _: Time) -> Option<Turn> {
        Some(Turn {
            report: None,
            work: 1.0,
            rate: self.1,
        })
    }
}

#[test]
fn invalid_rates_are_blamed_on_their_model() {
    let error = |first, second| {
        let simulation = on("1x1").execution(Mine(first, second));
        let jobs = vec![job(Extras::default())];
        let report = simulation.run(fifo(), &mut Jobs::new(jobs));
        report.unwrap_err().to_string()
    };
    for (rate, text) in [(f64::NAN, "NaN"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        assert_eq!(
            error(rate, 1.0),
            format!(
                "at 0 s: execution model `Mine` gives job 0 the rate {text} on GPUs without a type, \
                 expected a finite number above 0"
            )
        );
        assert_eq!(
            error(1.0, rate),
            format!(
                "at 100 s: execution model `Mine` gives job 0 the work 1 and the rate {text} after a \
                 stretch, expected finite numbers, at least 0"
            )
        );
    }
}

#[test]
fn utilisation_counts_shared_gpus_once() {
    let alone = |model| measured(model, &[("v100", 1.0)]);
    // Both jobs use the whole GPU, so each takes 1,800 s.
    let report = pair(&on("1x1:v100"), [alone("a"), alone("b")]).unwrap();
    assert_eq!(Summary::of(&report).utilisation, 1.0);
    // A second node joins after a quarter of the time and stays idle.
    let joins = blox_core::Event::NodeJoined {
        spec: Box::new(blox_core::NodeSpec {
            gpus: 1,
            ..Default::default()
        }),
    };
    let jobs = [job(Extras::default())];
    let simulation = on("1x1").happening(Time::new(225.0), joins);
    let report = run(&simulation, fifo(), &jobs);
    assert_eq!(Summary::of(&report).utilisation, 900.0 / (900.0 + 675.0));
}
