//! Virtual clusters as cells of the cluster.

mod tree;

use super::in_order::Blocked;
use super::selector::{has_resources, most_if_empty, most_with_resources, suits};
use blox_core::{
    Assignment, Class, Draft, DraftError, GpuCount, GpuId, GpuList, GpuTypeId, JobId, JobQueue,
    JobRef, Name, Node, NodeId, NodeStatus, PlacementPolicy, Policy, Reason, Request, Room, Shape,
    SortedMap, Validity, View, sort,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use tree::{CellId, Leafs, Level, Tree};

/// Reserves cells of the cluster for virtual clusters (HiveD, OSDI 2020).
///
/// A *cell* is a GPU, a half of a cell on a node, a node, or the nodes of a
/// [location](blox_core::NodeSpec::location). A virtual cluster reserves numbers of cells of some
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

/// State of the cells in a decision.
#[derive(Clone)]
struct Books {
    tree: Tree,
    cells: Vec<Virtual>,
    /// Guaranteed and other jobs of each GPU, by position.
    owned: Vec<bool>,
    low: Vec<bool>,
    /// True for each GPU that works on a usable node.
    usable: Vec<bool>,
}

impl Cells {
    fn owner(&self, view: View<'_>, job: &JobRef<'_>) -> Owner {
        let name = view.names().get(job.virtual_cluster()?)?;
        self.reserved.iter().position(|cells| cells.owner == *name)
    }

    /// Returns the cells of all virtual clusters in an empty cluster. The largest are placed first.
    fn layout(&self, view: View<'_>, tree: &Tree) -> Vec<Virtual> {
        let mut left = tree.clone();
        let mut order: Vec<(Owner, &Reservation)> = Vec::new();
        for cells in &self.reserved {
            let first = self.reserved.iter().position(|c| c.owner == cells.owner);
            order.extend((0..cells.cells).map(|_| (first, cells)));
        }
        sort::by_key(&mut order, |(_, cells)| Reverse(cells.gpus));
        let mut all = Vec::new();
        let of = |owner, level| Virtual {
            owner,
            level,
            place: None,
        };
        for (owner, cells) in order {
            let named = |gpu_type: GpuTypeId| {
                let types = view.cluster().gpu_types();
                types.get(blox_core::NameId(gpu_type.0)) == cells.gpu_type.as_ref()
            };
            let levels = left.levels(cells.gpus);
            let levels = levels
                .into_iter()
                .filter(|(_, t)| cells.gpu_type.is_none() || named(*t));
            let found = levels.filter_map(|(level, _)| {
                let options = left.options(level);
                Some((level, *options.first()?, left.around(*options.first()?)))
            });
            // The cell that splits the smallest one.
            if let Some((level, cell, _)) = found.min_by_key(|(_, _, around)| *around) {
                left.take(cell);
                all.push(of(owner, level));
            }
        }
        for (level, cells) in left.free() {
            all.extend(cells.iter().map(|_| of(None, level)));
        }
        all
    }

    fn books(&self, memory: &CellsMemory, draft: &Draft<'_>) -> Books {
        let view = draft.view();
        let nodes = view
            .nodes()
            .filter(|node| node.status() != NodeStatus::Left);
        let tree = Tree::of(nodes.map(Leafs::of));
        let cells = self.layout(view, &tree);
        let mut books = Books {
            cells,
            owned: vec![false; tree.len()],
            low: vec![false; tree.len()],
            usable: Vec::new(),
            tree,
        };
        let usable = |at: usize| {
            let node = view.node(books.tree.node(at));
            node.is_some_and(|node| node.is_usable() && node.works(books.tree.gpu(at)))
        };
        books.usable = (0..books.tree.len()).map(usable).collect();
        for bound in &memory.bound {
            let Some(cell) = books.cells.get_mut(bound.cell) else {
                continue;
            };
            let place = books.tree.starting_at(bound.first, cell.level);
            let place = place.filter(|_| books.tree.size(cell.level) == bound.gpus);
            cell.place = place.filter(|place| books.tree.take(*place));
        }
        books
    }

    /// Marks the GPUs of placed jobs. Returns the guaranteed jobs outside the cells of their virtual
    /// cluster.
    fn mark(&self, books: &mut Books, draft: &Draft<'_>) -> Vec<JobId> {
        let mut outside = Vec::new();
        for (job, has) in draft.placed() {
            let low = job.class() != Class::Guaranteed;
            let owner = self.owner(draft.view(), &job);
            let at = has.gpus.iter().map(|gpu| books.tree.position(*gpu));
            let Some(at) = at.collect::<Option<Vec<usize>>>() else {
                continue;
            };
            let within = |at: &usize| {
                let own = books.cells.iter().filter(|cell| cell.owner == owner);
                let mut places = own.filter_map(|cell| cell.place);
                places.any(|place| books.tree.positions(place).contains(at))
            };
            if !low && !at.iter().all(within) {
                outside.push(job.id());
                continue;
            }
            let marks = if low {
                &mut books.low
            } else {
                &mut books.owned
            };
            at.into_iter().for_each(|at| marks[at] = true);
        }
        outside
    }
}

impl Books {
    /// Number of the GPUs of a cell that are marked.
    fn count(&self, marks: &[bool], cell: CellId) -> usize {
        self.tree.positions(cell).filter(|at| marks[*at]).count()
    }

    /// Number of the GPUs of a cell that a guaranteed job could have.
    fn open(&self, cell: CellId) -> usize {
        let open = |at: &usize| self.usable[*at] && !self.owned[*at];
        self.tree.positions(cell).filter(open).count()
    }

    /// Frees the places of cells without guaranteed jobs.
    fn tidy(&mut self) {
        for i in 0..self.cells.len() {
            if let Some(place) = self.cells[i].place
                && self.count(&self.owned, place) == 0
            {
                self.tree.give_back(place);
                self.cells[i].place = None;
            }
        }
    }

    /// Returns the places that a cell could get or has, the best first.
    fn places(&self, cell: &Virtual) -> Vec<CellId> {
        if let Some(place) = cell.place {
            return vec![place];
        }
        let mut options = self.tree.options(cell.level);
        sort::by_key(&mut options, |option| {
            let broken = self.tree.positions(*option).filter(|at| !self.usable[*at]);
            (broken.count(), self.count(&self.low, *option))
        });
        options
    }

    /// Adds `count` open GPUs of a cell. They are in its smallest part with enough.
    fn choose(&self, cell: CellId, count: usize, taken: &mut Vec<usize>) {
        let parts = self.tree.parts(cell);
        let enough = parts.iter().filter(|part| self.open(**part) >= count);
        let best = enough.min_by_key(|part| (self.open(**part), self.count(&self.low, **part)));
        if let Some(part) = best {
            return self.choose(*part, count, taken);
        }
        if parts.is_empty() {
            let open = |at: &usize| self.usable[*at] && !self.owned[*at];
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
        }
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

    /// Returns the cells of the virtual cluster on whose type the job runs.
    fn cells(&self, books: &Books) -> Vec<usize> {
        let cluster = self.draft.view().cluster();
        let suited = |cell: &Virtual| {
            let gpu_type = books.tree.gpu_type(cell.level);
            let wanted = self.shape.gpu_type.is_none_or(|wanted| wanted == gpu_type);
            cell.owner == self.owner && wanted && self.job.accepts(cluster, gpu_type)
        };
        (0..books.cells.len())
            .filter(|i| suited(&books.cells[*i]))
            .collect()
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
        let cells = self.cells(books);
        let mut seen: Vec<Level> = Vec::new();
        let mut some = cells.clone();
        some.retain(|i| {
            // Cells without a place are alike.
            let cell = &books.cells[*i];
            let alike = cell.place.is_none() && seen.contains(&cell.level);
            if cell.place.is_none() && !alike {
                seen.push(cell.level);
            }
            !alike
        });
        let one_node = some.iter().any(|i| {
            let places = books.places(&books.cells[*i]);
            let mut units = places.iter().flat_map(|place| books.tree.units(*place));
            units.any(|unit| self.could_hold(books, unit))
        });
        match one_node {
            true => self.on_one_node(books, &some),
            false => self.on_several(books, &cells),
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
            for place in books.places(cell) {
                let units = books.tree.units(place).into_iter().filter(fits);
                let Some(unit) = units.min_by_key(|unit| books.open(*unit)) else {
                    continue;
                };
                let rank = (books.open(unit), cell.place.is_none());
                if best.is_none_or(|(least, ..)| rank < least) {
                    best = Some((rank, i, place, unit));
                }
                break;
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
        let before = books.clone();
        for (_, cells) in by_type {
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
                let Some(place) = books.places(&books.cells[cell]).first().copied() else {
                    continue;
                };
                let had = taken.len();
                let mut units = books.tree.units(place);
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
                if taken.len() > had {
                    books.bind(cell, place);
                }
                if taken.len() == needed {
                    return Some(taken);
                }
            }
            books.clone_from(&before);
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
        taken.iter().for_each(|at| books.owned[*at] = true);
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
            for at in found
                .gpus
                .iter()
                .filter_map(|gpu| books.tree.position(*gpu))
            {
                books.low[at] = true;
            }
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
        let mut owned: SortedMap<NodeId, usize> = SortedMap::new();
        for at in (0..self.tree.len()).filter(|at| self.owned[*at]) {
            *owned.entry(self.tree.node(at)).or_default() += 1;
        }
        let suited = view.nodes().filter(|node| suits(node, job, shape, view));
        let suited: Vec<&Node> = suited.filter(|node| node.is_usable()).collect();
        let high = |node: &Node| owned.get(&node.id()).copied().unwrap_or(0);
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
            (found.count() == shape.gpus && draft.has_resources(&found)).then_some(found)
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
    let its = draft
        .current(job)
        .map(|has| has.gpus.clone())
        .unwrap_or_default();
    for at in its.iter().filter_map(|gpu| books.tree.position(*gpu)) {
        (books.owned[at], books.low[at]) = (false, false);
    }
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
    ) -> Result<Validity, DraftError> {
        let (view, preempts) = (draft.view(), requests.preemption_allowed());
        let all = requests.all(view);
        let mut books = self.books(memory, draft);
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
        let cells = books.cells.iter().enumerate();
        memory.bound = cells
            .filter_map(|(cell, its)| {
                let first = books.tree.positions(its.place?).start;
                Some(Bound {
                    cell,
                    gpus: books.tree.size(its.level),
                    first: books.tree.gpu(first),
                })
            })
            .collect();
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
            let tree = Tree::of(room.nodes().map(Leafs::of));
            let mut by_type: SortedMap<GpuTypeId, u32> = SortedMap::new();
            for cell in self.layout(view, &tree).iter().filter(|c| c.owner == owner) {
                let gpu_type = tree.gpu_type(cell.level);
                if job.accepts(view.cluster(), gpu_type) {
                    *by_type.entry(gpu_type).or_default() += tree.size(cell.level);
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
            gpus: (8 * node..8 * node + 8).map(GpuId).collect(),
        }))
    }

    /// Returns the number of free cells by size, the largest first.
    fn free(tree: &Tree) -> Vec<(u32, usize)> {
        let some = tree.free().filter(|(_, cells)| !cells.is_empty());
        let mut sizes: Vec<_> = some.map(|(l, cells)| (tree.size(l), cells.len())).collect();
        sizes.sort_unstable_by_key(|(gpus, _)| Reverse(*gpus));
        sizes
    }

    fn take(tree: &mut Tree, gpus: u32) -> CellId {
        let (level, _) = tree.levels(gpus)[0];
        let cell = tree.options(level)[0];
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
        assert!(racks.levels(16).is_empty());
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
                    let (level, _) = tree.levels(sizes[i])[0];
                    let options = tree.options(level);
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
