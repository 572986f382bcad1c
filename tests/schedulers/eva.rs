//! Nodes of offers, paid from joining to leaving.

use super::cases;
use blox::core::{
    ClusterSpec, Event, GpuCount, JobSpec, NodeSpec, Offer, OfferId, OnEvent, Seconds, Share, Time,
};
use blox::policies::admission::{Quota, QuotaBy};
use blox::results::Summary;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;
use blox::sim::{Report, Simulation};

fn offered(notice: Option<f64>) -> ClusterSpec {
    let offer = |name: &str, gpus, price| Offer {
        notice: notice.map(Seconds::new),
        ..Offer::new(name, NodeSpec::with_gpus(gpus).at_price(price), 8)
    };
    ClusterSpec::of_offers(vec![offer("small", 1, 3.0), offer("large", 4, 12.0)])
}

fn run(simulation: Simulation, jobs: &[(f64, u32, f64)]) -> Report {
    let job = |&(at, gpus, secs): &(f64, u32, f64)| cases::job(at, gpus, secs);
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    cases::run(&simulation, blox::schedulers::eva(), &jobs)
}

fn paid(report: &Report) -> [f64; 2] {
    let rent = Summary::of(report).rent.expect("the cluster has offers");
    [rent.node_hours, rent.cost]
}

fn ends(report: &Report) -> Vec<Option<f64>> {
    report
        .jobs
        .iter()
        .map(|job| job.finish.map(Time::secs))
        .collect()
}

/// Nodes boot for some seconds.
fn booting(seconds: f64) -> Simulation {
    Simulation::new(offered(None)).overheads(FixedOverheads {
        boot: Seconds::new(seconds),
        ..FixedOverheads::default()
    })
}

/// Like [`run`], with decisions on events and with ends that are seen at once.
fn on_events(simulation: Simulation, jobs: &[JobSpec]) -> Report {
    let eva = blox::schedulers::eva().with_trigger(OnEvent::default());
    cases::run(&simulation.completion(Exact), eva, jobs)
}

#[test]
fn node_that_joins_wakes_a_decision() {
    let jobs = [cases::job(0.0, 1, 3600.0), cases::job(100.0, 1, 3600.0)];
    let report = on_events(Simulation::new(offered(None)), &jobs);
    assert_eq!(ends(&report), [Some(3600.0), Some(3700.0)]);
    assert_eq!(paid(&report), [2.0, 6.0]);
    // The nodes join at 200 and 300.
    let report = on_events(booting(200.0), &jobs);
    assert_eq!(ends(&report), [Some(3800.0), Some(3900.0)]);
    assert_eq!(paid(&report), [2.0, 6.0]);
}

#[test]
fn node_for_a_deferred_job_is_requested() {
    let eva = blox::schedulers::eva().with_trigger(OnEvent::default());
    // The second job is admitted when the first one has ended, on a node that is always there.
    let eva = eva
        .with_admission(Quota::new(QuotaBy::User, GpuCount(4)))
        .unwrap();
    let mut cluster = offered(None);
    cluster.nodes.push(NodeSpec::with_gpus(1));
    let simulation = Simulation::new(cluster).completion(Exact);
    let jobs = [cases::job(0.0, 1, 600.0), cases::job(0.0, 4, 600.0)];
    let report = cases::run(&simulation, eva, &jobs);
    assert_eq!(ends(&report), [Some(600.0), Some(1200.0)]);
}

#[test]
fn node_that_joins_at_a_round_serves_in_it() {
    // Requested at 0, and there at 300.
    let report = run(booting(300.0), &[(0.0, 1, 3600.0)]);
    assert_eq!(ends(&report), [Some(3900.0)]);
    assert_eq!(paid(&report), [1.0, 3.0]);
}

