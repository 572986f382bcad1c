//! The manifest, which is the last file of a result folder and describes the origin of the others.

use super::super::files::write_whole;
use super::names::MANIFEST;
use super::printed::pretty;
use crate::failure::Failure;
use crate::plan::Plan;
use blox_core::{ClusterSpec, NodeSpec, Offer, Seconds};
use blox_experiment::{Input, Results};
use blox_results::ended;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;

/// The commit of the source of this program, if the build knows it.
pub(crate) const COMMIT: Option<&str> = option_env!("BLOX_COMMIT");

/// Writes the manifest, which marks complete results. It states their inputs and how the runs
/// ended. It holds no time and no output path, so equal runs give equal bytes.
pub(crate) fn write_manifest(
    dir: &Path,
    plan: &Plan<'_>,
    results: &Results<'_, '_>,
    args: &[OsString],
    status: &str,
) -> Result<(), Failure> {
    let (experiment, runs) = (plan.only(), results.comparison().runs);
    let folder = |name: &str| {
        let mut named = plan.schedulers().zip(&plan.folders);
        named
            .find(|(label, _)| *label == name)
            .map(|(_, folder)| folder)
    };
    let schedulers: Vec<Value> = runs
        .iter()
        .map(|run| {
            let s = &run.summary;
            json!({
                "name": s.scheduler,
                "folder": folder(&s.scheduler),
                "jobs": s.jobs,
                "ended": ended(run.report.ended),
            })
        })
        .collect();
    let mut notices = results.failures();
    notices.extend(results.notices());
    let mut manifest = json!({
        "blox_version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
        "status": status,
        "command_line": command_line(args),
        "configuration": configuration(plan.values(&experiment.given)),
        "seeds": [experiment.seed],
        "inputs": inputs(&experiment.inputs),
        "workload": runs.first().map(|r| &r.workload),
        "nodes": experiment.cluster.nodes.len(),
        "gpus": experiment.cluster.total_gpus(),
        "cluster": cluster(&experiment.cluster),
        "assumptions": results.assumptions().fields(),
        "schedulers": schedulers,
        "notices": notices,
    });
    if !experiment.cluster.offers.is_empty() {
        manifest["offers"] = offers(&experiment.cluster).into();
    }
    if !results.failed.is_empty() {
        let each = results.failed.iter();
        manifest["failed"] = each
            .map(|f| json!({ "name": f.scheduler, "error": f.error }))
            .collect();
    }
    write_whole(&dir.join(MANIFEST), |out| pretty(out, &manifest))
}

/// Returns the nodes in order of registration, one entry for each group of equal neighbors.
pub(crate) fn cluster(spec: &ClusterSpec) -> Vec<Value> {
    let alike = |a: &NodeSpec, b: &NodeSpec| a.gpus == b.gpus && a.gpu_type == b.gpu_type;
    let kinds = spec.nodes.chunk_by(alike);
    kinds
        .map(|nodes| {
            json!({ "nodes": nodes.len(), "gpus": nodes[0].gpus, "gpu_type": nodes[0].gpu_type })
        })
        .collect()
}

/// Returns the offers of nodes.
pub(crate) fn offers(spec: &ClusterSpec) -> Vec<Value> {
    let one = |offer: &Offer| {
        json!({
            "name": offer.name, "most": offer.most, "gpus": offer.spec.gpus,
            "gpu_type": offer.spec.gpu_type, "price": offer.spec.price,
            "notice_s": offer.notice.map(Seconds::secs),
        })
    };
    spec.offers.iter().map(one).collect()
}

/// Returns the options on which results depend, among all by their long names.
pub(crate) fn configuration(mut all: Map<String, Value>) -> Map<String, Value> {
    let mut about_output = LEFT_OUT.to_vec();
    about_output.extend(FLAGS_LEFT_OUT);
    about_output.push("report");
    all.retain(|key, _| !about_output.contains(&key.as_str()));
    all
}

pub(crate) fn inputs(inputs: &[Input]) -> Vec<Value> {
    let one = |i: &Input| json!({ "path": i.path.display().to_string(), "sha256": i.sha256 });
    inputs.iter().map(one).collect()
}

const LEFT_OUT: [&str; 16] = [
    "output-dir",
    "shard",
    "merge",
    "on",
    "tasks",
    "partition",
    "account",
    "time",
    "max-parallel",
    "slurm-arg",
    "retries",
    "journal",
    "plot",
    "threads",
    "output-format",
    "table",
];

const FLAGS_LEFT_OUT: [&str; 5] = ["force", "quiet", "json", "detach", "dry-run"];

/// Removes options about the output and the number of threads, which do not change the results.
pub(crate) fn command_line(args: &[OsString]) -> Vec<String> {
    let mut kept = vec!["blox".to_owned()];
    let mut args = args
        .iter()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        let option = arg.strip_prefix("--").unwrap_or_default();
        match option.split_once('=').map_or(option, |(name, _)| name) {
            name if LEFT_OUT.contains(&name) && name == option => drop(args.next()),
            name if LEFT_OUT.contains(&name) || FLAGS_LEFT_OUT.contains(&option) => {}
            _ if arg == "-q" => {}
            _ => kept.push(arg),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_leaves_out_where_results_go() {
        let args = [
            "x/blox",
            "compare",
            "fifo",
            "--output-dir",
            "a b",
            "--force",
            "--journal=j",
            "--plot",
            "a.svg",
            "--threads=2",
            "--output-format",
            "csv",
            "--table=latex",
            "--seed",
            "2",
        ];
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        assert_eq!(
            command_line(&args),
            ["blox", "compare", "fifo", "--seed", "2"]
        );
    }
}
