//! Every shipped policy, composed with every other compatible policy, follows the rules that
//! backends rely on.

use blox_core::{
    AdmissionDecision, AdmissionDecisions, AdmissionPolicy, AnyPlacement, ClusterManager,
    Composition, Event, GpuCount, JobId, NodeAction, NodeActions, NodeId, OnEvent, Pipeline,
    PlacementPolicy, Policy, Rounds, SchedulingPolicy, Seconds, Time, Validity, View,
};
use blox_policies::admission::{LoadThreshold, Quota, QuotaBy};
use blox_policies::cluster::{Maintenance, Quarantine, Window};
use blox_policies::placement::{
    Allocation, Blocked, Consolidated, EasyBackfill, FirstFree, InOrder, Leases, Split, Synergy,
};
use blox_policies::scheduling::gavel::{AnyShares, Gavel, shares};
use blox_policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, Service, Sjf, Srsf, Srtf, StarvationGuard, Tetris,
};
use blox_released::{blox::quirks as blox, synergy::quirks as synergy};
use blox_testing::{Fault, Property, Suite, conformance};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of events, to check that each policy had an effect.
#[derive(Debug, Default)]
struct Seen {
    promoted: AtomicU64,
    cordoned: AtomicU64,
    deferred: AtomicU64,
    rejected: AtomicU64,
}

