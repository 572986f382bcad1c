//! Jobs that share GPUs move together or not at all. The random cases have overheads. They cover
//! hosts over several nodes, guests of the same decision, and placements that move, grow and shrink
//! jobs.

use crate::cases::{self, composed, with};
use blox::core::policy::scheduling_fn;
use blox::core::{
    Action, Answer, Assignment, ClusterSpec, Config, Draft, Event, GpuCount, GpuId, JobId,
    JobQueue, JobRef, JobSpec, Phase, Pipeline, PlacementPolicy, Plan, Policy, Reason, Request,
    Room, Seconds, Shape, Time, Validity, View, With,
};
use blox::policies::placement::{
    Consolidated, Leases, Migrating, NodeSets, Resizing, Resuming, Synergy,
};
use blox::policies::scheduling::Gandiva;
use blox::results::Summary;
use blox::sim::Simulation;
use blox::sim::overheads::FixedOverheads;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Counts how often the cases reached what they are about.
#[derive(Default)]
struct Reached {
    /// A job over several nodes got company in a decision.
    guests: AtomicU32,
    /// A running job changed its GPUs alone.
    alone: AtomicU32,
    /// Running jobs that shared GPUs changed them together.
    together: AtomicU32,
    /// Jobs that changed their GPUs alone, each with a job that has the same GPUs as before.
    left: Mutex<Vec<(JobId, JobId)>>,
}

/// Checks the drafts of a placement.
struct Checked<P>(P, Arc<Reached>);

impl<P: PlacementPolicy> Policy for Checked<P> {
    // A policy without memory is not notified of launches.
    type Memory = With<u8, P::Memory>;

    fn initial(&self, seed: u64) -> Self::Memory {
        With {
            own: 0,
            inner: self.0.initial(seed),
        }
    }

    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        self.0.on_event(&mut memory.inner, view, event);
    }

    fn on_launches(&self, memory: &mut Self::Memory, view: View<'_>, plan: &Plan) {
        for (job, other) in self.1.left.lock().unwrap().drain(..) {
            let stops = |a: &Action| matches!(a, Action::Stop { job, .. } if *job == other);
            assert!(
                plan.actions.iter().any(stops),
                "job {job} moved without job {other}, which shared its GPUs"
            );
        }
        let node = |gpu: &GpuId| view.cluster().node_of(*gpu);
        let spans = |a: &Assignment| a.gpus.iter().any(|gpu| node(gpu) != node(&a.gpus[0]));
        let guests = plan.actions.iter().filter(|action| match action {
            Action::Place { assignment: a, .. } => a.share.overlaps() && spans(a),
            _ => false,
        });
        let guests = guests.count() as u32;
        self.1.guests.fetch_add(guests, Ordering::Relaxed);
        self.0.on_launches(&mut memory.inner, view, plan);
    }
}

impl<P: PlacementPolicy> PlacementPolicy for Checked<P> {
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let validity = self.0.place(&mut memory.inner, requests, draft)?;
        let view = draft.view();
        let add = |count: &AtomicU32| count.fetch_add(1, Ordering::Relaxed);
        for (job, has) in draft.placed() {
            let now = draft.companions(job.id());
            let Some(before) = job.assignment() else {
                continue;
            };
            if before.gpus == has.gpus || job.phase() != Phase::Running {
                continue;
            }
            let mut shared = before
                .gpus
                .iter()
                .flat_map(|g| view.cluster().allocated_to(*g));
            let left = |other: &JobId| {
                let its = view.job(*other).and_then(|j| j.assignment());
                let stays = draft.current(*other) == its && its.is_some();
                *other != job.id() && stays && !now.contains(other)
            };
            if let Some(other) = shared.find(left) {
                // It may restart on its GPUs.
                self.1.left.lock().unwrap().push((job.id(), other));
            }
            match now.is_empty() {
                true => add(&self.1.alone),
                false => add(&self.1.together),
            };
        }
        Ok(validity)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        self.0.can_ever_place(room, job, shape)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.0.keeps_nodes(nodes)
    }
}

