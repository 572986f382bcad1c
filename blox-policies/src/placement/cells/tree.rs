//! Cells of a cluster, and their allocation by buddies.

use blox_core::{GpuId, GpuTypeId, Name, Node, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of a cell in its tree.
pub(super) type CellId = usize;

/// A sort of cells: cells with the same parts, in trees with the same parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    /// Number of the sort of the outermost cells.
    chain: usize,
    /// Number of the sort of the cell.
    sort: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Part of a cell that is free or taken.
    Inside,
    Free,
    /// Its parts have states of their own.
    Split,
    Taken,
}

#[derive(Clone, Debug)]
struct Cell {
    parent: Option<CellId>,
    parts: Vec<CellId>,
    level: Level,
    /// Positions of its GPUs.
    gpus: Range<usize>,
    status: Status,
}

/// GPUs, parts of nodes, nodes and locations as a forest of cells. Trees do not mix GPU types.
///
/// A node consists of halves as long as its number of GPUs is even, and then of GPUs. A part of a
/// location with only one part is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    cells: Vec<Cell>,
    /// GPUs by position.
    gpus: Vec<(GpuId, NodeId)>,
    position: BTreeMap<GpuId, usize>,
    /// Cells by the position of the first GPU and the sort.
    by_start: BTreeMap<(usize, usize), CellId>,
    /// Node cells, by position of the first GPU.
    nodes: BTreeMap<usize, CellId>,
    free: BTreeMap<Level, BTreeSet<CellId>>,
    sorts: Sorts,
    types: Vec<GpuTypeId>,
}

/// Sorts of cells, by their parts and GPU type.
#[derive(Clone, Debug, Default)]
struct Sorts {
    numbers: BTreeMap<(Option<GpuTypeId>, Vec<usize>), usize>,
    /// The number of GPUs of each sort, and the sorts of all its parts.
    within: Vec<(u32, BTreeSet<usize>)>,
}

impl Sorts {
    fn number(&mut self, gpu_type: Option<GpuTypeId>, parts: Vec<usize>) -> usize {
        let mut within = BTreeSet::new();
        for part in &parts {
            within.insert(*part);
            within.extend(self.within[*part].1.iter().copied());
        }
        let gpus = parts.iter().map(|part| self.within[*part].0).sum::<u32>();
        let next = self.within.len();
        let number = *self.numbers.entry((gpu_type, parts)).or_insert(next);
        if number == next {
            self.within.push((gpus.max(1), within));
        }
        number
    }
}

/// A node as a part of a tree.
pub(super) struct Leafs<'a> {
    pub id: NodeId,
    pub gpu_type: GpuTypeId,
    pub location: &'a [Name],
    pub gpus: Vec<GpuId>,
}

impl<'a> Leafs<'a> {
    pub fn of(node: &'a Node) -> Self {
        Leafs {
            id: node.id(),
            gpu_type: node.gpu_type(),
            location: &node.spec().location,
            gpus: node.gpus().collect(),
        }
    }
}

