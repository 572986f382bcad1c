//! Cells of a cluster, and their allocation by buddies.

use blox_core::{GpuId, GpuTypeId, Name, Node, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

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
}

/// GPUs, parts of nodes, nodes and locations as a forest of cells. Trees do not mix GPU types.
///
/// A node consists of halves as long as its number of GPUs is even, and then of GPUs. A part of a
/// location with only one part is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    cells: Arc<Cells>,
    status: Vec<Status>,
    free: BTreeMap<Level, BTreeSet<CellId>>,
}

/// The cells of a tree, which only nodes that come and go change.
#[derive(Debug, Default)]
struct Cells {
    cells: Vec<Cell>,
    /// GPUs by position.
    gpus: Vec<(GpuId, NodeId)>,
    /// Positions of GPUs, or [`NONE`].
    position: Vec<usize>,
    /// Cells of one GPU, by position.
    leafs: Vec<CellId>,
    /// Node cells with the position of their first GPU, in order.
    nodes: Vec<(usize, CellId)>,
    /// Cells of nodes, or [`NONE`].
    of_node: Vec<CellId>,
    sorts: Sorts,
    /// The outermost cells.
    roots: Vec<CellId>,
    types: Vec<GpuTypeId>,
}

const NONE: usize = usize::MAX;

/// Sorts of cells, by their parts and GPU type.
#[derive(Debug, Default)]
struct Sorts {
    numbers: BTreeMap<(Option<GpuTypeId>, Vec<usize>), usize>,
    /// The number of GPUs of each sort, its parts, and the sorts of all its parts.
    all: Vec<(u32, Vec<usize>, BTreeSet<usize>)>,
    /// Sorts of parts of nodes, by number of GPUs.
    halves: BTreeMap<usize, usize>,
}

impl Sorts {
    fn number(&mut self, gpu_type: Option<GpuTypeId>, parts: Vec<usize>) -> usize {
        let key = (gpu_type, parts);
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let parts = key.1.clone();
        let mut within = BTreeSet::new();
        for part in &parts {
            within.insert(*part);
            within.extend(self.all[*part].2.iter().copied());
        }
        let gpus = parts.iter().map(|part| self.size(*part)).sum::<u32>();
        let number = self.all.len();
        self.all.push((gpus.max(1), parts, within));
        self.numbers.insert(key, number);
        number
    }

    /// Returns the sort of a number of GPUs of one node.
    fn of_node(&mut self, gpus: usize) -> usize {
        if let Some(known) = self.halves.get(&gpus) {
            return *known;
        }
        let parts = parts_of(gpus);
        let each = gpus / parts.max(1);
        let sorts = (0..parts).map(|_| self.of_node(each)).collect();
        let sort = self.number(None, sorts);
        self.halves.insert(gpus, sort);
        sort
    }

    fn size(&self, sort: usize) -> u32 {
        self.all[sort].0
    }

    /// Returns whether cells of a sort are or contain cells of another.
    fn holds(&self, outer: usize, inner: usize) -> bool {
        outer == inner || self.all[outer].2.contains(&inner)
    }
}

/// Number of parts of a cell within a node.
fn parts_of(gpus: usize) -> usize {
    match gpus {
        0 | 1 => 0,
        even if even.is_multiple_of(2) => 2,
        odd => odd,
    }
}

/// A node as a part of a tree.
pub(super) struct Leafs<'a> {
    pub id: NodeId,
    pub gpu_type: GpuTypeId,
    pub location: &'a [Name],
    pub first: GpuId,
    pub gpus: usize,
}

impl<'a> Leafs<'a> {
    pub fn of(node: &'a Node) -> Self {
        Leafs {
            id: node.id(),
            gpu_type: node.gpu_type(),
            location: &node.spec().location,
            first: node.gpus().next().unwrap_or(GpuId(0)),
            gpus: node.gpus().len(),
        }
    }
}

