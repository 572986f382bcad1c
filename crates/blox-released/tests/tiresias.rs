//! The parts of Tiresias keep the rules that backends rely on.

use blox_core::policy::{AcceptAll, StaticCluster};
use blox_core::registry::RegistryError;
use blox_core::testing::conformance;
use blox_core::{
    Cadence, JobRef, OnEvent, Pipeline, PlacementPolicy, Rounds, SchedulingPolicy, Seconds, Time,
};
use blox_policies::placement::{
    Balanced, Blocked, Consolidated, FirstFree, Profiled, Random, TensorSkew, Walk,
};
use blox_policies::scheduling::{Fifo, Service, ServiceHistory, Srtf, TwoDas};
use blox_released::tiresias::quirks::{
    AsNamed, ClassQueues, Count, DlasQueues, EveryOther, InPlace, LowestRank, NodeSets, Nowhere,
    Pending, Repack, Samples, ShortestBy, Yarn,
};

fn sound<T>(part: Result<T, RegistryError>) -> T {
    part.expect("parameters that make sense")
}

type Scheduling = Box<dyn SchedulingPolicy>;
type Placement = Box<dyn PlacementPolicy>;

fn schedulings() -> Vec<(&'static str, Scheduling)> {
    // Short thresholds, so that jobs go down all the way.
    let thresholds = [600.0, 2400.0].map(Seconds::new);
    let las = || sound(TwoDas::las(&thresholds));
    let history = (1..40).map(|k| Seconds::new(f64::from(k * k)));
    let history = ServiceHistory::of(history).expect("samples above 0");
    let gittins = sound(TwoDas::gittins(&thresholds, history));
    vec![
        ("2d-las", Box::new(las())),
        (
            "las-promoting",
            Box::new(sound(las().promoting(Some(1.5))).counting(Service::Time)),
        ),
        ("2d-gittins", Box::new(gittins.clone())),
        (
            "gittins-promoting",
            Box::new(sound(gittins.promoting(Some(4.0)))),
        ),
        ("fifo", Box::new(Fifo::default())),
        ("srtf", Box::new(Srtf::default())),
    ]
}

fn placements() -> Vec<(&'static str, Placement, bool)> {
    let by_size = |job: &JobRef<'_>| job.gpus().get().is_multiple_of(2);
    let profiled = Profiled::<TensorSkew>::default();
    vec![
        ("profiled", Box::new(Walk::new(profiled.clone())), false),
        (
            "profiled-skip",
            Box::new(Walk::new(profiled).when_blocked(Blocked::Skip)),
            true,
        ),
        ("by-size", Box::new(Walk::new(Profiled::by(by_size))), false),
        ("balanced", Box::new(Walk::new(Balanced)), false),
        ("random", Box::new(Walk::new(Random::new(7))), false),
        ("first-free", Box::new(Walk::new(FirstFree)), false),
        (
            "consolidated-skip",
            Box::new(Walk::new(Consolidated::default()).when_blocked(Blocked::Skip)),
            true,
        ),
    ]
}

fn cadence(kind: u64) -> Box<dyn Cadence> {
    match kind {
        0 => Box::new(Rounds::every(Seconds::new(300.0)).expect("above 0")),
        1 => Box::new(Rounds::every(Seconds::new(60.0)).expect("above 0")),
        _ => Box::new(OnEvent::default()),
    }
}

#[test]
fn discretised_service_and_profiled_placement_conform() {
    let mut case = 0;
    for (s, (scheduling, _)) in schedulings().iter().enumerate() {
        for (p, (placement, _, starves)) in placements().iter().enumerate() {
            for kind in 0..3 {
                let name = format!("{scheduling}/{placement}/{kind}");
                let build = |_| {
                    Pipeline::from_parts(
                        name.as_str(),
                        Box::new(StaticCluster),
                        Box::new(AcceptAll),
                        schedulings().swap_remove(s).1,
                        placements().swap_remove(p).1,
                        cadence(kind),
                    )
                };
                for _ in 0..5 {
                    let suite = conformance(build).only(case);
                    let suite = if *starves { suite.may_starve() } else { suite };
                    if let Err(failure) = suite.check() {
                        panic!("{failure}");
                    }
                    case += 1;
                }
            }
        }
    }
}

fn released() -> Vec<(&'static str, Scheduling, Placement)> {
    let samples = Samples::of((1..60).map(|k| k * k)).expect("samples above 0");
    let limits = [600.0, 2400.0];
    let queues = DlasQueues::new(limits, true);
    let counted = || Box::new(Walk::new(FirstFree).when_blocked(Blocked::Skip));
    let count = || Box::new(Repack::by(Count::default()));
    let yarn = || Box::new(Repack::by(Yarn::default()));
    let in_place = |by| Box::new(InPlace::new(by));
    let expected = ShortestBy::Expected(samples.clone());
    vec![
        (
            "fifo",
            Box::new(Pending),
            Box::new(Repack::by(Count::default()).when_blocked(Blocked::Stop)),
        ),
        (
            "fifo-yarn",
            Box::new(Pending),
            Box::new(Repack::by(Yarn::default()).when_blocked(Blocked::Stop)),
        ),
        ("fjf", Box::new(Pending), count()),
        ("lpjf", Box::new(EveryOther), count()),
        ("sjf", in_place(ShortestBy::Gpus), count()),
        ("shortest-yarn", in_place(ShortestBy::Remaining), yarn()),
        ("shortest-gpu", in_place(ShortestBy::RemainingGpu), count()),
        ("expected", in_place(expected), count()),
        ("nowhere", Box::new(Pending), Box::new(Repack::by(Nowhere))),
        ("dlas", Box::new(DlasQueues::new(limits, false)), counted()),
        (
            "dlas-gpu-2",
            Box::new(queues.clone().promoting(2.0)),
            counted(),
        ),
        (
            "dlas-gpu-gittins",
            Box::new(queues.ranked_by(samples.clone())),
            counted(),
        ),
        ("gittins", Box::new(LowestRank::new(samples)), counted()),
        (
            "multi-dlas-gpu",
            Box::new(ClassQueues::new(&[8, 1, 2, 4], Time::new(20_000.0))),
            counted(),
        ),
        (
            "gandiva",
            Box::new(NodeSets::default()),
            Box::new(Repack::by(AsNamed)),
        ),
    ]
}

#[test]
fn the_released_programs_parts_conform() {
    for (i, (name, _, _)) in released().iter().enumerate() {
        // Time slices turn at full minutes; all others follow events.
        let kind = if *name == "gandiva" { 1 } else { 2 };
        let build = |_| {
            let (_, scheduling, placement) = released().swap_remove(i);
            Pipeline::from_parts(
                *name,
                Box::new(StaticCluster),
                Box::new(AcceptAll),
                scheduling,
                placement,
                cadence(kind),
            )
        };
        // They leak memory, place nothing, or wait for ends that never come.
        let suite = conformance(build).may_starve().cases(40);
        if let Err(failure) = suite.check() {
            panic!("{failure}");
        }
    }
}
