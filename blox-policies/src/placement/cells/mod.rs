//! Virtual clusters as cells of the cluster.

mod tree;

use super::in_order::Blocked;
use super::selector::{has_resources, most_if_empty, most_with_resources, suits};
use blox_core::{
    Answer, Assignment, Class, Draft, DraftError, GpuCount, GpuId, GpuList, GpuTypeId, JobId,
    JobQueue, JobRef, Name, Node, NodeId, NodeStatus, PlacementPolicy, Policy, Reason, Request,
    Room, Shape, SortedMap, Validity, View, sort,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tree::{CellId, Leafs, Level, Outline, Tree};

/// Reserves cells of the cluster for virtual clusters (HiveD, OSDI 2020).
///
/// A *cell* is a GPU, a half of a cell on a node, a node, or the nodes of a
/// [location](blox_core::NodeSpec::location). The smallest cell is a GPU (section 3), so a job with a
/// part of a GPU shares it with none. A virtual cluster reserves numbers of cells of some
/// sizes. Jobs of other virtual clusters, or of none, share the cells that are left.
///
/// **Guaranteed jobs** get GPUs in the cells of their virtual cluster: in the smallest cell with
/// room on one node, and in its smallest part with room. A job larger than each node gets as few
/// cells as possible. In a virtual cluster, a job that does not fit blocks those after it. If the
/// scheduling policy preempts, jobs later in the order leave.
///
/// **Buddies.** A cell gets a place when the first job needs it. If no cell of its size is free, the
/// smallest larger one is split. Buddies that are all free are joined. So a virtual cluster can
/// always get all its cells while the nodes are up, whatever other jobs do.
///
/// **Jobs of the class spot** have low priority. They get free GPUs of any cell, on nodes with few
/// GPUs of guaranteed jobs first. Virtual clusters with few such GPUs come first. A job of low
/// priority leaves if a guaranteed job needs its GPUs. A cell gets the place with the fewest of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells {
    reserved: Vec<Reservation>,
    blocked: Blocked,
}

/// Cells of one size that a virtual cluster reserves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The virtual cluster.
    pub owner: Name,
    /// Number of cells.
    pub cells: u32,
    /// GPUs of a cell.
    pub gpus: u32,
    /// GPU type; `None` for any.
    pub gpu_type: Option<Name>,
}

impl Cells {
    /// Creates the placement. Reservations that the cluster cannot hold have no cells.
    pub fn new(reserved: Vec<Reservation>) -> Self {
        Cells {
            reserved,
            blocked: Blocked::default(),
        }
    }

    /// Determines what happens to the later jobs of a virtual cluster when a job does not fit.
    #[must_use]
    pub fn when_blocked(self, blocked: Blocked) -> Self {
        Cells { blocked, ..self }
    }
}

/// Places of the cells with jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellsMemory {
    bound: Vec<Bound>,
    /// The books after the last decision. Without them, they are made from the state and the places.
    #[serde(skip)]
    books: Option<Books>,
}

/// Place of a cell.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Bound {
    /// Number of the cell in the layout.
    cell: usize,
    /// Its GPUs at that time, and the first of them.
    gpus: u32,
    first: GpuId,
}

/// A cell of a virtual cluster.
#[derive(Clone, Debug)]
struct Virtual {
    owner: Owner,
    level: Level,
    place: Option<CellId>,
}

/// Index of the first reservation of a virtual cluster; `None` for all that reserve nothing.
type Owner = Option<usize>;

/// State of the cells. Decisions keep the values that depend on the whole cluster.
#[derive(Clone, Debug)]
struct Books {
    tree: Tree,
    /// The nodes of the tree, and whether all their GPUs worked when last seen.
    nodes: Vec<(NodeId, bool)>,
    cells: Vec<Virtual>,
    /// Cells of each virtual cluster.
    owned_by: BTreeMap<Owner, OwnCells>,
    /// The cells of virtual clusters with these places.
    holder: BTreeMap<CellId, usize>,
    /// Use of each GPU, by position.
    gpus: Vec<Use>,
    /// Numbers of GPUs of each cell of the tree.
    sums: Vec<Sums>,
    /// GPUs of jobs, and whether they have low priority.
    marked: BTreeMap<JobId, (bool, GpuList)>,
}

/// Cells of a virtual cluster, with and without places.
#[derive(Clone, Debug, Default)]
struct OwnCells {
    placed: BTreeSet<usize>,
    waiting: BTreeMap<Level, BTreeSet<usize>>,
}

