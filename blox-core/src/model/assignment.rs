//! Assignments: the GPUs of a job, with CPUs, memory and config.

use crate::config::Config;
use crate::ids::{GpuId, JobId};
use crate::model::share::{Gpus, Share};
use crate::units::GpuCount;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// GPUs in rank order; up to eight are stored inline.
pub type GpuList = SmallVec<[GpuId; 8]>;

/// Appends GPUs with consecutive numbers.
#[inline]
pub(crate) fn append_run(list: &mut GpuList, first: GpuId, count: u32) {
    let all = |i: usize| GpuId(first.0.wrapping_add(i as u32));
    if list.is_empty() && count <= 8 {
        // Always writes all eight: the loop then has no variable end to predict.
        *list = GpuList::from_buf_and_len(std::array::from_fn(all), count as usize);
    } else {
        list.extend((0..count as usize).map(all));
    }
}

/// Resources assigned to a job.
///
/// CPUs and memory count for all GPUs together. Each node provides a share in proportion to its
/// GPUs.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Assignment {
    /// The GPUs in rank order.
    pub gpus: GpuList,
    /// The part of each GPU.
    #[serde(skip_serializing_if = "Share::is_whole")]
    pub share: Share,
    /// CPU cores; 0 if they are not counted.
    pub cpus: f64,
    /// Memory in GiB; 0 if it is not counted.
    pub memory_gib: f64,
    /// Knobs that the scheduler sets. The job chooses the others.
    #[serde(skip_serializing_if = "Config::is_none")]
    pub config: Config,
}

/// The form in files. Versions before shares named the jobs on the same GPUs.
#[derive(Deserialize)]
struct Written {
    gpus: GpuList,
    #[serde(default)]
    share: Share,
    #[serde(default)]
    cpus: f64,
    #[serde(default)]
    memory_gib: f64,
    #[serde(default)]
    config: Config,
    #[serde(default)]
    partner: Option<Partners>,
}

/// Jobs on the same GPUs.
#[derive(Deserialize)]
#[serde(untagged)]
enum Partners {
    One(JobId),
    Several(Vec<JobId>),
}

impl From<Written> for Assignment {
    fn from(form: Written) -> Self {
        let partners = match form.partner {
            Some(Partners::One(job)) => vec![job],
            Some(Partners::Several(jobs)) => jobs,
            None => Vec::new(),
        };
        Assignment {
            gpus: form.gpus,
            share: match partners.is_empty() {
                true => form.share,
                false => form.share.overlapping(),
            },
            cpus: form.cpus,
            memory_gib: form.memory_gib,
            config: form.config,
        }
    }
}

impl Clone for Assignment {
    #[inline]
    fn clone(&self) -> Self {
        Assignment {
            gpus: copy_of(&self.gpus),
            share: self.share,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            config: self.config.clone(),
        }
    }
}

/// Copies GPUs. The clone of a list copies GPU by GPU. The faster copy of memory is a call, and most
/// gangs have a power of two of GPUs.
#[inline(always)]
fn copy_of(gpus: &[GpuId]) -> GpuList {
    match *gpus {
        [a] => GpuList::from_buf_and_len([a; 8], 1),
        [a, b] => GpuList::from_buf_and_len([a, b, a, b, a, b, a, b], 2),
        [a, b, c, d] => GpuList::from_buf_and_len([a, b, c, d, a, b, c, d], 4),
        _ => match <[GpuId; 8]>::try_from(gpus) {
            Ok(eight) => GpuList::from_buf(eight),
            Err(_) => GpuList::from_slice(gpus),
        },
    }
}

impl Assignment {
    /// An empty assignment. A constant is copied in one piece instead of being constructed.
    pub(crate) const NONE: Assignment = Assignment {
        gpus: GpuList::new_const(),
        share: Share::WHOLE,
        cpus: 0.0,
        memory_gib: 0.0,
        config: Config::NONE,
    };

    /// Creates an assignment of these GPUs and nothing else.
    pub fn of(gpus: impl IntoIterator<Item = GpuId>) -> Self {
        Assignment {
            gpus: gpus.into_iter().collect(),
            ..Assignment::default()
        }
    }

    /// Clones the GPUs and the config into a destination, without CPUs and memory. The share is the
    /// whole.
    #[inline(always)]
    pub(crate) fn clone_plain_into(&self, place: &mut Option<Assignment>) {
        *place = Some(Assignment {
            gpus: copy_of(&self.gpus),
            config: self.config.clone(),
            ..Assignment::NONE
        });
    }

    /// Returns whether the assignment has CPUs or memory.
    #[inline(always)]
    pub(crate) fn has_resources(&self) -> bool {
        is_any(self.cpus, self.memory_gib)
    }

    /// Returns whether the assignment has only whole GPUs: no CPUs or memory.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.share.is_whole() && !self.has_resources()
    }

    /// Returns the CPU cores and the memory in GiB for each GPU, times `sign`.
    pub(crate) fn resources_per_gpu(&self, sign: f64) -> [f64; 2] {
        let share = sign / self.gpus.len() as f64;
        [self.cpus * share, self.memory_gib * share]
    }

    /// Returns the number of GPUs times the part of each.
    #[inline]
    pub(crate) fn width(&self) -> f64 {
        let gpus = self.gpus.len() as f64;
        match self.share.is_whole() {
            true => gpus,
            false => gpus * self.share.fraction(),
        }
    }

    /// Returns the number of GPUs.
    #[inline]
    pub fn count(&self) -> GpuCount {
        GpuCount(self.gpus.len() as u32)
    }

    /// Returns the amount of GPUs: their number times the part of each.
    pub fn amount(&self) -> Gpus {
        Gpus::of(self.count(), self.share)
    }

    /// Returns whether both assign the same resources to the job.
    pub(crate) fn same_grant(&self, other: &Assignment) -> bool {
        self.gpus == other.gpus
            && self.share == other.share
            && self.cpus == other.cpus
            && self.memory_gib == other.memory_gib
            && self.config == other.config
    }

    /// Returns whether both have the same set of GPUs, in any order.
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

/// Returns whether one of two amounts is not 0. In one comparison, because nearly always both are 0;
/// the shift drops the signs.
#[inline(always)]
pub(super) fn is_any(cpus: f64, memory_gib: f64) -> bool {
    (cpus.to_bits() | memory_gib.to_bits()) << 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignment_with_partners_overlaps() {
        for (partner, overlaps) in [("null", false), ("3", true), ("[0,5]", true), ("[]", false)] {
            let text = format!(r#"{{"gpus":[4,5],"partner":{partner}}}"#);
            let read: Assignment = serde_json::from_str(&text).unwrap();
            assert_eq!((read.gpus.len(), read.share.overlaps()), (2, overlaps));
            let again = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<Assignment>(&again).unwrap(), read);
        }
        assert!(serde_json::from_str::<Assignment>(r#"{"gpus":[],"partner":"a"}"#).is_err());
    }

    #[test]
    fn same_gpus_ignores_the_order() {
        let of = |gpus: &[u32]| Assignment::of(gpus.iter().copied().map(GpuId));
        assert!(of(&[1, 2]).same_gpus(&of(&[1, 2])));
        assert!(of(&[1, 2]).same_gpus(&of(&[2, 1])));
        assert!(!of(&[1, 2]).same_gpus(&of(&[1, 3])));
        assert!(!of(&[1, 2]).same_gpus(&of(&[1])));
    }
}
