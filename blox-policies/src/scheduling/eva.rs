//! Nodes of offers by reservation prices.

use crate::unit::{Parts, Unit};
use blox_core::{
    AfterDrain, Answer, Cluster, ClusterManager, Event, GpuCount, JobQueue, JobRef, Node,
    NodeAction, NodeActionKind, NodeActionKinds, NodeActions, NodeId, NodeSpec, NodeStatus,
    OfferId, Place, Policy, Reason, Request, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap,
    Time, Validity, View,
};
use serde::{Deserialize, Serialize};

/// Requests the cheapest nodes for the jobs and puts the jobs on them (Eva, EuroSys 2025).
///
/// **Rule.** The reservation price of a job is the price of the cheapest offer with a node that holds
/// it alone. With `n` other jobs on its node, a job is worth this price times `beside` to the power of
/// `n`. The worth of a node is the sum of its jobs. Packing goes through the offers from the highest
/// price down. It adds the job that raises the worth of a node most, until none raises it. The node is
/// taken, as the cheapest offer that holds its jobs, if its worth is at least the price of the offer.
/// Otherwise the jobs whose cheapest offer this is get a node each.
///
/// A full reconfiguration packs all jobs. A partial one keeps the nodes whose worth is at least their
/// price, adds jobs to them, and packs the others. `S` is the worth minus the price of an hour, `M` the cost
/// of moves and new nodes, and `D` the expected time to the next full one. The full one is chosen if
/// its `S D - M` is greater. `D` follows from the rate of arrivals and ends, and from the fraction of
/// them after which the full one was chosen.
///
/// Its requests name nodes; [`OnNodes`](crate::placement::OnNodes) places them. A job stays where it is
/// until its new node has joined. Nodes without jobs return to their provider. Nodes without an offer
/// are kept; they take jobs that no offer holds, and then any others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eva {
    settings: EvaSettings,
}

/// Settings of [`Eva`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvaSettings {
    /// Throughput of a job for each other job on its node, from 0 to 1.
    pub beside: f64,
    /// Expected time that a move costs a job.
    pub moves: Seconds,
    /// Expected time of a new node before it runs jobs.
    pub boot: Seconds,
}

impl EvaSettings {
    /// The settings of the scheduler `eva`.
    pub const DEFAULT: Self = EvaSettings {
        beside: 0.95,
        moves: Seconds::new(120.0),
        boot: Seconds::new(300.0),
    };
}

/// Counts of arrivals and ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct EvaMemory {
    events: f64,
    /// Number of events after which the full reconfiguration was chosen.
    full: f64,
    /// Number of events since the last decision.
    since: f64,
}

/// A job with its reservation price.
#[derive(Clone, Copy)]
struct Task<'a> {
    job: JobRef<'a>,
    unit: Unit,
    /// `None` if no offer holds it.
    price: Option<f64>,
    on: Option<NodeId>,
}

impl<'a> Task<'a> {
    fn new(job: JobRef<'a>, on: Option<NodeId>, unit: Unit) -> Self {
        let price = None;
        Task {
            job,
            unit,
            price,
            on,
        }
    }

    fn price(&self) -> f64 {
        self.price.unwrap_or(0.0)
    }
}

/// Jobs on one node.
#[derive(Clone)]
struct Bin<'a> {
    spec: &'a NodeSpec,
    offer: Option<OfferId>,
    /// The node; `None` if it has not joined.
    node: Option<NodeId>,
    tasks: Vec<Task<'a>>,
}

impl<'a> Bin<'a> {
    fn new(spec: &'a NodeSpec, offer: Option<OfferId>) -> Self {
        Bin {
            spec,
            offer,
            node: None,
            tasks: Vec::new(),
        }
    }

    fn holds(&self, more: &Task<'_>) -> bool {
        fits(self.spec, self.tasks.iter().chain([more]))
    }
}

