//! Nodes of a virtual cluster as the original stores them.

use blox_core::sort;

/// Name of a temporary node.
pub(super) const TEMPORARY: u32 = 9999;

/// The original's rule for choosing GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placer {
    /// Up to 8 GPUs: the node with the fewest free GPUs that fits the job. Larger jobs: whole
    /// nodes, and the rest on the next node by descending free GPUs.
    #[default]
    Consolidate,
    /// Takes all free GPUs of the nodes in their order.
    Random,
    /// [`Placer::Consolidate`]. If that fails, the nodes with the most free GPUs first. (Lucid's
    /// release cannot run this rule, so it follows Helios' release.)
    ConsolidateFirst,
}

impl Placer {
    /// All placers by the original's names.
    pub const NAMES: [(&'static str, Placer); 3] = [
        ("consolidate", Placer::Consolidate),
        ("random", Placer::Random),
        ("consolidateFirst", Placer::ConsolidateFirst),
    ];

    /// GPUs of a node: a constant of the original.
    pub(crate) const WIDTH: u32 = 8;

    /// Chooses nodes for a job, given the free GPUs of each node. Returns each node with its number
    /// of GPUs; the lowest free GPUs are taken.
    pub(crate) fn choose(self, free: &[u32], gpus: u32) -> Option<Vec<(usize, u32)>> {
        if free.iter().sum::<u32>() < gpus {
            return None;
        }
        match self {
            Placer::Consolidate => consolidate(free, gpus),
            Placer::Random => fill(free, 0..free.len(), gpus),
            Placer::ConsolidateFirst => {
                consolidate(free, gpus).or_else(|| fill(free, emptiest(free), gpus))
            }
        }
    }
}

fn emptiest(free: &[u32]) -> impl Iterator<Item = usize> {
    let mut order: Vec<usize> = (0..free.len()).filter(|i| free[*i] > 0).collect();
    sort::by_key(&mut order, |i| std::cmp::Reverse(free[*i]));
    order.into_iter()
}

fn consolidate(free: &[u32], gpus: u32) -> Option<Vec<(usize, u32)>> {
    if gpus <= Placer::WIDTH {
        let fits = (0..free.len()).filter(|i| free[*i] >= gpus);
        return fits.min_by_key(|i| free[*i]).map(|i| vec![(i, gpus)]);
    }
    let mut nodes = emptiest(free);
    let mut next = |count| Some((nodes.next().filter(|i| free[*i] >= count)?, count));
    let mut parts = Vec::new();
    for _ in 0..gpus / Placer::WIDTH {
        parts.push(next(Placer::WIDTH)?);
    }
    let rest = gpus % Placer::WIDTH;
    if rest > 0 {
        parts.push(next(rest)?);
    }
    Some(parts)
}

/// Takes all free GPUs of nodes in the given order.
fn fill(free: &[u32], order: impl Iterator<Item = usize>, gpus: u32) -> Option<Vec<(usize, u32)>> {
    let (mut parts, mut rest) = (Vec::new(), gpus);
    for at in order.filter(|i| free[*i] > 0) {
        let count = free[at].min(rest);
        parts.push((at, count));
        rest -= count;
        if rest == 0 {
            return Some(parts);
        }
    }
    None
}

/// GPUs of one node: the node's index and a bit mask.
pub(super) type Part = (usize, u8);

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub name: u32,
    /// Jobs on the node with their GPUs, in order of arrival.
    pub jobs: Vec<(u32, u8)>,
    free: u8,
}

impl Node {
    fn new(name: u32) -> Self {
        Node {
            name,
            jobs: Vec::new(),
            free: u8::MAX,
        }
    }

    pub fn free_count(&self) -> u32 {
        self.free.count_ones()
    }

    pub fn is_idle(&self) -> bool {
        self.free == u8::MAX
    }

    /// Returns the lowest free GPUs as a mask.
    fn lowest(&self, count: u32) -> u8 {
        let (mut free, mut taken) = (self.free, 0);
        for _ in 0..count {
            let bit = free & free.wrapping_neg();
            taken |= bit;
            free &= !bit;
        }
        taken
    }
}

/// Nodes of a virtual cluster in the original's order.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    pub list: Vec<Node>,
    placer: Placer,
    /// True if a node was ever removed.
    has_temporary: bool,
}

impl Nodes {
    /// Creates idle nodes named 0 to `count` - 1.
    pub fn new(count: u32, placer: Placer) -> Self {
        Nodes {
            list: (0..count).map(Node::new).collect(),
            placer,
            has_temporary: false,
        }
    }

    pub fn gpus(&self) -> u32 {
        self.list.len() as u32 * Placer::WIDTH
    }

    pub fn of_name(&self, name: u32) -> Option<&Node> {
        self.list.iter().find(|n| n.name == name)
    }

    /// Places a job on free GPUs.
    pub fn place(&mut self, job: u32, gpus: u32) -> Option<Vec<Part>> {
        let free: Vec<u32> = self.list.iter().map(Node::free_count).collect();
        let counts = self.placer.choose(&free, gpus)?;
        let taken = counts.into_iter().map(|(at, count)| {
            let node = &mut self.list[at];
            let mask = node.lowest(count);
            node.jobs.push((job, mask));
            node.free &= !mask;
            (at, mask)
        });
        Some(taken.collect())
    }

