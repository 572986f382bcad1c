//! Execution plans: data, tensor and pipeline parallelism, ZeRO and offloading.

use blox_core::{Assignment, Cluster, Config, GpuCount, NodeId, Submission};
use serde_json::Value;

/// The knobs of a plan.
const KNOBS: [&str; 4] = ["tp", "pp", "zero", "offload"];

/// The execution plans of a job: its speed with each number of GPUs and each plan.
///
/// The knobs `tp` and `pp` are the degrees of tensor and pipeline parallelism. `zero` is the stage of
/// ZeRO (0 to 3). `offload` is 1 if the memory of the host holds the states of the optimizer. The
/// number of replicas is the number of GPUs divided by `tp` and `pp`.
///
/// *Measured plans.* The [attribute](blox_core::Extras::attributes) `plans` of a job is a list of
/// objects with `gpus`, `speed` and knobs. Other plans are then impossible.
///
/// *Model.* Without a list, the attribute `params_b` is the number of parameters in billions. An
/// iteration processes `batch_size` samples (16 for each requested GPU, if not given) of `sequence`
/// tokens (2,048), one after the other on each replica. A transformer of `n` layers has the width
/// 128 `n`, and 12 parameters for each layer and pair of units. GPUs are A800 or A100 of 80 GB:
///
/// - Memory: weights, gradients and Adam's states take 16 bytes for each parameter (ZeRO, SC 2020,
///   section 3). They are divided by `tp` x `pp`. The replicas also divide the states from stage 1 of
///   ZeRO on, the gradients from stage 2, and the weights from stage 3. Offloading leaves 2 bytes for
///   weights. Activations take 34 bytes for each token, layer and unit of width, divided by `tp`
///   (Korthikanti et al., 2022, without attention matrices). All fit if they take at most 72 GB.
/// - Computation: 6 floating-point operations for each parameter and token, a third of them forward,
///   at 140 TFLOP/s. A pipeline is idle for the time of `pp` - 1 samples (Megatron-LM, SC 2021,
///   section 2.2).
/// - Network: 150 GB/s within a node and 20 GB/s between nodes, as in Rubick's program. Tensor
///   parallelism sums activations four times in each layer. Data parallelism sums gradients while the
///   backward pass runs: of times `x` and `y`, √(x² + y²) passes. ZeRO exchanges the weights after the
///   step, in stage 3 twice.
/// - Step of the optimizer: 0.03 s for each billion parameters on a GPU. Offloaded, 0.5 s and 4 bytes
///   over a bus of 25 GB/s.
///
/// Rubick (MLSys 2025) uses the same terms. Its program fits their constants to profiles of each
/// application. The constants here are not fitted: the model serves to compare plans. On the 44 plans
/// of LLaMA with 7 billion parameters that the program has measured, ranks correlate with 0.54. For
/// each of six placements, the fastest plan of the model takes up to 44 % longer than the best.
///
/// ```
/// use blox_core::{ClusterSpec, Config, Extras, GpuCount, JobSpec, Seconds, State, Time};
/// use blox_perf::Plans;
///
/// let state = State::new(&ClusterSpec::uniform(4, 8))?;
/// let job = JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(60.0)).with_extras(Extras {
///     attributes: [("params_b".into(), 7.0.into())].into(),
///     ..Extras::default()
/// });
/// let plans = Plans::of(state.cluster(), &job).unwrap();
/// // Speeds are relative to the plan on the requested GPUs.
/// assert_eq!(plans.best(GpuCount(8), &Config::NONE).unwrap().0, 1.0);
/// // Replicas of 7 billion parameters do not fit. On one GPU, only offloading does.
/// let replicas = Config::of([("zero", 0.0), ("tp", 1.0), ("pp", 1.0)]);
/// assert_eq!(plans.best(GpuCount(8), &replicas), None);
/// let (_, plan) = plans.best(GpuCount(1), &Config::NONE).unwrap();
/// assert_eq!(plan.to_string(), "offload=1 pp=1 tp=1 zero=2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plans {
    source: Source,
    /// GPUs of the largest node.
    per_node: u32,
    /// Samples a second of the own plan on the requested GPUs.
    reference: f64,
    own: Config,
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    /// GPUs, plan, samples a second.
    Measured(Vec<(u32, Config, f64)>),
    Model(Transformer),
}

