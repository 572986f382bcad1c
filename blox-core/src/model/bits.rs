//! Sets of numbers as bits of words.

/// Returns the numbers of a set in ascending order. Bit `i` of word `n` stands for `64 * n + i`.
#[inline]
pub(crate) fn numbers(mut words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    let (mut word, mut first) = (0u64, 0u32.wrapping_sub(64));
    std::iter::from_fn(move || {
        while word == 0 {
            word = words.next()?;
            first = first.wrapping_add(64);
        }
        let bit = word.trailing_zeros();
        word &= word - 1;
        Some(first + bit)
    })
}
