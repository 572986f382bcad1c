//! Tests of Lucid's released programs.
#![cfg(feature = "released")]

use crate::support;
use blox::core::SortedMap;
use blox::core::{Extras, GpuCount, JobSpec, Seconds, Time};
use blox::perf::PairTable;
use blox::released::lucid::{
    self, Experiment, Input, Lookup, PackedSettings, Placer, Policy, Quirks, Record,
};
use std::fs;
use std::sync::Arc;

/// A small job with a profile: submission, GPUs, seconds, score.
fn job(submit: f64, gpus: u32, seconds: f64, score: f64) -> JobSpec {
    let attributes = SortedMap::from([
        ("dataset".into(), "d".into()),
        ("amp".into(), 0.into()),
        ("gmem".into(), 4000.0.into()),
        ("sharing_score".into(), score.into()),
        ("estimate_s".into(), seconds.into()),
    ]);
    JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(seconds))
        .named(format!("{submit}"))
        .in_virtual_cluster("v")
        .with_extras(Extras {
            model: Some("m".into()),
            batch_size: Some(64),
            attributes,
            ..Extras::default()
        })
}

fn pairs(ours: f64, theirs: f64) -> Arc<PairTable> {
    let mut pairs = PairTable::default();
    pairs.add("m/d/64/0", "m/d/64/0", (ours, theirs)).unwrap();
    Arc::new(pairs)
}

fn packed(lookup: Lookup) -> PackedSettings {
    PackedSettings {
        nodes: 1,
        placer: Placer::Consolidate,
        pairs: pairs(0.5, 0.5),
        forecast: None,
        scaling: Vec::new(),
        lookup,
        found_late: true,
    }
}

fn jobs() -> Vec<JobSpec> {
    vec![
        job(0.0, 8, 100.0, 1.0),
        job(10.0, 8, 100.0, 1.0),
        job(20.0, 8, 50.0, 1.0),
        job(21.0, 4, 700.0, 0.0),
        job(22.0, 4, 90.0, 2.0),
        job(400.0, 2, 30.0, 2.0),
    ]
}

fn ends(records: Vec<Record>) -> Vec<(u32, i64)> {
    records.iter().map(|r| (r.job, r.end)).collect()
}

#[test]
fn partner_of_an_ended_job_speeds_up_if_looked_up() {
    let two = [job(0.0, 8, 100.0, 1.0), job(10.0, 8, 100.0, 1.0)];
    let lucid = |settings| ends(lucid::lucid(settings, &two));
    // The first job runs alone for 10 s, then at half speed. It takes 10 + 2 * 90 s, and its end is
    // found a second later. The second job has done 90 s of work by this time. In the released
    // program it keeps the half speed.
    assert_eq!(lucid(packed(Lookup::First)), [(0, 191), (1, 211)]);
    // With the correct lookup, its last seconds run at full speed.
    assert_eq!(lucid(packed(Lookup::Other)), [(0, 191), (1, 201)]);
    let in_time = PackedSettings {
        found_late: false,
        ..packed(Lookup::Other)
    };
    assert_eq!(lucid(in_time), [(0, 190), (1, 200)]);
}

#[test]
fn every_program_ends_all_jobs() {
    let jobs = jobs();
    let programs = [
        ("srtf", lucid::srtf(1, Placer::Consolidate, &jobs)),
        ("tiresias", lucid::tiresias(1, Placer::Consolidate, &jobs)),
        ("lucid", lucid::lucid(packed(Lookup::First), &jobs)),
    ];
    for (name, records) in programs {
        assert_eq!(records.len(), jobs.len(), "{name}");
    }
}

#[test]
fn every_policy_runs_all_virtual_clusters() {
    let input = Input {
        clusters: vec![("v".into(), 1)],
        jobs: jobs(),
        pairs: pairs(0.7, 0.9),
        gpus: None,
        coming: None,
    };
    let experiment = Experiment {
        lenders: &["w", "w"],
        ..Experiment::PHILLY
    };
    for (name, policy) in Policy::NAMES {
        for (placer_name, placer) in Placer::NAMES {
            let run = lucid::run(policy, placer, experiment, Quirks::default(), &input).unwrap();
            let all = run.outcomes.iter().all(Option::is_some);
            assert!(all, "{name}, {placer_name}");
        }
    }
}

#[test]
fn lucid_figures_note_a_stand_in_workload() {
    let dir = tempfile::tempdir().unwrap();
    for figure in ["lucid-table4", "lucid-quirks", "helios-ces"] {
        let line = format!("reproduce {figure} --output-dir {figure}");
        let seen = support::at(dir.path(), line.split_whitespace());
        // A statement of the paper need not hold on made-up jobs.
        let differs = seen.out.contains("\ndoes not hold: ");
        assert_eq!(seen.code, Some(i32::from(differs)), "{}", seen.err);
        assert!(seen.out.contains("note: a stand-in"), "{}", seen.out);
        assert!(dir.path().join(figure).is_dir());
    }
    let err = support::failed(dir.path(), "reproduce lucid-fig8 --data .");
    assert!(err.contains("vc_config.csv"), "{err}");
}

#[test]
fn a_case_of_the_energy_service_begins_at_a_date() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("summary.json", "{}");
    write(
        "philly_node_sequence.csv",
        "time,active,total\n2017-12-01 00:00:00,3,8\n2017-12-01 00:05:00,4,8\n",
    );
    let compared = |time: &str| {
        let header = "time,total,active,prediction,powered_on,change,lack\n";
        write("expected.csv", &format!("{header}{time},8,4,4,8,0,0\n"));
        blox::released::verify::compare(dir.path(), None)
    };
    let first = compared("2017-12-01 00:00:00").unwrap();
    let nodes =
        |d: &&blox::released::verify::Difference| d.column == "active" || d.column == "total";
    assert_eq!(first.differences.iter().find(nodes), None);
    let error = compared("1.12.2017").unwrap_err().to_string();
    let message =
        "expected.csv:2: time is `1.12.2017`, expected a date such as 2017-12-01 00:00:00";
    assert!(error.contains(message), "{error}");
}
