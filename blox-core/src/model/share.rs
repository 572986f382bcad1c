//! Shares: the part of each of its GPUs that a job has. Amounts of GPUs are sums of shares.

use crate::units::GpuCount;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Sub, SubAssign};

/// The part of each of its GPUs that a job has: of the compute, and of the memory.
///
/// Parts are counted in 21,000ths. Thousandths and 1/2 to 1/8 are then exact, and sums of parts do
/// not round. Memory is counted only if it is [stated](Share::memory).
///
/// The parts of jobs that do not [overlap](Share::overlapping) add up to at most the whole of each
/// GPU. An overlapping part adds nothing: the job uses what the other jobs leave. This is packing,
/// as in Gandiva (OSDI 2018, section 4.3) and Lucid (ASPLOS 2023, section 3.3). The execution
/// model determines what it costs.
///
/// ```
/// use blox_core::Share;
/// let half = Share::parts(1, 2).unwrap();
/// assert_eq!((half.fraction(), half.to_string()), (0.5, "1/2".to_owned()));
/// assert_eq!(Share::parts(250, 1000), Share::parts(1, 4));
/// assert_eq!((Share::parts(0, 4), Share::parts(5, 4)), (None, None));
/// assert!(Share::default().is_whole() && !half.is_whole());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Share {
    /// 21,000ths, and [`OVERLAPS`] if the part overlaps others.
    compute: u16,
    /// 21,000ths; 0 if memory is not counted.
    memory: u16,
}

/// Number of parts of a whole.
pub(crate) const WHOLE: u32 = 21_000;
const OVERLAPS: u16 = 1 << 15;

impl Share {
    /// All compute. Memory is not counted.
    pub const WHOLE: Share = Share {
        compute: WHOLE as u16,
        memory: 0,
    };

    /// Returns `n` of `of` parts of the compute, rounded down to 21,000ths. Returns `None` unless
    /// that is above 0 and at most the whole.
    pub const fn parts(n: u32, of: u32) -> Option<Share> {
        match in_parts(n, of) {
            Some(compute) => Some(Share { compute, memory: 0 }),
            None => None,
        }
    }

    /// Returns the nearest share to a fraction of the compute. Returns `None` unless it is from
    /// 1/21,000 to 1.
    pub fn of(fraction: f64) -> Option<Share> {
        let compute = (fraction * f64::from(WHOLE)).round();
        let valid = compute >= 1.0 && fraction <= 1.0;
        valid.then_some(Share {
            compute: compute as u16,
            memory: 0,
        })
    }

    /// Returns the share with `n` of `of` parts of the memory. Returns `None` unless that is above
    /// 0 and at most the whole.
    pub const fn memory(self, n: u32, of: u32) -> Option<Share> {
        match in_parts(n, of) {
            Some(memory) => Some(Share { memory, ..self }),
            None => None,
        }
    }

    /// Returns the share with as much of the memory as another share has of the compute.
    #[must_use]
    pub const fn with_memory_of(self, other: Share) -> Share {
        Share {
            memory: other.compute & !OVERLAPS,
            ..self
        }
    }

    /// Returns the share with compute that other jobs may use, too.
    #[must_use]
    pub const fn overlapping(self) -> Share {
        Share {
            compute: self.compute | OVERLAPS,
            ..self
        }
    }

    /// Returns the share with compute that only this job may use.
    #[must_use]
    pub const fn exclusive(self) -> Share {
        Share {
            compute: self.compute & !OVERLAPS,
            ..self
        }
    }

    /// Returns whether it is all compute of a GPU, without overlap, and memory is not counted.
    #[inline(always)]
    pub const fn is_whole(&self) -> bool {
        self.compute == WHOLE as u16 && self.memory == 0
    }

    /// Returns whether other jobs may use the same compute.
    #[inline]
    pub const fn overlaps(self) -> bool {
        self.compute & OVERLAPS != 0
    }

