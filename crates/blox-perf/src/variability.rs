//! Scores of single GPUs, by application class.

use blox_core::{Node, NodeSpec, Submission};
use smallvec::SmallVec;

/// Name of the job attribute with the application class.
pub const APP_CLASS: &str = "app_class";

/// Prefix of the node label with the scores of the node's GPUs: `pm_score.CLASS`.
///
/// The label holds one score for each GPU, separated by spaces: `1 1.31 0.97 1`. A score is the
/// time of a step on the GPU divided by the time on the median GPU (PAL, SC 2024). A smaller score
/// is faster. A GPU without a score has 1; a cluster file must name a score for each GPU.
pub const SCORES: &str = "pm_score.";

/// Returns the application class of a job; empty if it has none.
pub fn app_class(job: &Submission) -> &str {
    let class = job.attribute(APP_CLASS).and_then(|v| v.as_str());
    class.unwrap_or_default()
}

/// Returns the scores of a node's GPUs for a class, in order of GPU.
///
/// ```
/// use blox_perf::gpu_scores;
/// use blox_core::{ClusterSpec, State};
/// let mut cluster = ClusterSpec::uniform(1, 3);
/// cluster.nodes[0].labels.insert("pm_score.A".into(), "1.2 0.9".into());
/// let state = State::new(&cluster)?;
/// let node = &state.cluster().nodes()[0];
/// assert_eq!(gpu_scores(node, "A")[..], [1.2, 0.9, 1.0]);
/// assert_eq!(gpu_scores(node, "B")[..], [1.0; 3]);
/// # Ok::<(), blox_core::ClusterSpecError>(())
/// ```
pub fn gpu_scores(node: &Node, class: &str) -> SmallVec<[f64; 8]> {
    let labels = &node.spec().labels;
    let label = labels.iter().find(|(name, _)| {
        let of_class = name.strip_prefix(SCORES);
        of_class == Some(class)
    });
    let words = label.map_or("", |(_, text)| text).split_whitespace();
    let scores = words.map(|word| score(word).unwrap_or(1.0));
    let all = scores.chain(std::iter::repeat(1.0));
    all.take(node.gpu_count() as usize).collect()
}

fn score(word: &str) -> Option<f64> {
    let number = word.parse().ok();
    number.filter(|s: &f64| s.is_finite() && *s > 0.0)
}

/// Returns the first label of scores that does not hold one number above 0 for each GPU.
///
/// ```
/// use blox_core::NodeSpec;
/// use blox_perf::wrong_scores;
/// let mut node = NodeSpec::with_gpus(2);
/// node.labels.insert("pm_score.A".into(), "1.2 0.9".into());
/// assert_eq!(wrong_scores(&node), None);
/// node.labels.insert("pm_score.B".into(), "1.2".into());
/// assert_eq!(wrong_scores(&node), Some(("pm_score.B", "1.2")));
/// ```
pub fn wrong_scores(node: &NodeSpec) -> Option<(&str, &str)> {
    let gpus = node.gpus as usize;
    let is_wrong = |text: &str| {
        let mut words = text.split_whitespace();
        words.clone().count() != gpus || words.any(|word| score(word).is_none())
    };
    let labels = node.labels.iter();
    let mut scores = labels.filter(|(name, _)| name.starts_with(SCORES));
    let (name, text) = scores.find(|(_, text)| is_wrong(text))?;
    Some((&**name, &**text))
}
