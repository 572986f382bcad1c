//! Inputs of Lucid's simulations: published files, or a generated stand-in.

use crate::figure::{Figure, ReproduceError};
use crate::lucid::files;
use crate::lucid::simulator::{ESTIMATE, SHARING_SCORE, set_attribute};
use crate::lucid::{Experiment, Forecast, Input, Policy};
use blox_core::SortedMap;
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time};
use blox_perf::PairTable;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::sync::Arc;

/// Number of generated workloads.
const STAND_INS: u64 = 5;

/// A workload with all estimates.
pub(crate) struct World {
    /// Input without estimates.
    pub plain: Input,
    /// QSSF's estimates by job index. `lucid` has Lucid's.
    qssf: Vec<f64>,
    lucid: Vec<f64>,
    pub experiment: Experiment,
    pub notes: Vec<String>,
}

impl World {
    /// Reads the published files from a folder. Without a folder, generates several stand-ins.
    pub fn all(figure: &'static Figure, data: Option<&Path>) -> Result<Vec<Self>, ReproduceError> {
        match data {
            Some(_) => Ok(vec![Self::open(figure, data)?]),
            None => Ok((2023..2023 + STAND_INS).map(Self::stand_in).collect()),
        }
    }

    fn open(figure: &'static Figure, data: Option<&Path>) -> Result<Self, ReproduceError> {
        let find = |name| figure.file(data, name);
        let experiment = Experiment::VENUS;
        let clusters = blox_traces::lucid_cluster::read_virtual_clusters(find("vc_config.csv")?)?;
        let log = find("cluster_full_log.csv")?;
        let mut jobs = files::read_log(&log, &clusters, experiment.window)?;
        let scores = files::read_scores(find("single_data.csv")?)?;
        let pairs = files::read_pairs(find("colocate_info.csv")?)?;
        for job in &mut jobs {
            let key = PairTable::key_of(job).unwrap_or_default();
            if let Some(score) = scores.get(&key) {
                set_attribute(job, SHARING_SCORE, *score);
            }
        }
        let forecast = find("Venus_throughput_pred.csv")?;
        let begin = experiment.window.begin;
        let read = |column| files::read_forecast(&forecast, column, begin).map(Some);
        let estimates = |name| -> Result<Vec<f64>, ReproduceError> {
            let all = files::read_estimates(find(name)?)?;
            let of = |j: &JobSpec| all.get(j.name.as_deref().unwrap_or_default()).copied();
            Ok(jobs
                .iter()
                .map(|j| of(j).unwrap_or(f64::from(u32::MAX)))
                .collect())
        };
        let lucid = estimates("Venus_Sept_ebm_weekly_updated.csv")?;
        Ok(World {
            qssf: estimates("Venus_Sept_lgb.csv")?,
            lucid: lucid
                .into_iter()
                .map(|e| if e < 0.0 { 1000.0 } else { e })
                .collect(),
            notes: vec![format!("jobs of {}", log.display())],
            plain: Input {
                clusters,
                jobs,
                pairs: Arc::new(pairs),
                gpus: read("pred_gpu_num")?,
                coming: read("pred_gpu_job")?,
            },
            experiment,
        })
    }

    /// Generates jobs like the jobs of a Helios cluster.
    pub fn stand_in(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let experiment = Experiment::VENUS;
        let clusters: Vec<(Name, u32)> = [("vc8Gr", 5), ("vcefl", 6), ("vcYVn", 5), ("vcEwI", 6)]
            .map(|(name, nodes)| (name.into(), nodes))
            .into();
        // Model, sharing score, memory in MiB, and the speed of a job that is packed with it.
        let profiles: [(&str, f64, f64, f64); 6] = [
            ("PointNet", 0.0, 2400.0, 0.97),
            ("LSTM", 0.0, 5600.0, 0.95),
            ("DCGAN", 1.0, 2458.0, 0.9),
            ("MobileNetV3", 1.0, 5100.0, 0.88),
            ("ResNet18", 2.0, 6200.0, 0.8),
            ("EfficientNet", 2.0, 9800.0, 0.75),
        ];
        let mut pairs = PairTable::default();
        let key = |model: &str| PairTable::key(model, "stand-in", 64, false);
        for (i, a) in profiles.iter().enumerate() {
            for b in &profiles[i..] {
                // Both speeds are finite and above 0, so this cannot fail.
                let _ = pairs.add(&key(a.0), &key(b.0), (b.3, a.3));
            }
        }
        let mut at = experiment.window.begin as f64;
        let mut jobs = Vec::new();
        for number in 0..3000 {
            // More jobs are submitted by day.
            let hour = ((at / 3600.0) as u64) % 24;
            let rate = if (8..22).contains(&hour) { 75.0 } else { 190.0 };
            at += (-libm::log(1.0 - rng.random::<f64>()) * rate).ceil();
            let gpus = [1, 1, 1, 1, 1, 1, 2, 2, 4, 8, 8, 16][rng.random_range(0..12)];
            let (model, score, memory, _) = profiles[rng.random_range(0..profiles.len())];
            let spread: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            let lasts = (900.0 * libm::exp(1.9 * spread))
                .clamp(5.0, 400_000.0)
                .round();
            let (vc, _) = &clusters[rng.random_range(0..clusters.len())];
            let attributes: SortedMap<Name, serde_json::Value> = [
                ("dataset".into(), "stand-in".into()),
                ("amp".into(), 0.into()),
                (SHARING_SCORE.into(), score.into()),
                ("gmem".into(), memory.into()),
            ]
            .into();
            let job = JobSpec::new(Time::new(at), GpuCount(gpus), Seconds::new(lasts))
                .named(number.to_string())
                .in_virtual_cluster(vc.clone())
                .with_extras(Extras {
                    model: Some(model.into()),
                    batch_size: Some(64),
                    attributes,
                    ..Extras::default()
                });
            jobs.push(job);
        }
        let mut believe = |sigma: f64| -> Vec<f64> {
            let err = |j: &JobSpec| {
                let spread: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                (j.duration().secs() * libm::exp(sigma * spread)).round()
            };
            jobs.iter().map(err).collect()
        };
        let (qssf, lucid) = (believe(1.2), believe(1.0));
        let rows = |value: f64| {
            let rows = (0..4032).map(|k| (experiment.window.begin + 600 * k, value));
            Some(Forecast {
                rows: rows.collect(),
            })
        };
        World {
            plain: Input {
                clusters,
                jobs,
                pairs: Arc::new(pairs),
                gpus: rows(20.0),
                coming: rows(5.0),
            },
            qssf,
            lucid,
            experiment,
            notes: vec![
                "a stand-in: 3000 made-up jobs in 4 virtual clusters with made-up profiles and \
                 estimates, not the published log; its numbers say nothing about the paper's. \
                 --data DIR takes the published files"
                    .to_owned(),
            ],
        }
    }

    /// Returns the input with the estimates of a policy.
    pub fn input(&self, policy: Policy) -> Input {
        let mut input = self.plain.clone();
        let estimates = match policy {
            Policy::Qssf => &self.qssf,
            Policy::Lucid => &self.lucid,
            _ => return input,
        };
        for (job, estimate) in input.jobs.iter_mut().zip(estimates) {
            set_attribute(job, ESTIMATE, *estimate);
        }
        input
    }
}
