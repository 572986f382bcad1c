//! Batch-size changes during training, for jobs of Shockwave's traces.

use super::{Oracle, model_and_batch, samples};
use blox_core::JobSpec;
use serde_json::json;

/// GPU type on which Shockwave's artifact profiles jobs.
const PROFILED: &str = "v100";
/// Largest number of epochs for which regimes are computed.
const MOST: f64 = 1e6;
/// Fraction of its epochs in which an accordion job always keeps its first batch size.
const FIRST: f64 = 0.3;

/// Model, GPUs, first batch size, and the epochs at which a `gns` job doubles its batch size. The
/// table is from Shockwave's artifact (uw-mad-dash/shockwave, `get_gns_bs_pattern`), where it
/// follows measured gradient noise. Other jobs keep their batch size.
const DOUBLES: [(&str, u32, u32, &[u32]); 33] = [
    ("ResNet-18", 1, 16, &[31, 41, 51, 71]),
    ("ResNet-18", 1, 32, &[21, 31, 51]),
    ("ResNet-18", 1, 64, &[11, 31]),
    ("ResNet-18", 1, 128, &[11]),
    ("ResNet-18", 2, 16, &[21, 31, 91, 111]),
    ("ResNet-18", 2, 32, &[11, 21, 41]),
    ("ResNet-18", 2, 64, &[21, 41]),
    ("ResNet-18", 2, 128, &[41]),
    ("ResNet-18", 4, 16, &[11, 21, 81, 91]),
    ("ResNet-18", 4, 32, &[21, 31, 61]),
    ("ResNet-18", 4, 64, &[11, 61]),
    ("ResNet-18", 4, 128, &[11]),
    ("ResNet-50", 1, 64, &[101]),
    ("ResNet-50", 2, 32, &[101, 111]),
    ("ResNet-50", 2, 64, &[81]),
    ("ResNet-50", 4, 32, &[131, 221]),
    ("ResNet-50", 4, 64, &[191]),
    ("LM", 1, 5, &[31, 41, 61, 71]),
    ("LM", 1, 10, &[11, 21, 41]),
    ("LM", 1, 20, &[11, 41]),
    ("LM", 1, 40, &[11]),
    ("LM", 2, 5, &[31, 51, 61, 71]),
    ("LM", 2, 10, &[11, 31, 41]),
    ("LM", 2, 20, &[31, 41]),
    ("LM", 2, 40, &[11]),
    ("LM", 4, 5, &[11, 31, 71, 91]),
    ("LM", 4, 10, &[11, 31, 61]),
    ("LM", 4, 20, &[11, 61]),
    ("LM", 4, 40, &[61]),
    ("Recommendation", 1, 512, &[21, 41, 71, 91]),
    ("Recommendation", 1, 1024, &[21, 51, 91]),
    ("Recommendation", 1, 2048, &[21, 41]),
    ("Recommendation", 1, 4096, &[41]),
];

/// Applies the batch-size changes of a job with the attribute `mode`.
///
/// The job gets the attribute `regimes`: batch size, epochs and seconds per epoch of each stretch.
/// Its work becomes the sum over the stretches, in iterations of its first batch size on a V100. If
/// the oracle has no V100 speed, the fastest type is used. Speeds are those profiled in Shockwave's
/// artifact. A job is unchanged if its batch size never changes, or if the oracle lacks one of its
/// batch sizes.
///
/// `accordion` uses the largest batch size outside of critical epochs and of the first 30 %. `gns`
/// doubles the batch size at tabulated epochs. The artifact's table gives the last epoch of a `gns`
/// job its first batch size again; here it keeps the previous one.
pub(super) fn adapt(job: &mut JobSpec, oracle: &Oracle) {
    let Some((stretches, rate)) = stretches(job, oracle) else {
        return;
    };
    let all = stretches.iter().map(|(_, n, s)| f64::from(*n) * s);
    job.work.iterations = all.sum::<f64>() * rate;
    if let Some(extras) = &mut job.extras {
        extras.attributes.insert("regimes".into(), json!(stretches));
    }
}

/// Batch size, epochs and seconds per epoch.
type Stretch = (u32, u32, f64);

/// Returns the stretches in order and the rate of the first batch size; `None` for a single batch
/// size.
fn stretches(job: &JobSpec, oracle: &Oracle) -> Option<(Vec<Stretch>, f64)> {
    let extras = job.extras.as_ref()?;
    let mode = extras.attributes.get("mode")?.as_str()?;
    let (model, first) = model_and_batch(extras.model.as_deref()?)?;
    let samples = samples(model).filter(|_| first > 0)?;
    let gpus = job.gpus.get();
    let steps = |batch: u32| f64::from(samples.div_ceil(batch));
    let epochs = (job.work.iterations / steps(first)).ceil();
    if epochs > MOST {
        return None;
    }
    let largest = largest(model)?.max(first);
    let doubles = DOUBLES
        .iter()
        .find(|d| (d.0, d.1, d.2) == (model, gpus, first));
    let batch_in = |epoch: u32| match mode {
        "accordion" if is_critical(model, first, epoch) => first,
        "accordion" if f64::from(epoch) <= epochs * FIRST => first,
        "accordion" => largest,
        "gns" => {
            let of = doubles.map_or(&[][..], |d| d.3);
            let times = of.iter().filter(|from| epoch >= **from).count();
            (first << times).min(largest)
        }
        _ => first,
    };
    let speeds = extras.speeds.as_ref()?;
    let faster = |a: (_, f64), b: (_, f64)| if b.1 > a.1 { b } else { a };
    let mut types = speeds.types();
    let profiled = types.find(|(kind, rate)| ***kind == *PROFILED && *rate > 0.0);
    let (kind, first_rate) = profiled.or_else(|| speeds.types().reduce(faster))?;
    let mut all: Vec<Stretch> = Vec::new();
    for epoch in 0..epochs as u32 {
        let batch = batch_in(epoch);
        match all.last_mut() {
            Some((last, epochs, _)) if *last == batch => *epochs += 1,
            _ => {
                let speeds = oracle.speeds(&format!("{model} (batch size {batch})"), gpus)?;
                let rate = speeds.alone(kind).filter(|rate| *rate > 0.0)?;
                all.push((batch, 1, steps(batch) / rate));
            }
        }
    }
    (all.len() > 1).then_some((all, first_rate))
}