/// Returns whether a node holds these jobs.
fn fits<'a, 'b: 'a>(spec: &NodeSpec, tasks: impl Iterator<Item = &'a Task<'b>> + Clone) -> bool {
    let (mut units, mut all, mut cpus, mut memory) = (0, 0, 0.0, 0.0);
    for task in tasks {
        let shape = Shape::gang(&task.job);
        units += task.unit.gang(&task.job);
        all = task.unit.all(GpuCount(spec.gpus));
        cpus += shape.cpus;
        memory += shape.memory_gib;
        let gpu_type = spec.gpu_type.as_deref().unwrap_or_default();
        let runs = task.job.spec().extras().runs_on(gpu_type);
        if !runs || shape.gpus.get() > spec.gpus {
            return false;
        }
    }
    let enough = |needed: f64, has: f64| has == 0.0 || needed <= has * (1.0 + 1e-9);
    units <= all && enough(cpus, spec.cpus) && enough(memory, spec.memory_gib)
}

/// Number of nodes of each offer that are not taken: those that are there, come or can be requested.
type Free = SortedMap<OfferId, usize>;

fn take(free: &mut Free, offer: OfferId) {
    let left = free.entry(offer).or_default();
    *left = left.saturating_sub(1);
}

/// Returns the cheapest offer with a free node that holds these jobs. The offers are in order of
/// their price, the dearest first.
fn cheapest<'a>(
    offers: &[(OfferId, &'a NodeSpec)],
    free: &Free,
    tasks: &[Task<'_>],
) -> Option<(OfferId, &'a NodeSpec)> {
    let open = |id: &OfferId| free.get(id).is_some_and(|free| *free > 0);
    let holds = |(id, spec): &&(OfferId, &'a NodeSpec)| open(id) && fits(spec, tasks.iter());
    offers.iter().rev().find(holds).copied()
}

/// Returns the number of requested nodes of an offer that have not joined.
fn coming(cluster: &Cluster, offer: OfferId) -> usize {
    let growing = cluster.growing().iter();
    let its = growing.filter(|growth| growth.offer == offer);
    its.map(|growth| growth.names.len()).sum()
}

impl Eva {
    /// Creates the policy with settings.
    pub fn new(settings: EvaSettings) -> Self {
        Eva { settings }
    }

    /// Returns the worth of jobs on one node, for an hour.
    fn worth(&self, tasks: &[Task<'_>]) -> f64 {
        let alone: f64 = tasks.iter().map(Task::price).sum();
        let others = 1..tasks.len();
        others.fold(alone, |worth, _| worth * self.settings.beside)
    }

    /// Adds the jobs that raise the worth of a node most, until none raises it.
    fn fill<'a>(&self, bin: &mut Bin<'a>, left: &mut Vec<Task<'a>>) {
        loop {
            let before = self.worth(&bin.tasks);
            let mut best: Option<(usize, f64)> = None;
            for (i, task) in left.iter().enumerate().filter(|(_, task)| bin.holds(task)) {
                let tasks: Vec<Task<'_>> = bin.tasks.iter().chain([task]).copied().collect();
                let worth = self.worth(&tasks);
                if worth > before && best.is_none_or(|(_, most)| worth > most) {
                    best = Some((i, worth));
                }
            }
            match best {
                Some((i, _)) => bin.tasks.push(left.remove(i)),
                None => return,
            }
        }
    }

    /// Packs jobs on nodes of the offers, of which `free` are left. Returns the jobs whose cheapest
    /// offer has no node left.
    fn pack<'a>(
        &self,
        offers: &[(OfferId, &'a NodeSpec)],
        free: &mut Free,
        mut left: Vec<Task<'a>>,
        bins: &mut Vec<Bin<'a>>,
    ) -> Vec<Task<'a>> {
        for &(id, spec) in offers {
            loop {
                let mut bin = Bin::new(spec, Some(id));
                let before = left.clone();
                self.fill(&mut bin, &mut left);
                let worth_it = self.worth(&bin.tasks) + 1e-9 >= spec.price;
                let offer = cheapest(offers, free, &bin.tasks);
                let is_worth = |spec: &NodeSpec| worth_it && spec.price <= bin.spec.price;
                let offer = offer.filter(|o| is_worth(o.1) && !bin.tasks.is_empty());
                let Some((offer, spec)) = offer else {
                    left = before;
                    break;
                };
                take(free, offer);
                (bin.offer, bin.spec) = (Some(offer), spec);
                bins.push(bin);
            }
            left.retain(|task| {
                let its = cheapest(offers, free, &[*task]).is_some_and(|(offer, _)| offer == id);
                if its {
                    take(free, id);
                    let mut bin = Bin::new(spec, Some(id));
                    bin.tasks.push(*task);
                    bins.push(bin);
                }
                !its
            });
        }
        left
    }

    /// Returns the nodes with their jobs after a reconfiguration, and the jobs without a node.
    fn configured<'a>(&self, view: View<'a>, full: bool) -> (Vec<Bin<'a>>, Vec<Task<'a>>) {
        let cluster = view.cluster();
        let usable = || view.nodes().filter(|node| node.is_usable());
        // The dearest offer first.
        let mut offers: Vec<(OfferId, &NodeSpec)> = cluster
            .offers()
            .map(|(id, offer)| (id, &offer.spec))
            .collect();
        blox_core::sort::by(&mut offers, |a, b| b.1.price.total_cmp(&a.1.price));
        let mut free: Free = cluster
            .offers()
            .map(|(id, _)| (id, cluster.left_of(id) as usize + coming(cluster, id)))
            .collect();
        for offer in usable().filter_map(Node::offer) {
            *free.entry(offer).or_default() += 1;
        }
        let priced = |task: Task<'a>, free: &Free| Task {
            price: cheapest(&offers, free, &[task]).map(|(_, spec)| spec.price),
            ..task
        };
        let mut tasks: Vec<Task<'a>> = Vec::new();
        let jobs = || view.active().chain(view.submitted());
        let unit = Parts::of(jobs()).safe();
        for job in jobs() {
            let on = job
                .assignment()
                .and_then(|a| cluster.node_of(*a.gpus.first()?));
            tasks.push(priced(Task::new(job, on, unit), &free));
        }
        blox_core::sort::by_key(&mut tasks, |task| task.job.id());
        let mut bins: Vec<Bin<'a>> = Vec::new();
        for node in usable() {
            let on = |task: &Task<'a>| task.on == Some(node.id());
            let its: Vec<Task<'a>> = tasks.iter().copied().filter(on).collect();
            let worth_it = !full && self.worth(&its) + 1e-9 >= node.spec().price;
            if node.offer().is_none() || worth_it && !its.is_empty() {
                tasks.retain(|task| !on(task));
                if let Some(offer) = node.offer() {
                    take(&mut free, offer);
                }
                bins.push(Bin {
                    spec: node.spec(),
                    offer: node.offer(),
                    node: Some(node.id()),
                    tasks: its,
                });
            }
        }
        // Nodes without an offer take what fits: first the jobs that no offer holds.
        tasks.sort_by_key(|task| task.price.is_some());
        for bin in bins.iter_mut().filter(|bin| bin.offer.is_none()) {
            let mut at = 0;
            while let Some(task) = tasks.get(at) {
                let behind = task.price.is_some() && tasks[0].price.is_none();
                match !behind && bin.holds(task) {
                    true => bin.tasks.push(tasks.remove(at)),
                    false => at += 1,
                }
            }
        }
        for bin in bins.iter_mut().filter(|bin| bin.offer.is_some()) {
            self.fill(bin, &mut tasks);
        }
        let kept = bins.len();
        // The jobs beyond the nodes of their cheapest offer have the price of the next one.
        let mut without = Vec::new();
        while !tasks.is_empty() {
            let priced = tasks.into_iter().map(|task| priced(task, &free));
            let (open, none): (Vec<_>, Vec<_>) = priced.partition(|task| task.price.is_some());
            without.extend(none);
            tasks = self.pack(&offers, &mut free, open, &mut bins);
        }
        // Each new node is the one of its offer that has most of its jobs already.
        let mut free: Vec<NodeId> = usable()
            .filter(|n| n.offer().is_some())
            .map(|n| n.id())
            .collect();
        free.retain(|id| bins.iter().all(|bin| bin.node != Some(*id)));
        for bin in &mut bins[kept..] {
            let alike = |id: &NodeId| cluster.node(*id).and_then(|n| n.offer()) == bin.offer;
            let there = |id: &NodeId| bin.tasks.iter().filter(|task| task.on == Some(*id)).count();
            let best = (0..free.len()).filter(|i| alike(&free[*i]));
            // The first of several.
            let best = best.rev().max_by_key(|i| there(&free[*i]));
            bin.node = best.map(|i| free.remove(i));
        }
        (bins, without)
    }

    /// Returns the saving of a configuration an hour, and its cost once.
    fn balance(&self, bins: &[Bin<'_>]) -> (f64, f64) {
        let (mut saving, mut once) = (0.0, 0.0);
        for bin in bins.iter().filter(|bin| bin.offer.is_some()) {
            saving += self.worth(&bin.tasks) - bin.spec.price;
            if bin.node.is_none() {
                once += bin.spec.price * self.settings.boot.hours();
            }
            let moved = bin
                .tasks
                .iter()
                .filter(|task| task.on.is_some() && task.on != bin.node);
            once += moved.map(|task| task.price()).sum::<f64>() * self.settings.moves.hours();
        }
        (saving, once)
    }

    /// Returns the configuration to aim at, and whether it is a full one.
    fn choose<'a>(
        &self,
        memory: &EvaMemory,
        view: View<'a>,
    ) -> ((Vec<Bin<'a>>, Vec<Task<'a>>), bool) {
        let [full, partial] = [true, false].map(|full| self.configured(view, full));
        let [of_full, of_partial] = [&full, &partial].map(|(bins, _)| self.balance(bins));
        match is_full_better(of_full, of_partial, time_to_full(memory, view.now())) {
            true => (full, true),
            false => (partial, false),
        }
    }
}

/// Compares two configurations, each with its saving an hour and its cost once, over a time.
fn is_full_better(full: (f64, f64), partial: (f64, f64), time: Seconds) -> bool {
    let worth = |(saves, costs): (f64, f64)| saves * time.hours() - costs;
    worth(full) > worth(partial) + 1e-9
}

/// Returns the expected time until the next full reconfiguration.
fn time_to_full(memory: &EvaMemory, now: Time) -> Seconds {
    let chance = match memory.events > 0.0 {
        true => (memory.full / memory.events).clamp(0.01, 0.99),
        false => 0.5,
    };
    let every = now.secs().max(300.0) / memory.events.max(1.0);
    Seconds::new(-every / libm::log(1.0 - chance))
}

impl Policy for Eva {
    type Memory = EvaMemory;

    fn initial(&self, _: u64) -> EvaMemory {
        EvaMemory::default()
    }

    fn on_event(&self, memory: &mut EvaMemory, _: View<'_>, event: &Event) {
        if matches!(event, Event::Submitted { .. } | Event::Ended { .. }) {
            memory.events += 1.0;
            memory.since += 1.0;
        }
    }
}

impl ClusterManager for Eva {
    fn manage(&self, memory: &mut EvaMemory, view: View<'_>, out: &mut NodeActions) -> Validity {
        let rented = |node: &Node| node.offer().is_some() && node.status() != NodeStatus::Left;
        let mut jobs = view.active().chain(view.submitted());
        if jobs.next().is_none() && !view.nodes().any(rented) {
            return Validity::UntilEvent;
        }
        let ((bins, _), full) = self.choose(memory, view);
        if full {
            memory.full += memory.since;
        }
        memory.since = 0.0;
        let cluster = view.cluster();
        for (offer, _) in cluster.offers() {
            let missing = bins
                .iter()
                .filter(|bin| bin.offer == Some(offer) && bin.node.is_none());
            let count = missing.count().saturating_sub(coming(cluster, offer)) as u32;
            if count > 0 {
                out.push(NodeAction::Grow { offer, count });
            }
        }
        let idle = |id: NodeId| {
            let on = |g| cluster.allocated_to(g).chain(cluster.bound_to(g)).next();
            let node = cluster.node(id);
            node.is_some_and(|node| node.gpus().all(|gpu| on(gpu).is_none()))
        };
        for node in view
            .nodes()
            .filter(|n| n.offer().is_some() && n.is_usable())
        {
            let id = node.id();
            if bins.iter().all(|bin| bin.node != Some(id)) && idle(id) {
                out.push(NodeAction::Drain {
                    node: id,
                    by: view.now(),
                    then: AfterDrain::Leave,
                    why: "not worth its price".into(),
                });
            }
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::Grow, NodeActionKind::Leave])
    }
}