impl Cells {
    /// Returns the cells of nodes; without those within a node if `whole` is true.
    fn of<'a>(nodes: impl IntoIterator<Item = Leafs<'a>>, whole: bool) -> Self {
        let mut by_type: BTreeMap<GpuTypeId, Vec<Leafs<'a>>> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| node.gpus > 0) {
            by_type.entry(node.gpu_type).or_default().push(node);
        }
        let mut all = Cells::default();
        for (gpu_type, nodes) in by_type {
            for part in split(nodes, 0) {
                let root = all.grow(part, 1, whole);
                let sort = all.cells[root].level.sort;
                // Trees of another type are another chain, even if their parts are alike.
                let chain = all.sorts.number(Some(gpu_type), vec![sort]);
                all.note_chain(root, chain);
                let chains = all.types.len().max(chain + 1);
                all.types.resize(chains, gpu_type);
                all.types[chain] = gpu_type;
                all.roots.push(root);
            }
        }
        all
    }

    fn note_chain(&mut self, cell: CellId, chain: usize) {
        self.cells[cell].level.chain = chain;
        for i in 0..self.cells[cell].parts.len() {
            self.note_chain(self.cells[cell].parts[i], chain);
        }
    }

    /// Adds the cell of nodes with a common location up to a depth.
    fn grow(&mut self, mut nodes: Vec<Leafs<'_>>, depth: usize, whole: bool) -> CellId {
        if nodes.len() == 1 {
            return self.grow_node(&nodes.remove(0), whole);
        }
        let mut groups = split(nodes, depth);
        if groups.len() == 1 {
            return self.grow(groups.remove(0), depth + 1, whole);
        }
        let first = self.gpus.len();
        let parts = groups.into_iter();
        let parts: Vec<CellId> = parts
            .map(|part| self.grow(part, depth + 1, whole))
            .collect();
        let sorts = parts.iter().map(|part| self.cells[*part].level.sort);
        let sort = self.sorts.number(None, sorts.collect());
        self.add(parts, sort, first..self.gpus.len())
    }

    fn grow_node(&mut self, node: &Leafs<'_>, whole: bool) -> CellId {
        let first = self.gpus.len();
        let sort = self.sorts.of_node(node.gpus);
        if whole {
            return self.add(Vec::new(), sort, first..first + node.gpus);
        }
        let last = node.first.index() + node.gpus;
        self.position.resize(self.position.len().max(last), NONE);
        self.of_node
            .resize(self.of_node.len().max(node.id.index() + 1), NONE);
        for gpu in 0..node.gpus {
            let gpu = GpuId(node.first.0 + gpu as u32);
            self.position[gpu.index()] = self.gpus.len();
            self.gpus.push((gpu, node.id));
        }
        let cell = self.halve(first..self.gpus.len());
        self.nodes.push((first, cell));
        self.of_node[node.id.index()] = cell;
        cell
    }

    fn halve(&mut self, gpus: Range<usize>) -> CellId {
        let parts = parts_of(gpus.len());
        let each = gpus.len() / parts.max(1);
        let part = |i: usize| gpus.start + i * each..gpus.start + (i + 1) * each;
        let list: Vec<CellId> = (0..parts).map(|i| self.halve(part(i))).collect();
        let sort = self.sorts.of_node(gpus.len());
        let cell = self.add(list, sort, gpus);
        if parts == 0 {
            self.leafs.push(cell);
        }
        cell
    }

    fn add(&mut self, parts: Vec<CellId>, sort: usize, gpus: Range<usize>) -> CellId {
        let id = self.cells.len();
        for part in &parts {
            self.cells[*part].parent = Some(id);
        }
        self.cells.push(Cell {
            parent: None,
            parts,
            level: Level { chain: 0, sort },
            gpus,
        });
        id
    }
}

/// The numbers of free cells while reservations are laid out in an empty cluster.
#[derive(Clone)]
pub(super) struct Outline {
    cells: Arc<Cells>,
    free: BTreeMap<Level, usize>,
}

