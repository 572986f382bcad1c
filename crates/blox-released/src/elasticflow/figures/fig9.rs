use super::*;
use crate::elasticflow::files::Recipe;
use crate::figure::{Claim, Plan};
use blox_plot::{Axis, BarChart};

const PAPER: &str =
    "ElasticFlow (ASPLOS 2023), figure 9, as the script that plots it has the numbers";

/// Cluster sizes in nodes of 8 GPUs.
const NODES: [u32; 3] = [8, 16, 32];

/// Program, published ratios, and counts of the released program, by cluster size.
const PROGRAMS: [(Program, [f64; 3], [Option<u64>; 3]); 4] = [
    (EDF, [0.026, 0.118, 0.118], [Some(20), Some(116), None]),
    (
        EDF_ADMISSION,
        [0.203, 0.326, 0.658],
        [Some(221), Some(304), None],
    ),
    (WITHOUT_ADMISSION, [0.452, 0.835, 0.939], [None; 3]),
    (ELASTIC, [0.926, 0.949, 0.944], [Some(926), None, None]),
];

/// Figure 9: effect of admission control and elastic scaling on earliest deadline first.
pub(crate) const FIG9: Figure = Figure::new(
    "elasticflow-fig9",
    "ElasticFlow (ASPLOS 2023), figure 9: admission control and elastic scaling, apart and together",
    &[A100],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let recipe = Recipe {
        jobs: 1000,
        unseeded: UNSEEDED,
        ..Recipe::default()
    };
    let jobs = in_order(recipe.generate(&table)?);
    let mut runs = Vec::new();
    for nodes in NODES {
        let world = World::new(1, nodes, 8, 240.0);
        let of = format!("{} GPUs", nodes * 8);
        let programs = PROGRAMS.iter();
        runs.extend(programs.map(|(p, ..)| world.run(*p, &jobs, &table, &of)));
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "1,000 jobs of the released generator, 1,500 s apart on average, slots of 240 s; deadlines are drawn from a generator that it leaves unseeded, so those of the paper cannot be had again",
    ]);
    let mut bars = BarChart::new("ElasticFlow, figure 9", Axis::fraction("deadlines met"));
    let complete = reports.len() == NODES.len() * PROGRAMS.len();
    let (mut same, mut each, mut both) = (complete, complete, complete);
    for (n, reports) in reports.chunks(PROGRAMS.len()).enumerate().take(NODES.len()) {
        let gpus = NODES[n] * 8;
        let programs = PROGRAMS
            .iter()
            .map(|(p, paper, counted)| (*p, Some(paper[n]), counted[n]));
        let (group, agree) = compare(&mut findings, programs, reports, PAPER, |name| {
            format!("deadlines met, {name}, {gpus} GPUs")
        });
        same &= agree;
        if let [(_, edf), (_, admission), (_, elastic), (_, all)] = group[..] {
            each &= admission > edf && elastic > edf;
            // On the largest cluster, both are nearly equal in the paper.
            both &= all > admission && (all > elastic || n + 1 == NODES.len());
        }
        bars = bars.with(format!("{gpus} GPUs"), group);
    }
    findings.claims = vec![
        Claim::new(
            "admission control and elastic scaling each meet more deadlines than EDF",
            each,
        ),
        Claim::new(
            "together they meet more than either; on the largest cluster more than admission control",
            both,
        ),
        Claim::new(
            "every count is that of the released program on the same jobs, where it was run",
            same,
        ),
    ];
    findings.picture(FIG9.name, bars.svg());
    findings
}