impl SchedulingPolicy for Eva {
    fn schedule(&self, memory: &mut EvaMemory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let (bins, without) = self.choose(memory, view).0;
        let placed = bins
            .iter()
            .flat_map(|bin| bin.tasks.iter().map(|task| (*task, bin.node)));
        for (task, node) in placed.chain(without.iter().map(|task| (*task, None))) {
            let Some(node) = node.or(task.on) else {
                let offers = view.cluster().offers();
                let mut holding = offers.filter(|(_, o)| fits(&o.spec, [task].iter()));
                let why = match (task.price, holding.next()) {
                    (Some(_), _) => "waits for a node of an offer",
                    (None, Some(_)) => "all nodes of the offers that hold it are rented",
                    (None, None) => "no offer holds it, and no other node has room",
                };
                out.explain(task.job.id(), Reason::other(why));
                continue;
            };
            let shape = Shape {
                place: Place::Nodes(vec![(node, task.job.gpus().get())]),
                ..Shape::gang(&task.job)
            };
            out.push(Request::with_shape(task.job.id(), shape));
        }
        out.stop_unlisted();
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let task = Task::new(*job, None, Parts::of([*job]).safe());
        let nodes = view.nodes().map(|node| node.spec());
        let mut all = view
            .cluster()
            .offers()
            .map(|(_, offer)| &offer.spec)
            .chain(nodes);
        match all.any(|spec| fits(spec, [&task].into_iter())) {
            true => Ok(Shapes::from_elem(Shape::gang(job), 1)),
            false => Err(Reason::other("fits no node and no offer")),
        }
    }

