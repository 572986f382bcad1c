//! Training progress for each batch size.

use blox_core::{GradientNoise, sort};

/// An epoch with a batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Training progress at its end, in iterations of the initial batch since the start of
    /// training.
    pub progress: f64,
    /// Number of iterations done at its end.
    pub iteration: f64,
    /// Gradient noise during the epoch.
    pub noise: GradientNoise,
}

/// Validation curves: a list of epochs for each of several batch sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Ascending by batch size.
    by_batch: Vec<(u32, Vec<Epoch>)>,
    /// Progress at the start of each epoch; the last value is the end of training.
    starts: Vec<f64>,
}

impl Curves {
    /// Creates curves from the first `epochs` epochs of each batch size. Returns `None` if a batch
    /// size has fewer epochs, there is none, or progress does not increase.
    pub fn new(mut by_batch: Vec<(u32, Vec<Epoch>)>, epochs: usize) -> Option<Self> {
        sort::by_key(&mut by_batch, |(batch, _)| *batch);
        let enough = by_batch.iter().all(|(_, e)| e.len() >= epochs);
        if by_batch.is_empty() || epochs == 0 || !enough {
            return None;
        }
        let end = |e: usize| {
            let ends = by_batch.iter().map(|(_, epochs)| epochs[e].progress);
            ends.fold(f64::INFINITY, f64::min)
        };
        let starts: Vec<f64> = std::iter::once(0.0).chain((0..epochs).map(end)).collect();
        let grows = starts.windows(2).all(|w| w[0] < w[1]);
        grows.then_some(Curves { by_batch, starts })
    }

    /// Returns the smallest and the largest batch size.
    pub fn batches(&self) -> (u32, u32) {
        let batch = |of: Option<&(u32, Vec<Epoch>)>| of.map_or(0, |(batch, _)| *batch);
        (batch(self.by_batch.first()), batch(self.by_batch.last()))
    }

    /// Returns the progress at the end of training, in iterations of the initial batch.
    pub fn total(&self) -> f64 {
        self.starts.last().copied().unwrap_or(0.0)
    }

    /// Returns the number of epochs.
    pub fn epochs(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the epoch at a progress, from 0; the number of epochs once all is done.
    pub fn epoch_at(&self, progress: f64) -> usize {
        self.starts.partition_point(|s| *s <= progress).max(1) - 1
    }

    /// Returns the progress at the end of an epoch.
    pub fn end_of(&self, epoch: usize) -> f64 {
        self.starts[(epoch + 1).min(self.epochs())]
    }

    /// Returns the gradient noise in an epoch with a batch size, interpolated between batch sizes.
    /// Beyond the outermost sizes, the noise of the nearest applies.
    pub fn noise(&self, epoch: usize, batch: f64) -> GradientNoise {
        let around = self.around(batch);
        let at = |curve: usize| self.by_batch[curve].1[epoch.min(self.epochs() - 1)].noise;
        let (a, b) = (at(around.low), at(around.high));
        GradientNoise {
            sqr: around.mix(a.sqr, b.sqr),
            var: around.mix(a.var, b.var),
        }
    }

    /// Returns the iterations done at the end of an epoch with a batch size, interpolated between
    /// sizes.
    pub fn iterations(&self, epoch: usize, batch: f64) -> f64 {
        let around = self.around(batch);
        let at = |curve: usize| {
            let epochs = &self.by_batch[curve].1;
            epochs[epoch.min(epochs.len() - 1)].iteration
        };
        around.mix(at(around.low), at(around.high))
    }

    fn around(&self, batch: f64) -> Around {
        let above = self
            .by_batch
            .partition_point(|(b, _)| f64::from(*b) <= batch);
        let low = above.saturating_sub(1);
        let at = |curve: usize| f64::from(self.by_batch[curve].0);
        let between = above > 0 && above < self.by_batch.len() && at(low) != batch;
        Around {
            low,
            high: if between { above } else { low },
            parts: if between {
                (at(above) - batch, batch - at(low))
            } else {
                (1.0, 0.0)
            },
        }
    }
}

/// The curves on both sides of a batch size.
struct Around {
    low: usize,
    high: usize,
    /// Weights of both curves.
    parts: (f64, f64),
}

impl Around {
    /// Uses the order of operations of the programs that the curves come from: the last bit counts
    /// when a duration is rounded to whole seconds.
    fn mix(&self, low: f64, high: f64) -> f64 {
        if self.low == self.high {
            return low;
        }
        let (a, b) = self.parts;
        (b * high + a * low) / (a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_end_where_the_first_batch_ends_them() {
        let epoch = |progress, var| Epoch {
            progress,
            iteration: progress / 2.0,
            noise: GradientNoise { sqr: 1.0, var },
        };
        let curves = Curves::new(
            vec![
                (64, vec![epoch(90.0, 4.0), epoch(210.0, 8.0)]),
                (32, vec![epoch(100.0, 2.0), epoch(200.0, 4.0)]),
            ],
            2,
        )
        .unwrap();
        assert_eq!((curves.total(), curves.epochs()), (200.0, 2));
        assert_eq!(
            [0.0, 89.9, 90.0, 200.0].map(|p| curves.epoch_at(p)),
            [0, 0, 1, 2]
        );
        assert_eq!(curves.noise(0, 48.0).var, 3.0);
        assert_eq!(curves.noise(1, 500.0).var, 8.0);
        assert_eq!(curves.iterations(1, 48.0), 102.5);
        assert_eq!(curves.noise(1, 1.0).var, 4.0);
        let weighed = (8.0 * 4.0 + 24.0 * 2.0) / 32.0;
        assert_eq!(curves.noise(0, 40.0).var, weighed);
        assert_eq!(curves.batches(), (32, 64));
        assert_eq!(Curves::new(vec![(32, vec![epoch(1.0, 1.0)])], 2), None);
    }
}
