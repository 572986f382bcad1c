//! Data of jobs that schedulers are about.

use blox_core::{Class, Submission};
use blox_perf::{check_attributes, gpu_utilisation, sharing_score, stages};
use blox_registry::{JobData, RequiredData};

fn has_attribute(job: &Submission, name: &str) -> bool {
    job.extras().attributes.contains_key(name)
}

/// Deadlines, which give the order of jobs.
pub const DEADLINES: JobData = JobData {
    name: "a deadline",
    has: |job| !job.extras().deadlines.is_empty(),
    without: "no deadline orders or admits jobs",
    check: |_| Ok(()),
};

/// Levels: the GPU counts of an elastic job.
pub const LEVELS: JobData = JobData {
    name: "`levels`",
    has: |job| !job.extras().levels.is_empty(),
    without: "each job runs on the GPUs that it requests",
    check: |_| Ok(()),
};

/// Training data, by which a job changes its GPUs and its batch.
pub const TRAINING: JobData = JobData {
    name: "training data (`training`)",
    has: |job| job.extras().training.is_some(),
    without: "each job runs on the GPUs that it requests",
    check: |_| Ok(()),
};

/// Speeds by type of GPU.
pub const TYPE_SPEEDS: JobData = JobData {
    name: "`speeds` by GPU type",
    has: |job| job.extras().speeds.is_some() || job.extras().training.is_some(),
    without: "each job is as fast on every GPU type",
    check: |_| Ok(()),
};

/// Speeds of jobs beside others, by which pairs share GPUs.
pub const PAIR_SPEEDS: JobData = JobData {
    name: "`speeds` beside other jobs",
    has: |job| job.extras().speeds.as_ref().is_some_and(|s| s.has_pairs()),
    without: "no speed of a pair is known",
    check: |_| Ok(()),
};

/// Losses, from which the work left is predicted.
pub const CURVES: JobData = JobData {
    name: "a `loss`",
    has: |job| job.extras().loss.is_some(),
    without: "the true work left stands for predictions",
    check: |_| Ok(()),
};

/// Losses, by which jobs end.
pub const LOSSES: JobData = JobData {
    name: "a `loss`",
    has: |job| job.extras().loss.is_some(),
    without: "no job ends before its work is done",
    check: |_| Ok(()),
};

/// Stages, by which jobs use resources in turn.
pub const STAGES: JobData = JobData {
    name: "`attributes.stages`",
    has: |job| stages(job).is_some() || gpu_utilisation(job) < 1.0,
    without: "no jobs share GPUs",
    check: |job| check_attributes(job, &["stages", "gpu_utilisation", "gpu_util"]),
};

/// GPU utilisation, by which jobs share GPUs, or levels, by which they grow.
pub const UTILISATION: JobData = JobData {
    name: "`attributes.gpu_utilisation` or `levels`",
    has: |job| gpu_utilisation(job) < 1.0 || (LEVELS.has)(job),
    without: "no jobs share GPUs, grow or shrink",
    check: |job| check_attributes(job, &["gpu_utilisation", "gpu_util"]),
};

/// Sharing score or profile, by which jobs share GPUs.
pub const SHARING_SCORE: JobData = JobData {
    name: "`attributes.gmem` and a sharing score or profile (`attributes.gpu_util`, `gmem_util`)",
    has: |job| sharing_score(job).is_some() && has_attribute(job, "gmem"),
    without: "no jobs share GPUs",
    check: |job| check_attributes(job, &["sharing_score", "gpu_util", "gmem", "gmem_util"]),
};

/// Regimes of the batch size.
pub const REGIMES: JobData = JobData {
    name: "`attributes.regimes`",
    has: |job| has_attribute(job, "regimes"),
    without: "no job changes its batch size",
    check: |_| Ok(()),
};

/// Fraction of a step in which gradients are exchanged.
pub const COMMUNICATION: JobData = JobData {
    name: "`communication`",
    has: |job| job.extras().communication > 0.0,
    without: "each job is as fast on any links",
    check: |_| Ok(()),
};

/// Network demand within an iteration.
pub const TRAFFIC: JobData = JobData {
    name: "`traffic`",
    has: |job| job.extras().traffic.is_some(),
    without: "no job slows others on links of the network",
    check: |_| Ok(()),
};

/// Parameters of the model or measured plans, by which jobs have execution plans.
pub const PLANS: JobData = JobData {
    name: "`attributes.params_b` or `plans`",
    has: |job| has_attribute(job, "params_b") || has_attribute(job, "plans"),
    without: "each job keeps its plan and number of GPUs",
    check: |job| check_attributes(job, &["params_b", "sequence", "plan", "plans"]),
};

/// Speed with fewer CPUs or less memory.
pub const SENSITIVITY: JobData = JobData {
    name: "a `sensitivity`",
    has: |job| job.extras().sensitivity.is_some(),
    without: "each job is as fast with any CPUs and memory",
    check: |_| Ok(()),
};

/// Describes data that a column of a formula reads.
const fn column_data(
    name: &'static str,
    has: fn(&Submission) -> bool,
    without: &'static str,
) -> RequiredData {
    RequiredData::Data(JobData {
        name,
        has,
        without,
        check: |_| Ok(()),
    })
}

/// Returns the data of jobs that a column of a formula reads. Returns `None` if each job has them.
/// `estimator` is the source of estimates.
pub(crate) fn of_column(column: &str, estimator: &str) -> Option<RequiredData> {
    if let Some(name) = column.strip_prefix("attributes.") {
        return Some(RequiredData::Attribute(name.to_owned()));
    }
    Some(match (column, estimator) {
        ("priority", _) => column_data(
            "a `priority` other than 0",
            |job| job.priority != 0,
            "`priority` orders no jobs",
        ),
        ("weight", _) => column_data(
            "a `weight`",
            |job| job.extras().weight > 0.0,
            "`weight` is 1 for each job",
        ),
        ("deadline", _) => column_data(
            "a deadline",
            |job| !job.extras().deadlines.is_empty(),
            "`deadline` is endless unless admission sets it",
        ),
        ("user", _) => column_data(
            "a `user`",
            |job| job.user.is_some(),
            "`user` is the empty text for each job",
        ),
        ("virtual_cluster", _) => column_data(
            "a `virtual_cluster`",
            |job| job.virtual_cluster.is_some(),
            "`virtual_cluster` is the empty text for each job",
        ),
        ("class", _) => column_data(
            "a `class` other than guaranteed",
            |job| job.extras().class != Class::Guaranteed,
            "`class` is 'guaranteed' unless admission sets it",
        ),
        ("estimate" | "estimate_left", "user") => RequiredData::UserEstimate,
        _ => return None,
    })
}