/// Returns the largest batch size with which a model was measured.
fn largest(model: &str) -> Option<u32> {
    Some(match model {
        "ResNet-18" => 256,
        "ResNet-50" | "Transformer" => 128,
        "LM" => 80,
        "Recommendation" => 8192,
        _ => return None,
    })
}

/// Returns whether a larger batch size would cost accuracy in an epoch. True for all epochs of a
/// model that is not tabulated.
fn is_critical(model: &str, first: u32, epoch: u32) -> bool {
    let within = |all: &[std::ops::Range<u32>]| all.iter().any(|r| r.contains(&epoch));
    match (model, first) {
        ("ResNet-18", 256) => within(&[0..20, 150..160, 250..260]),
        ("ResNet-18", _) => within(&[0..10, 150..160, 250..260]),
        ("ResNet-50", _) => epoch < 600 && epoch % 30 < 10,
        ("LM", _) => epoch < 10,
        ("Recommendation", 512 | 1024) => within(&[0..30, 60..70, 80..90]),
        ("Recommendation", 2048) => within(&[0..40, 60..70, 80..90]),
        ("Recommendation", _) => within(&[0..10, 60..70, 80..90]),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, Seconds, Time};

    /// A job of slightly fewer than the given epochs; P100s are faster here.
    fn job(mode: &str, first: u32, epochs: u32) -> (JobSpec, Oracle) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("throughputs.json");
        let kinds = [16, 32, 64, 128, 256].map(|b| {
            format!(
                r#""('ResNet-18 (batch size {b})', 1)": {{"null": {}.0}}"#,
                512 / b
            )
        });
        let json = format!(
            r#"{{"p100": {{{}}}, "v100": {{{}}}}}"#,
            kinds.join(", ").replace(".0", "9.0"),
            kinds.join(", ")
        );
        std::fs::write(&path, json).unwrap();
        let oracle = Oracle::read(&path).unwrap();
        let mut extras = Extras {
            model: Some(format!("ResNet-18 (batch size {first})").into()),
            ..Extras::default()
        };
        extras.attributes.insert("mode".into(), mode.into());
        let mut job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::ZERO).with_extras(extras);
        job.work.iterations = f64::from(epochs * 50_000_u32.div_ceil(first)) - 0.5;
        assert!(oracle.profile(&mut job));
        adapt(&mut job, &oracle);
        (job, oracle)
    }

    fn regimes(job: &JobSpec) -> Vec<(u32, u32, f64)> {
        let attribute = job.extras().attributes.get("regimes").cloned();
        attribute
            .map(|r| serde_json::from_value(r).unwrap())
            .unwrap_or_default()
    }

    #[test]
    fn a_gns_job_doubles_at_its_epochs() {
        let (job, _) = job("gns", 32, 60);
        let seconds = |batch: u32| f64::from(50_000_u32.div_ceil(batch)) / f64::from(512 / batch);
        let expected = [(32, 21), (64, 10), (128, 20), (256, 9)].map(|(b, n)| (b, n, seconds(b)));
        assert_eq!(regimes(&job), expected);
        let all: f64 = expected.iter().map(|(_, n, s)| f64::from(*n) * s).sum();
        let on_v100 = job.extras().speeds.as_ref().unwrap().alone("v100").unwrap();
        assert!((job.work.iterations / on_v100 - all).abs() < 1e-6);
        assert!(job.duration().secs() < all);
    }

    #[test]
    fn an_accordion_job_grows_outside_of_critical_epochs() {
        let stretches = |epochs| {
            let found = regimes(&job("accordion", 64, epochs).0);
            found.iter().map(|(b, n, _)| (*b, *n)).collect::<Vec<_>>()
        };
        assert_eq!(stretches(20), [(64, 10), (256, 10)]);
        // A third of 236 is longer than the critical ten.
        assert_eq!(stretches(236), [(64, 71), (256, 79), (64, 10), (256, 76)]);
    }

    #[test]
    fn job_without_batch_changes_is_unchanged() {
        for (mode, first, epochs) in [("static", 32, 60), ("gns", 32, 21), ("gns", 256, 90)] {
            let (job, oracle) = job(mode, first, epochs);
            assert_eq!(regimes(&job), []);
            let mut again = job.clone();
            adapt(&mut again, &oracle);
            assert_eq!(again, job);
            assert!(job.work.iterations.fract() > 0.0);
        }
    }
}
