//! Built-in applications, without files.

use super::Applications;
use super::application::{Application, OnType, StepTimes};
use super::constants::constants;
use super::curves::{Curves, Epoch};
use blox_core::{GradientNoise, Seconds, ThroughputParams, TypeLimits};

/// The applications of Pollux and Sia, described by a few numbers each instead of tables.
///
/// The speeds were fitted, with tight tolerances, to all step times that Sia's authors published
/// (artifact of SOSP 2023, `traces/APPLICATION`). The types are `aws` (T4), `dgx-ext` (A100) and
/// `rtx` (2080 Ti). The type without a name, for clusters without specified types, is `aws`. The
/// gradient noise is the median, over all batch sizes, of each eighth of the epochs in their
/// validation curves. Typical errors of predicted steps are 5 to 20 %; `yolov3` is the worst.
/// Epochs, work, limits, delays and slowdowns are copied from Sia.
pub fn built_in() -> Applications {
    let mut all = Applications::default();
    for row in ROWS {
        if let Some(app) = row.application() {
            all.insert(row.name, app);
        }
    }
    all
}

struct Row {
    name: &'static str,
    batches: (u32, u32),
    epochs: usize,
    /// Iterations of the initial batch.
    work: f64,
    /// Variance over squared norm of gradients, in equal parts of the epochs.
    noise: &'static [f64],
    types: &'static [On],
}