    /// Places a job on the GPUs of another job.
    pub fn share(&mut self, job: u32, parts: &[Part]) {
        for &(at, mask) in parts {
            self.list[at].jobs.push((job, mask));
        }
    }

    /// Removes a job.
    pub fn release(&mut self, job: u32, parts: &[Part]) {
        for &(at, mask) in parts {
            let node = &mut self.list[at];
            node.jobs.retain(|(j, _)| *j != job);
            let taken = node.jobs.iter().fold(0, |all, (_, m)| all | m);
            node.free |= mask & !taken;
        }
    }

    /// Returns the first job on the first of these parts. This can be the calling job itself.
    pub fn first_on(&self, parts: &[Part]) -> Option<u32> {
        let (at, mask) = *parts.first()?;
        let mut jobs = self.list.get(at)?.jobs.iter();
        jobs.find(|(_, m)| *m == mask).map(|(job, _)| *job)
    }

    /// Returns the GPU numbers of a part.
    pub fn gpus_of((_, mask): Part) -> impl Iterator<Item = u32> {
        (0..Placer::WIDTH).filter(move |g| mask >> g & 1 == 1)
    }

    /// Adds a temporary node at the end, unless one exists.
    pub fn add_temporary(&mut self) -> bool {
        if self.of_name(TEMPORARY).is_some() {
            return false;
        }
        self.list.push(Node::new(TEMPORARY));
        true
    }

    /// Removes the idle node with the highest name, if there is one.
    ///
    /// Quirk: the program removes a node under the temporary node's name from the second removal
    /// on. A busy temporary node then gets the name of the removed node. Returns the indices of the
    /// removed and the renamed node, from before the removal.
    pub fn remove_idle(&mut self) -> Option<(usize, Option<usize>)> {
        let idle = (0..self.list.len()).filter(|i| self.list[*i].is_idle());
        let gone = idle.max_by_key(|i| self.list[*i].name)?;
        let name = self.list[gone].name;
        let renamed = if self.has_temporary && name < TEMPORARY {
            self.list.iter().position(|n| n.name == TEMPORARY)
        } else {
            None
        };
        if let Some(busy) = renamed {
            self.list[busy].name = name;
        }
        self.list.remove(gone);
        self.has_temporary = true;
        Some((gone, renamed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(parts: Option<Vec<Part>>) -> Vec<Part> {
        parts.unwrap_or_default()
    }

    #[test]
    fn consolidate_takes_fullest_and_whole_nodes_first() {
        let mut n = Nodes::new(3, Placer::Consolidate);
        assert_eq!(masks(n.place(0, 5)), [(0, 0b1_1111)]);
        assert_eq!(masks(n.place(1, 4)), [(1, 0b1111)]);
        assert_eq!(masks(n.place(2, 3)), [(0, 0b1110_0000)]);
        // Takes all of node 2, then four GPUs of node 1.
        assert_eq!(masks(n.place(3, 12)), [(2, 255), (1, 0b1111_0000)]);
        n.release(1, &[(1, 0b1111)]);
        assert_eq!(n.place(4, 5), None);
    }

    #[test]
    fn the_next_node_in_order_must_hold_the_rest() {
        let mut n = Nodes::new(2, Placer::Consolidate);
        n.place(0, 7);
        assert_eq!(n.place(1, 10), None);
        let mut n = Nodes::new(2, Placer::ConsolidateFirst);
        n.place(0, 7);
        assert_eq!(masks(n.place(1, 9)), [(1, 255), (0, 0b1000_0000)]);
        let mut n = Nodes::new(2, Placer::Random);
        n.place(0, 7);
        assert_eq!(masks(n.place(1, 2)), [(0, 0b1000_0000), (1, 1)]);
    }

    #[test]
    fn shared_gpus_are_free_when_both_have_left() {
        let mut n = Nodes::new(1, Placer::Consolidate);
        let parts = masks(n.place(0, 8));
        n.share(1, &parts);
        assert_eq!(n.first_on(&parts), Some(0));
        n.release(0, &parts);
        assert_eq!((n.list[0].free_count(), n.first_on(&parts)), (0, Some(1)));
        n.release(1, &parts);
        assert!(n.list[0].is_idle());
    }

    #[test]
    fn busy_temporary_node_swaps_names_with_the_removed() {
        let mut n = Nodes::new(2, Placer::Consolidate);
        assert_eq!(n.remove_idle().unwrap().0, 1);
        assert!(n.add_temporary());
        assert!(!n.add_temporary());
        n.place(0, 8);
        n.place(1, 8);
        assert!(n.remove_idle().is_none());
        n.release(0, &[(0, 255)]);
        let went = n.remove_idle().unwrap();
        assert_eq!(went, (0, Some(1)));
        assert_eq!((n.list.len(), n.list[0].name), (1, 0));
    }
}