/// Numbers of guaranteed jobs and of others on a GPU, and whether it works on a usable node.
#[derive(Clone, Copy, Debug)]
struct Use {
    owned: u32,
    low: u32,
    works: bool,
}

/// Numbers of GPUs: with guaranteed jobs, with others, broken, and open to guaranteed jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    owned: u32,
    low: u32,
    broken: u32,
    open: u32,
}

impl Use {
    fn is_open(self) -> bool {
        self.works && self.owned == 0
    }

    fn sums(self) -> Sums {
        Sums {
            owned: u32::from(self.owned > 0),
            low: u32::from(self.low > 0),
            broken: u32::from(!self.works),
            open: u32::from(self.is_open()),
        }
    }
}

impl Cells {
    fn owner(&self, view: View<'_>, job: &JobRef<'_>) -> Owner {
        let name = view.names().get(job.virtual_cluster()?)?;
        self.reserved.iter().position(|cells| cells.owner == *name)
    }

    /// Returns the cells of all virtual clusters in an empty cluster. The largest are placed first.
    fn layout(&self, view: View<'_>, mut left: Outline) -> Vec<(Owner, Level)> {
        let first = |cells: &Reservation| self.reserved.iter().position(|c| c.owner == cells.owner);
        let mut order: Vec<&Reservation> = self.reserved.iter().collect();
        sort::by_key(&mut order, |cells| Reverse(cells.gpus));
        let mut all = Vec::new();
        for cells in order {
            let types = view.cluster().gpu_types();
            let named = |gpu_type: GpuTypeId| {
                let name = types.get(blox_core::NameId(gpu_type.0));
                cells.gpu_type.is_none() || name == cells.gpu_type.as_ref()
            };
            let levels = left.take(cells.gpus, cells.cells, named);
            all.extend(levels.into_iter().map(|level| (first(cells), level)));
        }
        for (level, count) in left.free() {
            all.extend(std::iter::repeat_n((None, level), count));
        }
        all
    }

    /// Returns the books of the last decision, or new ones if nodes came or went.
    fn books(&self, memory: &mut CellsMemory, view: View<'_>) -> Books {
        let nodes = || {
            let nodes = view.nodes();
            nodes.filter(|node| node.status() != NodeStatus::Left)
        };
        let is_same = |books: &Books| nodes().map(Node::id).eq(books.nodes.iter().map(|n| n.0));
        let mut books = memory.books.take().filter(is_same).unwrap_or_else(|| {
            let tree = Tree::of(nodes().map(Leafs::of));
            let cells = self.layout(view, tree.outline());
            let nodes = nodes().map(|node| (node.id(), true));
            let mut books = Books::new(tree, nodes.collect(), cells);
            for bound in &memory.bound {
                books.bind_again(bound);
            }
            books
        });
        for (i, node) in nodes().enumerate() {
            let works = node.is_usable() && node.usable_count() == node.gpu_count();
            if works && books.nodes[i].1 {
                continue;
            }
            books.nodes[i].1 = works;
            for gpu in node.gpus() {
                let works = node.is_usable() && node.works(gpu);
                if let Some(at) = books.tree.position(gpu) {
                    books.change(at, |its| its.works = works);
                }
            }
        }
        books
    }

    /// Marks the GPUs of placed jobs. Returns the guaranteed jobs outside the cells of their virtual
    /// cluster.
    fn mark(&self, books: &mut Books, draft: &Draft<'_>) -> Vec<JobId> {
        let is_low = |job: &JobRef<'_>| job.class() != Class::Guaranteed;
        let stays = |(id, (low, gpus)): &(&JobId, &(bool, GpuList))| {
            let has = draft.current(**id).is_some_and(|has| has.gpus == *gpus);
            has && draft
                .view()
                .job(**id)
                .is_some_and(|job| is_low(&job) == *low)
        };
        let gone = books.marked.iter().filter(|mark| !stays(mark));
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            books.unmark(id);
        }
        let mut outside = Vec::new();
        for (job, has) in draft.placed() {
            if books.marked.contains_key(&job.id()) {
                continue;
            }
            let at = has.gpus.iter().map(|gpu| books.tree.position(*gpu));
            let Some(at) = at.collect::<Option<Vec<usize>>>() else {
                continue;
            };
            let owner = self.owner(draft.view(), &job);
            let within = |at: &usize| {
                let mut around = books.tree.around(*at);
                let holder = around.find_map(|cell| books.holder.get(&cell));
                holder.is_some_and(|cell| books.cells[*cell].owner == owner)
            };
            match is_low(&job) || at.iter().all(within) {
                true => books.mark(job.id(), is_low(&job), has.gpus.clone()),
                false => outside.push(job.id()),
            }
        }
        outside
    }
}

