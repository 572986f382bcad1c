use super::fig12::{COUNTED, ROUND_S};
use crate::blox::{self, OptimusSpeed};
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::{ClusterSpec, Pipeline};
use blox_plot::{Axis, Chart, Series};
use blox_sim::{Measure, Report, Simulation};
use blox_traces::generate::blox::BloxWorkload;
use std::path::Path;

const LOADS: u32 = 9;
const NAMES: [&str; 3] = ["FIFO", "Tiresias", "Optimus"];

/// Average JCT of the released program in seconds. Rows are loads from 1. Columns are FIFO,
/// Tiresias, Optimus.
const JCT: [[f64; 3]; 9] = [
    [56717.4, 56717.4, 11584.6],
    [56711.9, 56711.9, 19102.3],
    [56716.5, 56716.5, 40592.3],
    [56712.5, 56712.5, 47309.1],
    [56711.5, 56711.5, 51585.1],
    [56718.8, 56718.8, 56718.8],
    [56882.3, 56758.5, 56764.8],
    [131411.7, 188995.2, 74870.5],
    [281144.8, 323173.9, 114003.2],
];

/// Average responsiveness in seconds, in the same order.
const RESPONSIVENESS: [[f64; 3]; 9] = [
    [450.8, 450.8, 450.8],
    [445.3, 445.3, 445.3],
    [449.8, 449.8, 449.8],
    [445.9, 445.9, 445.9],
    [444.8, 444.8, 444.8],
    [452.2, 452.2, 452.2],
    [615.7, 447.9, 465.5],
    [75145.0, 450.7, 8579.8],
    [224878.2, 452.7, 34066.8],
];

const RELEASED: &str = "msr-fiddle/blox c8851b2, its rules run on its own workload";

/// Figures 6 and 7 of Blox: three schedulers at 1 to 9 jobs per hour.
pub(crate) const FIG6: Figure = Figure::new(
    "blox-fig6",
    "Blox (EuroSys 2024), figures 6 and 7: FIFO, Tiresias and Optimus at 1 to 9 jobs an hour",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let schedulers: [fn() -> Pipeline; 3] = [blox::fifo, blox::tiresias, blox::optimus];
    let mut runs = Vec::new();
    for load in 1..=LOADS {
        for (name, scheduler) in NAMES.iter().zip(schedulers) {
            let load = f64::from(load);
            let mut simulation =
                Simulation::new(ClusterSpec::uniform(32, 4)).measure(Measure::Ids(3000, 4000));
            if *name == "Optimus"
                && let Some(speed) = OptimusSpeed::at_load(load)
            {
                simulation = simulation.execution(speed);
            }
            runs.push(Run::Simulation {
                label: format!("{name} at {load} jobs an hour"),
                simulation,
                scheduler: scheduler(),
                workload: Box::new(BloxWorkload::new(load)?),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let of = |load: usize, s: usize| reports.get(load * NAMES.len() + s).map(|r| &r.summary);
    let jct = |load, s| of(load, s).map_or(f64::NAN, |x| x.avg_jct_s);
    let responsiveness =
        |load, s| of(load, s).map_or(f64::NAN, |x| x.avg_responsiveness_s + ROUND_S);
    let mut rows = Vec::new();
    for (what, theirs, ours) in [
        ("avg JCT s", &JCT, &jct as &dyn Fn(usize, usize) -> f64),
        ("avg responsiveness s", &RESPONSIVENESS, &responsiveness),
    ] {
        for (load, values) in theirs.iter().enumerate() {
            for (s, name) in NAMES.iter().enumerate() {
                let what = format!("{what}, {name}, {} jobs/h", load + 1);
                rows.push(Row::new(what, ours(load, s), 1).artifact(values[s], RELEASED));
            }
        }
    }
    let all = |mut loads: std::ops::Range<usize>, holds: &dyn Fn(usize) -> bool| loads.all(holds);
    let claims = vec![
        Claim::new(
            "Optimus has the best JCT at low load (1 to 5 jobs/h)",
            all(0..5, &|l| jct(l, 2) < jct(l, 0).min(jct(l, 1))),
        ),
        Claim::new(
            "above 7 jobs/h Tiresias' JCT is above FIFO's",
            all(7..9, &|l| jct(l, 1) > jct(l, 0)),
        ),
        Claim::new(
            "Tiresias has the best responsiveness, FIFO the worst (7 to 9 jobs/h)",
            all(6..9, &|l| {
                let [f, t, o] = [0, 1, 2].map(|s| responsiveness(l, s));
                t < o && o < f
            }),
        ),
    ];
    let mut findings = Findings::noting([
        "128 GPUs (32x4), rounds of 300 s, jobs 3000 to 4000, one GPU each",
        COUNTED,
        "below 6 jobs/h the released Optimus runs every job faster by a factor that it chooses by the load (5 to 1.1): nothing queues there, so that this is all of its advantage",
    ]);
    (findings.rows, findings.claims) = (rows, claims);
    let mut picture = |name, title, axis, y: &dyn Fn(usize, usize) -> f64| {
        let lines = NAMES.iter().enumerate().map(|(s, name)| {
            Series::line(*name, (0..JCT.len()).map(|l| ((l + 1) as f64, y(l, s))))
        });
        let chart = Chart::new(title, Axis::new("load (jobs/h)"), axis).with_all(lines);
        findings.picture(name, chart.svg());
    };
    let axis = Axis::seconds("average JCT");
    picture("blox-fig6", "Blox, figure 6", axis, &jct);
    let axis = Axis::seconds("average responsiveness").log();
    picture("blox-fig7", "Blox, figure 7", axis, &responsiveness);
    findings
}