/// Requests random jobs in random shapes, and jobs beside them. Later requests of a pair name both.
fn random(seed: u64) -> impl Fn(View<'_>, &mut JobQueue) -> Validity + Send + Sync + 'static {
    move |view, out| {
        // The same for five minutes.
        let block = (view.now().secs() / 300.0) as u64;
        let mut rng = ChaCha8Rng::seed_from_u64(seed << 32 | block);
        let mut hosts: Vec<Request> = Vec::new();
        out.stop_unlisted();
        for job in view.active() {
            let (draw, beside): (f64, usize) = (rng.random(), rng.random_range(0..64));
            let gpu = job.assignment().map(|a| a.gpus[0]);
            let there = gpu
                .into_iter()
                .flat_map(|gpu| view.cluster().allocated_to(gpu));
            let partner = there.filter(|other| *other != job.id()).min();
            let joins = draw < 0.3 && job.assignment().is_none() && !hosts.is_empty();
            let stays = partner.and_then(|host| hosts.iter().position(|h| h.job == host));
            if let Some(at) = stays.or_else(|| joins.then(|| beside % hosts.len())) {
                hosts[at] = hosts[at].clone().beside(job.id());
            } else if draw < 0.8 {
                let mut request = Request::gang(&job);
                if draw < 0.5 && partner.is_none() {
                    let other = GpuCount(1 + beside as u32 % 6);
                    let config = Config::of([("tp", f64::from(1 + beside as u32 % 2))]);
                    request.shapes.insert(0, Shape::gpus(other).with(config));
                }
                hosts.push(request);
            }
        }
        hosts.into_iter().for_each(|request| out.push(request));
        Validity::NextRound
    }
}

/// Groups of two running or waiting jobs of equal size, drawn anew every five minutes.
fn groups(seed: u64) -> impl Fn(View<'_>, &mut JobQueue) -> Validity + Send + Sync + 'static {
    move |view, out| {
        let block = (view.now().secs() / 300.0) as u64;
        let mut rng = ChaCha8Rng::seed_from_u64(seed << 32 | block);
        out.stop_unlisted();
        let mut named: Vec<JobId> = Vec::new();
        let jobs: Vec<JobRef<'_>> = view.active().collect();
        for job in &jobs {
            let draw: f64 = rng.random();
            if named.contains(&job.id()) || draw < 0.2 {
                continue;
            }
            let mut request = Request::gang(job);
            let open = |j: &&JobRef<'_>| {
                j.id() != job.id() && j.gpus() <= job.gpus() && !named.contains(&j.id())
            };
            if let Some(other) = jobs.iter().find(open).filter(|_| draw < 0.8) {
                request = request.beside(other.id());
            }
            named.extend(request.jobs());
            out.push(request);
        }
        Validity::NextRound
    }
}

fn jobs(rng: &mut ChaCha8Rng) -> Vec<JobSpec> {
    let count = rng.random_range(4..16);
    let job = |_| {
        let (at, seconds) = (
            rng.random_range(0.0..3000.0),
            rng.random_range(60.0..4000.0),
        );
        let job = cases::job(f64::floor(at), rng.random_range(1..7), f64::floor(seconds));
        with(job, |extras| {
            extras.attributes = [
                ("gpu_utilisation".into(), rng.random_range(0.05..0.5).into()),
                ("gmem".into(), rng.random_range(1000.0..9000.0).into()),
                (
                    "sharing_score".into(),
                    f64::from(rng.random_range(0..3)).into(),
                ),
            ]
            .into();
        })
    };
    let mut jobs: Vec<JobSpec> = (0..count).map(job).collect();
    jobs.sort_by(|a, b| a.submit.secs().total_cmp(&b.submit.secs()));
    jobs
}

const KINDS: [&str; 7] = [
    "gandiva",
    "migrating",
    "resuming",
    "resizing",
    "leases",
    "muri",
    "lucid",
];

fn scheduler(kind: &str, seed: u64, reached: &Arc<Reached>) -> Pipeline {
    let reached = || Arc::clone(reached);
    let resizing = || Resizing::new(NodeSets);
    let drawn = || scheduling_fn(random(seed));
    match kind {
        "gandiva" => {
            let placement = Checked(Migrating::new(Resuming::new(resizing())), reached());
            let policy = Gandiva::new(Seconds::new(60.0));
            composed(kind, policy, placement)
        }
        "migrating" => composed(
            kind,
            drawn(),
            Checked(Migrating::new(resizing()), reached()),
        ),
        "resuming" => composed(kind, drawn(), Checked(Resuming::new(resizing()), reached())),
        "resizing" => composed(kind, drawn(), Checked(resizing(), reached())),
        "leases" => {
            let leases = Leases::new(Consolidated::default());
            composed(
                kind,
                scheduling_fn(groups(seed)),
                Checked(leases, reached()),
            )
        }
        name => cases::scheduler(name),
    }
}

#[test]
fn jobs_that_share_gpus_move_together_or_not_at_all() {
    for kind in KINDS {
        let reached = Arc::new(Reached::default());
        // Launches that take long make moves rare in Gandiva.
        let seeds = if kind == "gandiva" { 1000 } else { 150 };
        for seed in 0..seeds {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let clusters = ["2x4", "3x2", "1x4,2x2", "3x3", "4x2", "2x6"];
            let cluster: ClusterSpec = clusters[rng.random_range(0..6)].parse().unwrap();
            let mut seconds = || Seconds::new([0.0, 1.0, 10.0, 45.0][rng.random_range(0..4)]);
            let overheads = FixedOverheads {
                launch: seconds(),
                checkpoint: seconds(),
                restart: seconds(),
                migration: seconds(),
                ..FixedOverheads::default()
            };
            let jobs = jobs(&mut rng);
            let simulation = Simulation::new(cluster).overheads(overheads);
            let report = cases::run(&simulation, scheduler(kind, seed, &reached), &jobs);
            let ended = report
                .jobs
                .iter()
                .filter(|job| job.finish.is_some())
                .count();
            let never = report.reasons(true).values().sum::<u64>() as usize;
            assert_eq!(ended + never, jobs.len(), "{kind} {seed}");
        }
        let counts = [&reached.guests, &reached.alone, &reached.together];
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        println!("{kind}: {counts:?}");
        match kind {
            "gandiva" | "migrating" => assert!(counts.iter().all(|n| *n > 5), "{kind}: {counts:?}"),
            "resizing" | "resuming" => assert!(counts[..2].iter().all(|n| *n > 20), "{counts:?}"),
            "leases" => assert!(counts[0] > 20, "{counts:?}"),
            _ => {}
        }
    }
}

#[test]
fn grown_job_keeps_its_gpus_while_it_starts() {
    // The job starts for longer than a round, and grows after 50 times as long. The placement
    // changes no running job in place.
    let overheads = FixedOverheads {
        launch: Seconds::new(90.0),
        ..FixedOverheads::default()
    };
    let simulation = Simulation::new(ClusterSpec::uniform(1, 4)).overheads(overheads);
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(9000.0));
    let job = with(job, |extras| extras.levels = vec![GpuCount(1), GpuCount(2)]);
    let policy = composed(
        "gandiva",
        Gandiva::new(Seconds::new(60.0)),
        Synergy::new(Consolidated::default()),
    );
    let report = cases::run(&simulation, policy, &[job]);
    assert_eq!(Summary::of(&report).completed, 1);
    assert_eq!(report.jobs[0].preemptions, 1);
}