impl Books {
    /// Returns the books of an empty cluster in which all GPUs work.
    fn new(tree: Tree, nodes: Vec<(NodeId, bool)>, cells: Vec<(Owner, Level)>) -> Self {
        let (gpus, all) = tree.len();
        let idle = Use {
            owned: 0,
            low: 0,
            works: true,
        };
        let mut owned_by: BTreeMap<Owner, OwnCells> = BTreeMap::new();
        for (i, (owner, level)) in cells.iter().enumerate() {
            let own = owned_by.entry(*owner).or_default();
            own.waiting.entry(*level).or_default().insert(i);
        }
        let open = |cell| Sums {
            open: tree.positions(cell).len() as u32,
            ..Sums::default()
        };
        let of = |(owner, level)| Virtual {
            owner,
            level,
            place: None,
        };
        Books {
            sums: (0..all).map(open).collect(),
            gpus: vec![idle; gpus],
            cells: cells.into_iter().map(of).collect(),
            holder: BTreeMap::new(),
            marked: BTreeMap::new(),
            owned_by,
            nodes,
            tree,
        }
    }

    /// Changes the use of a GPU, and the sums of the cells around it.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Use)) {
        let its = &mut self.gpus[at];
        let before = its.sums();
        change(its);
        let after = its.sums();
        if before == after {
            return;
        }
        for cell in self.tree.around(at) {
            let sums = &mut self.sums[cell];
            sums.owned = sums.owned + after.owned - before.owned;
            sums.low = sums.low + after.low - before.low;
            sums.broken = sums.broken + after.broken - before.broken;
            sums.open = sums.open + after.open - before.open;
        }
    }

    /// Notes that a job has GPUs.
    fn mark(&mut self, job: JobId, low: bool, gpus: GpuList) {
        for gpu in &gpus {
            if let Some(at) = self.tree.position(*gpu) {
                self.change(at, |its| match low {
                    true => its.low += 1,
                    false => its.owned += 1,
                });
            }
        }
        self.marked.insert(job, (low, gpus));
    }

    /// Notes that a job has no GPUs any more.
    fn unmark(&mut self, job: JobId) {
        let Some((low, gpus)) = self.marked.remove(&job) else {
            return;
        };
        for gpu in &gpus {
            if let Some(at) = self.tree.position(*gpu) {
                self.change(at, |its| match low {
                    true => its.low -= 1,
                    false => its.owned -= 1,
                });
            }
        }
    }

    /// Number of the GPUs of a cell that a guaranteed job could have.
    fn open(&self, cell: CellId) -> usize {
        self.sums[cell].open as usize
    }

    /// Frees the places of cells without guaranteed jobs.
    fn tidy(&mut self) {
        let all = self.holder.iter();
        let idle = all.filter(|(place, _)| self.sums[**place].owned == 0);
        for cell in idle.map(|(_, cell)| *cell).collect::<Vec<_>>() {
            self.unbind(cell);
        }
    }

    /// Returns the best place that a cell could get or has, if `of` returns a value for it. Places
    /// with the fewest broken GPUs come first, then those with the fewest GPUs of low priority.
    fn place<T>(
        &self,
        cell: &Virtual,
        mut of: impl FnMut(CellId) -> Option<T>,
    ) -> Option<(CellId, T)> {
        if let Some(place) = cell.place {
            return of(place).map(|its| (place, its));
        }
        let mut best: Option<((u32, u32), CellId, T)> = None;
        for option in self.tree.options(cell.level) {
            let rank = (self.sums[option].broken, self.sums[option].low);
            if best.as_ref().is_some_and(|(least, ..)| rank >= *least) {
                continue;
            }
            if let Some(its) = of(option) {
                best = Some((rank, option, its));
                if rank == (0, 0) {
                    break;
                }
            }
        }
        best.map(|(_, place, its)| (place, its))
    }

    /// Adds `count` open GPUs of a cell. They are in its smallest part with enough.
    fn choose(&self, cell: CellId, count: usize, taken: &mut Vec<usize>) {
        let parts = self.tree.parts(cell);
        let enough = parts.iter().filter(|part| self.open(**part) >= count);
        let best = enough.min_by_key(|part| (self.open(**part), self.sums[**part].low));
        if let Some(part) = best {
            return self.choose(*part, count, taken);
        }
        if parts.is_empty() {
            let open = |at: &usize| self.gpus[*at].is_open();
            taken.extend(self.tree.positions(cell).filter(open).take(count));
            return;
        }
        let mut order: Vec<(usize, CellId)> = parts.iter().map(|p| (self.open(*p), *p)).collect();
        sort::by_key(&mut order, |(open, _)| Reverse(*open));
        let mut left = count;
        for (open, part) in order {
            let here = open.min(left);
            if here > 0 {
                self.choose(part, here, taken);
            }
            left -= here;
        }
    }

    /// Takes a place for a cell.
    fn bind(&mut self, cell: usize, place: CellId) {
        if self.cells[cell].place.is_none() && self.tree.take(place) {
            self.cells[cell].place = Some(place);
            self.holder.insert(place, cell);
            let Virtual { owner, level, .. } = self.cells[cell];
            let own = self.owned_by.entry(owner).or_default();
            own.placed.insert(cell);
            own.waiting.entry(level).or_default().remove(&cell);
        }
    }

    /// Takes the place of a cell from an earlier decision.
    fn bind_again(&mut self, bound: &Bound) {
        let level = self.cells.get(bound.cell).map(|cell| cell.level);
        let level = level.filter(|level| self.tree.size(*level) == bound.gpus);
        if let Some(place) = level.and_then(|level| self.tree.starting_at(bound.first, level)) {
            self.bind(bound.cell, place);
        }
    }

    /// Frees the place of a cell.
    fn unbind(&mut self, cell: usize) {
        let Virtual { owner, level, .. } = self.cells[cell];
        if let Some(place) = self.cells[cell].place.take() {
            self.tree.give_back(place);
            self.holder.remove(&place);
            let own = self.owned_by.entry(owner).or_default();
            own.placed.remove(&cell);
            own.waiting.entry(level).or_default().insert(cell);
        }
    }

    /// Returns the places of all cells.
    fn bound(&self) -> Vec<Bound> {
        let all = self.owned_by.values().flat_map(|own| &own.placed);
        let mut placed: Vec<usize> = all.copied().collect();
        placed.sort_unstable();
        let of = |cell: usize| {
            let its = &self.cells[cell];
            let first = self.tree.positions(its.place?).start;
            Some(Bound {
                cell,
                gpus: self.tree.size(its.level),
                first: self.tree.gpu(first),
            })
        };
        placed.into_iter().filter_map(of).collect()
    }
}