impl Outline {
    /// Returns the outline of nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = Leafs<'a>>) -> Self {
        Outline::of_cells(Arc::new(Cells::of(nodes, true)))
    }

    fn of_cells(cells: Arc<Cells>) -> Self {
        let mut free = BTreeMap::new();
        for root in &cells.roots {
            *free.entry(cells.cells[*root].level).or_default() += 1;
        }
        Outline { cells, free }
    }

    /// Returns the levels that have cells of this size, with their GPU types.
    fn levels(&self, gpus: u32) -> impl Iterator<Item = (Level, GpuTypeId)> {
        let (all, sorts) = (&*self.cells, &self.cells.sorts);
        let roots: BTreeSet<Level> = all.roots.iter().map(|r| all.cells[*r].level).collect();
        let of_root = |Level { chain, sort }: Level| {
            let inner = sorts.all[sort].2.iter().copied().chain([sort]);
            let alike = inner.filter(|inner| sorts.size(*inner) == gpus);
            alike.map(move |sort| Level { chain, sort })
        };
        let found: BTreeSet<Level> = roots.into_iter().flat_map(of_root).collect();
        let typed = |level: Level| (level, all.types[level.chain]);
        found.into_iter().map(typed)
    }

    /// Takes cells of a size: each the one that splits the smallest free cell. Returns their levels.
    pub fn take(&mut self, gpus: u32, count: u32, suits: impl Fn(GpuTypeId) -> bool) -> Vec<Level> {
        let mut taken = Vec::new();
        let levels = self.levels(gpus).filter(|(_, gpu_type)| suits(*gpu_type));
        let levels: Vec<Level> = levels.map(|(level, _)| level).collect();
        while taken.len() < count as usize {
            let least = |level: &Level| self.least(*level).map(|free| (free, *level));
            let found = levels.iter().filter_map(least);
            let size = |level: Level| self.cells.sorts.size(level.sort);
            let Some((mut free, level)) = found.min_by_key(|(free, _)| size(*free)) else {
                break;
            };
            let left = count as usize - taken.len();
            let here = self.free.get_mut(&free).map_or(0, |here| {
                let some = if free == level { left.min(*here) } else { 1 };
                *here -= some;
                some
            });
            // The first part that holds such a cell is split again; its buddies are free.
            while free != level {
                let parts = &self.cells.sorts.all[free.sort].1;
                let holds = |part: &usize| self.cells.sorts.holds(*part, level.sort);
                let Some(first) = parts.iter().position(holds) else {
                    break;
                };
                let buddies = parts[..first].iter().chain(&parts[first + 1..]);
                for sort in buddies.copied() {
                    *self.free.entry(Level { sort, ..free }).or_default() += 1;
                }
                free.sort = parts[first];
            }
            taken.extend(std::iter::repeat_n(level, here));
        }
        taken
    }

    /// Returns the level of the smallest free cells that are or contain cells of a level.
    fn least(&self, level: Level) -> Option<Level> {
        let sorts = &self.cells.sorts;
        let some = self.free.iter().filter(|(_, count)| **count > 0);
        let holds = |free: &Level| free.chain == level.chain && sorts.holds(free.sort, level.sort);
        let alike = some.map(|(free, _)| *free).filter(holds);
        alike.min_by_key(|free| sorts.size(free.sort))
    }

    /// Returns the levels of the free cells, with the number of each.
    pub fn free(&self) -> impl Iterator<Item = (Level, usize)> {
        self.free.iter().map(|(level, count)| (*level, *count))
    }

    /// Returns the number of GPUs of a cell of a level.
    pub fn size(&self, level: Level) -> u32 {
        self.cells.sorts.size(level.sort)
    }

    pub fn gpu_type(&self, level: Level) -> GpuTypeId {
        self.cells.types[level.chain]
    }
}