impl Plans {
    /// Returns the plans of a job on the largest nodes of a cluster. Returns `None` if the job states
    /// none, or if none fits the GPUs that it requests.
    ///
    /// The own plan of a job is its attribute `plan`, a text such as `tp=2 pp=4`. The fastest plan
    /// sets the other knobs.
    pub fn of(cluster: &Cluster, job: &Submission) -> Option<Self> {
        let attributes = &job.extras.as_ref()?.attributes;
        let source = match attributes.get("plans") {
            Some(list) => Source::Measured(measured(list)?),
            None => Source::Model(Transformer::of(job)?),
        };
        let nodes = cluster.kinds().iter().map(|kind| kind.gpus);
        let offers = cluster.offers().map(|(_, offer)| offer.spec.gpus);
        let per_node = nodes.chain(offers).max()?;
        let on = [job.gpus.get(), per_node];
        let own = attributes.get("plan").and_then(Value::as_str);
        let own = own.and_then(parsed).and_then(|own| source.best(on, &own));
        let (reference, own) = own.or_else(|| source.best(on, &Config::NONE))?;
        Some(Plans {
            source,
            per_node,
            reference,
            own,
        })
    }

    /// Returns the plan of the job on the GPUs that it requests.
    pub fn own(&self) -> &Config {
        &self.own
    }

    /// Returns the fastest plan with given knobs on a number of GPUs on few nodes. Its speed is a
    /// multiple of the speed of the own plan on the requested GPUs. Returns `None` if no such plan
    /// fits.
    pub fn best(&self, gpus: GpuCount, given: &Config) -> Option<(f64, Config)> {
        let (speed, plan) = self.source.best([gpus.get(), self.per_node], given)?;
        Some((speed / self.reference, plan))
    }

    /// Returns the speed on an assignment as a multiple of the speed of the own plan on the requested
    /// GPUs; 0 if the plan does not fit. The job chooses the fastest of the plans with the knobs of the
    /// assignment. Without a knob of a plan, that is its own plan, or the fastest one if its own does
    /// not fit.
    pub fn speed(&self, cluster: &Cluster, assignment: &Assignment) -> f64 {
        let mut nodes: Vec<NodeId> = Vec::new();
        nodes.extend(assignment.gpus.iter().filter_map(|g| cluster.node_of(*g)));
        nodes.sort_unstable();
        let parts = nodes.chunk_by(|a, b| a == b).map(|part| part.len() as u32);
        let on = [assignment.count().get(), parts.min().unwrap_or(0)];
        let given = &assignment.config;
        let best = match KNOBS.iter().any(|knob| given.get(knob).is_some()) {
            true => self.source.best(on, given),
            false => {
                let own = self.source.best(on, &self.own);
                own.or_else(|| self.source.best(on, &Config::NONE))
            }
        };
        best.map_or(0.0, |(speed, _)| speed / self.reference)
    }
}

impl Source {
    fn best(&self, on: [u32; 2], given: &Config) -> Option<(f64, Config)> {
        let agrees = |plan: &Config| {
            let same = |knob: &&str| given.get(knob).is_none_or(|v| plan.get(knob) == Some(v));
            KNOBS.iter().all(same)
        };
        let plans: Vec<(f64, Config)> = match self {
            Source::Measured(list) => {
                let rows = list
                    .iter()
                    .filter(|(n, plan, _)| *n == on[0] && agrees(plan));
                rows.map(|(_, plan, speed)| (*speed, plan.clone()))
                    .collect()
            }
            Source::Model(model) => model.plans(on, given),
        };
        // The first of equals.
        plans
            .into_iter()
            .reduce(|a, b| if b.0 > a.0 { b } else { a })
    }
}

/// Reads the attribute `plans`; `None` if it is malformed. Missing knobs are 1, 1, 0 and 0.
pub(crate) fn measured(list: &Value) -> Option<Vec<(u32, Config, f64)>> {
    let row = |row: &Value| {
        let row = row.as_object()?;
        let gpus = row.get("gpus")?.as_u64().filter(|n| *n > 0)?;
        let speed = row.get("speed")?.as_f64();
        let speed = speed.filter(|speed| *speed > 0.0 && speed.is_finite())?;
        let known =
            |name: &String| KNOBS.contains(&&**name) || ["gpus", "speed"].contains(&&**name);
        if !row.keys().all(known) {
            return None;
        }
        let mut plan = Vec::new();
        for (knob, default) in KNOBS.into_iter().zip([1.0, 1.0, 0.0, 0.0]) {
            plan.push((knob, row.get(knob).map_or(Some(default), Value::as_f64)?));
        }
        Some((u32::try_from(gpus).ok()?, Config::of(plan), speed))
    };
    let rows: Option<Vec<_>> = list.as_array()?.iter().map(row).collect();
    rows.filter(|rows| !rows.is_empty())
}

