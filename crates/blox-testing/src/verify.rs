//! Consistency checks of the state: counts and ledgers are recomputed from the jobs.

use super::listed;
use super::problem::{Problem, Property, near};
use blox_core::Gpus;
use blox_core::assignment::Assignment;
use blox_core::ids::{GpuId, JobId};
use blox_core::job::{JobRef, Phase};
use blox_core::view::View;
use smallvec::SmallVec;

/// Checks that the state is consistent.
pub(crate) fn verify(view: View<'_>) -> Result<(), Problem> {
    phases(view)?;
    ledgers(view)
}

fn live<'a>(view: View<'a>) -> impl Iterator<Item = JobRef<'a>> {
    (0..view.next_job_id().0).filter_map(move |i| view.job(JobId(i)))
}

fn wrong<T>(expected: String, found: String) -> Result<T, Problem> {
    Err(Problem::new(Property::Ledgers, expected, found))
}

fn phases(view: View<'_>) -> Result<(), Problem> {
    use Phase::{Deferred, Ended, Running, Starting, Stopping, Submitted, Waiting};
    let mut counts = [0; 7];
    let mut demand = Gpus::default();
    for job in live(view) {
        counts[job.phase() as usize] += 1;
        let (allocated, bound) = (job.assignment(), job.bound());
        let fits = match job.phase() {
            Submitted | Deferred | Waiting => allocated.is_none() && bound.is_none(),
            Starting => allocated.is_some(),
            Running => allocated.is_some() && bound.is_some(),
            Stopping => bound.is_some(),
            Ended => false,
        };
        if !fits {
            let gpus = |a: Option<&Assignment>| listed(a.iter().flat_map(|a| &a.gpus));
            return wrong(
                format!("what a job that is {} has", job.phase()),
                format!(
                    "job {} allocated GPUs {} and bound to {}",
                    job.id(),
                    gpus(allocated),
                    gpus(bound)
                ),
            );
        }
        if matches!(job.phase(), Waiting | Starting | Running | Stopping) {
            demand += job.amount();
        }
    }
    for phase in [Submitted, Deferred, Waiting, Starting, Running, Stopping] {
        let (expected, found) = (counts[phase as usize], view.count(phase));
        if expected != found {
            return wrong(format!("{expected} jobs {phase}"), found.to_string());
        }
    }
    let lists = [
        (
            "waiting",
            view.waiting().count() as u32,
            counts[Waiting as usize],
        ),
        (
            "deferred",
            view.deferred().count() as u32,
            counts[Deferred as usize],
        ),
        (
            "placed",
            view.placed().count() as u32,
            counts[Starting as usize] + counts[Running as usize] + counts[Stopping as usize],
        ),
    ];
    for (what, listed, counted) in lists {
        if listed != counted {
            return wrong(
                format!("{counted} jobs listed as {what}"),
                listed.to_string(),
            );
        }
    }
    if demand != view.demand() {
        return wrong(
            format!("a demand of {demand} GPUs"),
            view.demand().to_string(),
        );
    }
    Ok(())
}

/// The jobs on a GPU.
type Jobs = SmallVec<[JobId; 2]>;

