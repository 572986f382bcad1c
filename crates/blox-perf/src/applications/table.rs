//! Measured step times.

use super::triangulated::{self, Between, Point};
use blox_core::SortedMap;

/// A measured step: its samples, its duration, and its exchange that does not overlap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of samples of a pass on each GPU.
    pub per_gpu: u32,
    /// Seconds of a step of one pass.
    pub step: f64,
    /// Seconds of the gradient exchange that do not overlap with computing.
    pub sync: f64,
}

/// Step times of one application on one GPU type, by the number of GPUs on each node.
///
/// Between two measured passes of a placement, times are interpolated linearly. Another placement
/// is interpolated linearly in a Delaunay triangulation, as in the programs of Pollux and Sia. Its
/// points are the nodes, GPUs and samples of a pass. Beyond the measurements, a placement is as fast
/// as the same number of GPUs on the same number of nodes, else as the nearest such numbers.
///
/// On a grid, a triangulation is not unique: results of these programs can be
/// [added](StepTable::add_point).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTable {
    placements: SortedMap<Vec<u32>, Vec<Measured>>,
    /// Rows by numbers of nodes and GPUs.
    spread: SortedMap<(u32, u32), Vec<Measured>>,
    points: SortedMap<(Vec<u32>, u32), (f64, f64)>,
}

impl StepTable {
    /// Adds a row for a placement: the GPUs on each node.
    pub fn add_placement(&mut self, placement: &[u32], row: Measured) {
        insert(self.placements.entry(rotated(placement)).or_default(), row);
    }

    /// Adds a row for numbers of nodes and GPUs, in any placement.
    pub fn add_spread(&mut self, nodes: u32, gpus: u32, row: Measured) {
        insert(self.spread.entry((nodes, gpus)).or_default(), row);
    }

    /// Adds a single point, which has precedence over interpolation.
    pub fn add_point(&mut self, placement: &[u32], row: Measured) {
        let at = (rotated(placement), row.per_gpu);
        self.points.insert(at, (row.step, row.sync));
    }

    /// Returns the smallest and the largest pass measured on any placement; `None` without any.
    pub fn per_gpu(&self) -> Option<(u32, u32)> {
        let all = || self.placements.values().flatten().map(|r| r.per_gpu);
        Some((all().min()?, all().max()?))
    }

    /// Returns the largest pass on this placement: measured there, else on at least as many nodes
    /// and GPUs.
    pub fn most_per_gpu(&self, placement: &[u32]) -> Option<u32> {
        if let Some(rows) = self.placements.get(&rotated(placement)) {
            return rows.last().map(|r| r.per_gpu);
        }
        let (nodes, gpus) = size(placement);
        let larger = self
            .spread
            .iter()
            .filter(|((n, g), _)| *n >= nodes && *g >= gpus);
        larger
            .filter_map(|(_, rows)| Some(rows.last()?.per_gpu))
            .max()
    }

    /// Returns the largest pass measured on any placement of this number of GPUs.
    pub fn most_per_gpu_on(&self, gpus: u32) -> Option<u32> {
        let same = self.placements.iter().filter(|(p, _)| size(p).1 == gpus);
        same.filter_map(|(_, rows)| Some(rows.last()?.per_gpu))
            .max()
    }

    /// Returns the samples a second on one GPU: the largest pass over the longest step.
    pub fn one_gpu_rate(&self) -> Option<f64> {
        let rows = self.placements.get([1].as_slice())?;
        let longest = rows.iter().map(|r| r.step).fold(0.0, f64::max);
        Some(f64::from(rows.last()?.per_gpu) / longest)
    }

    /// Returns the seconds of a step and of its exchange; `None` if the pass is outside the
    /// measurements.
    pub fn step(&self, placement: &[u32], per_gpu: u32) -> Option<(f64, f64)> {
        let placement = rotated(placement);
        if let Some(rows) = self.placements.get(&placement) {
            return between(rows, per_gpu);
        }
        let (nodes, gpus) = size(&placement);
        let at = (placement, per_gpu);
        if let Some(point) = self.points.get(&at) {
            return Some(*point);
        }
        self.interpolated(&at.0, per_gpu)
            .map(|found| found.times)
            .or_else(|| self.nearest(nodes, gpus, per_gpu))
    }

    /// Interpolates a placement from the others, as if it had not been measured. Returns `None` if
    /// it is beyond them.
    pub fn interpolated(&self, placement: &[u32], per_gpu: u32) -> Option<Between> {
        let (nodes, gpus) = size(placement);
        let place = [nodes, gpus, per_gpu].map(f64::from);
        triangulated::interpolated(&self.scattered(), place)
    }