/// Reads a plan such as `tp=2 pp=4`; `None` if it is malformed.
pub(crate) fn parsed(text: &str) -> Option<Config> {
    let knob = |word: &str| {
        let (knob, value) = word.split_once('=')?;
        let value: u32 = value.parse().ok()?;
        let knob = KNOBS.into_iter().find(|known| *known == knob)?;
        let fits = match knob {
            "zero" => value <= 3,
            "offload" => value <= 1,
            _ => value > 0,
        };
        fits.then_some((knob, f64::from(value)))
    };
    let knobs: Option<Vec<_>> = text.split_whitespace().map(knob).collect();
    knobs.map(Config::of)
}

/// Returns whether a plan divides the GPUs of a job: into replicas, or as a measured plan does.
pub(crate) fn divides(job: &Submission, plan: &Value) -> bool {
    let Some(plan) = plan.as_str().and_then(parsed) else {
        return false;
    };
    let gpus = job.gpus.get();
    match job.attribute("plans").map(measured) {
        Some(list) => {
            let list = list.unwrap_or_default();
            Source::Measured(list).best([gpus, gpus], &plan).is_some()
        }
        None => {
            let [tp, pp] = ["tp", "pp"].map(|knob| plan.get(knob).unwrap_or(1.0));
            f64::from(gpus) % (tp * pp) == 0.0
        }
    }
}

const OPERATIONS_PER_S: f64 = 140e12;
const WITHIN_NODE: f64 = 150e9;
const BETWEEN_NODES: f64 = 20e9;
const TO_HOST: f64 = 25e9;
const MEMORY: f64 = 72e9;
/// Seconds of a step of the optimizer for a parameter, on a GPU and on the host.
const STEP: [f64; 2] = [0.03e-9, 0.5e-9];

/// A transformer that is trained.
#[derive(Clone, Debug, PartialEq)]
struct Transformer {
    params: f64,
    /// Layers, and layers times width.
    layers: [f64; 2],
    sequence: f64,
    batch: f64,
}

impl Transformer {
    fn of(job: &Submission) -> Option<Self> {
        let number = |name: &str| {
            let value = job.attribute(name)?.as_f64();
            value.filter(|x| *x > 0.0 && x.is_finite())
        };
        let params = number("params_b")? * 1e9;
        let width = libm::cbrt(128.0 * params / 12.0);
        let batch = job.extras().batch_size.filter(|n| *n > 0);
        Some(Transformer {
            params,
            layers: [width / 128.0, width * width / 128.0],
            sequence: number("sequence").unwrap_or(2048.0),
            batch: batch.map_or(16.0 * f64::from(job.gpus.get()), f64::from),
        })
    }

    /// Returns the plans that fit, with their samples a second. Unless the knobs are given, tensor
    /// parallelism stays within a node, and ZeRO is not combined with tensor or pipeline parallelism.
    /// Offloading is of stage 2.
    fn plans(&self, on: [u32; 2], given: &Config) -> Vec<(f64, Config)> {
        let [gpus, per_node] = on;
        let choices = |knob: &str, of: u32, most: u32| -> Vec<u32> {
            let divides = |n: &u32| of.is_multiple_of(*n);
            match given.get(knob) {
                // The conversion saturates.
                Some(n) => Some(n as u32)
                    .filter(|n| *n > 0 && divides(n))
                    .into_iter()
                    .collect(),
                None => (1..=of.min(most)).filter(divides).collect(),
            }
        };
        let agrees = |knob, value: u32| given.get(knob).is_none_or(|v| v == f64::from(value));
        let states = [[0, 0], [1, 0], [2, 0], [3, 0], [2, 1]].into_iter();
        let states = states.filter(|[zero, off]| agrees("zero", *zero) && agrees("offload", *off));
        let mut plans = Vec::new();
        for tp in choices("tp", gpus, per_node) {
            for pp in choices("pp", gpus / tp, self.layers[0] as u32) {
                for [zero, offload] in states.clone() {
                    if zero > 0 && tp * pp > 1 && given.get("zero").is_none() {
                        continue;
                    }
                    let knobs = [tp, pp, zero, offload];
                    if let Some(seconds) = self.seconds(on, knobs) {
                        let plan = Config::of(KNOBS.into_iter().zip(knobs.map(f64::from)));
                        plans.push((self.batch / seconds, plan));
                    }
                }
            }
        }
        plans
    }