/// Name of a type, its smallest and largest pass, samples a second of one replica, parameters.
type On = (&'static str, (u32, u32), f64, [f64; 7]);

impl Row {
    fn application(&self) -> Option<Application> {
        let known = constants(self.name);
        let (initial_batch, max_batch) = self.batches;
        let epochs = |batch: u32| {
            let scale = f64::from(batch) / f64::from(initial_batch);
            let mut iteration = 0.0;
            let each = self.work / self.epochs as f64;
            let epoch = |e: usize| {
                let var = self.noise[e * self.noise.len() / self.epochs];
                let noise = GradientNoise { sqr: 1.0, var };
                iteration += each / noise.gain(scale);
                let progress = if e + 1 == self.epochs {
                    self.work
                } else {
                    each * (e + 1) as f64
                };
                Epoch {
                    progress,
                    iteration,
                    noise,
                }
            };
            (batch, (0..self.epochs).map(epoch).collect())
        };
        let curves = vec![epochs(initial_batch), epochs(max_batch)];
        // Pipelines are split for a specific type. There is none for a cluster without specified
        // types.
        let unnamed = self.types.iter().filter(|on| on.0 == "aws");
        let unnamed = unnamed.map(|on| ("", on));
        let named = self.types.iter().map(|on| (on.0, on));
        let types = named
            .chain(unnamed)
            .map(|(name, (_, per_gpu, rate, params))| {
                let on = OnType {
                    limits: TypeLimits {
                        per_gpu: *per_gpu,
                        one_gpu_rate: *rate,
                        stages: (known.stages)(name),
                    },
                    steps: StepTimes::Fitted(ThroughputParams::from_array(*params)),
                };
                (name.into(), on)
            });
        Some(Application {
            initial_batch,
            max_batch,
            curves: Curves::new(curves, self.epochs)?,
            restart: Seconds::new(known.restart_s),
            slowdown: known.slowdown,
            types: types.collect(),
        })
    }
}

#[rustfmt::skip]
const ROWS: [Row; 7] = [
    Row {
        name: "bert",
        batches: (12, 384),
        epochs: 2,
        work: 14_774.0,
        noise: &[184.0, 637.0],
        types: &[
            ("aws", (4, 12), 13.02, [0.1719, 0.05861, 1.386, 0.009431, 0.2842, 0.009622, 1.902]),
            ("dgx-ext", (4, 48), 140.4, [0.09728, 0.004746, 0.0352, 0.003392, 0.03115, 0.005708, 1.577]),
            ("rtx", (4, 12), 26.85, [0.1593, 0.02257, 0.5628, 0.02344, 0.3413, 0.06595, 1.845]),
        ],
    },
    Row {
        name: "cifar10",
        batches: (128, 4096),
        epochs: 100,
        work: 39_062.9,
        noise: &[8.26, 28.5, 48.0, 78.3, 131.0, 272.0, 411.0, 527.0],
        types: &[
            ("aws", (32, 1024), 1458.0, [0.01742, 0.0007008, 0.1221, 0.002644, 0.03289, 0.0008806, 2.073]),
            ("dgx-ext", (32, 4096), 10060.0, [0.02448, 8.716e-05, 0.01423, 0.0007985, 0.01349, 0.001448, 2.612]),
            ("rtx", (32, 1024), 3306.0, [0.03554, 0.0002584, 0.08834, 0.001518, 0.06453, 0.004498, 2.959]),
        ],
    },
    Row {
        name: "deepspeech2",
        batches: (20, 640),
        epochs: 80,
        work: 28_536.0,
        noise: &[12.6, 88.4, 380.0, 1250.0, 3080.0, 7280.0, 3550.0, 3780.0],
        types: &[
            ("aws", (10, 80), 31.49, [0.3111, 0.02384, 0.4871, 0.009819, 0.08394, 0.001364, 1.413]),
            ("dgx-ext", (10, 320), 77.5, [0.4306, 0.01354, 0.2321, 0.01161, 0.1619, 0.01538, 1.882]),
            ("rtx", (10, 57), 52.51, [0.3762, 0.01252, 0.0671, 0.01563, 0.07844, 0.01866, 1.18]),
        ],
    },
    Row {
        name: "gpt_pmp",
        batches: (12, 384),
        epochs: 2,
        work: 14_774.0,
        noise: &[152.0, 598.0],
        types: &[
            ("dgx-ext", (48, 48), 2.266, [0.432, 0.432, 0.18, 0.01667, 0.018, 0.00183, 1.0]),
            ("rtx", (48, 48), 2.883, [2.079, 0.297, 0.435, 0.1075, 0.435, 0.1075, 1.0]),
        ],
    },
    Row {
        name: "imagenet",
        batches: (200, 12800),
        epochs: 90,
        work: 576_525.6,
        noise: &[30.0, 42.5, 51.8, 174.0, 152.0, 187.0, 455.0, 444.0],
        types: &[
            ("aws", (20, 200), 216.6, [0.06411, 0.004481, 0.2996, 0.006639, 0.07691, 0.0005117, 2.473]),
            ("dgx-ext", (20, 800), 1034.0, [0.09402, 0.0008458, 0.007204, 0.001218, 0.01121, 0.00116, 1.0]),
            ("rtx", (20, 200), 395.2, [0.1197, 0.001858, 0.1822, 0.006339, 0.1027, 0.02145, 2.133]),
        ],
    },
    Row {
        name: "ncf",
        batches: (256, 32768),
        epochs: 10,
        work: 194_174.0,
        noise: &[629.0, 5210.0, 3670.0, 18900.0, 31700.0, 27700.0, 157000.0, 153000.0],
        types: &[
            ("aws", (32, 32768), 1537000.0, [0.006957, 6.354e-07, 0.01748, 0.000556, 0.005998, 6.887e-07, 1.248]),
            ("dgx-ext", (32, 32768), 2721000.0, [0.008103, 1.257e-07, 0.001444, 0.0001881, 0.00153, 0.0003741, 1.179]),
            ("rtx", (32, 32768), 1614000.0, [0.01422, 1.121e-07, 0.01249, 0.0005066, 0.005775, 0.001207, 1.155]),
        ],
    },
    Row {
        name: "yolov3",
        batches: (8, 512),
        epochs: 50,
        work: 103_444.0,
        noise: &[26.5, 44.6, 51.6, 61.7, 76.4, 110.0, 190.0, 445.0],
        types: &[
            ("aws", (4, 16), 27.94, [0.1871, 0.02539, 0.7492, 0.01072, 0.1283, 0.01743, 1.108]),
            ("dgx-ext", (4, 32), 56.7, [0.3128, 0.01833, 0.06339, 0.01703, 0.09152, 0.02284, 1.0]),
            ("rtx", (4, 8), 11.72, [0.362, 0.01425, 0.3318, 0.00785, 0.2042, 0.01713, 1.0]),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_sound() {
        let all = built_in();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "bert",
                "cifar10",
                "deepspeech2",
                "gpt_pmp",
                "imagenet",
                "ncf",
                "yolov3"
            ]
        );
        for (name, app) in all.iter() {
            let types = if name.as_str() == "gpt_pmp" { 2 } else { 4 };
            assert_eq!(app.types.len(), types, "{name}");
            assert_eq!(app.curves.batches(), (app.initial_batch, app.max_batch));
        }
        let cifar = all.get("cifar10").unwrap();
        let (step, sync) = cifar.types["aws"].steps.step(&[1], 128).unwrap();
        assert!(
            (step - 0.107).abs() < 0.002 && sync < 0.001,
            "{step} {sync}"
        );
    }
}
