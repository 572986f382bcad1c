//! Job types as Gavel and Shockwave name them.

/// Returns the model and batch size of a job type such as `ResNet-18 (batch size 32)`; `None` if it
/// names no batch size.
pub fn model_and_batch(job_type: &str) -> Option<(&str, u32)> {
    let (model, rest) = job_type.split_once(" (batch size ")?;
    Some((model, rest.strip_suffix(')')?.parse().ok()?))
}

/// Samples of the data set on which Shockwave's simulator trains a model.
pub fn samples(model: &str) -> Option<u32> {
    Some(match model {
        "ResNet-18" => 50_000,
        "ResNet-50" => 100_000,
        "Transformer" => 10_000,
        "LM" => 59_675,
        "Recommendation" => 117_907,
        "CycleGAN" => 6_287,
        "A3C" => 4,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_taken_apart() {
        assert_eq!(model_and_batch("LM (batch size 5)"), Some(("LM", 5)));
        assert_eq!(model_and_batch("A3C"), None);
        assert_eq!(samples("LM"), Some(59_675));
    }
}
