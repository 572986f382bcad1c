//! Room for jobs that accept only some GPU types.

use crate::unit::{Parts, Unit};
use blox_core::{GpuCount, GpuTypeId, JobRef, Shape, View, sort};

/// GPUs of one type, and the least share of CPUs and memory for each of them on a node. A share is
/// infinite if no node states the amount.
#[derive(Clone, Copy, Debug)]
struct OfType {
    gpu_type: GpuTypeId,
    gpus: u32,
    share: [f64; 2],
}

/// Number of GPUs of each type that a decision may give to jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpusByType(Vec<OfType>);

impl GpusByType {
    /// Counts the usable GPUs of all nodes in view.
    pub fn usable(view: View<'_>) -> Self {
        let mut all = GpusByType::default();
        for node in view.nodes().filter(|node| node.is_usable()) {
            let spec = node.spec();
            let each = |amount: f64| match amount > 0.0 {
                true => amount / f64::from(node.gpu_count().max(1)),
                false => f64::INFINITY,
            };
            let of_type = all.entry(node.gpu_type());
            of_type.gpus += node.usable_count();
            let share = [each(spec.cpus), each(spec.memory_gib)];
            of_type.share = std::array::from_fn(|i| of_type.share[i].min(share[i]));
        }
        all.0.retain(|of_type| of_type.gpus > 0);
        all
    }

    /// Adds GPUs of a type.
    pub fn add(&mut self, gpu_type: GpuTypeId, gpus: u32) {
        self.entry(gpu_type).gpus += gpus;
    }

