//! Inputs of a case.

use crate::compared::{Case, VerifyError, json_lines, option, read};
use crate::sia::world as files;
use blox_core::{Adapts, ClusterSpec, JobSpec, NodeSpec, SortedMap, ThroughputParams, sort};
use blox_perf::applications::Applications;
use blox_perf::goodput::StepTime;
use blox_sim::execution::Training;
use blox_sim::execution::training::Profiles;
use blox_sim::workload::collect;
use blox_traces::applications::read_dir;
use blox_traces::{Format, open_file};
use serde::Deserialize;

/// Scheduling policy of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Sia,
    Pollux,
    Gavel,
    Tiresias,
    Optimus,
    /// Another policy, known only by its recorded decisions.
    Other,
}

/// Simulator of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    Sia,
    Pollux,
}

pub(super) struct Input {
    pub world: World,
    pub policy: Policy,
    pub cluster: ClusterSpec,
    pub applications: Applications,
    pub fits: crate::sia::RecordedFits,
    /// True if the run made more fits than were recorded.
    pub fits_end: bool,
    /// True if ties were broken by the canonical rule.
    pub canonical: bool,
    /// Length of a round in seconds.
    pub interval: f64,
    /// Jobs, with batches that they tune or with the batches that their users requested.
    pub jobs: Vec<JobSpec>,
}

/// Maximum number of recorded fits.
const RECORDED: usize = 400;

/// Step times, and the parameters that were fitted to them.
type Fit = (Vec<StepTime>, ThroughputParams);

#[derive(Deserialize)]
struct RecordedFit {
    num_nodes: Vec<u32>,
    num_replicas: Vec<u32>,
    local_bsz: Vec<u32>,
    compute_time: Vec<f64>,
    step_time: Vec<f64>,
    params: [f64; 7],
}

impl RecordedFit {
    fn observed(&self) -> Vec<StepTime> {
        let step = |i: usize| {
            Some(StepTime {
                nodes: *self.num_nodes.get(i)?,
                gpus: *self.num_replicas.get(i)?,
                per_gpu: *self.local_bsz.get(i)?,
                compute: *self.compute_time.get(i)?,
                step: *self.step_time.get(i)?,
            })
        };
        (0..self.num_nodes.len()).filter_map(step).collect()
    }
}

#[derive(Deserialize)]
struct ClusterFile {
    cluster_nnodes: serde_json::Map<String, serde_json::Value>,
    ngpus_per_node: SortedMap<String, u32>,
}

impl Input {
    pub fn of(case: &Case) -> Result<Self, VerifyError> {
        let command = case.text("cmd")?;
        let world = match command.contains("multi_simulator") {
            true => World::Sia,
            false => World::Pollux,
        };
        let policies = [
            ("sia", Policy::Sia),
            ("pollux", Policy::Pollux),
            ("gavel", Policy::Gavel),
            ("tiresias", Policy::Tiresias),
            ("optimus", Policy::Optimus),
        ];
        let Some(name) = option(command, &["--policy"]) else {
            let what = "cmd names no policy, expected --policy NAME";
            return Err(case.bad("summary.json", what));
        };
        let known = policies.into_iter().find(|(known, _)| *known == name);
        let policy = known.map_or(Policy::Other, |(_, policy)| policy);
        let data = case.input_in("traces-sia", &["", "inputs", "input"])?;
        let mut applications = read_dir(&data)?;
        let shipped = data.with_file_name("osdi-shipped");
        let known = [case.dir().to_owned(), shipped].map(|d| d.join("throughput_calls.csv"));
        for path in known.iter().filter(|p| p.is_file()) {
            crate::sia::add_points(&mut applications, path)?;
        }
        let interval = match option(command, &["--interval"]).map(|i| (i, i.parse::<f64>())) {
            None => 60.0,
            Some((_, Ok(i))) if i > 0.0 => i,
            Some((text, _)) => return Err(case.wrong("--interval", text, "seconds above 0")),
        };
        let recorded = fits(case)?;
        let mut fits = crate::sia::RecordedFits::default();
        for (observed, params) in &recorded {
            fits.insert(observed, *params);
        }
        let path = case.input("workload.csv")?;
        let mut jobs = collect(&mut open_file(path, Some(Format::Sia))?)?;
        if world == World::Pollux {
            applications = files::pollux_applications(applications);
        }
        let fixed = matches!(policy, Policy::Gavel | Policy::Tiresias | Policy::Optimus);
        for job in &mut jobs {
            if policy == Policy::Sia {
                files::ask_as_tuned(job);
            }
            let training = job.extras().training.as_ref();
            let adapts = training.map_or(Adapts::All, |t| t.adapts);
            applications.describe(job, if fixed { Adapts::Nothing } else { adapts });
        }
        let solver = case.summary.get("env").and_then(|e| e.get("SIA_SOLVER"));
        Ok(Input {
            cluster: cluster(case, world)?,
            canonical: solver.and_then(|s| s.as_str()) == Some("CANON"),
            fits_end: recorded.is_empty() || recorded.len() == RECORDED,
            fits,
            jobs,
            world,
            policy,
            applications,
            interval,
        })
    }