    /// Returns the seconds of an iteration; `None` if the plan does not fit.
    fn seconds(&self, on: [u32; 2], knobs: [u32; 4]) -> Option<f64> {
        let [gpus, per_node] = on;
        let [tp, pp, zero, offload] = knobs;
        let replicas = f64::from(gpus / tp / pp);
        if replicas > self.batch {
            return None;
        }
        let samples = (self.batch / replicas).ceil();
        let (tensor, stages) = (f64::from(tp), f64::from(pp));
        let part = self.params / tensor / stages;
        let divided = |from: u32| if zero >= from { replicas } else { 1.0 };
        let bytes = match offload {
            0 => 12.0 / divided(1) + 2.0 / divided(2) + 2.0 / divided(3),
            _ => 2.0 / divided(3),
        };
        let [layers, units] = self.layers;
        let flying = samples.min(stages) / stages;
        let activations = 34.0 * self.sequence * units / tensor * flying;
        if part * bytes + activations > MEMORY {
            return None;
        }
        let idle = (samples + stages - 1.0) / samples;
        let forward = 2.0 * part * self.sequence * samples / OPERATIONS_PER_S * idle;
        let bandwidth = |gpus: u32| {
            if gpus <= per_node {
                WITHIN_NODE
            } else {
                BETWEEN_NODES
            }
        };
        // A reduction, or a distribution, of the gradients or weights of all replicas.
        let exchange = 2.0 * part * (replicas - 1.0) / replicas / bandwidth(gpus);
        let (during, after) = match zero {
            0 => (2.0 * exchange, 0.0),
            1 | 2 => (exchange, exchange),
            _ => (exchange, 2.0 * exchange),
        };
        let backward = 2.0 * forward;
        let backward = (backward * backward + during * during).sqrt();
        let sums = 16.0 * (tensor - 1.0) / tensor * self.sequence * units / stages;
        let sums = sums * samples / bandwidth(tp) * idle;
        let hops = match pp {
            1 => 0.0,
            _ => 4.0 * self.sequence * (units / layers) * samples / tensor / bandwidth(gpus),
        };
        let states = part / divided(1);
        let step = match offload {
            0 => states * STEP[0],
            _ => states * (STEP[1] + 4.0 / TO_HOST),
        };
        Some(forward + backward + after + sums + hops + step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, Extras, GpuId, JobSpec, Seconds, State, Time};
    use serde_json::json;

    fn job(gpus: u32, batch: u32, attributes: Value) -> JobSpec {
        let attributes = attributes.as_object().unwrap().clone();
        let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(60.0));
        job.with_extras(Extras {
            batch_size: Some(batch),
            attributes: attributes
                .into_iter()
                .map(|(k, v)| ((&*k).into(), v))
                .collect(),
            ..Extras::default()
        })
    }

    fn plans(nodes: usize, job: &JobSpec) -> Option<Plans> {
        let state = State::new(&ClusterSpec::uniform(nodes, 8)).unwrap();
        Plans::of(state.cluster(), job)
    }

    fn knobs(text: &str) -> Config {
        parsed(text).unwrap()
    }

    fn seconds(batch: u32, on: [u32; 2], text: &str) -> Option<f64> {
        let model = Transformer::of(&job(8, batch, json!({"params_b": 7})))?;
        let plan = knobs(text);
        let knob = |name: &str, default| plan.get(name).map_or(default, |v| v as u32);
        model.seconds(
            on,
            [
                knob("tp", 1),
                knob("pp", 1),
                knob("zero", 0),
                knob("offload", 0),
            ],
        )
    }

    #[test]
    fn plans_fit_by_their_memory() {
        // 112 GB of states. Activations of a sample take 9.65 GB.
        for (on, plan, fits) in [
            (1, "", false),
            (1, "zero=2 offload=1", true),
            (2, "tp=2", true),
            (2, "pp=2", true),
            (2, "zero=1", false),
            (2, "zero=2", false),
            (2, "zero=3", true),
            (4, "zero=1", true),
            (8, "", false),
        ] {
            assert_eq!(seconds(64, [on, 8], plan).is_some(), fits, "{on}: {plan}");
        }
    }

