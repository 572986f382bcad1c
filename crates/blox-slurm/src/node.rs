//! Nodes as `sinfo --json` shows them.

use crate::error::SlurmError;
use crate::read::{gpus, number, text, words};
use blox_core::{Name, NodeSpec};
use serde_json::Value;

/// State of a node in Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Jobs run on the node, or may.
    Up,
    /// The node does not work, or does not answer.
    Down,
    /// Slurm has not yet contacted the node since its own start.
    Unknown,
}

/// A node of Slurm.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// The name.
    pub name: Name,
    /// Number of GPUs.
    pub gpus: u32,
    /// Type of the GPUs, if Slurm's configuration states one.
    pub gpu_type: Option<Name>,
    /// CPU cores.
    pub cpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Names of its partitions.
    pub partitions: Vec<Name>,
    /// The state.
    pub health: Health,
    /// The reason for which an administrator drains the node; `None` without a drain.
    pub drained: Option<String>,
}

impl NodeInfo {
    /// Reads the nodes of `sinfo --json` or `scontrol show nodes --json`.
    ///
    /// # Errors
    /// The value has no list of nodes, or one has no name.
    pub fn list(value: &Value) -> Result<Vec<NodeInfo>, SlurmError> {
        let list = value.get("nodes").and_then(Value::as_array);
        let list = list.ok_or_else(|| SlurmError::Output {
            program: "sinfo",
            found: "no list `nodes`".to_owned(),
            expected: "a list of nodes",
        })?;
        list.iter().map(NodeInfo::read).collect()
    }

    /// Reads one node of `sinfo --json`.
    pub(crate) fn read(node: &Value) -> Result<Self, SlurmError> {
        NodeInfo::of(node).ok_or_else(|| SlurmError::Output {
            program: "sinfo",
            found: format!("the node {node}"),
            expected: "a node with a name",
        })
    }

    fn of(node: &Value) -> Option<Self> {
        let name = text(node, "name");
        let mut states = words(node, "state");
        states.extend(words(node, "state_flags"));
        let has = |names: &[&str]| {
            let is = |state: &&str| names.iter().any(|name| state.eq_ignore_ascii_case(name));
            states.iter().any(is)
        };
        let health = if has(&[
            "down",
            "down*",
            "error",
            "fail",
            "not_responding",
            "no_respond",
            "powered_down",
            "powering_down",
            "powering_up",
            "reboot_issued",
            "future",
        ]) || states.iter().any(|s| s.ends_with('*'))
        {
            Health::Down
        } else if has(&["unknown"]) {
            Health::Unknown
        } else {
            Health::Up
        };
        let reason = text(node, "reason");
        let drained = has(&["drain", "draining", "drained", "maint", "maintenance"]);
        let (gpus, gpu_type) = gpus(text(node, "gres")).unwrap_or_default();
        Some(NodeInfo {
            gpus,
            gpu_type: gpu_type.map(Name::from),
            cpus: number(node, "cpus").unwrap_or(0),
            memory_mib: number(node, "real_memory").unwrap_or(0),
            partitions: words(node, "partitions")
                .into_iter()
                .map(Name::from)
                .collect(),
            health,
            drained: drained.then(|| match reason {
                "" => "drained".to_owned(),
                reason => reason.to_owned(),
            }),
            name: (!name.is_empty()).then(|| Name::from(name))?,
        })
    }

    /// Returns the node as a part of a cluster. CPUs and memory are left to Slurm.
    pub fn spec(&self) -> NodeSpec {
        NodeSpec {
            name: Some(self.name.clone()),
            gpus: self.gpus,
            gpu_type: self.gpu_type.clone(),
            ..NodeSpec::default()
        }
    }
}