    pub fn training(&self) -> Training {
        let applications = self.applications.clone();
        // Pollux' policy does not distinguish types here.
        let profiles = match self.policy {
            Policy::Pollux => Profiles::OfAll,
            _ => Profiles::ByType,
        };
        let training = match self.world {
            World::Sia => files::training(applications),
            World::Pollux => files::pollux_training(applications),
        };
        training
            .profiles(profiles)
            .fitter(self.fits.clone())
            .round(blox_core::Seconds::new(self.interval))
    }

    /// Returns the seconds of a restart of a job.
    pub fn restart(&self, job: &JobSpec) -> f64 {
        let training = job.extras().training.as_ref();
        training.map_or(0.0, |t| t.restart.secs())
    }
}

/// Returns the recorded fits.
pub(super) fn fits(case: &Case) -> Result<Vec<Fit>, VerifyError> {
    let path = case.dir().join("perf_fits.jsonl");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let fit = |fit: RecordedFit| (fit.observed(), ThroughputParams::from_array(fit.params));
    json_lines(&path)?.map(|line| Ok(fit(line?))).collect()
}

fn cluster(case: &Case, world: World) -> Result<ClusterSpec, VerifyError> {
    let path = case.dir().join("cluster.json");
    let of = |kinds: &[(String, u32, u32)]| {
        let nodes = kinds.iter().flat_map(|(name, nodes, gpus)| {
            let node = NodeSpec::with_gpus(*gpus).of_type(name.as_str());
            vec![node; *nodes as usize]
        });
        ClusterSpec {
            nodes: nodes.collect(),
            ..ClusterSpec::default()
        }
    };
    if !path.is_file() {
        return match world {
            World::Pollux => Ok(of(&[("aws".to_owned(), 16, 4)])),
            World::Sia => Err(case.missing("cluster.json")),
        };
    }
    let bad = |what: String| case.bad("cluster.json", what);
    // The order of types matters, so it is taken from the text.
    let text = read(&path)?;
    let file: ClusterFile = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let from = text.find("cluster_nnodes").unwrap_or(0);
    let place = |name: &str| text[from..].find(&format!("\"{name}\""));
    let mut names: Vec<&String> = file.cluster_nnodes.keys().collect();
    sort::by_key(&mut names, |name| place(name));
    let mut kinds = Vec::new();
    for name in names {
        let nodes = file.cluster_nnodes[name].as_u64();
        let gpus = file.ngpus_per_node.get(name);
        let (Some(nodes), Some(gpus)) = (nodes, gpus) else {
            return Err(bad(format!(
                "`{name}` has no number of nodes, or no GPUs per node"
            )));
        };
        kinds.push((name.clone(), nodes as u32, *gpus));
    }
    Ok(of(&kinds))
}
