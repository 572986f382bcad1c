use super::*;
use crate::elasticflow::files::Recipe;
use crate::figure::{Claim, Findings, Picture, Row};
use blox_plot::{Axis, BarChart};

/// Figure 9: effect of admission control and elastic scaling on earliest deadline first.
pub(crate) struct Fig9;

const PAPER: &str =
    "ElasticFlow (ASPLOS 2023), figure 9, as the script that plots it has the numbers";

/// Cluster sizes in nodes of 8 GPUs.
const NODES: [u32; 3] = [8, 16, 32];

/// Algorithm, published ratios, and counts of the released program, by cluster size.
const PROGRAMS: [(Algorithm, [f64; 3], [Option<u64>; 3]); 4] = [
    (
        Algorithm::Edf,
        [0.026, 0.118, 0.118],
        [Some(20), Some(116), None],
    ),
    (
        Algorithm::EdfAdmission,
        [0.203, 0.326, 0.658],
        [Some(221), Some(304), None],
    ),
    (
        Algorithm::WithoutAdmission,
        [0.452, 0.835, 0.939],
        [None; 3],
    ),
    (
        Algorithm::ElasticFlow,
        [0.926, 0.949, 0.944],
        [Some(926), None, None],
    ),
];

impl Figure for Fig9 {
    fn name(&self) -> &'static str {
        "elasticflow-fig9"
    }

    fn title(&self) -> &'static str {
        "ElasticFlow (ASPLOS 2023), figure 9: admission control and elastic scaling, apart and together"
    }

    fn data(&self) -> &'static [DataFile] {
        &[A100]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let table = a100(self, data)?;
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
            runs.extend(programs.map(|(a, ..)| world.run(Program::Of(*a), &jobs, &table, &of)));
        }
        Ok(runs)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let mut findings = Findings {
            notes: vec![
                "1,000 jobs of the released generator, 1,500 s apart on average, slots of 240 s; deadlines are drawn from a generator that it leaves unseeded, so those of the paper cannot be had again".to_owned(),
            ],
            ..Findings::default()
        };
        let mut bars = BarChart::new("ElasticFlow, figure 9", Axis::fraction("deadlines met"));
        let complete = reports.len() == NODES.len() * PROGRAMS.len();
        let (mut same, mut each, mut both) = (complete, complete, complete);
        for (n, reports) in reports.chunks(PROGRAMS.len()).enumerate().take(NODES.len()) {
            let gpus = NODES[n] * 8;
            let mut group = Vec::new();
            for ((algorithm, paper, counted), report) in PROGRAMS.iter().zip(reports) {
                let name = Program::Of(*algorithm).name();
                let what = format!("deadlines met, {name}, {gpus} GPUs");
                let mut row = Row::new(what, ratio(report), 4).published(paper[n], PAPER);
                if let Some(counted) = counted[n] {
                    row = row.artifact(counted as f64 / report.jobs.len().max(1) as f64, RELEASED);
                    same &= met(report) == counted;
                }
                findings.rows.push(row);
                group.push((name, ratio(report)));
            }
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
        findings.pictures.push(Picture {
            name: self.name().to_owned(),
            svg: bars.svg(),
        });
        findings
    }
}