    fn entry(&mut self, gpu_type: GpuTypeId) -> &mut OfType {
        let at = self.0.iter().position(|t| t.gpu_type == gpu_type);
        let at = at.unwrap_or_else(|| {
            self.0.push(OfType {
                gpu_type,
                gpus: 0,
                share: [f64::INFINITY; 2],
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Returns which of the types a job accepts in a shape.
    fn accepted(&self, view: View<'_>, job: &JobRef<'_>, shape: &Shape) -> Vec<bool> {
        let accepts = |t: &OfType| {
            shape.gpu_type.is_none_or(|only| only == t.gpu_type)
                && job.accepts(view.cluster(), t.gpu_type)
        };
        self.0.iter().map(accepts).collect()
    }

    fn sum(&self, of: impl Fn(usize) -> bool) -> u32 {
        let all = self.0.iter().enumerate();
        all.filter(|(i, _)| of(*i)).map(|(_, t)| t.gpus).sum()
    }
}

/// The sets of GPU types that some jobs accept, those with the fewest GPUs first.
///
/// Each set has a line of free GPUs. A job takes GPUs from the line of its own set and from the
/// lines of all wider sets. It also takes GPUs from the lines of all sets that only overlap with
/// its own. From each line, it takes at most the number of GPUs that are in both sets.
///
/// If no line is below zero, jobs find GPUs in order of their sets, each on any GPUs that it
/// accepts. The reason: the jobs before it have taken no more GPUs of its set than its line counts.
/// The rule is exact if each two sets are nested or disjoint. Otherwise it may leave GPUs idle.
///
/// Lines count in a [`Unit`], because jobs may request parts of GPUs. A job counts in GPUs, on each
/// of which it has its part.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeSets {
    gpus: GpusByType,
    unit: Unit,
    sets: Vec<Vec<bool>>,
    /// Units of each set.
    sizes: Vec<u32>,
    /// For each set, the lines from which its jobs take, and the most units of each.
    lines: Vec<Vec<(usize, u32)>>,
}

impl TypeSets {
    /// Finds the sets of these jobs, each in a shape. Parts of GPUs count exactly.
    pub fn of<'a>(
        view: View<'_>,
        gpus: GpusByType,
        jobs: impl Iterator<Item = (JobRef<'a>, &'a Shape)>,
    ) -> Self {
        TypeSets::in_unit(view, gpus, jobs, Parts::exact)
    }

    /// Like [`TypeSets::of`], but jobs with parts that fit by count also fit on GPUs.
    pub fn safe<'a>(
        view: View<'_>,
        gpus: GpusByType,
        jobs: impl Iterator<Item = (JobRef<'a>, &'a Shape)>,
    ) -> Self {
        TypeSets::in_unit(view, gpus, jobs, Parts::safe)
    }

    fn in_unit<'a>(
        view: View<'_>,
        gpus: GpusByType,
        jobs: impl Iterator<Item = (JobRef<'a>, &'a Shape)>,
        unit: impl Fn(Parts) -> Unit,
    ) -> Self {
        let mut sets: Vec<Vec<bool>> = vec![vec![true; gpus.0.len()]];
        let mut parts = Parts::default();
        for (job, shape) in jobs {
            parts.include(&job);
            if job.needs_only_gpus() && shape.gpu_type.is_none() {
                continue;
            }
            let set = gpus.accepted(view, &job, shape);
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sort::by_key(&mut sets, |set| (gpus.sum(|i| set[i]), set.clone()));
        let unit = unit(parts);
        let units = |of: &dyn Fn(usize) -> bool| unit.all(GpuCount(gpus.sum(of)));
        let sizes = sets.iter().map(|set| units(&|i| set[i])).collect();
        let lines = sets.iter().map(|set| {
            let others = sets.iter().enumerate().filter_map(|(line, other)| {
                let shared = units(&|i| set[i] && other[i]);
                let wider = set != other && other.iter().zip(set).all(|(o, s)| *s || !o);
                (set == other || shared > 0 && !wider).then_some((line, shared))
            });
            others.collect()
        });
        TypeSets {
            lines: lines.collect(),
            gpus,
            unit,
            sizes,
            sets,
        }
    }

    /// Creates one set of all GPUs.
    #[cfg(test)]
    pub fn whole(gpus: u32) -> Self {
        TypeSets {
            gpus: GpusByType::default(),
            unit: Unit::default(),
            sets: vec![Vec::new()],
            sizes: vec![gpus],
            lines: vec![vec![(0, gpus)]],
        }
    }

    /// Returns the unit of the lines.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the units of each set.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Returns the number of GPUs that a job accepts.
    pub fn size(&self, seat: Seat) -> u32 {
        let units = self.sizes.get(seat.set).copied().unwrap_or(0);
        units / self.unit.per_gpu()
    }

    /// Returns the place of a job in a shape. A job of an unknown set has the narrowest one.
    pub fn seat(&self, view: View<'_>, job: &JobRef<'_>, shape: &Shape) -> Seat {
        if job.needs_only_gpus() && shape.gpu_type.is_none() {
            return Seat {
                set: self.sets.len().saturating_sub(1),
                weight: f64::from(self.unit.each(job)),
            };
        }
        let set = self.gpus.accepted(view, job, shape);
        let types = self
            .gpus
            .0
            .iter()
            .zip(&set)
            .filter(|(_, accepted)| **accepted);
        let each = f64::from(shape.gpus.get().max(1));
        let (part, per_gpu) = (self.unit.each(job), self.unit.per_gpu());
        let part = f64::from(part) / f64::from(per_gpu);
        let weight = types.fold(part, |weight, (t, _)| {
            let weight = weight.max(shape.cpus / each / t.share[0]);
            weight.max(shape.memory_gib / each / t.share[1])
        });
        Seat {
            set: self.sets.iter().position(|s| *s == set).unwrap_or(0),
            weight: weight * f64::from(per_gpu),
        }
    }

    /// Returns the lines from which a job on some GPUs takes, with the units that it takes.
    pub fn taken(&self, seat: Seat, gpus: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let needed = (f64::from(gpus) * seat.weight - 1e-9).ceil() as u32;
        let lines = self.lines.get(seat.set).into_iter().flatten();
        lines.map(move |(line, most)| (*line, needed.min(*most)))
    }

    /// Takes the GPUs of a job from the free units of all lines.
    pub fn take(&self, seat: Seat, gpus: u32, free: &mut [i64]) {
        for (line, gpus) in self.taken(seat, gpus) {
            free[line] -= i64::from(gpus);
        }
    }

    /// Returns how many GPUs a job can have if each line has some units free.
    pub fn room(&self, seat: Seat, free: impl Fn(usize) -> i64) -> i64 {
        let size = self.size(seat);
        let lines = self.lines.get(seat.set).into_iter().flatten();
        let each = lines.map(|(line, most)| match free(*line) {
            free if free >= i64::from(*most) => i64::from(size),
            free => (free.max(0) as f64 / seat.weight + 1e-9).floor() as i64,
        });
        each.min().unwrap_or(0).min(i64::from(size))
    }

    /// Returns whether a job takes units only from one line, and as many as it has GPUs.
    pub fn is_plain(&self, seat: Seat) -> bool {
        seat.weight == 1.0
            && self
                .lines
                .get(seat.set)
                .is_some_and(|lines| lines.len() == 1)
    }
}

/// Place of a job among sets of GPU types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seat {
    /// Number of its set; sets with fewer GPUs come first.
    pub set: usize,
    /// Units that it takes for each of its GPUs: more than its part if it needs more CPUs or memory
    /// than that part of a GPU has.
    pub weight: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, Event, Extras, GpuCount, JobId, JobSpec, Seconds, State, Time};

