//! Settings of Pollux.

/// Settings of [`Pollux`](super::Pollux).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolluxSettings {
    /// Fairness power, not 0; `-1` is the harmonic mean.
    pub power: f64,
    /// Number of allocations kept, at least 2.
    pub population: usize,
    /// Generations per round.
    pub generations: usize,
    /// Number of generations without improvement after which the search of a round ends.
    pub patience: usize,
}

impl PolluxSettings {
    /// The settings of the scheduler `pollux`.
    pub const DEFAULT: Self = PolluxSettings {
        power: -1.0,
        population: 100,
        generations: 100,
        patience: 20,
    };
}