/// A guaranteed job that looks for GPUs.
struct Seeker<'a, 'd> {
    draft: &'a Draft<'d>,
    job: &'a JobRef<'d>,
    shape: &'a Shape,
    owner: Owner,
}

impl Seeker<'_, '_> {
    fn node(&self, books: &Books, unit: CellId) -> Option<&Node> {
        let at = books.tree.positions(unit).start;
        self.draft.view().node(books.tree.node(at))
    }

    /// Returns the cells of the virtual cluster on whose type the job runs. If `alike` is false, one
    /// cell stands for all of its level without a place.
    fn cells(&self, books: &Books, alike: bool) -> Vec<usize> {
        let cluster = self.draft.view().cluster();
        let suited = |level: Level| {
            let gpu_type = books.tree.gpu_type(level);
            let wanted = self.shape.gpu_type.is_none_or(|wanted| wanted == gpu_type);
            wanted && self.job.accepts(cluster, gpu_type)
        };
        let Some(own) = books.owned_by.get(&self.owner) else {
            return Vec::new();
        };
        let placed = own.placed.iter().copied();
        let mut all: Vec<usize> = placed.filter(|i| suited(books.cells[*i].level)).collect();
        for (_, cells) in own.waiting.iter().filter(|(level, _)| suited(**level)) {
            all.extend(cells.iter().take(if alike { cells.len() } else { 1 }));
        }
        all.sort_unstable();
        all
    }

    /// Returns whether a part of a cell on one node could hold the whole job.
    fn could_hold(&self, books: &Books, unit: CellId) -> bool {
        let needed = self.shape.gpus.get();
        let node = self.node(books, unit);
        books.tree.positions(unit).len() >= needed as usize
            && node.is_some_and(|node| most_if_empty(node, self.shape) >= needed)
    }