    /// Creates a state with one waiting job for each list of types that a job accepts.
    fn waiting(cluster: &ClusterSpec, jobs: &[&[&str]]) -> State {
        let extras = |types: &&[&str]| Extras {
            gpu_types: types.iter().map(|t| (*t).into()).collect(),
            ..Extras::default()
        };
        waiting_with(cluster, jobs.iter().map(extras))
    }

    fn waiting_with(cluster: &ClusterSpec, jobs: impl Iterator<Item = Extras>) -> State {
        let mut state = State::new(cluster).unwrap();
        for (i, extras) in jobs.enumerate() {
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
            let (job, spec) = (JobId(i as u32), spec.with_extras(extras).into());
            let submitted = Event::Submitted { job, spec };
            state.apply(Time::ZERO, &submitted).unwrap();
        }
        state
    }

    /// Returns the sets of all jobs of a state, each as a gang, and the seats of the jobs.
    fn seated(state: &State) -> (TypeSets, Vec<Seat>) {
        let view = View::of(state);
        let shape = Shape::gpus(GpuCount(1));
        let jobs = || (0..).map_while(|i| view.job(JobId(i)));
        let all = jobs().map(|job| (job, &shape));
        let sets = TypeSets::of(view, GpusByType::usable(view), all);
        let seats = jobs().map(|job| sets.seat(view, &job, &shape)).collect();
        (sets, seats)
    }

    /// Four GPUs of one type, two of another and one of a third.
    fn three_types() -> ClusterSpec {
        "1x4:a100,1x2:v100,1x1:t4".parse().unwrap()
    }

    fn taken(sets: &TypeSets, seat: Seat, gpus: u32) -> Vec<(usize, u32)> {
        sets.taken(seat, gpus).collect()
    }

    #[test]
    fn nested_sets_take_from_all_wider_ones() {
        let state = waiting(&three_types(), &[&[], &["v100", "t4"], &["t4"]]);
        let (sets, seats) = seated(&state);
        assert_eq!(sets.sizes(), [1, 3, 7]);
        let [any, two, one] = seats[..] else {
            panic!("{seats:?}");
        };
        assert_eq!([any.set, two.set, one.set], [2, 1, 0]);
        assert_eq!([any, two, one].map(|seat| sets.size(seat)), [7, 3, 1]);
        assert_eq!(taken(&sets, any, 5), [(2, 5)]);
        assert_eq!(taken(&sets, two, 2), [(1, 2), (2, 2)]);
        assert_eq!(taken(&sets, one, 1), [(0, 1), (1, 1), (2, 1)]);
        let plain = [any, two, one].map(|seat| sets.is_plain(seat));
        assert_eq!(plain, [true, false, false]);
    }

    #[test]
    fn room_is_what_the_narrowest_line_leaves() {
        let state = waiting(&three_types(), &[&[], &["v100", "t4"], &["t4"]]);
        let (sets, seats) = seated(&state);
        let mut free = [1, 3, 7];
        let room = |free: &[i64; 3]| [0, 1, 2].map(|i| sets.room(seats[i], |line| free[line]));
        assert_eq!(room(&free), [7, 3, 1]);
        // One of the two jobs of two types is left, by count of all GPUs.
        sets.take(seats[0], 5, &mut free);
        assert_eq!((free, room(&free)), ([1, 3, 2], [2, 2, 1]));
        sets.take(seats[1], 2, &mut free);
        assert_eq!((free, room(&free)), ([1, 1, 0], [0, 0, 0]));
        // A line below zero leaves nothing.
        sets.take(seats[2], 1, &mut free);
        assert_eq!((free, room(&free)), ([0, 0, -1], [0, 0, 0]));
    }

