//! What a job is given: GPUs, and what comes with them.

use crate::ids::{GpuId, JobId};
use crate::units::GpuCount;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// GPUs in rank order; up to eight without an allocation.
pub type GpuList = SmallVec<[GpuId; 8]>;

/// Appends GPUs whose numbers follow one another.
#[inline]
pub(crate) fn append_run(list: &mut GpuList, first: GpuId, count: u32) {
    let all = |i: usize| GpuId(first.0.wrapping_add(i as u32));
    if list.is_empty() && count <= 8 {
        // All eight are written, whatever the count: no loop whose end has to be guessed.
        *list = GpuList::from_buf_and_len(std::array::from_fn(all), count as usize);
    } else {
        list.extend((0..count as usize).map(all));
    }
}

/// How a job splits its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchConfig {
    /// Samples that one GPU takes in one pass.
    pub per_gpu: u32,
    /// Passes whose gradients are added up before a step, beyond the first.
    pub accumulation: u32,
}

/// What a job is given for as long as the assignment stands.
///
/// CPUs and memory count for all GPUs together; each node bears the part that
/// its GPUs are of the whole.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The GPUs in rank order.
    pub gpus: GpuList,
    /// CPU cores; 0 where nobody counts them.
    #[serde(default)]
    pub cpus: f64,
    /// Memory in GiB; 0 where nobody counts it.
    #[serde(default)]
    pub memory_gib: f64,
    /// The batch that the scheduler chose; `None` leaves it to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BatchConfig>,
    /// The job that runs on the same GPUs at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<JobId>,
}

impl Clone for Assignment {
    #[inline]
    fn clone(&self) -> Self {
        let mut copy = self.bare();
        copy.take_gpus(&self.gpus);
        copy
    }
}

impl Assignment {
    /// Of nothing. As a constant it is copied to where it is wanted, and not put together first.
    pub(crate) const NONE: Assignment = Assignment {
        gpus: GpuList::new_const(),
        cpus: 0.0,
        memory_gib: 0.0,
        config: None,
        partner: None,
    };

    /// These GPUs and nothing else.
    pub fn of(gpus: impl IntoIterator<Item = GpuId>) -> Self {
        Assignment {
            gpus: gpus.into_iter().collect(),
            ..Assignment::default()
        }
    }

    /// As a clone, made in its place.
    #[inline]
    pub(crate) fn clone_into(&self, place: &mut Option<Assignment>) {
        place.insert(self.bare()).take_gpus(&self.gpus);
    }

    /// The same without GPUs.
    #[inline]
    fn bare(&self) -> Self {
        Assignment {
            gpus: GpuList::new(),
            ..*self
        }
    }

    /// A list's own clone goes GPU by GPU; the copy of memory that is faster for many is a call, and
    /// gangs have mostly a power of two.
    #[inline(always)]
    fn take_gpus(&mut self, gpus: &[GpuId]) {
        self.gpus = match *gpus {
            [a] => GpuList::from_buf_and_len([a; 8], 1),
            [a, b] => GpuList::from_buf_and_len([a, b, a, b, a, b, a, b], 2),
            [a, b, c, d] => GpuList::from_buf_and_len([a, b, c, d, a, b, c, d], 4),
            _ => match <[GpuId; 8]>::try_from(gpus) {
                Ok(eight) => GpuList::from_buf(eight),
                Err(_) => GpuList::from_slice(gpus),
            },
        };
    }

    /// Returns whether it is GPUs and nothing else.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        self.partner.is_none()
            && self.cpus == 0.0
            && self.memory_gib == 0.0
            && self.config.is_none()
    }

    /// Returns how many GPUs.
    #[inline]
    pub fn count(&self) -> GpuCount {
        GpuCount(self.gpus.len() as u32)
    }

    /// Returns whether both give the job the same, whoever runs beside it.
    pub fn same_grant(&self, other: &Assignment) -> bool {
        self.gpus == other.gpus
            && self.cpus == other.cpus
            && self.memory_gib == other.memory_gib
            && self.config == other.config
    }

    /// Returns whether both are the same set of GPUs, in whatever order.
    pub fn same_gpus(&self, other: &Assignment) -> bool {
        if self.gpus == other.gpus {
            return true;
        }
        if self.gpus.len() != other.gpus.len() {
            return false;
        }
        let (mut a, mut b) = (self.gpus.clone(), other.gpus.clone());
        a.sort_unstable();
        b.sort_unstable();
        a == b
    }
}