fn ledgers(view: View<'_>) -> Result<(), Problem> {
    let cluster = view.cluster();
    let gpus: usize = cluster.nodes().iter().map(|n| n.gpu_count() as usize).sum();
    let mut allocated = vec![Jobs::new(); gpus];
    let mut bound = allocated.clone();
    let mut cpus = vec![0.0; cluster.nodes().len()];
    for job in live(view) {
        for (what, books, assignment) in [
            ("allocated", &mut allocated, job.assignment()),
            ("bound", &mut bound, job.bound()),
        ] {
            for &gpu in assignment.iter().flat_map(|a| &a.gpus) {
                enter(view, what, books, gpu, &job)?;
            }
        }
        // Until a change of its allocation is done, the job also occupies its old GPUs.
        for &gpu in job.leaving() {
            if job.phase() == Phase::Running || job.bound().is_none_or(|a| a.gpus.contains(&gpu)) {
                return wrong(
                    "GPUs being left only while a change is under way, and not those kept".into(),
                    format!("job {} {} and leaving GPU {gpu}", job.id(), job.phase()),
                );
            }
            enter(view, "bound", &mut bound, gpu, &job)?;
        }
        if let Some(a) = job.assignment() {
            for node in a.gpus.iter().filter_map(|g| cluster.node_of(*g)) {
                cpus[node.index()] += a.cpus / a.gpus.len() as f64;
            }
        }
    }
    for i in 0..gpus {
        let gpu = GpuId(i as u32);
        agree("allocated", gpu, &allocated[i], cluster.allocated_to(gpu))?;
        agree("bound", gpu, &bound[i], cluster.bound_to(gpu))?;
    }
    let (mut all_free, mut all_usable) = (0, 0);
    for node in cluster.nodes() {
        let deallocated = |g: &GpuId| allocated[g.index()].is_empty();
        let works = |g: &GpuId| node.is_usable() && node.works(*g);
        let free = node.gpus().filter(|g| works(g) && deallocated(g)).count() as u32;
        let usable = node.gpus().filter(works).count() as u32;
        if (free, usable) != (node.free_count(), node.usable_count()) {
            return wrong(
                format!("node {} with {free} of {usable} GPUs free", node.id()),
                format!("{} of {}", node.free_count(), node.usable_count()),
            );
        }
        if !near(node.spec().cpus - node.free_cpus(), cpus[node.id().index()]) {
            return wrong(
                format!(
                    "node {} with {} CPUs given",
                    node.id(),
                    cpus[node.id().index()]
                ),
                (node.spec().cpus - node.free_cpus()).to_string(),
            );
        }
        all_free += free;
        all_usable += usable;
    }
    if (all_free, all_usable) != (cluster.free_gpus(), cluster.usable_gpus()) {
        return wrong(
            format!("{all_free} of {all_usable} GPUs free"),
            format!("{} of {}", cluster.free_gpus(), cluster.usable_gpus()),
        );
    }
    Ok(())
}

/// Records a job on a GPU. Several jobs on a GPU must have agreed to share it, and its node must
/// allow as many.
fn enter(
    view: View<'_>,
    what: &str,
    books: &mut [Jobs],
    gpu: GpuId,
    job: &JobRef<'_>,
) -> Result<(), Problem> {
    let Some(jobs) = books.get_mut(gpu.index()) else {
        return wrong(
            "a GPU that exists".into(),
            format!("GPU {gpu} {what} to {}", job.id()),
        );
    };
    let share = |job: JobId| {
        let of = |a: &Assignment| a.gpus.contains(&gpu).then_some(a.share);
        let job = view.job(job)?;
        match what {
            "bound" => job.bound().and_then(of),
            _ => job.assignment().and_then(of),
        }
    };
    let all = || jobs.iter().copied().chain([job.id()]);
    let leaves = |j: JobId| view.job(j).is_some_and(|j| j.leaving().contains(&gpu));
    let shares = all().filter_map(share).filter(|share| !share.overlaps());
    let parts: Vec<f64> = shares.map(|share| share.fraction()).collect();
    // The accounts of the cluster check that no job is launched beside one that leaves.
    if !all().any(leaves) && parts.iter().sum::<f64>() > 1.0 + 1e-9 {
        return wrong(
            format!("GPU {gpu} {what} to jobs with at most the whole of it"),
            format!(
                "parts {parts:?} of {} and {}",
                listed(jobs.iter()),
                job.id()
            ),
        );
    }
    jobs.push(job.id());
    Ok(())
}

fn agree(
    what: &str,
    gpu: GpuId,
    expected: &Jobs,
    found: impl Iterator<Item = JobId>,
) -> Result<(), Problem> {
    let mut expected = expected.clone();
    let mut found: Vec<JobId> = found.collect();
    expected.sort_unstable();
    found.sort_unstable();
    if expected[..] == found[..] {
        return Ok(());
    }
    wrong(
        format!(
            "GPU {gpu} {what} to {}, as the jobs say",
            listed(expected.iter())
        ),
        listed(found.iter()),
    )
}