    #[test]
    fn overlapping_sets_take_the_gpus_of_both() {
        let state = waiting(&three_types(), &[&["a100", "v100"], &["v100", "t4"]]);
        let (sets, seats) = seated(&state);
        // The widest set has all GPUs, though no job accepts them all.
        assert_eq!(sets.sizes(), [3, 6, 7]);
        assert_eq!(taken(&sets, seats[0], 5), [(0, 2), (1, 5), (2, 5)]);
        assert_eq!(taken(&sets, seats[1], 3), [(0, 3), (1, 2), (2, 3)]);
        let mut free = [3, 6, 7];
        sets.take(seats[0], 4, &mut free);
        assert_eq!(free, [1, 2, 3]);
        // The four GPUs may be those of the type that only this job accepts, yet two count as lost.
        assert_eq!(sets.room(seats[1], |line| free[line]), 1);
    }

    #[test]
    fn disjoint_sets_leave_each_other_alone() {
        let state = waiting(&three_types(), &[&["a100"], &["v100"]]);
        let (sets, seats) = seated(&state);
        assert_eq!(sets.sizes(), [2, 4, 7]);
        let mut free = [2, 4, 7];
        sets.take(seats[0], 4, &mut free);
        assert_eq!(free, [2, 0, 3]);
        assert_eq!(sets.room(seats[1], |line| free[line]), 2);
    }

    #[test]
    fn job_of_an_unknown_set_has_the_narrowest() {
        let state = waiting(&three_types(), &[&["v100"], &["a100"]]);
        let view = View::of(&state);
        let shape = Shape::gpus(GpuCount(1));
        let known = view.job(JobId(0)).into_iter().map(|job| (job, &shape));
        let sets = TypeSets::of(view, GpusByType::usable(view), known);
        assert_eq!(sets.sizes(), [2, 7]);
        let other = view.job(JobId(1)).unwrap();
        assert_eq!(sets.seat(view, &other, &shape).set, 0);
        // A shape of one type is a set of its own, also of a job that accepts all.
        let typed = Shape {
            gpu_type: view.nodes().nth(1).map(|node| node.gpu_type()),
            ..shape
        };
        let own = view.job(JobId(0)).unwrap();
        assert_eq!(sets.seat(view, &own, &typed).set, 0);
    }

    #[test]
    fn cpus_above_the_share_of_a_gpu_weigh_more() {
        let mut cluster = ClusterSpec::uniform(1, 4);
        cluster.nodes[0].cpus = 8.0;
        let needy = Extras {
            cpus: 1.0,
            ..Extras::default()
        };
        let state = waiting_with(&cluster, [needy].into_iter());
        let view = View::of(&state);
        let job = view.job(JobId(0)).unwrap();
        let sets = TypeSets::of(view, GpusByType::usable(view), [].into_iter());
        let seat = |gpus, cpus| {
            let gpus = Shape::gpus(GpuCount(gpus));
            sets.seat(view, &job, &Shape { cpus, ..gpus })
        };
        // Two CPUs are the share of a GPU.
        let weights = [(2, 2.0), (2, 4.0), (2, 6.0), (1, 4.0)];
        let weights = weights.map(|(gpus, cpus)| seat(gpus, cpus).weight);
        assert_eq!(weights, [1.0, 1.0, 1.5, 2.0]);
        let heavy = seat(1, 4.0);
        assert_eq!(taken(&sets, seat(2, 6.0), 2), [(0, 3)]);
        // At most the GPUs of the line.
        assert_eq!(taken(&sets, seat(2, 6.0), 3), [(0, 4)]);
        assert_eq!(taken(&sets, heavy, 1), [(0, 2)]);
        assert_eq!(sets.room(heavy, |_| 3), 1);
        assert!(!sets.is_plain(heavy));
    }
}