impl Tree {
    /// Builds the tree of nodes. All outermost cells are free.
    pub fn of<'a>(nodes: impl IntoIterator<Item = Leafs<'a>>) -> Self {
        let mut by_type: BTreeMap<GpuTypeId, Vec<Leafs<'a>>> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| !node.gpus.is_empty()) {
            by_type.entry(node.gpu_type).or_default().push(node);
        }
        let mut tree = Tree::default();
        for (gpu_type, nodes) in by_type {
            for part in split(nodes, 0) {
                let root = tree.grow(part, 1);
                let sort = tree.cells[root].level.sort;
                // Trees of another type are another chain, even if their parts are alike.
                let chain = tree.sorts.number(Some(gpu_type), vec![sort]);
                tree.note_chain(root, chain);
                let chains = tree.types.len().max(chain + 1);
                tree.types.resize(chains, gpu_type);
                tree.types[chain] = gpu_type;
                tree.set_free(root);
            }
        }
        tree
    }

    fn note_chain(&mut self, cell: CellId, chain: usize) {
        self.cells[cell].level.chain = chain;
        for part in self.cells[cell].parts.clone() {
            self.note_chain(part, chain);
        }
    }

    /// Adds the cell of nodes with a common location up to a depth.
    fn grow(&mut self, mut nodes: Vec<Leafs<'_>>, depth: usize) -> CellId {
        if nodes.len() == 1 {
            let node = nodes.remove(0);
            let first = self.gpus.len();
            for gpu in &node.gpus {
                self.position.insert(*gpu, self.gpus.len());
                self.gpus.push((*gpu, node.id));
            }
            let cell = self.halve(first..self.gpus.len());
            self.nodes.insert(first, cell);
            return cell;
        }
        let mut groups = split(nodes, depth);
        if groups.len() == 1 {
            return self.grow(groups.remove(0), depth + 1);
        }
        let first = self.gpus.len();
        let parts = groups.into_iter().map(|part| self.grow(part, depth + 1));
        let parts: Vec<CellId> = parts.collect();
        self.add(parts, first..self.gpus.len())
    }

    fn halve(&mut self, gpus: Range<usize>) -> CellId {
        let parts = match gpus.len() {
            0 | 1 => 0,
            even if even.is_multiple_of(2) => 2,
            odd => odd,
        };
        let each = gpus.len() / parts.max(1);
        let part = |i: usize| gpus.start + i * each..gpus.start + (i + 1) * each;
        let parts: Vec<CellId> = (0..parts).map(|i| self.halve(part(i))).collect();
        self.add(parts, gpus)
    }

    fn add(&mut self, parts: Vec<CellId>, gpus: Range<usize>) -> CellId {
        let id = self.cells.len();
        let sorts = parts.iter().map(|part| self.cells[*part].level.sort);
        let sort = self.sorts.number(None, sorts.collect());
        for part in &parts {
            self.cells[*part].parent = Some(id);
        }
        self.by_start.insert((gpus.start, sort), id);
        self.cells.push(Cell {
            parent: None,
            parts,
            level: Level { chain: 0, sort },
            gpus,
            status: Status::Inside,
        });
        id
    }

    fn set_free(&mut self, cell: CellId) {
        self.cells[cell].status = Status::Free;
        let level = self.cells[cell].level;
        self.free.entry(level).or_default().insert(cell);
    }

    fn unset_free(&mut self, cell: CellId, status: Status) {
        self.cells[cell].status = status;
        if let Some(list) = self.free.get_mut(&self.cells[cell].level) {
            list.remove(&cell);
        }
    }

    /// Returns the levels that have cells of this size, with their GPU types.
    pub fn levels(&self, gpus: u32) -> Vec<(Level, GpuTypeId)> {
        let here = self
            .cells
            .iter()
            .filter(|cell| cell.gpus.len() == gpus as usize);
        let levels: BTreeSet<Level> = here.map(|cell| cell.level).collect();
        let typed = |level: Level| (level, self.types[level.chain]);
        levels.into_iter().map(typed).collect()
    }

    /// Returns the number of GPUs of a cell of a level.
    pub fn size(&self, level: Level) -> u32 {
        self.sorts.within[level.sort].0
    }

    pub fn gpu_type(&self, level: Level) -> GpuTypeId {
        self.types[level.chain]
    }

    /// Returns the free cells of each level.
    pub fn free(&self) -> impl Iterator<Item = (Level, &BTreeSet<CellId>)> {
        self.free.iter().map(|(level, cells)| (*level, cells))
    }

    /// Returns the cells that buddy allocation may take at a level: the free ones, or else the parts of
    /// the smallest free cells that have such parts.
    pub fn options(&self, level: Level) -> Vec<CellId> {
        let holds = |(free, cells): &(Level, &BTreeSet<CellId>)| {
            let within = || self.sorts.within[free.sort].1.contains(&level.sort);
            let alike = free.chain == level.chain && (free.sort == level.sort || within());
            alike && !cells.is_empty()
        };
        let least = self
            .free()
            .filter(holds)
            .min_by_key(|(free, _)| self.size(*free));
        let mut found = Vec::new();
        for cell in least.into_iter().flat_map(|(_, cells)| cells) {
            self.collect(*cell, level, &mut found);
        }
        found
    }

    fn collect(&self, cell: CellId, level: Level, found: &mut Vec<CellId>) {
        if self.cells[cell].level == level {
            found.push(cell);
            return;
        }
        for part in &self.cells[cell].parts {
            self.collect(*part, level, found);
        }
    }

    /// Takes a cell that is free or part of a free one, and splits the cells around it. Returns false
    /// if it is neither.
    pub fn take(&mut self, cell: CellId) -> bool {
        let mut path = vec![cell];
        while self.cells[path[path.len() - 1]].status != Status::Free {
            let last = &self.cells[path[path.len() - 1]];
            match last.parent.filter(|_| last.status == Status::Inside) {
                Some(parent) => path.push(parent),
                None => return false,
            }
        }
        while let Some(outer) = path.pop() {
            let Some(inner) = path.last() else {
                self.unset_free(outer, Status::Taken);
                break;
            };
            let inner = *inner;
            self.unset_free(outer, Status::Split);
            for part in self.cells[outer].parts.clone() {
                self.set_free(part);
            }
            debug_assert_eq!(self.cells[inner].status, Status::Free);
        }
        true
    }

    /// Frees a taken cell, and joins it with its buddies while all of them are free.
    pub fn give_back(&mut self, cell: CellId) {
        self.set_free(cell);
        let mut cell = cell;
        while let Some(parent) = self.cells[cell].parent {
            let parts = self.cells[parent].parts.clone();
            if parts
                .iter()
                .any(|part| self.cells[*part].status != Status::Free)
            {
                break;
            }
            for part in parts {
                self.unset_free(part, Status::Inside);
            }
            self.set_free(parent);
            cell = parent;
        }
    }

    /// Returns the cell of a level that begins with a GPU.
    pub fn starting_at(&self, gpu: GpuId, level: Level) -> Option<CellId> {
        let at = (self.position(gpu)?, level.sort);
        let cell = self.by_start.get(&at).copied();
        cell.filter(|cell| self.cells[*cell].level == level)
    }

    pub fn positions(&self, cell: CellId) -> Range<usize> {
        self.cells[cell].gpus.clone()
    }

    /// Returns the number of GPUs of the free cell in which a cell lies.
    pub fn around(&self, cell: CellId) -> usize {
        let mut at = cell;
        while let (Status::Inside, Some(parent)) = (self.cells[at].status, self.cells[at].parent) {
            at = parent;
        }
        self.cells[at].gpus.len()
    }

    pub fn position(&self, gpu: GpuId) -> Option<usize> {
        self.position.get(&gpu).copied()
    }

    pub fn gpu(&self, position: usize) -> GpuId {
        self.gpus[position].0
    }

    pub fn node(&self, position: usize) -> NodeId {
        self.gpus[position].1
    }

    pub fn len(&self) -> usize {
        self.gpus.len()
    }

    /// Returns the parts of a cell that are each on one node: the cell itself, or its nodes.
    pub fn units(&self, cell: CellId) -> Vec<CellId> {
        let gpus = self.positions(cell);
        let nodes = self.nodes.range(gpus.clone()).map(|(_, node)| *node);
        let nodes: Vec<CellId> = nodes.collect();
        let inside = |node: &CellId| gpus.contains(&(self.cells[*node].gpus.end - 1));
        match !nodes.is_empty() && nodes.iter().all(inside) {
            true => nodes,
            false => vec![cell],
        }
    }

    pub fn parts(&self, cell: CellId) -> &[CellId] {
        &self.cells[cell].parts
    }
}

/// Groups nodes by the part of their location at a depth, in order of their first nodes. A node
/// without such a part is alone.
fn split<'a>(nodes: Vec<Leafs<'a>>, depth: usize) -> Vec<Vec<Leafs<'a>>> {
    let mut groups: Vec<Vec<Leafs<'a>>> = Vec::new();
    let mut by_name: BTreeMap<&'a Name, usize> = BTreeMap::new();
    for node in nodes {
        let Some(name) = node.location.get(depth) else {
            groups.push(vec![node]);
            continue;
        };
        let next = groups.len();
        let at = *by_name.entry(name).or_insert(next);
        if at == next {
            groups.push(Vec::new());
        }
        groups[at].push(node);
    }
    groups
}
