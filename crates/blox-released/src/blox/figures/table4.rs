use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::cluster::topology::{HOST_GB_PER_S, Layout};
use blox_core::{ClusterSpec, Extras, Scheduler, Seconds};
use blox_plot::{Axis, Chart, Series};
use blox_policies::placement::{Bandwidth, Consolidated, InOrder, Split};
use blox_schedulers::schedulers::{bandwidth_placement, fifo};
use blox_sim::completion::Exact;
use blox_sim::execution::LinkBound;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load};
use std::path::Path;

/// Fraction of a step that every job spends on gradient exchange at the best bandwidth.
const COMMUNICATION: f64 = 0.5;
/// Bandwidth of two NVLinks of a V100, the best link of a p3.8xlarge, in GB/s.
const BEST: f64 = 50.0;
const PAPER: &str = "Blox (EuroSys 2024), table 4, as read by others";

/// Table 4 of Blox: placement by the bandwidth between GPUs of a node.
pub(crate) const TABLE4: Figure = Figure::new(
    "blox-table4",
    "Blox (EuroSys 2024), table 4: placement by intra-node bandwidth",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let cluster = ClusterSpec::linked(32, 4, Layout::P3Quad)?;
    let mean = Seconds::from_hours(4.0);
    let law = DurationLaw::Exponential { mean };
    let load = Load::OfCapacity {
        fraction: 0.6,
        gpus: 128,
    };
    let mut jobs = collect(&mut Generator::new(GeneratorSpec {
        gpus: vec![(1, 1.0), (2, 2.0), (3, 1.0)],
        seed: 1,
        count: Some(2000),
        ..GeneratorSpec::new(load, law)
    })?)?;
    for job in &mut jobs {
        *job = job.clone().with_extras(Extras {
            communication: COMMUNICATION,
            ..Extras::default()
        });
    }
    let run = |scheduler: blox_core::Pipeline| Run::Simulation {
        label: scheduler.name().to_owned(),
        simulation: Simulation::new(cluster.clone())
            .execution(LinkBound::default())
            .completion(Exact),
        scheduler,
        workload: Box::new(Jobs::new(jobs.clone())),
    };
    // Jobs stay on one node, so only links within a node matter.
    let lowest = InOrder::new(Consolidated::new(Split::Never));
    let by_bandwidth = InOrder::new(Bandwidth::new(Split::Never));
    let runs = vec![
        run(fifo().with_placement(lowest).expect(crate::ONCE)),
        run(bandwidth_placement()
            .with_placement(by_bandwidth)
            .expect(crate::ONCE)),
    ];
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let all: Vec<Vec<f64>> = reports.iter().map(bandwidths).collect();
    let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len() as f64;
    let means: Vec<f64> = all.iter().map(mean).collect();
    let jct = |i: usize| reports.get(i).map_or(f64::NAN, |r| r.summary.avg_jct_s);
    let mut findings = Findings::noting([
        "128 GPUs (32 p3.8xlarge), rounds of 300 s; 2,000 jobs with 1, 2 or 3 GPUs (1:2:1), 4 h each on average, at 60 % of the capacity; each exchanges gradients for half of a step on the best links",
        "bandwidth is that of the slowest link in the best tree over a job's GPUs, on average over the jobs with several GPUs; no job spans nodes. The paper measured its own jobs on one node",
    ]);
    let [first, best] = means[..] else {
        return findings;
    };
    findings.rows = vec![
        Row::new("avg bandwidth GB/s, lowest free GPUs", first, 1),
        Row::new("avg bandwidth GB/s, by bandwidth", best, 1),
        Row::new(
            "bandwidth, by bandwidth relative to lowest",
            best / first,
            2,
        )
        .published(1.47, PAPER),
        Row::new("avg JCT s, lowest free GPUs", jct(0), 0),
        Row::new("avg JCT s, by bandwidth", jct(1), 0),
    ];
    findings.claims = vec![Claim::new(
        "placement by bandwidth gives jobs more bandwidth, and a lower average JCT",
        best > first && jct(1) < jct(0),
    )];
    let names = ["lowest free GPUs", "by bandwidth"];
    let series = names
        .iter()
        .zip(all)
        .map(|(name, list)| Series::distribution(*name, list));
    findings.picture(
        "blox-table4",
        Chart::distribution(
            "Blox, table 4",
            Axis::new("bandwidth (GB/s)").from(0.0).to(60.0),
        )
        .with_all(series)
        .svg(),
    );
    findings
}

/// Returns the bandwidth in GB/s of each job with several GPUs on one node.
///
/// It follows from how much longer the job ran than on the best links.
fn bandwidths(report: &Report) -> Vec<f64> {
    let jobs = report.jobs.iter().filter(|j| j.gpus > 1);
    jobs.filter(|j| j.jct().is_some())
        .map(|j| j.attained.secs() / j.duration.secs() - (1.0 - COMMUNICATION))
        .map(|slower| BEST * COMMUNICATION / slower)
        .filter(|gb_per_s| *gb_per_s >= HOST_GB_PER_S)
        .collect()
}
