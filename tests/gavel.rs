//! Gavel's family in simulations.

use blox::core::{ClusterSpec, Extras, GpuCount, JobSpec, Seconds, Time};
use blox::policies::scheduling::gavel::Gavel;
use blox::policies::scheduling::gavel::shares::Knows;
use blox::schedulers::{GavelParams, gavel_with};
use blox::sim::Simulation;
use blox::sim::workload::Jobs;

/// A job that keeps a GPU busy for a part of its time.
fn job(i: u32, model: &str, busy: f64) -> JobSpec {
    let mut extras = Extras {
        model: Some(model.into()),
        ..Extras::default()
    };
    let attributes = &mut extras.attributes;
    attributes.insert("gpu_utilisation".into(), busy.into());
    let submit = Time::new(360.0 * f64::from(i / 4));
    JobSpec::new(submit, GpuCount(1), Seconds::new(7200.0)).with_extras(extras)
}

#[test]
fn what_pairs_keep_of_their_speed_is_learned_from_how_they_run() {
    let jobs: Vec<JobSpec> = (0..24)
        .map(|i| match i % 2 {
            0 => job(i, "heavy", 0.9),
            _ => job(i, "light", 0.3),
        })
        .collect();
    let run = |beside: Option<f64>| {
        let mut pipeline = gavel_with(GavelParams {
            knows: Knows::Pairs,
            beside,
            ..GavelParams::default()
        });
        let cluster: ClusterSpec = "1x4:v100".parse().unwrap();
        let report = Simulation::new(cluster)
            .run_by(&mut pipeline, &mut Jobs::new(jobs.clone()), None)
            .unwrap();
        assert_eq!(report.summary.completed, 24);
        let policy = pipeline.scheduling_as::<Gavel>().unwrap();
        (report.summary.avg_jct_s, policy.learned().clone())
    };
    let (apart, mut nothing) = run(None);
    let (learning, mut learned) = run(Some(0.8));
    assert_eq!(nothing.kept("v100", "light", "light"), None);
    // Two light jobs have room beside each other; 1.2 or 1.8 times as much as there is takes so
    // much longer.
    let mut kept = |model, beside| learned.kept("v100", model, beside).unwrap();
    let truth = [
        ("light", "light", 1.0),
        ("light", "heavy", 1.0 / 1.2),
        ("heavy", "light", 1.0 / 1.2),
        ("heavy", "heavy", 1.0 / 1.8),
    ];
    for (model, beside, right) in truth {
        let found = kept(model, beside);
        assert!((found - right).abs() < 1e-9, "{model} {beside}: {found}");
    }
    assert!(learning < 0.8 * apart, "{learning} {apart}");
}
