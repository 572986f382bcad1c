//! Random numbers (SplitMix64).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of a state.
pub(crate) fn mixed(state: u64) -> u64 {
    let mut x = state.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the number of a state, and advances the state.
pub(crate) fn next(state: &mut u64) -> u64 {
    let x = mixed(*state);
    *state = state.wrapping_add(STEP);
    x
}