    #[test]
    fn seconds_of_plans_are_the_sums_of_their_terms() {
        // Computed apart from this code.
        for (on, plan, expected) in [
            ([8, 8], "tp=2", 5.263045),
            ([8, 8], "pp=2", 5.331783),
            ([8, 8], "tp=8", 6.636131),
            ([8, 8], "zero=1", 5.024134),
            ([8, 8], "zero=3", 5.105801),
            ([16, 8], "tp=2 pp=4", 2.876378),
            ([1, 8], "zero=2 offload=1", 43.941600),
            ([8, 4], "tp=8", 17.651556),
        ] {
            let found = seconds(64, on, plan).unwrap();
            assert!((found - expected).abs() < 1e-6, "{plan}: {found}");
        }
    }

    #[test]
    fn measured_plans_are_the_only_ones() {
        let rows = json!([
            {"gpus": 1, "zero": 2, "offload": 1, "speed": 1.0},
            {"gpus": 2, "zero": 2, "offload": 1, "speed": 1.2},
            {"gpus": 2, "tp": 2, "speed": 1.1},
            {"gpus": 3, "tp": 3, "speed": 4.0},
        ]);
        let of_job = plans(2, &job(2, 4, json!({"plans": rows, "plan": "tp=2"}))).unwrap();
        assert_eq!(of_job.own(), &knobs("tp=2 pp=1 zero=0 offload=0"));
        let best = |gpus, given: &str| {
            let best = of_job.best(GpuCount(gpus), &knobs(given))?;
            Some((best.0, best.1.to_string()))
        };
        let offloaded = "offload=1 pp=1 tp=1 zero=2".to_owned();
        assert_eq!(best(2, ""), Some((1.2 / 1.1, offloaded)));
        assert_eq!(best(2, "tp=2").map(|b| b.0), Some(1.0));
        assert_eq!(best(3, "").map(|b| b.0), Some(4.0 / 1.1));
        assert_eq!((best(4, ""), best(3, "tp=1")), (None, None));
        // No plan on the requested GPUs was measured.
        assert_eq!(plans(2, &job(4, 4, json!({"plans": rows}))), None);
    }

    #[test]
    fn own_plan_that_does_not_fit_is_replaced() {
        let own = |attributes| plans(2, &job(8, 64, attributes)).unwrap().own().to_string();
        let fastest = own(json!({"params_b": 7}));
        assert_eq!(
            own(json!({"params_b": 7, "plan": "tp=1 pp=1 zero=0"})),
            fastest
        );
        assert_eq!(
            own(json!({"params_b": 7, "plan": "tp=2"})),
            "offload=0 pp=1 tp=2 zero=0"
        );
        assert_eq!(plans(2, &job(1, 64, json!({"params_b": 60}))), None);
        assert_eq!(plans(2, &job(1, 64, json!({}))), None);
    }

    #[test]
    fn job_runs_its_own_plan_unless_it_is_given_another() {
        let job = job(8, 64, json!({"params_b": 7, "plan": "tp=8"}));
        let state = State::new(&ClusterSpec::uniform(2, 8)).unwrap();
        let of_job = Plans::of(state.cluster(), &job).unwrap();
        let speed = |gpus: std::ops::Range<u32>, plan: &str| {
            let on = Assignment {
                config: knobs(plan).with("shift", 1.0),
                ..Assignment::of(gpus.map(GpuId))
            };
            of_job.speed(state.cluster(), &on)
        };
        let seconds = |on, plan| seconds(64, on, plan).unwrap();
        assert_eq!(speed(0..8, ""), 1.0);
        let own = seconds([8, 8], "tp=8");
        for (gpus, plan, expected) in [
            (0..8, "tp=2 pp=1", own / seconds([8, 8], "tp=2")),
            // Sums of activations between nodes are slow.
            (4..12, "", own / seconds([8, 4], "tp=8")),
            // Tensor parallelism of 8 needs 8 GPUs.
            (0..1, "", own / seconds([1, 1], "zero=2 offload=1")),
            (0..1, "tp=8", 0.0),
        ] {
            let found = speed(gpus.clone(), plan);
            assert!((found - expected).abs() < 1e-12, "{gpus:?} {plan}: {found}");
        }
    }
}
