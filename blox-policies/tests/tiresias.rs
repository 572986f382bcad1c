//! The parts of Tiresias keep the rules that backends rely on.

use blox_core::policy::{AcceptAll, StaticCluster};
use blox_core::registry::RegistryError;
use blox_core::testing::conformance;
use blox_core::{
    Cadence, JobRef, OnEvent, Pipeline, PlacementPolicy, Rounds, SchedulingPolicy, Seconds,
};
use blox_policies::placement::{
    Balanced, Blocked, Consolidated, FirstFree, Profiled, Random, TensorSkew, Walk,
};
use blox_policies::scheduling::{Fifo, Service, ServiceHistory, Srtf, TwoDas};

fn sound<T>(part: Result<T, RegistryError>) -> T {
    part.expect("parameters that make sense")
}

fn schedulings() -> Vec<(&'static str, Box<dyn SchedulingPolicy>)> {
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

fn placements() -> Vec<(&'static str, Box<dyn PlacementPolicy>, bool)> {
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