#[test]
fn first_node_is_paid_from_joining() {
    // Its node joins at 0, after the decision of this round. The job runs from 300 to 3900.
    let report = run(Simulation::new(offered(None)), &[(0.0, 1, 3600.0)]);
    assert_eq!(ends(&report), [Some(3900.0)]);
    assert_eq!(paid(&report), [3900.0 / 3600.0, 3.0 * (3900.0 / 3600.0)]);
    assert_eq!(Summary::of(&report).utilisation, 3600.0 / 3900.0);
    // While it boots, it costs nothing.
    let report = run(booting(200.0), &[(0.0, 1, 3600.0)]);
    assert_eq!(paid(&report)[0], 3700.0 / 3600.0);
}

#[test]
fn price_applies_from_its_change() {
    let priced = Event::Priced {
        offer: OfferId(0),
        price: 6.0,
    };
    let simulation = Simulation::new(offered(None)).happening(Time::new(2100.0), priced);
    let report = run(simulation, &[(0.0, 1, 3600.0)]);
    assert_eq!(
        paid(&report)[1],
        3.0 * (2100.0 / 3600.0) + 6.0 * (1800.0 / 3600.0)
    );
}

#[test]
fn node_without_jobs_returns_to_its_provider() {
    // The first node leaves at 3900, two rounds before the second job is submitted.
    let report = run(
        Simulation::new(offered(None)),
        &[(0.0, 1, 3600.0), (4500.0, 1, 3600.0)],
    );
    assert_eq!(ends(&report), [Some(3900.0), Some(8400.0)]);
    assert_eq!(paid(&report)[0], 2.0 * 3900.0 / 3600.0);
}

#[test]
fn jobs_of_a_reclaimed_node_continue_on_another() {
    let reclaimed = Event::Reclaimed {
        offer: OfferId(0),
        count: 1,
    };
    let simulation = Simulation::new(offered(Some(120.0)));
    let report = run(
        simulation.happening(Time::new(1500.0), reclaimed),
        &[(0.0, 1, 3600.0)],
    );
    // The next node joins within the notice, so no time is lost. The job leaves at the end of the
    // notice, between two rounds, and so does its node.
    let job = &report.jobs[0];
    assert_eq!((job.preemptions, job.launches), (1, 2));
    assert_eq!(ends(&report), [Some(3900.0)]);
    assert_eq!(paid(&report)[0], (3900.0 + 120.0) / 3600.0);
}

#[test]
fn reclaimed_node_is_paid_until_its_notice_ends() {
    // Returns the end of the job and the time of nodes.
    let reclaimed = |at: f64, notice: Option<f64>, stop: f64| {
        let event = Event::Reclaimed {
            offer: OfferId(0),
            count: 1,
        };
        let simulation = Simulation::new(offered(notice)).happening(Time::new(at), event);
        let overheads = FixedOverheads {
            checkpoint: Seconds::new(stop),
            ..FixedOverheads::default()
        };
        let report = run(simulation.overheads(overheads), &[(0.0, 1, 3600.0)]);
        (
            ends(&report)[0].unwrap(),
            (paid(&report)[0] * 3600.0).round(),
        )
    };
    // It leaves at 1630. The next node is requested then, and the job moves to it.
    assert_eq!(reclaimed(1510.0, Some(120.0), 0.0), (3900.0, 3900.0));
    // The stop takes until 1650, and the job runs until 3920. The end of this round is at 4200.
    let both = 1650.0 + (4200.0 - 1630.0);
    assert_eq!(reclaimed(1510.0, Some(120.0), 20.0), (4200.0, both));
    // Without a notice, it leaves at once.
    assert_eq!(reclaimed(1510.0, None, 0.0), (3900.0, 3900.0));
    // The notice ends with a round.
    assert_eq!(
        reclaimed(1500.0, Some(300.0), 0.0),
        (3900.0, 3900.0 + 300.0)
    );
}

#[test]
fn job_that_no_offer_holds_is_rejected() {
    let report = run(Simulation::new(offered(None)), &[(0.0, 5, 60.0)]);
    assert_eq!(Summary::of(&report).rejected, 1);
}

fn costs(report: &Report) -> Vec<f64> {
    report.jobs.iter().map(|job| job.cost).collect()
}