    /// Returns whether two jobs with these shares use different parts of a GPU.
    pub fn is_beside(self, other: Share) -> bool {
        let apart = !self.overlaps() && !other.overlaps();
        apart && self.reserved() + other.reserved() <= WHOLE
    }

    /// Returns the part of the compute, above 0 and at most 1; exactly 1 for the whole.
    #[inline]
    pub fn fraction(self) -> f64 {
        f64::from(self.compute & !OVERLAPS) / f64::from(WHOLE)
    }

    /// Returns the part of the memory, above 0 and at most 1; `None` if it is not counted.
    pub fn memory_fraction(self) -> Option<f64> {
        (self.memory > 0).then(|| f64::from(self.memory) / f64::from(WHOLE))
    }
}

const fn in_parts(n: u32, of: u32) -> Option<u16> {
    if of == 0 || n > of {
        return None;
    }
    match (n as u64 * WHOLE as u64 / of as u64) as u16 {
        0 => None,
        parts => Some(parts),
    }
}

impl Default for Share {
    fn default() -> Self {
        Share::WHOLE
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = (1..=8u32).find_map(|of| {
            let n = (1..=of).find(|n| Share::parts(*n, of).is_some_and(|s| self.same_part(s)))?;
            Some((n, of))
        });
        match simple {
            Some((1, 1)) => f.write_str("all")?,
            Some((n, of)) => write!(f, "{n}/{of}")?,
            None => write!(f, "{:.3}", self.fraction())?,
        }
        if let Some(memory) = self.memory_fraction() {
            write!(f, " with {memory:.3} of the memory")?;
        }
        if self.overlaps() {
            f.write_str(", overlapping")?;
        }
        Ok(())
    }
}

impl Share {
    fn same_part(self, other: Share) -> bool {
        self.compute & !OVERLAPS == other.compute
    }
}

/// The form in files: 21,000ths.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    compute: u16,
    #[serde(default, skip_serializing_if = "is_zero")]
    memory: u16,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overlaps: bool,
}

fn is_zero(n: &u16) -> bool {
    *n == 0
}

impl From<Share> for Written {
    fn from(share: Share) -> Self {
        Written {
            compute: share.compute & !OVERLAPS,
            memory: share.memory,
            overlaps: share.overlaps(),
        }
    }
}

impl TryFrom<Written> for Share {
    type Error = String;

    fn try_from(form: Written) -> Result<Self, String> {
        let whole = WHOLE as u16;
        let valid = (1..=whole).contains(&form.compute) && form.memory <= whole;
        if !valid {
            let Written {
                compute, memory, ..
            } = form;
            return Err(format!(
                "a share is {compute} and {memory}, expected 1 to {whole} and 0 to {whole}"
            ));
        }
        let share = Share {
            compute: form.compute,
            memory: form.memory,
        };
        Ok(match form.overlaps {
            true => share.overlapping(),
            false => share,
        })
    }
}

/// An amount of GPUs: a sum of shares. It is exact, and written as a number of GPUs.
///
/// ```
/// use blox_core::{GpuCount, Gpus, Share};
/// let half = Share::parts(1, 2).unwrap();
/// let sum = Gpus::of(GpuCount(3), half) + GpuCount(2).into();
/// assert_eq!((sum.to_string(), sum.number()), ("3.5".to_owned(), 3.5));
/// assert!(sum < GpuCount(4).into() && Gpus::from(GpuCount(1)) - sum == Gpus::default());
/// assert_eq!((sum / Share::WHOLE, sum / half), (GpuCount(3), GpuCount(7)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "f64")]
pub struct Gpus(u64);

impl Gpus {
    /// Returns a number of GPUs times the part of the compute of each.
    #[inline]
    pub const fn of(count: GpuCount, share: Share) -> Gpus {
        Gpus(count.0 as u64 * share.exclusive().compute as u64)
    }

    /// Returns the number of GPUs.
    pub fn number(self) -> f64 {
        self.0 as f64 / f64::from(WHOLE)
    }
}