    // Each job runs on one node.
    fn keeps_nodes(&self, nodes: u32) -> bool {
        nodes == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, GpuCount, JobSpec, Offer, State};
    use std::sync::Arc;

    /// The offers of Amazon that the released program's documentation uses, and waiting jobs of these
    /// GPUs and CPUs.
    fn waiting(jobs: &[(u32, f64)]) -> State {
        offered(9, jobs)
    }

    /// Like [`waiting`], with a number of small nodes.
    fn offered(most: u32, jobs: &[(u32, f64)]) -> State {
        let offer = |name: &str, gpus, cpus, price, most| {
            let spec = NodeSpec {
                cpus,
                ..NodeSpec::with_gpus(gpus).at_price(price)
            };
            Offer::new(name, spec, most)
        };
        let small = offer("p3.2xlarge", 1, 4.0, 3.06, most);
        let large = offer("p3.8xlarge", 4, 16.0, 12.24, 9);
        let mut state = State::new(&ClusterSpec::of_offers(vec![small, large])).unwrap();
        admit(&mut state, jobs);
        state
    }

    /// Submits and admits jobs.
    fn admit(state: &mut State, jobs: &[(u32, f64)]) {
        for &(gpus, cpus) in jobs {
            let job = View::of(state).next_job_id();
            let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1e6));
            let spec = Arc::new(spec.with_extras(blox_core::Extras {
                cpus,
                ..Default::default()
            }));
            state
                .apply(Time::ZERO, &Event::Submitted { job, spec })
                .unwrap();
            let admission = blox_core::AdmissionDecision::Accept {
                class: None,
                deadline: None,
            };
            state
                .apply(Time::ZERO, &Event::AdmissionDecided { job, admission })
                .unwrap();
        }
    }

    /// Returns the actions on nodes.
    fn managed(state: &State) -> Vec<NodeAction> {
        let mut out = NodeActions::default();
        let eva = Eva::new(EvaSettings::DEFAULT);
        eva.manage(&mut EvaMemory::default(), View::of(state), &mut out);
        out.to_vec()
    }

    /// Returns the offer and the jobs of each node.
    fn packed(state: &State, beside: f64) -> Vec<(u32, Vec<u32>)> {
        let eva = Eva::new(EvaSettings {
            beside,
            ..EvaSettings::DEFAULT
        });
        let (bins, _) = eva.configured(View::of(state), false);
        let offer = |bin: &Bin<'_>| bin.offer.map_or(9, |offer| offer.0);
        let jobs = |bin: &Bin<'_>| bin.tasks.iter().map(|task| task.job.id().0).collect();
        bins.iter().map(|bin| (offer(bin), jobs(bin))).collect()
    }

    #[test]
    fn jobs_share_a_node_that_is_worth_its_price() {
        // Four reservation prices of 3.06 are 12.24. At 0.95 for each other job, they are 10.49.
        let state = waiting(&[(1, 4.0); 4]);
        assert_eq!(packed(&state, 1.0), [(1, vec![0, 1, 2, 3])]);
        let alone = [0, 1, 2, 3].map(|job| (0, vec![job]));
        assert_eq!(packed(&state, 0.95), alone);
        // A job of two GPUs needs the large node, which has room for one more.
        let state = waiting(&[(1, 4.0), (2, 8.0)]);
        assert_eq!(packed(&state, 0.95), [(1, vec![1, 0])]);
        assert_eq!(packed(&state, 0.5), [(1, vec![1]), (0, vec![0])]);
    }

    #[test]
    fn dearer_offer_is_rented_if_the_cheapest_is_full() {
        let state = offered(0, &[(1, 4.0); 2]);
        assert_eq!(packed(&state, 0.95), [(1, vec![0, 1])]);
    }

    #[test]
    fn node_that_comes_is_not_requested_again() {
        let offer = OfferId(0);
        let grow = |offer, count| NodeAction::Grow { offer, count };
        let mut state = offered(1, &[(1, 4.0)]);
        assert_eq!(managed(&state), [grow(offer, 1)]);
        let action = grow(offer, 1);
        state
            .apply(Time::ZERO, &Event::NodeManaged { action })
            .unwrap();
        // The only small node comes; the job does not need a large one.
        assert_eq!(managed(&state), []);
        admit(&mut state, &[(1, 4.0)]);
        assert_eq!(managed(&state), [grow(OfferId(1), 1)]);
    }

    #[test]
    fn jobs_beyond_the_count_are_divided_again() {
        // Two small nodes for five jobs: the others are worth a large one.
        let state = offered(2, &[(1, 4.0); 5]);
        let expected = [(0, vec![0]), (0, vec![1]), (1, vec![2, 3, 4])];
        assert_eq!(packed(&state, 0.95), expected);
        assert_eq!(packed(&offered(4, &[(1, 4.0); 5]), 0.95)[4], (1, vec![4]));
    }

    #[test]
    fn time_to_the_next_full_one_follows_its_rate() {
        let time = |full| {
            let memory = EvaMemory {
                events: 100.0,
                full,
                since: 0.0,
            };
            time_to_full(&memory, Time::new(30_000.0)).secs().round()
        };
        assert_eq!([10.0, 50.0].map(time), [2847.0, 433.0]);
        let full = |hours| is_full_better((2.0, 0.8), (1.5, 0.2), Seconds::from_hours(hours));
        assert_eq!([2.0, 1.0].map(full), [true, false]);
    }
}