#[test]
fn job_pays_its_part_of_the_node_while_it_runs() {
    // The node is there from 0 and the job runs from 300 to 3900: the first round is idle.
    let report = run(Simulation::new(offered(None)), &[(0.0, 1, 3600.0)]);
    assert_eq!(costs(&report), [3.0]);
    let rent = Summary::of(&report).rent.unwrap();
    assert_eq!((rent.job_cost, rent.cost), (3.0, 3.0 * (3900.0 / 3600.0)));
    // The price doubles after 1800 s.
    let priced = Event::Priced {
        offer: OfferId(0),
        price: 6.0,
    };
    let simulation = Simulation::new(offered(None)).happening(Time::new(2100.0), priced);
    let report = run(simulation, &[(0.0, 1, 3600.0)]);
    assert_eq!(
        costs(&report),
        [3.0 * (1800.0 / 3600.0) + 6.0 * (1800.0 / 3600.0)]
    );
}

#[test]
fn jobs_of_a_node_pay_for_their_gpus() {
    let nodes = || Simulation::new("1x4=12".parse().unwrap()).completion(Exact);
    let fifo = |simulation: Simulation, jobs: &[JobSpec]| {
        cases::run(&simulation, blox::schedulers::fifo(), jobs)
    };
    let jobs = [cases::job(0.0, 1, 3600.0), cases::job(0.0, 3, 1800.0)];
    assert_eq!(costs(&fifo(nodes(), &jobs)), [3.0, 4.5]);
    // Two halves of a GPU, for an hour each.
    let half = |job| cases::with(job, |extras| extras.share = Share::parts(1, 2).unwrap());
    let halves = [
        half(cases::job(0.0, 1, 3600.0)),
        half(cases::job(0.0, 1, 3600.0)),
    ];
    assert_eq!(costs(&fifo(nodes(), &halves)), [1.5, 1.5]);
    // A launch of 30 s is not paid by the job. Without prices, nothing is.
    let slow = nodes().overheads(FixedOverheads {
        launch: Seconds::new(30.0),
        ..FixedOverheads::default()
    });
    assert_eq!(costs(&fifo(slow, &jobs)), [3.0, 4.5]);
    assert_eq!(
        costs(&fifo(Simulation::new("1x4".parse().unwrap()), &jobs)),
        [0.0, 0.0]
    );
}

#[test]
fn job_that_moves_pays_the_price_of_each_node() {
    let reclaimed = Event::Reclaimed {
        offer: OfferId(0),
        count: 1,
    };
    let simulation = Simulation::new(offered(Some(120.0)));
    let report = run(
        simulation.happening(Time::new(1500.0), reclaimed),
        &[(0.0, 1, 3600.0)],
    );
    // The hour on two nodes at the same price.
    assert!(
        (report.jobs[0].cost - 3.0).abs() < 1e-12,
        "{}",
        report.jobs[0].cost
    );
}

#[test]
fn jobs_that_share_a_gpu_divide_its_price() {
    let stages = |first: f64| [first, 0.1, 4.0 - first, 0.1];
    let staged = |first| {
        cases::with(cases::job(0.0, 1, 3600.0), |extras| {
            extras
                .attributes
                .insert("stages".into(), stages(first).into());
        })
    };
    let simulation = Simulation::new("1x1=6".parse().unwrap()).completion(Exact);
    let jobs = [staged(3.0), staged(1.0)];
    let report = cases::run(&simulation, blox::schedulers::muri(), &jobs);
    // Neither has the GPU alone.
    let [a, b] = [&report.jobs[0], &report.jobs[1]];
    assert!(a.cost < 6.0 * a.attained.hours() && b.cost < 6.0 * b.attained.hours());
    let last = a.finish.max(b.finish).unwrap();
    let paid = 6.0 * (last.secs() / 3600.0);
    assert!(
        (a.cost + b.cost - paid).abs() < 1e-9,
        "{} {} {paid}",
        a.cost,
        b.cost
    );
}
