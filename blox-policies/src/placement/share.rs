//! Fair shares and demands of CPUs and memory.

use blox_core::{Assignment, GpuCount, Gpus, JobRef, Node, NodeStatus, View};

/// CPU cores and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts {
    pub cpus: f64,
    pub memory_gib: f64,
}

impl Amounts {
    /// Returns the CPUs and memory of an assignment.
    pub fn of(a: &Assignment) -> Self {
        Amounts {
            cpus: a.cpus,
            memory_gib: a.memory_gib,
        }
    }

    /// Returns the smaller amount of each resource.
    pub fn at_most(self, other: Amounts) -> Self {
        self.with(other, f64::min)
    }

    /// Returns the amounts multiplied by a factor.
    pub fn times(self, factor: f64) -> Self {
        Amounts {
            cpus: self.cpus * factor,
            memory_gib: self.memory_gib * factor,
        }
    }

    fn with(self, other: Amounts, choose: impl Fn(f64, f64) -> f64) -> Self {
        Amounts {
            cpus: choose(self.cpus, other.cpus),
            memory_gib: choose(self.memory_gib, other.memory_gib),
        }
    }
}

/// Amounts that nodes have per GPU. A resource that no node states is not allocated: its amounts
/// are 0.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// Amount per GPU on the least equipped node.
    each: Amounts,
    /// GPUs and total amounts of every node.
    nodes: Vec<(GpuCount, Amounts)>,
}

impl Shares {
    /// Computes the shares from the nodes in view that have not left.
    pub fn in_view(view: View<'_>) -> Self {
        let size = |n: &Node| {
            let (cpus, memory_gib) = (n.spec().cpus, n.spec().memory_gib);
            (GpuCount(n.gpu_count()), Amounts { cpus, memory_gib })
        };
        let there = view.nodes().filter(|n| n.status() != NodeStatus::Left);
        let nodes: Vec<_> = there.map(size).filter(|(gpus, _)| gpus.get() > 0).collect();
        let least = |amount: fn(&Amounts) -> f64| {
            let each = nodes.iter().map(|(gpus, all)| (gpus, amount(all)));
            let counted = each.filter(|(_, all)| *all > 0.0);
            let least = counted.map(|(gpus, all)| all / f64::from(gpus.get()));
            least.reduce(f64::min).unwrap_or(0.0)
        };
        Shares {
            each: Amounts {
                cpus: least(|a| a.cpus),
                memory_gib: least(|a| a.memory_gib),
            },
            nodes,
        }
    }

    /// Returns the fair share of an amount of GPUs.
    pub fn fair(&self, gpus: Gpus) -> Amounts {
        self.each.times(gpus.number())
    }

    /// Returns the best-case demand of a job.
    ///
    /// This is the amount that the job requests, or its fair share if it requests none, but at most
    /// what a node has. A job larger than any node demands at most its fair share.
    pub fn demand(&self, job: &JobRef<'_>) -> Amounts {
        let fair = self.fair(job.amount());
        let extras = job.spec().extras();
        let asked = |amount: f64, fair: f64| if amount > 0.0 { amount } else { fair };
        let asked = Amounts {
            cpus: asked(extras.cpus, fair.cpus),
            memory_gib: asked(extras.memory_gib, fair.memory_gib),
        };
        let holds = self.nodes.iter().filter(|(gpus, _)| *gpus >= job.gpus());
        let largest = holds
            .map(|(_, all)| *all)
            .reduce(|a, b| a.with(b, f64::max));
        let most = largest.unwrap_or(fair);
        // A resource that no node states is not capped.
        let most = most.with(
            self.each,
            |most, each| if each > 0.0 { most } else { f64::MAX },
        );
        asked.at_most(most)
    }
}