impl Seen {
    fn note(&self, event: &Event) {
        let count = match event {
            Event::NodeManaged {
                action: NodeAction::Cordon { .. },
            } => &self.cordoned,
            Event::AdmissionDecided {
                admission: AdmissionDecision::Defer(_),
                ..
            } => &self.deferred,
            Event::AdmissionDecided {
                admission: AdmissionDecision::Reject(_),
                ..
            } => &self.rejected,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Default behaviour of the roles without a policy, with counts of events.
#[derive(Clone, Default)]
struct Witness(Arc<Seen>);

impl Policy for Witness {
    // Without a memory, it would get no events.
    type Memory = u8;

    fn initial(&self, _: u64) -> u8 {
        0
    }

    fn on_event(&self, _: &mut u8, view: View<'_>, event: &Event) {
        self.0.note(event);
        if let Event::Ended { job, .. } = event
            && view.job(*job).is_some_and(|j| j.promoted())
        {
            self.0.promoted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AdmissionPolicy for Witness {
    fn admit(
        &self,
        _: &mut u8,
        _: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        asking.iter().for_each(|&job| out.accept(job));
        Validity::UntilEvent
    }
}

impl ClusterManager for Witness {
    fn manage(&self, _: &mut u8, _: View<'_>, _: &mut NodeActions) -> Validity {
        Validity::UntilEvent
    }
}

type Make<T> = Box<dyn Fn() -> T + Sync>;

/// A component with its name, and whether the released program starves jobs by it.
struct ComponentSpec<T> {
    name: String,
    make: Make<T>,
    starves: bool,
}

fn named<T>(name: impl Into<String>, make: impl Fn() -> T + Sync + 'static) -> ComponentSpec<T> {
    ComponentSpec {
        name: name.into(),
        make: Box::new(make),
        starves: false,
    }
}

impl<T> ComponentSpec<T> {
    fn starving(self) -> Self {
        ComponentSpec {
            starves: true,
            ..self
        }
    }
}

/// Builds the rest of a pipeline on a composition with common components.
type Schedule = Box<dyn Fn(Composition, &dyn Fn() -> Placement) -> Pipeline + Sync>;

fn scheduled<P: SchedulingPolicy + 'static>(
    name: impl Into<String>,
    make: impl Fn() -> P + Send + Sync + 'static,
) -> ComponentSpec<Schedule> {
    let make = Arc::new(make);
    named(name, move || -> Schedule {
        let make = Arc::clone(&make);
        Box::new(move |base, placement| {
            let base = base.scheduling(make()).placement(placement());
            base.build().unwrap()
        })
    })
}

/// Long enough that many jobs finish earlier, and short enough that many others reach it.
const LIMIT: f64 = 1200.0;

fn guarded<P: SchedulingPolicy + Clone + 'static>(
    list: &mut Vec<ComponentSpec<Schedule>>,
    name: &str,
    make: impl Fn() -> P + Send + Sync + Copy + 'static,
) {
    list.push(scheduled(name, make));
    list.push(scheduled(format!("guarded-{name}"), move || {
        StarvationGuard::new(make(), Seconds::new(LIMIT))
    }));
}

fn schedulings() -> Vec<ComponentSpec<Schedule>> {
    let mut list = Vec::new();
    guarded(&mut list, "fifo", Fifo::default);
    guarded(&mut list, "sjf", Sjf::default);
    guarded(&mut list, "srtf", Srtf::default);
    guarded(&mut list, "las", Las::default);
    guarded(&mut list, "las-gpu-time", || Las::by(Service::GpuTime));
    guarded(&mut list, "srsf", Srsf::default);
    guarded(&mut list, "ftf", FinishTimeFairness::default);
    guarded(&mut list, "drf", Drf::default);
    guarded(&mut list, "tetris", Tetris::default);
    for key in [synergy::Key::Tetris, synergy::Key::Las] {
        // Its rounds may differ from the rounds of the composition.
        let round = Seconds::new(300.0);
        list.push(scheduled(format!("synergy-{key:?}"), move || {
            synergy::Order::new(key, synergy::Mode::Tune, round)
        }));
    }
    guarded(&mut list, "blox-fifo", blox::fifo);
    guarded(&mut list, "blox-srtf", blox::srtf);
    list
}

type Placement = Arc<dyn AnyPlacement>;

fn placed<P: PlacementPolicy>(
    name: impl Into<String>,
    make: impl Fn() -> P + Sync + 'static,
) -> ComponentSpec<Placement> {
    named(name, move || Arc::new(make()) as Placement)
}

fn placements() -> Vec<ComponentSpec<Placement>> {
    let mut list: Vec<ComponentSpec<Placement>> = vec![
        placed("first-free", || InOrder::new(FirstFree)),
        placed("first-free-skip", || {
            InOrder::new(FirstFree).when_blocked(Blocked::Skip)
        })
        .starving(),
        placed("first-free-easy", || EasyBackfill::new(FirstFree)),
        // A job whose count of GPUs is never reached exactly is never placed.
        placed("scattered", || blox::Scattered).starving(),
    ];
    for allocation in [
        Allocation::Proportional,
        Allocation::Greedy,
        Allocation::Tune,
    ] {
        let name = |rule: &str| format!("synergy-{allocation:?}-{rule}");
        list.push(placed(name("consolidated"), move || {
            Synergy::new(Consolidated::default()).with(allocation)
        }));
        list.push(placed(name("first-free"), move || {
            Synergy::new(FirstFree).with(allocation)
        }));
    }
    for mode in [
        synergy::Mode::Fair,
        synergy::Mode::Greedy,
        synergy::Mode::Tune,
    ] {
        for place in [false, true] {
            // On nodes of different sizes, the fair share can exceed the smallest node.
            let make = move || {
                let placement = synergy::Allocate::new(mode).consolidating(place);
                placement.reserving(place)
            };
            list.push(placed(format!("synergy-released-{mode:?}-{place}"), make).starving());
        }
    }
    for split in [Split::Span, Split::WholeNodes, Split::Never] {
        let rule = Consolidated::new(split);
        let name = |kind: &str| format!("consolidated-{split:?}{kind}");
        list.push(placed(name(""), move || InOrder::new(rule)));
        list.push(
            placed(name("-skip"), move || {
                InOrder::new(rule).when_blocked(Blocked::Skip)
            })
            .starving(),
        );
        list.push(placed(name("-easy"), move || EasyBackfill::new(rule)));
    }
    list
}

/// Checks a suite, and names what it tests in a failure. Starvation is no failure if the released
/// program starves jobs, nor is an end at a time that it planned.
pub fn conforms(name: &str, suite: &Suite<'_>, starves: bool) {
    let own = [Property::Liveness, Property::Work];
    match suite.check() {
        Err(failure) if !(starves && own.contains(&failure.property)) => {
            panic!("{name}: {failure}")
        }
        _ => {}
    }
}

fn suite<'a>(build: impl Fn() -> Pipeline + Sync + 'a) -> Suite<'a> {
    // Thousands of compositions, so the large cases would take minutes.
    conformance(move |_| build()).without(Fault::Large)
}

/// Returns whether a placement was written for clusters with one GPU type. Released Synergy ignores
/// the types of a job; whole nodes count free nodes of all types.
fn is_for_one_type(placement: &str) -> bool {
    placement.starts_with("synergy-released") || placement.contains("WholeNodes")
}

/// Checks all schedulings with all placements. Each composition runs a different set of `cases`
/// cases, so that a few cases per composition cover many.
fn cross(cases: u64, trigger: fn(Composition) -> Composition) {
    let seen = Witness::default();
    let (schedulings, placements) = (schedulings(), placements());
    let mut first = 0;
    for scheduling in &schedulings {
        for placement in &placements {
            let build = || {
                let name = format!("{}/{}", scheduling.name, placement.name);
                let base = trigger(Composition::new(name)).admission(seen.clone());
                (scheduling.make)()(base, &*placement.make)
            };
            for case in first..first + cases {
                let mut suite = suite(build).only(case);
                if is_for_one_type(&placement.name) {
                    suite = suite.without(Fault::GpuTypes);
                }
                conforms("composition", &suite, placement.starves);
            }
            first += cases;
        }
    }
    assert!(seen.0.promoted.load(Ordering::Relaxed) > cases * 20);
}

fn default_rounds(c: Composition) -> Composition {
    c
}

fn short_rounds(c: Composition) -> Composition {
    match Rounds::every(Seconds::new(60.0)) {
        Some(rounds) => c.trigger(rounds),
        None => c,
    }
}

fn on_event(c: Composition) -> Composition {
    c.trigger(OnEvent::default())
}

#[test]
fn every_scheduling_over_every_placement_conforms() {
    cross(12, default_rounds);
}

/// Checks every share policy of Gavel, with leases.
fn gavels_conform_in(cases: u64) {
    use shares::{
        FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knowledge, MaxMinFairness,
        MaxSumThroughput, MinTotalDuration, Proportional, Queue, WaterFilling,
    };
    type Shares = Arc<dyn AnyShares>;
    let all: [fn() -> Shares; 13] = [
        || Arc::new(Isolated),
        || Arc::new(Proportional),
        || Arc::new(MaxMinFairness::default()),
        || Arc::new(MaxMinFairness::new(Knowledge::Nothing)),
        || Arc::new(MaxMinFairness::new(Knowledge::Pairs)),
        || Arc::new(WaterFilling::new(Knowledge::Types)),
        || Arc::new(FinishTimeShares::new(Knowledge::Types)),
        || Arc::new(MinTotalDuration::new(Knowledge::Types)),
        || Arc::new(MaxSumThroughput::new(Knowledge::Types).by_cost().in_time()),
        || Arc::new(FifoShares::new(Queue::Plain)),
        || Arc::new(FifoShares::new(Queue::Fastest)),
        || Arc::new(FifoShares::new(Queue::Packed(1.5))),
        || Arc::new(GandivaPacking::default()),
    ];
    for (i, shares) in all.into_iter().enumerate() {
        let build = move || {
            let gap = Seconds::new(if i % 2 == 0 { 0.0 } else { 1920.0 });
            Composition::new(format!("gavel-{i}"))
                .scheduling(Gavel::any(shares()).at_most_every(gap))
                .placement(Leases::new(Consolidated::default()))
                .build()
                .unwrap()
        };
        let name = format!("share policy {i}");
        conforms(&name, &suite(build).cases(cases), false);
    }
}

#[test]
fn every_share_policy_conforms() {
    gavels_conform_in(24);
}

#[test]
fn shockwave_conforms_with_every_market() {
    use blox_policies::scheduling::shockwave::{Market, Shockwave};
    for (i, (rounds, gap)) in [(20, 1e-3), (1, 0.0), (3, 0.1)].into_iter().enumerate() {
        let build = move || {
            let market = Market {
                rounds,
                gap,
                round_s: 360.0,
                ..Market::DEFAULT
            };
            Composition::new(format!("shockwave-{i}"))
                .scheduling(Shockwave::new(market).every(4))
                .placement(Leases::new(Consolidated::default()))
                .build()
                .unwrap()
        };
        conforms(&format!("market {i}"), &suite(build).cases(24), false);
    }
}

#[test]
fn short_rounds_conform() {
    cross(4, short_rounds);
}

#[test]
fn decisions_on_events_conform() {
    cross(4, on_event);
}

/// Checks some schedulers that react differently to admission and node changes.
fn under(base: impl Fn() -> Composition + Sync, cases: u64, starves: bool) {
    for scheduling in schedulings() {
        let wanted = ["fifo", "guarded-srtf", "las"];
        if !wanted.contains(&scheduling.name.as_str()) {
            continue;
        }
        for placement in placements() {
            let wanted = ["first-free", "consolidated-WholeNodes", "first-free-easy"];
            if !wanted.contains(&placement.name.as_str()) {
                continue;
            }
            let build = || (scheduling.make)()(base(), &*placement.make);
            let name = format!("{} over {}", scheduling.name, placement.name);
            conforms(&name, &suite(build).cases(cases), starves);
        }
    }
}

fn load_thresholds_conform_in(cases: u64) {
    for threshold in [0.3, 1.0, 1.5] {
        let seen = Witness::default();
        let base = || {
            let Some(admission) = LoadThreshold::new(threshold) else {
                unreachable!("the threshold is above 0");
            };
            let composition = Composition::new(format!("load-{threshold}"));
            composition.cluster(seen.clone()).admission(admission)
        };
        under(base, cases, false);
        assert!(seen.0.deferred.load(Ordering::Relaxed) > cases);
    }
}

fn quotas_conform_in(cases: u64) {
    for by in [QuotaBy::User, QuotaBy::VirtualCluster] {
        let seen = Witness::default();
        let base = || {
            let quota = Quota::new(by, GpuCount(5))
                .with("ada", GpuCount(2))
                .with("vc-b", GpuCount(3));
            Composition::new(format!("quota-{by:?}"))
                .cluster(seen.clone())
                .admission(quota)
        };
        // A job that a quota rejects has ended, and the others get their turn.
        under(base, cases, false);
        assert!(seen.0.deferred.load(Ordering::Relaxed) > cases);
        assert!(seen.0.rejected.load(Ordering::Relaxed) > cases);
    }
}

fn quarantine_conforms_in(cases: u64) {
    let seen = Witness::default();
    let (minute, hour) = (Seconds::new(60.0), Seconds::new(3600.0));
    for manager in [
        Quarantine::new(hour, minute, minute * 30.0),
        Quarantine::new(hour * 2.0, minute * 20.0, hour * 2.0),
    ] {
        let base = || {
            Composition::new("quarantine")
                .cluster(manager.clone())
                .admission(seen.clone())
        };
        under(base, cases, false);
    }
    assert!(seen.0.cordoned.load(Ordering::Relaxed) > cases);
}

fn maintenance_conforms_in(cases: u64) {
    let seen = Witness::default();
    let window = |node, from, until| Window {
        node: NodeId(node),
        from: Time::new(from),
        until: Time::new(until),
    };
    let base = || {
        let windows = vec![
            window(0, 0.0, 450.0),
            window(0, 1000.0, 2100.0),
            // The windows overlap, and one begins where another ends.
            window(1, 600.0, 1800.0),
            window(1, 1500.0, 3000.0),
            window(2, 3000.0, 4000.0),
            window(0, 2100.0, 2400.0),
            // A node that does not exist.
            window(40, 100.0, 200.0),
        ];
        Composition::new("maintenance")
            .cluster(Maintenance::new(windows))
            .admission(seen.clone())
    };
    under(base, cases, false);
    assert!(seen.0.cordoned.load(Ordering::Relaxed) > cases);
}

#[test]
fn load_thresholds_conform() {
    load_thresholds_conform_in(24);
}

#[test]
fn quotas_conform() {
    quotas_conform_in(24);
}

#[test]
fn quarantine_conforms() {
    quarantine_conforms_in(32);
}

#[test]
fn maintenance_conforms() {
    maintenance_conforms_in(32);
}

/// Attained times of two jobs differ only in the last bit, and their order changes over time.
#[test]
fn nearly_equal_jobs_keep_their_order_after_restart() {
    let build = || {
        let skip = InOrder::new(Consolidated::default()).when_blocked(Blocked::Skip);
        let las = on_event(Composition::new("las")).scheduling(Las::default());
        las.placement(skip).build().unwrap()
    };
    for case in 11_560..11_600 {
        conforms("las", &suite(build).only(case).jobs(14), true);
    }
}

#[test]
#[ignore = "many cases; run it after changes to policies"]
fn thousands_of_cases_conform() {
    for trigger in [default_rounds, short_rounds, on_event] {
        cross(60, trigger);
    }
    load_thresholds_conform_in(300);
    quotas_conform_in(300);
    quarantine_conforms_in(300);
    maintenance_conforms_in(300);
}