    /// Finds GPUs, and takes places for their cells.
    fn find(&self, books: &mut Books) -> Option<Vec<usize>> {
        let some = self.cells(books, false);
        let could = |place| {
            let mut units = books.tree.units(place);
            units.any(|unit| self.could_hold(books, unit))
        };
        let one_node = some.iter().any(|i| {
            let cell = &books.cells[*i];
            match cell.place {
                Some(place) => could(place),
                None => books.tree.options(cell.level).any(could),
            }
        });
        match one_node {
            true => self.on_one_node(books, &some),
            false => self.on_several(books, &self.cells(books, true)),
        }
    }

    fn on_one_node(&self, books: &mut Books, cells: &[usize]) -> Option<Vec<usize>> {
        let needed = self.shape.gpus.get();
        let mut best: Option<((usize, bool), usize, CellId, CellId)> = None;
        for &i in cells {
            let cell = &books.cells[i];
            let fits = |unit: &CellId| {
                let node = self.node(books, *unit);
                let room = |node| has_resources(self.draft, node, self.shape, needed);
                books.open(*unit) >= needed as usize && node.is_some_and(room)
            };
            let smallest = |place| {
                let units = books.tree.units(place).filter(fits);
                units.min_by_key(|unit| books.open(*unit))
            };
            if let Some((place, unit)) = books.place(cell, smallest) {
                let rank = (books.open(unit), cell.place.is_none());
                if best.is_none_or(|(least, ..)| rank < least) {
                    best = Some((rank, i, place, unit));
                }
            }
        }
        let (_, cell, place, unit) = best?;
        books.bind(cell, place);
        let mut taken = Vec::new();
        books.choose(unit, needed as usize, &mut taken);
        Some(taken)
    }

    fn on_several(&self, books: &mut Books, cells: &[usize]) -> Option<Vec<usize>> {
        let needed = self.shape.gpus.get() as usize;
        let mut by_type: SortedMap<GpuTypeId, Vec<usize>> = SortedMap::new();
        for &cell in cells {
            let gpu_type = books.tree.gpu_type(books.cells[cell].level);
            by_type.entry(gpu_type).or_default().push(cell);
        }
        for (_, cells) in by_type {
            let mut bound = Vec::new();
            let open = |books: &Books, i: usize| match books.cells[i].place {
                Some(place) => books.open(place),
                None => books.tree.size(books.cells[i].level) as usize,
            };
            let mut order: Vec<(usize, usize)> =
                cells.iter().map(|i| (open(books, *i), *i)).collect();
            // One cell with enough, the smallest first; otherwise the largest ones.
            sort::by_key(&mut order, |(open, i)| {
                let enough = *open >= needed;
                let size = if enough {
                    *open as i64
                } else {
                    -(*open as i64)
                };
                (!enough, size, books.cells[*i].place.is_none())
            });
            let mut taken: Vec<usize> = Vec::new();
            for (_, cell) in order {
                let Some((place, ())) = books.place(&books.cells[cell], |_| Some(())) else {
                    continue;
                };
                let had = taken.len();
                let mut units: Vec<CellId> = books.tree.units(place).collect();
                sort::by_key(&mut units, |unit| Reverse(books.open(*unit)));
                for unit in units {
                    let most = books.open(unit).min(needed - taken.len()) as u32;
                    let node = self.node(books, unit);
                    let most = node.map_or(0, |node| {
                        most_with_resources(self.draft, node, self.shape, most)
                    });
                    if most > 0 {
                        books.choose(unit, most as usize, &mut taken);
                    }
                }
                if taken.len() > had && books.cells[cell].place.is_none() {
                    books.bind(cell, place);
                    bound.push(cell);
                }
                if taken.len() == needed {
                    return Some(taken);
                }
            }
            bound.into_iter().for_each(|cell| books.unbind(cell));
        }
        None
    }
}

