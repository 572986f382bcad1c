//! Partial allocation: an auction without money.

/// A job's values of GPU counts in a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Bid {
    /// Value of having no GPUs, above 0.
    pub nothing: f64,
    /// GPU counts, ascending, with the value of each, above 0.
    pub offers: Vec<(u32, f64)>,
}

/// Result of the auction for one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Award {
    /// Number of GPUs; 0 or one of the counts in the bid.
    pub gpus: u32,
    /// Fraction of the GPUs that the job may keep, above 0 and at most 1. The rest is its payment
    /// for the loss of the other bidders.
    pub kept: f64,
}

/// The partial allocation mechanism (Cole, Gkatzelis and Goel, EC 2013), as used by Themis (NSDI
/// 2020, section 5.1).
///
/// GPUs are allocated so that the product of the values of all bidders is maximal. Each bidder pays
/// with a fraction of its GPUs. It keeps the product of the other bidders' values, divided by that
/// product without this bidder. So untruthful bids bring no gain.
///
/// The product is maximized exactly, over whole GPUs. Ties go to the outcome with fewer GPUs for
/// later bidders. Time and memory are proportional to the number of bids times `gpus`.
///
/// ```
/// use blox_policies::scheduling::{Bid, partial_allocation};
/// let bid = |worth| Bid { nothing: 1.0, offers: vec![(1, worth)] };
/// let awards = partial_allocation(&[bid(2.0), bid(3.0)], 1);
/// assert_eq!([awards[0].gpus, awards[1].gpus], [0, 1]);
/// // Without the second the first would have had twice as much.
/// assert!((awards[1].kept - 0.5).abs() < 1e-12);
/// ```
pub fn partial_allocation(bids: &[Bid], gpus: u32) -> Vec<Award> {
    let width = gpus as usize + 1;
    // Best sums of logarithms of the first `i` bidders, by the maximum number of GPUs.
    let mut before = vec![vec![0.0; width]];
    for bid in bids {
        let last = &before[before.len() - 1];
        let next = with(last, bid);
        before.push(next);
    }
    // Best sums of the bidders after `i`, filled from the last one.
    let mut after = vec![0.0; width];
    let mut awards = vec![Award::default(); bids.len()];
    let best = before[bids.len()][width - 1];
    let mut left = gpus as usize;
    for (i, bid) in bids.iter().enumerate().rev() {
        let (won, worth) = choice(&before[i], bid, left);
        left -= won as usize;
        let without = (0..width).map(|k| before[i][k] + after[width - 1 - k]);
        let without = without.fold(f64::NEG_INFINITY, f64::max);
        let kept = libm::exp(best - worth - without);
        // Sums of logarithms have rounding errors that products do not have.
        let kept = if kept > 1.0 - 1e-9 { 1.0 } else { kept };
        awards[i] = Award { gpus: won, kept };
        after = with(&after, bid);
    }
    awards
}

/// Returns the best sums with this bidder added, by number of GPUs.
fn with(sums: &[f64], bid: &Bid) -> Vec<f64> {
    let nothing = libm::log(bid.nothing);
    let mut next: Vec<f64> = sums.iter().map(|sum| sum + nothing).collect();
    for &(gpus, worth) in &bid.offers {
        let (gpus, worth) = (gpus as usize, libm::log(worth));
        for k in gpus..sums.len() {
            next[k] = next[k].max(sums[k - gpus] + worth);
        }
    }
    next
}

/// Returns the number of `left` GPUs that this bidder gets, and the logarithm of their value. If
/// several numbers are optimal, it is the smallest.
fn choice(sums: &[f64], bid: &Bid, left: usize) -> (u32, f64) {
    let nothing = libm::log(bid.nothing);
    let mut best = (0, nothing, sums[left] + nothing);
    for &(gpus, worth) in &bid.offers {
        let worth = libm::log(worth);
        if let Some(sum) = left
            .checked_sub(gpus as usize)
            .map(|rest| sums[rest] + worth)
            && sum > best.2
        {
            best = (gpus, worth, sum);
        }
    }
    (best.0, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid(nothing: f64, offers: &[(u32, f64)]) -> Bid {
        Bid {
            nothing,
            offers: offers.to_vec(),
        }
    }

    #[test]
    fn the_product_is_the_largest_there_is() {
        // 8 x 3 if both get two GPUs; otherwise 12 x 1 or 2 x 9.
        let bids = [
            bid(1.0, &[(2, 8.0), (4, 12.0)]),
            bid(1.0, &[(2, 3.0), (4, 9.0)]),
        ];
        let awards = partial_allocation(&bids, 4);
        assert_eq!([awards[0].gpus, awards[1].gpus], [2, 2]);
        // Without this bidder, the other would have 9 instead of 3, or 12 instead of 8.
        assert!((awards[0].kept - 3.0 / 9.0).abs() < 1e-12);
        assert!((awards[1].kept - 8.0 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn bidder_without_conflict_pays_nothing() {
        let bids = [bid(1.0, &[(2, 2.0)]), bid(1.0, &[(2, 5.0)])];
        let awards = partial_allocation(&bids, 8);
        assert!(
            awards.iter().all(|a| a.gpus == 2 && a.kept == 1.0),
            "{awards:?}"
        );
        assert_eq!(partial_allocation(&[], 4), []);
    }
}