    /// Returns the means of all placements with equal numbers of nodes and GPUs. Other numbers use
    /// the rows for any placement.
    fn scattered(&self) -> Vec<Point> {
        let mut alike: SortedMap<(u32, u32, u32), (f64, f64, f64)> = SortedMap::new();
        for (placement, rows) in &self.placements {
            let (nodes, gpus) = size(placement);
            for row in rows {
                let sum = alike.entry((nodes, gpus, row.per_gpu)).or_default();
                *sum = (sum.0 + row.step, sum.1 + row.sync, sum.2 + 1.0);
            }
        }
        for ((nodes, gpus), rows) in &self.spread {
            for row in rows {
                let of = alike.entry((*nodes, *gpus, row.per_gpu));
                of.or_insert((row.step, row.sync, 1.0));
            }
        }
        let point =
            |((nodes, gpus, per_gpu), (step, sync, n)): (&(u32, u32, u32), &(f64, f64, f64))| {
                Point {
                    at: [*nodes, *gpus, *per_gpu].map(f64::from),
                    times: (step / n, sync / n),
                }
            };
        alike.iter().map(point).collect()
    }

    fn nearest(&self, nodes: u32, gpus: u32, per_gpu: u32) -> Option<(f64, f64)> {
        let of_placements = self.placements.iter().map(|(p, rows)| (size(p), rows));
        let of_spread = self.spread.iter().map(|(at, rows)| (*at, rows));
        let candidates = of_spread.chain(of_placements);
        let measured = candidates.filter_map(|((n, g), rows)| {
            let found = between(rows, per_gpu)?;
            Some(((g.abs_diff(gpus), n.abs_diff(nodes)), found))
        });
        measured
            .min_by_key(|(away, _)| *away)
            .map(|(_, found)| found)
    }
}

fn insert(rows: &mut Vec<Measured>, row: Measured) {
    let at = rows.partition_point(|r| r.per_gpu <= row.per_gpu);
    rows.insert(at, row);
}

fn size(placement: &[u32]) -> (u32, u32) {
    (placement.len() as u32, placement.iter().sum())
}

/// Returns the smallest of all rotations: the order of nodes starts anywhere.
fn rotated(placement: &[u32]) -> Vec<u32> {
    let mut least = placement.to_vec();
    let mut turned = least.clone();
    for _ in 1..placement.len() {
        turned.rotate_left(1);
        if turned < least {
            least.clone_from(&turned);
        }
    }
    least
}

/// Uses the order of operations of the programs that the tables come from, even at a measured
/// point: the last bit may differ from the measurement there.
fn between(rows: &[Measured], per_gpu: u32) -> Option<(f64, f64)> {
    let above = rows.partition_point(|r| r.per_gpu < per_gpu).max(1);
    let low = rows.get(above - 1)?;
    let high = rows.get(above).unwrap_or(low);
    if !(low.per_gpu..=high.per_gpu).contains(&per_gpu) {
        return None;
    }
    if low.per_gpu == high.per_gpu {
        return Some((low.step, low.sync));
    }
    let (x, width) = (per_gpu - low.per_gpu, high.per_gpu - low.per_gpu);
    let (x, width) = (f64::from(x), f64::from(width));
    let on_line = |a: f64, b: f64| (b - a) / width * x + a;
    Some((on_line(low.step, high.step), on_line(low.sync, high.sync)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(per_gpu: u32, step: f64) -> Measured {
        Measured {
            per_gpu,
            step,
            sync: step / 4.0,
        }
    }

    fn table() -> StepTable {
        let mut t = StepTable::default();
        t.add_placement(&[1], row(8, 1.0));
        t.add_placement(&[1], row(16, 2.0));
        t.add_placement(&[2, 1], row(8, 3.0));
        t.add_spread(3, 12, row(8, 5.0));
        t.add_spread(3, 12, row(32, 6.0));
        t
    }

    #[test]
    fn passes_are_interpolated_and_placements_rotated() {
        let t = table();
        assert_eq!(t.step(&[1], 12), Some((1.5, 0.375)));
        assert_eq!(t.step(&[1], 17), None);
        assert_eq!(t.step(&[1], 7), None);
        assert_eq!(t.step(&[1, 2], 8), Some((3.0, 0.75)));
        assert_eq!(t.one_gpu_rate(), Some(8.0));
        assert_eq!(t.per_gpu(), Some((8, 16)));
    }

    #[test]
    fn what_was_measured_is_the_end_of_a_line() {
        let mut t = StepTable::default();
        t.add_placement(&[1], row(7, 0.1));
        t.add_placement(&[1], row(10, 0.3));
        let line = (0.3 - 0.1) / 3.0 * 3.0 + 0.1;
        assert_ne!(line, 0.3);
        assert_eq!(t.step(&[1], 10).map(|s| s.0), Some(line));
        assert_eq!(t.step(&[1], 7).map(|s| s.0), Some(0.1));
        assert_eq!(t.step(&[1], 11), None);
    }

    #[test]
    fn unmeasured_placement_is_as_fast_as_the_nearest() {
        let mut t = table();
        assert_eq!(t.step(&[4, 4, 4], 8), Some((5.0, 1.25)));
        assert_eq!(t.step(&[4, 4, 3], 20), Some((5.5, 1.375)));
        assert_eq!(t.most_per_gpu(&[4, 4]), Some(32));
        assert_eq!(t.most_per_gpu(&[1]), Some(16));
        assert_eq!(t.most_per_gpu_on(3), Some(8));
        t.add_point(&[4, 4, 4], row(8, 7.0));
        assert_eq!(t.step(&[4, 4, 4], 8), Some((7.0, 1.75)));
    }
}
