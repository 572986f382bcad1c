//! Groups with the same single alternative.

use super::{Alternative, OpenGroup};
use std::cmp::Ordering;

/// Meaning of the choice of an open group's item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Member {
    /// The group with this index takes the item.
    Group(usize),
    /// This number of groups of this set of equal groups take their alternative.
    Alike(usize, usize),
}

/// Equal groups that took no alternative yet, each with the index of its alternative.
pub(super) struct Alike(std::vec::IntoIter<(usize, usize)>);

impl Alike {
    /// Lets the next groups take their alternative.
    pub fn take(&mut self, count: usize, of: &mut [Option<usize>]) {
        for (group, alternative) in self.0.by_ref().take(count) {
            of[group] = Some(alternative);
        }
    }
}

/// Replaces each set of equal groups by bundles of 1, 2, 4 and so on of them. Each number of chosen
/// groups is a sum of bundles, so a choice of bundles is equivalent to a choice of groups.
pub(super) fn bundled(groups: Vec<OpenGroup>, left: &[u32]) -> (Vec<OpenGroup>, Vec<Alike>) {
    let (mut single, mut open): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| g.items.len() == 1);
    let order = |a: &OpenGroup, b: &OpenGroup| -> Ordering {
        let (a, b) = (&a.items[0].1, &b.items[0].1);
        let by = (a.resource, a.amount).cmp(&(b.resource, b.amount));
        by.then(a.cost.total_cmp(&b.cost))
    };
    // Stable: equal groups stay in their order.
    single.sort_by(order);
    let mut sets = Vec::new();
    for equal in single.chunk_by(|a, b| order(a, b).is_eq()) {
        let one = equal[0].items[0].1;
        let most = left[one.resource].checked_div(one.amount);
        let most = most.map_or(equal.len(), |most| equal.len().min(most as usize));
        let mut suggested = equal.iter().filter(|g| g.suggested.is_some()).count();
        let (mut rest, mut count) = (most, 1);
        let mut bundles = Vec::new();
        while rest > 0 {
            count = count.min(rest);
            rest -= count;
            bundles.push(count);
            count *= 2;
        }
        for &count in bundles.iter().rev() {
            let all = count as u32;
            let taken = suggested >= count;
            suggested -= if taken { count } else { 0 };
            open.push(OpenGroup {
                member: Member::Alike(sets.len(), count),
                items: vec![(
                    0,
                    Alternative {
                        cost: one.cost * f64::from(all),
                        amount: one.amount * all,
                        ..one
                    },
                )],
                suggested: taken.then_some(0),
                least: 0.0,
            });
        }
        let members = equal.iter().filter_map(|g| match g.member {
            Member::Group(index) => Some((index, g.items[0].0)),
            Member::Alike(..) => None,
        });
        sets.push(Alike(members.collect::<Vec<_>>().into_iter()));
    }
    (open, sets)
}