impl Tree {
    /// Builds the tree of nodes. All outermost cells are free.
    pub fn of<'a>(nodes: impl IntoIterator<Item = Leafs<'a>>) -> Self {
        let cells = Arc::new(Cells::of(nodes, false));
        let mut tree = Tree {
            status: vec![Status::Inside; cells.cells.len()],
            free: BTreeMap::new(),
            cells: cells.clone(),
        };
        cells.roots.iter().for_each(|root| tree.set_free(*root));
        tree
    }

    /// Returns the outline of the empty cluster.
    pub fn outline(&self) -> Outline {
        Outline::of_cells(self.cells.clone())
    }

    /// Returns the sizes of free cells, and the number of each.
    #[cfg(test)]
    pub fn free(&self) -> impl Iterator<Item = (u32, usize)> {
        let all = self.free.iter();
        all.map(|(level, cells)| (self.size(*level), cells.len()))
    }

    fn cell(&self, cell: CellId) -> &Cell {
        &self.cells.cells[cell]
    }

    fn set_free(&mut self, cell: CellId) {
        self.status[cell] = Status::Free;
        let level = self.cell(cell).level;
        self.free.entry(level).or_default().insert(cell);
    }

    fn unset_free(&mut self, cell: CellId, status: Status) {
        self.status[cell] = status;
        if let Some(list) = self.free.get_mut(&self.cells.cells[cell].level) {
            list.remove(&cell);
        }
    }

    /// Returns the number of GPUs of a cell of a level.
    pub fn size(&self, level: Level) -> u32 {
        self.cells.sorts.size(level.sort)
    }

    pub fn gpu_type(&self, level: Level) -> GpuTypeId {
        self.cells.types[level.chain]
    }

    /// Returns the cells that buddy allocation may take at a level: the free ones, or else the parts of
    /// the smallest free cells that have such parts.
    pub fn options(&self, level: Level) -> impl Iterator<Item = CellId> {
        let sorts = &self.cells.sorts;
        let holds = |(free, cells): &(&Level, &BTreeSet<CellId>)| {
            let alike = free.chain == level.chain && sorts.holds(free.sort, level.sort);
            alike && !cells.is_empty()
        };
        let some = self.free.iter().filter(holds);
        let least = some.min_by_key(|(free, _)| self.size(**free));
        let cells = least.into_iter().flat_map(|(_, cells)| cells);
        cells.flat_map(move |cell| {
            let mut found = Vec::new();
            self.collect(*cell, level, &mut found);
            found
        })
    }

    fn collect(&self, cell: CellId, level: Level, found: &mut Vec<CellId>) {
        if self.cell(cell).level == level {
            found.push(cell);
            return;
        }
        for part in &self.cell(cell).parts {
            self.collect(*part, level, found);
        }
    }

    /// Takes a cell that is free or part of a free one, and splits the cells around it. Returns false
    /// if it is neither.
    pub fn take(&mut self, cell: CellId) -> bool {
        let mut path = vec![cell];
        while self.status[path[path.len() - 1]] != Status::Free {
            let last = path[path.len() - 1];
            let inside = self.status[last] == Status::Inside;
            match self.parent(last).filter(|_| inside) {
                Some(parent) => path.push(parent),
                None => return false,
            }
        }
        let cells = self.cells.clone();
        while let Some(outer) = path.pop() {
            let Some(inner) = path.last() else {
                self.unset_free(outer, Status::Taken);
                break;
            };
            let inner = *inner;
            self.unset_free(outer, Status::Split);
            for part in &cells.cells[outer].parts {
                self.set_free(*part);
            }
            debug_assert_eq!(self.status[inner], Status::Free);
        }
        true
    }

    /// Frees a taken cell, and joins it with its buddies while all of them are free.
    pub fn give_back(&mut self, cell: CellId) {
        self.set_free(cell);
        let cells = self.cells.clone();
        let mut cell = cell;
        while let Some(parent) = self.parent(cell) {
            let parts = &cells.cells[parent].parts;
            if parts.iter().any(|part| self.status[*part] != Status::Free) {
                break;
            }
            for part in parts {
                self.unset_free(*part, Status::Inside);
            }
            self.set_free(parent);
            cell = parent;
        }
    }

    /// Returns the cell of a level that begins with a GPU.
    pub fn starting_at(&self, gpu: GpuId, level: Level) -> Option<CellId> {
        let at = self.position(gpu)?;
        let mut around = self.around(at);
        around.find(|cell| {
            let cell = self.cell(*cell);
            cell.gpus.start == at && cell.level == level
        })
    }

    pub fn positions(&self, cell: CellId) -> Range<usize> {
        self.cell(cell).gpus.clone()
    }

    pub fn parent(&self, cell: CellId) -> Option<CellId> {
        self.cell(cell).parent
    }

    /// Returns the cells around a position, the smallest first.
    pub fn around(&self, position: usize) -> impl Iterator<Item = CellId> {
        let leaf = self.cells.leafs[position];
        std::iter::successors(Some(leaf), |cell| self.parent(*cell))
    }

    pub fn position(&self, gpu: GpuId) -> Option<usize> {
        let at = self.cells.position.get(gpu.index()).copied();
        at.filter(|at| *at != NONE)
    }

    pub fn gpu(&self, position: usize) -> GpuId {
        self.cells.gpus[position].0
    }

    pub fn node(&self, position: usize) -> NodeId {
        self.cells.gpus[position].1
    }

    /// Returns the cell of a node.
    pub fn of_node(&self, node: NodeId) -> Option<CellId> {
        let cell = self.cells.of_node.get(node.index()).copied();
        cell.filter(|cell| *cell != NONE)
    }

    /// Returns the number of GPUs, and of cells.
    pub fn len(&self) -> (usize, usize) {
        (self.cells.gpus.len(), self.cells.cells.len())
    }

    /// Returns the parts of a cell that are each on one node: the cell itself, or its nodes.
    pub fn units(&self, cell: CellId) -> impl Iterator<Item = CellId> + Clone {
        let gpus = self.positions(cell);
        let nodes = &self.cells.nodes;
        let from = nodes.partition_point(|(first, _)| *first < gpus.start);
        let to = nodes.partition_point(|(first, _)| *first < gpus.end);
        let nodes = &nodes[from..to];
        let inside = |(_, node): &(usize, CellId)| gpus.contains(&(self.cell(*node).gpus.end - 1));
        let whole = nodes.first().is_some_and(inside) && nodes.last().is_some_and(inside);
        let own = (!whole).then_some(cell);
        let nodes = if whole { nodes } else { &[] };
        nodes.iter().map(|(_, node)| *node).chain(own)
    }

    pub fn parts(&self, cell: CellId) -> &[CellId] {
        &self.cell(cell).parts
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
