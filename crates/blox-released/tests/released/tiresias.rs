//! Components of Tiresias follow the rules that backends rely on.

use crate::conformance::conforms;
use blox_core::policy::{AnyPlacement, AnyScheduling};
use blox_core::{Composition, JobRef, OnEvent, Seconds, Time};
use blox_policies::placement::{
    Balanced, Blocked, Consolidated, FirstFree, InOrder, OnNodes, Profiled, Random, TensorSkew,
};
use blox_policies::scheduling::{Fifo, ServiceHistory, Srtf, TwoDas};
use blox_released::tiresias::quirks::{
    ClassQueues, DlasQueues, EveryOther, InPlace, LowestRank, NodeSets, Nowhere, Pending, Samples,
    ShortestBy, Yarn,
};
use blox_testing::{Fault, conformance};
use std::sync::Arc;

fn sound<T>(part: Option<T>) -> T {
    part.expect("parameters that make sense")
}

type Scheduling = Arc<dyn AnyScheduling>;
type Placement = Arc<dyn AnyPlacement>;

fn schedulings() -> Vec<(&'static str, Scheduling)> {
    // Short thresholds, so that jobs move down through all queues.
    let thresholds = [600.0, 2400.0].map(Seconds::new);
    let las = || sound(TwoDas::las(&thresholds));
    let history = (1..40).map(|k| Seconds::new(f64::from(k * k)));
    let history = ServiceHistory::of(history).expect("samples above 0");
    let gittins = sound(TwoDas::gittins(&thresholds, history));
    vec![
        ("2d-las", Arc::new(las())),
        ("las-promoting", Arc::new(sound(las().promoting(Some(1.5))))),
        ("2d-gittins", Arc::new(gittins.clone())),
        (
            "gittins-promoting",
            Arc::new(sound(gittins.promoting(Some(4.0)))),
        ),
        ("fifo", Arc::new(Fifo::default())),
        ("srtf", Arc::new(Srtf::default())),
    ]
}

fn placements() -> Vec<(&'static str, Placement, bool)> {
    let by_size = |job: &JobRef<'_>| job.gpus().get().is_multiple_of(2);
    let profiled = Profiled::<TensorSkew>::default();
    vec![
        ("profiled", Arc::new(InOrder::new(profiled.clone())), false),
        (
            "profiled-skip",
            Arc::new(InOrder::new(profiled).when_blocked(Blocked::Skip)),
            true,
        ),
        (
            "by-size",
            Arc::new(InOrder::new(Profiled::by(by_size))),
            false,
        ),
        ("balanced", Arc::new(InOrder::new(Balanced)), false),
        ("random", Arc::new(InOrder::new(Random::new(7))), false),
        ("first-free", Arc::new(InOrder::new(FirstFree)), false),
        (
            "consolidated-skip",
            Arc::new(InOrder::new(Consolidated::default()).when_blocked(Blocked::Skip)),
            true,
        ),
    ]
}

fn in_kind(composition: Composition, kind: u64) -> Composition {
    match kind {
        0 => composition.in_rounds(Seconds::new(300.0)),
        1 => composition.in_rounds(Seconds::new(60.0)),
        _ => composition.trigger(OnEvent::default()),
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
                    in_kind(Composition::new(name.as_str()), kind)
                        .scheduling(schedulings().swap_remove(s).1)
                        .placement(placements().swap_remove(p).1)
                        .build()
                        .unwrap()
                };
                for _ in 0..5 {
                    // Tiresias was written for clusters with one GPU type.
                    let suite = conformance(build).only(case).without(Fault::GpuTypes);
                    conforms(&name, &suite, *starves);
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
    let counted = || Arc::new(InOrder::new(FirstFree).when_blocked(Blocked::Skip));
    let yarn = || Arc::new(Yarn::when_blocked(Blocked::Skip));
    let in_place = |by| Arc::new(InPlace::new(by));
    let expected = ShortestBy::Expected(samples.clone());
    vec![
        ("fifo", Arc::new(Pending), Arc::new(InOrder::new(FirstFree))),
        (
            "fifo-yarn",
            Arc::new(Pending),
            Arc::new(Yarn::when_blocked(Blocked::Stop)),
        ),
        ("fjf", Arc::new(Pending), counted()),
        ("lpjf", Arc::new(EveryOther), counted()),
        ("sjf", in_place(ShortestBy::Gpus), counted()),
        ("shortest-yarn", in_place(ShortestBy::Remaining), yarn()),
        (
            "shortest-gpu",
            in_place(ShortestBy::RemainingGpu),
            counted(),
        ),
        ("expected", in_place(expected), counted()),
        ("nowhere", Arc::new(Pending), Arc::new(Nowhere)),
        ("dlas", Arc::new(DlasQueues::new(limits, false)), counted()),
        (
            "dlas-gpu-2",
            Arc::new(queues.clone().promoting(2.0)),
            counted(),
        ),
        (
            "dlas-gpu-gittins",
            Arc::new(queues.ranked_by(samples.clone())),
            counted(),
        ),
        ("gittins", Arc::new(LowestRank::new(samples)), counted()),
        (
            "multi-dlas-gpu",
            Arc::new(ClassQueues::new(&[8, 1, 2, 4], Time::new(20_000.0))),
            counted(),
        ),
        ("gandiva", Arc::new(NodeSets), Arc::new(OnNodes)),
    ]
}

#[test]
fn the_released_programs_parts_conform() {
    for (i, (name, _, _)) in released().iter().enumerate() {
        // Time slices rotate at full minutes. All other schedules follow events.
        let kind = if *name == "gandiva" { 1 } else { 2 };
        let build = |_| {
            let (_, scheduling, placement) = released().swap_remove(i);
            in_kind(Composition::new(*name), kind)
                .scheduling(scheduling)
                .placement(placement)
                .build()
                .unwrap()
        };
        // These leak memory, place nothing, or wait for ends that never come.
        for case in 0..40 {
            let suite = conformance(build).without(Fault::GpuTypes);
            conforms(name, &suite.only(case), true);
        }
    }
}