impl From<GpuCount> for Gpus {
    #[inline]
    fn from(count: GpuCount) -> Self {
        Gpus::of(count, Share::WHOLE)
    }
}

/// Whole GPUs are written without a fraction.
impl Serialize for Gpus {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 % u64::from(WHOLE) {
            0 => s.serialize_u64(self.0 / u64::from(WHOLE)),
            _ => s.serialize_f64(self.number()),
        }
    }
}

impl TryFrom<f64> for Gpus {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        match crate::units::is_amount(number) {
            true => Ok(Gpus((number * f64::from(WHOLE)).round() as u64)),
            false => Err(format!("{number} GPUs, expected a finite number from 0")),
        }
    }
}

impl Add for Gpus {
    type Output = Gpus;

    #[inline]
    fn add(self, other: Gpus) -> Gpus {
        Gpus(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Gpus {
    #[inline]
    fn add_assign(&mut self, other: Gpus) {
        *self = *self + other;
    }
}

/// The difference, at least 0.
impl Sub for Gpus {
    type Output = Gpus;

    #[inline]
    fn sub(self, other: Gpus) -> Gpus {
        Gpus(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Gpus {
    #[inline]
    fn sub_assign(&mut self, other: Gpus) {
        *self = *self - other;
    }
}

/// The number of GPUs that have this amount together if a job has a share of each, rounded down.
impl Div<Share> for Gpus {
    type Output = GpuCount;

    #[inline]
    fn div(self, share: Share) -> GpuCount {
        let count = self.0 / Gpus::of(GpuCount(1), share).0;
        GpuCount(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl Sum for Gpus {
    fn sum<I: Iterator<Item = Gpus>>(all: I) -> Gpus {
        all.fold(Gpus::default(), Add::add)
    }
}

/// At most three decimals.
impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.number() * 1e3).round() / 1e3;
        write!(f, "{rounded}")
    }
}

/// The use of a GPU: the sum of the shares of its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Compute of shares that do not overlap, in 21,000ths.
    compute: u32,
    /// Memory of all shares, in 21,000ths.
    memory: u32,
    jobs: u32,
}

impl Used {
    pub(crate) const NONE: Used = Used {
        compute: 0,
        memory: 0,
        jobs: 0,
    };

    /// The use by one job that has the GPU whole.
    pub(crate) const WHOLE: Used = Used {
        compute: WHOLE,
        memory: 0,
        jobs: 1,
    };

    /// Returns whether another job with a share may have the GPU, too.
    #[inline]
    pub fn has_room(&self, share: Share) -> bool {
        self.compute + share.reserved() <= WHOLE && self.memory + u32::from(share.memory) <= WHOLE
    }

    /// Returns whether it is at most the whole.
    pub(crate) fn is_possible(&self) -> bool {
        self.compute <= WHOLE && self.memory <= WHOLE
    }

    /// Returns the part of the compute that no share reserves, from 0 to 1.
    pub fn free_fraction(&self) -> f64 {
        f64::from(WHOLE.saturating_sub(self.compute)) / f64::from(WHOLE)
    }

    /// Returns the amount that no share reserves.
    pub(crate) fn left(&self) -> Gpus {
        Gpus(u64::from(WHOLE.saturating_sub(self.compute)))
    }

    /// Returns the number of jobs.
    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Adds a job.
    pub fn add(&mut self, share: Share) {
        self.compute += share.reserved();
        self.memory += u32::from(share.memory);
        self.jobs += 1;
    }

    /// Removes a job.
    pub(crate) fn remove(&mut self, share: Share) {
        self.compute -= share.reserved();
        self.memory -= u32::from(share.memory);
        self.jobs -= 1;
    }

    /// Adds a job that does not give its part to others, even if it overlaps.
    pub(crate) fn add_in_full(&mut self, share: Share) {
        self.compute += u32::from(share.compute & !OVERLAPS);
        self.memory += u32::from(share.memory);
        self.jobs += 1;
    }

    /// Removes a job that was added in full.
    pub(crate) fn remove_in_full(&mut self, share: Share) {
        self.compute -= u32::from(share.compute & !OVERLAPS);
        self.memory -= u32::from(share.memory);
        self.jobs -= 1;
    }

    /// Returns whether a job finds room, if its part must be free even if it overlaps.
    pub(crate) fn has_full_room(&self, share: Share) -> bool {
        self.has_room(share.exclusive())
    }
}

impl Share {
    /// Compute that no other share without overlap may have, in 21,000ths.
    #[inline]
    fn reserved(self) -> u32 {
        match self.overlaps() {
            true => 0,
            false => u32::from(self.compute),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_numbers_of_gpus() {
        let third = Share::parts(1, 3).unwrap();
        for (gpus, text) in [
            (Gpus::default(), "0"),
            (GpuCount(12).into(), "12"),
            (Gpus::of(GpuCount(3), third), "1"),
            (
                Gpus::of(GpuCount(5), third.overlapping()),
                "1.6666666666666667",
            ),
        ] {
            assert_eq!(serde_json::to_string(&gpus).unwrap(), text);
            assert_eq!(serde_json::from_str::<Gpus>(text).unwrap(), gpus);
        }
        assert_eq!(Gpus::of(GpuCount(5), third).to_string(), "1.667");
        assert!(serde_json::from_str::<Gpus>("-1").is_err());
    }

    #[test]
    fn share_takes_four_bytes_and_counts_exactly() {
        assert_eq!(size_of::<Share>(), 4);
        for of in 1..=8 {
            let mut used = Used::default();
            let part = Share::parts(1, of).unwrap();
            for _ in 0..of {
                assert!(used.has_room(part));
                used.add(part);
            }
            assert!(!used.has_room(Share::parts(1, 21_000).unwrap()));
            assert_eq!(used.free_fraction(), 0.0);
        }
        assert_eq!(Share::parts(1, 21_001), None);
        assert_eq!(Share::of(0.5), Share::parts(1, 2));
        assert_eq!(Share::of(1.0 / 21_000.0), Share::parts(1, 21_000));
        for none in [0.0, 1e-9, 1.1, -0.5, f64::NAN] {
            assert_eq!(Share::of(none), None);
        }
    }

    #[test]
    fn overlapping_share_reserves_memory_only() {
        let mut used = Used::default();
        used.add(Share::WHOLE.memory(3, 4).unwrap());
        let guest = Share::WHOLE.overlapping();
        assert!(used.has_room(guest) && !used.has_full_room(guest));
        assert!(used.has_room(guest.memory(1, 4).unwrap()));
        assert!(!used.has_room(guest.memory(1, 3).unwrap()));
        assert!(!used.has_room(Share::parts(1, 8).unwrap()));
    }

    #[test]
    fn shares_are_read_as_written() {
        let quarter = Share::parts(1, 4).unwrap();
        let all = [
            (quarter, r#"{"compute":5250}"#, "1/4"),
            (
                Share::WHOLE.overlapping(),
                r#"{"compute":21000,"overlaps":true}"#,
                "all, overlapping",
            ),
            (
                quarter.memory(1, 2).unwrap(),
                r#"{"compute":5250,"memory":10500}"#,
                "1/4 with 0.500 of the memory",
            ),
            (
                Share::parts(30, 1000).unwrap(),
                r#"{"compute":630}"#,
                "0.030",
            ),
        ];
        for (share, text, shown) in all {
            assert_eq!(serde_json::to_string(&share).unwrap(), text);
            assert_eq!(serde_json::from_str::<Share>(text).unwrap(), share);
            assert_eq!(share.to_string(), shown);
        }
        for wrong in [
            r#"{"compute":0}"#,
            r#"{"compute":21001}"#,
            r#"{"compute":9,"memory":21001}"#,
        ] {
            assert!(serde_json::from_str::<Share>(wrong).is_err(), "{wrong}");
        }
    }
}