impl Cells {
    /// Places a guaranteed job. Returns false and changes nothing if its virtual cluster has too
    /// little room.
    fn place_guaranteed(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<bool, DraftError> {
        let seeker = Seeker {
            draft,
            job,
            shape,
            owner: self.owner(draft.view(), job),
        };
        let Some(taken) = seeker.find(books) else {
            return Ok(false);
        };
        let gpus: GpuList = taken.iter().map(|at| books.tree.gpu(*at)).collect();
        for gpu in &gpus {
            for other in draft.jobs_on(*gpu).collect::<Vec<JobId>>() {
                release(books, draft, other, Reason::PreemptedFor(job.id()))?;
            }
        }
        books.mark(job.id(), false, gpus.clone());
        draft.assign(job.id(), shape.on(gpus))?;
        Ok(true)
    }

    /// Places a guaranteed job where jobs later in the order leave.
    fn place_instead(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        (job, shape): (&JobRef<'_>, &Shape),
        later: &[Request],
    ) -> Result<bool, DraftError> {
        let (before, start) = (books.clone(), draft.savepoint());
        let owner = self.owner(draft.view(), job);
        for request in later.iter().rev() {
            let other = draft.view().job(request.job);
            let Some(other) = other.filter(|other| {
                let guaranteed = other.class() == Class::Guaranteed;
                guaranteed && self.owner(draft.view(), other) == owner
            }) else {
                continue;
            };
            if draft.current(other.id()).is_none() {
                continue;
            }
            release(books, draft, other.id(), Reason::PreemptedFor(job.id()))?;
            books.tidy();
            if self.place_guaranteed(books, draft, job, shape)? {
                return Ok(true);
            }
        }
        *books = before;
        draft.rollback(start);
        Ok(false)
    }

    /// Places jobs of low priority on GPUs that are free.
    fn place_low(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        waiting: Vec<(JobRef<'_>, Shape)>,
    ) -> Result<(), DraftError> {
        let mut queues: SortedMap<Owner, Vec<(JobRef<'_>, Shape)>> = SortedMap::new();
        let mut used: SortedMap<Owner, usize> = SortedMap::new();
        for (job, shape) in waiting.into_iter().rev() {
            let queue = queues.entry(self.owner(draft.view(), &job)).or_default();
            queue.push((job, shape));
        }
        for (job, has) in draft
            .placed()
            .filter(|(job, _)| job.class() != Class::Guaranteed)
        {
            *used.entry(self.owner(draft.view(), &job)).or_default() += has.gpus.len();
        }
        let of = |used: &SortedMap<Owner, usize>, owner: Owner| used.get(&owner).copied();
        loop {
            let some = queues.iter().filter(|(_, queue)| !queue.is_empty());
            let next = some.map(|(owner, _)| *owner);
            let Some(owner) = next.min_by_key(|owner| of(&used, *owner).unwrap_or(0)) else {
                return Ok(());
            };
            let Some((job, shape)) = queues.get_mut(&owner).and_then(Vec::pop) else {
                return Ok(());
            };
            let Some(found) = books.low(draft, &job, &shape) else {
                let (needed, free) = (shape.gpus, GpuCount(draft.free_gpus()));
                draft.explain(
                    job.id(),
                    Reason::Fragmented {
                        needed: needed.into(),
                        free: free.into(),
                    },
                );
                continue;
            };
            books.mark(job.id(), true, found.gpus.clone());
            *used.entry(owner).or_default() += found.gpus.len();
            draft.assign(job.id(), found)?;
        }
    }
}

impl Books {
    /// Finds free GPUs for a job of low priority: of one node that could hold it, or of several nodes
    /// of one type. Nodes with few GPUs of guaranteed jobs come first.
    fn low(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let (view, needed) = (draft.view(), shape.gpus.get());
        let suited = view.nodes().filter(|node| suits(node, job, shape, view));
        let suited: Vec<&Node> = suited.filter(|node| node.is_usable()).collect();
        let high = |node: &Node| {
            let cell = self.tree.of_node(node.id());
            cell.map_or(0, |cell| self.sums[cell].owned)
        };
        let free = |node: &Node| most_with_resources(draft, node, shape, draft.free_on(node.id()));
        if suited
            .iter()
            .any(|node| most_if_empty(node, shape) >= needed)
        {
            let enough = suited.iter().filter(|node| free(node) >= needed);
            let best = enough.min_by_key(|node| (high(node), draft.free_on(node.id())))?;
            return Some(shape.on(draft.take_from(best.id(), needed)?));
        }
        let mut by_type: SortedMap<GpuTypeId, Vec<&Node>> = SortedMap::new();
        for node in suited {
            by_type.entry(node.gpu_type()).or_default().push(node);
        }
        by_type.into_iter().find_map(|(_, mut nodes)| {
            sort::by_key(&mut nodes, |node| (high(node), Reverse(free(node))));
            let mut gpus = GpuList::new();
            for node in nodes {
                let part = free(node).min(needed - gpus.len() as u32);
                gpus.extend(draft.take_from(node.id(), part)?);
            }
            let found = shape.on(gpus);
            (found.count() == shape.gpus && draft.fits(job, &found)).then_some(found)
        })
    }
}

/// Releases the GPUs of a job.
fn release(
    books: &mut Books,
    draft: &mut Draft<'_>,
    job: JobId,
    why: Reason,
) -> Result<(), DraftError> {
    books.unmark(job);
    draft.release(job, why)
}

impl Policy for Cells {
    type Memory = CellsMemory;

    fn initial(&self, _: u64) -> CellsMemory {
        CellsMemory::default()
    }
}

impl PlacementPolicy for Cells {
    fn place(
        &self,
        memory: &mut CellsMemory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let (view, preempts) = (draft.view(), requests.preemption_allowed());
        let all = requests.all(view);
        let mut books = self.books(memory, view);
        for job in self.mark(&mut books, draft) {
            release(&mut books, draft, job, Reason::NotChosen)?;
        }
        books.tidy();
        let is_low = |job: &JobRef<'_>| job.class() != Class::Guaranteed;
        let mut blocked = SortedMap::new();
        for (i, request) in all.iter().enumerate() {
            let waits = draft.current(request.job).is_none() && draft.may_place(request.job);
            let job = view.job(request.job).filter(|_| waits);
            let Some((job, shape)) = job.zip(request.shapes.first()) else {
                continue;
            };
            if is_low(&job) {
                continue;
            }
            let owner = self.owner(view, &job);
            if let Some(head) = blocked.get(&owner) {
                draft.explain(job.id(), Reason::BehindHead(*head));
                continue;
            }
            let mut placed = self.place_guaranteed(&mut books, draft, &job, shape)?;
            if !placed && preempts {
                let later = &all[i + 1..];
                placed = self.place_instead(&mut books, draft, (&job, shape), later)?;
            }
            if !placed {
                if self.blocked == Blocked::Stop {
                    blocked.insert(owner, job.id());
                }
                let why = Reason::other("waits for GPUs in the cells of its virtual cluster");
                draft.explain(job.id(), why);
            }
        }
        // These include jobs that have just left their GPUs.
        let waits =
            |job: &JobRef<'_>| draft.current(job.id()).is_none() && draft.may_place(job.id());
        let low = all.iter().filter_map(|request| {
            let job = view
                .job(request.job)
                .filter(|job| is_low(job) && waits(job))?;
            Some((job, request.shapes.first()?.clone()))
        });
        let low = low.collect();
        self.place_low(&mut books, draft, low)?;
        memory.bound = books.bound();
        memory.books = Some(books);
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        if job.class() == Class::Guaranteed && !self.reserved.is_empty() {
            let view = room.view();
            let owner = self.owner(view, job);
            let outline = Outline::of(room.nodes().map(Leafs::of));
            let all = self.layout(view, outline.clone());
            let mut by_type: SortedMap<GpuTypeId, u32> = SortedMap::new();
            for (_, level) in all.into_iter().filter(|cell| cell.0 == owner) {
                let gpu_type = outline.gpu_type(level);
                if job.accepts(view.cluster(), gpu_type) {
                    *by_type.entry(gpu_type).or_default() += outline.size(level);
                }
            }
            let most = GpuCount(by_type.values().copied().max().unwrap_or(0));
            if shape.gpus > most {
                let name = match owner {
                    Some(at) => format!("the cells of virtual cluster {}", self.reserved[at].owner),
                    None => "the cells that no virtual cluster reserves".to_owned(),
                };
                return Err(Reason::above_limit(shape.gpus, most, name));
            }
        }
        room.of_one_type(job, shape, |room| room.anywhere(job, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix;
    use std::collections::BTreeMap;

    /// Nodes of eight GPUs, in racks of this many nodes.
    fn tree(nodes: u32, in_rack: u32) -> Tree {
        let racks: Vec<[Name; 1]> = (0..nodes)
            .map(|node| [Name::from(format!("rack-{}", node / in_rack))])
            .collect();
        Tree::of((0..nodes).map(|node| Leafs {
            id: NodeId(node),
            gpu_type: GpuTypeId(0),
            location: if in_rack > 1 {
                &racks[node as usize]
            } else {
                &[]
            },
            first: GpuId(8 * node),
            gpus: 8,
        }))
    }

    /// Returns the number of free cells by size, the largest first.
    fn free(tree: &Tree) -> Vec<(u32, usize)> {
        let mut sizes: Vec<_> = tree.free().filter(|(_, count)| *count > 0).collect();
        sizes.sort_unstable_by_key(|(gpus, _)| Reverse(*gpus));
        sizes
    }

    fn take(tree: &mut Tree, gpus: u32) -> CellId {
        let level = tree.outline().take(gpus, 1, |_| true)[0];
        let cell = tree.options(level).next().unwrap();
        assert!(tree.take(cell));
        cell
    }

    #[test]
    fn cells_are_split_and_joined() {
        let mut tree = tree(1, 1);
        assert_eq!(free(&tree), [(8, 1)]);
        let one = take(&mut tree, 1);
        assert_eq!(free(&tree), [(4, 1), (2, 1), (1, 1)]);
        // The next GPU is the buddy of the first.
        let other = take(&mut tree, 1);
        assert_eq!(tree.positions(other), 1..2);
        assert_eq!(free(&tree), [(4, 1), (2, 1)]);
        tree.give_back(one);
        assert_eq!(free(&tree), [(4, 1), (2, 1), (1, 1)]);
        tree.give_back(other);
        assert_eq!(free(&tree), [(8, 1)]);
    }

    #[test]
    fn locations_are_cells_around_nodes() {
        let mut racks = tree(6, 3);
        assert_eq!(free(&racks), [(24, 2)]);
        take(&mut racks, 8);
        assert_eq!(free(&racks), [(24, 1), (8, 2)]);
        take(&mut racks, 24);
        assert_eq!(free(&racks), [(8, 2)]);
        // A cell of another size does not exist.
        assert!(racks.outline().take(16, 1, |_| true).is_empty());
    }

    /// The sizes of the cells of virtual clusters.
    type Sizes = Vec<u32>;

    /// Checks the invariant of the paper, equations 1 and 2. A level is its size and the number of its
    /// parts.
    fn is_safe(tree: &Tree, levels: &[(u32, u32)], waiting: &[u32]) -> bool {
        let free: BTreeMap<u32, usize> = free(tree).into_iter().collect();
        let mut from_above = 0_i64;
        levels.iter().all(|(gpus, parts)| {
            let here = free.get(gpus).copied().unwrap_or(0) as i64 + from_above;
            let needed = waiting.iter().filter(|size| *size == gpus).count() as i64;
            from_above = (here - needed) * i64::from(*parts);
            needed <= here
        })
    }

    fn never_refused(mut tree: Tree, levels: &[(u32, u32)], sizes: &Sizes, seed: u64) {
        let mut state = seed;
        let mut below = |n: usize| (splitmix::next(&mut state) % n as u64) as usize;
        let mut places: Vec<Option<CellId>> = vec![None; sizes.len()];
        for _ in 0..400 {
            let i = below(sizes.len());
            match places[i].take() {
                Some(place) => tree.give_back(place),
                None => {
                    let level = tree.outline().take(sizes[i], 1, |_| true)[0];
                    let options: Vec<CellId> = tree.options(level).collect();
                    assert!(
                        !options.is_empty(),
                        "seed {seed}: no cell of {} GPUs",
                        sizes[i]
                    );
                    let option = options[below(options.len())];
                    assert!(tree.take(option));
                    places[i] = Some(option);
                }
            }
            let waiting = sizes
                .iter()
                .zip(&places)
                .filter(|(_, place)| place.is_none());
            let waiting: Vec<u32> = waiting.map(|(size, _)| *size).collect();
            assert!(is_safe(&tree, levels, &waiting), "seed {seed}");
        }
    }

    #[test]
    fn reserved_cells_are_never_refused() {
        // Figure 3 of the paper: two virtual clusters with four, two and one GPU each, one with two nodes
        // and two GPUs.
        let figure = vec![4, 2, 1, 4, 2, 1, 8, 8, 2];
        let node = [(8, 2), (4, 2), (2, 2), (1, 0)];
        for seed in 0..200 {
            never_refused(tree(4, 1), &node, &figure, seed);
        }
        // All GPUs of two racks of four nodes.
        let racks = [(32, 4), (8, 2), (4, 2), (2, 2), (1, 0)];
        let sizes = vec![32, 8, 8, 4, 4, 2, 2, 1, 1, 1, 1];
        for seed in 0..200 {
            never_refused(tree(8, 4), &racks, &sizes, seed);
        }
    }
}
