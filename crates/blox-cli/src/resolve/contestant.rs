//! Schedulers by name, and their pipelines.

use super::super::args::Options;
use super::super::config::Given;
use super::super::files::{folder_name, not_taken};
use super::super::value::Written;
use crate::failure::{Coded, Failure};
use blox_core::{Composition, OnEvent, Pipeline, Role, Rounds, Seconds};
use blox_policies::placement::{Consolidated, InOrder};
use blox_registry::{ComponentRegistry, ComponentSpec, Registry, RegistryError};

/// One scheduler of an experiment.
pub(crate) struct Contestant {
    /// Name with parameters.
    pub label: String,
    /// Name in paths.
    pub folder: String,
    pub named: ComponentSpec,
}

impl Contestant {
    /// Creates the pipeline of this scheduler.
    pub(super) fn pipeline(
        &self,
        r: &Registry,
        o: &Options,
        seed: u64,
    ) -> Result<Pipeline, Failure> {
        let Contestant { named, label, .. } = self;
        let of = |e: RegistryError| {
            let hint = match label.contains('|') {
                true => "; alternatives with `|` belong to `blox sweep`",
                false => "",
            };
            let place = match e {
                RegistryError::BadValue { .. } => format!("`{label}`: "),
                _ => String::new(),
            };
            Failure::of(e.code(), format!("{place}{e}{hint}"))
        };
        let mut pipeline = if !has(&r.schedulers, &named.name) && has(&r.scheduling, &named.name) {
            // A scheduling policy alone gets the placement of most schedulers.
            let scheduling = r.scheduling.build(named, seed).map_err(of)?;
            Composition::new(label.as_str())
                .scheduling(scheduling)
                .placement(InOrder::new(Consolidated::default()))
                .seed(seed)
                .build()?
        } else {
            r.schedulers.build(named, seed).map_err(of)?
        };
        let shared = pipeline.roles_beside(Role::Scheduling);
        for (key, role, given) in [
            ("admission", Role::Admission, &o.admission),
            ("placement", Role::Placement, &o.placement),
            ("cluster-manager", Role::Cluster, &o.cluster_manager),
        ] {
            if let Some(given) = given.as_ref().filter(|_| shared.contains(&role)) {
                return Err(Failure::new(format!(
                    "--{key} is `{given}`, which has no meaning with `{label}`: that brings its own"
                )));
            }
        }
        if let Some(part) = part("admission", &o.admission, &r.admission, seed)? {
            pipeline = pipeline.with_admission(part)?;
        }
        if let Some(part) = part("placement", &o.placement, &r.placement, seed)? {
            pipeline = pipeline.with_placement(part)?;
        }
        if let Some(part) = part("cluster-manager", &o.cluster_manager, &r.cluster, seed)? {
            pipeline = pipeline.with_cluster(part)?;
        }
        if let Some(rounds) = o
            .round
            .and_then(|round| Rounds::every(Seconds::new(round.0)))
        {
            pipeline = pipeline.with_trigger(rounds);
        }
        if let Some(gap) = o.on_event {
            pipeline = pipeline.with_trigger(OnEvent::with_gap(Seconds::new(gap.0)));
        }
        Ok(pipeline.renamed(label.as_str()))
    }
}

/// Builds the component that an option names.
fn part<T>(
    key: &str,
    named: &Option<Written<ComponentSpec>>,
    components: &ComponentRegistry<T>,
    seed: u64,
) -> Result<Option<T>, Failure> {
    let built = named.as_ref().map(|named| components.build(named, seed));
    built.transpose().map_err(|e| match e {
        RegistryError::BadValue { .. } => Failure::of(e.code(), format!("--{key}: {e}")),
        e => Failure::new(e),
    })
}

/// Returns a line for each policy that an option sets in place of the schedulers' own.
pub(super) fn replaced(o: &Options) -> Vec<String> {
    let parts = [
        (
            "placement",
            "placement policy and rule for blocked jobs",
            &o.placement,
        ),
        ("admission", "admission policy", &o.admission),
        ("cluster-manager", "cluster manager", &o.cluster_manager),
    ];
    let mut lines = Vec::new();
    for (key, part, given) in parts {
        let line = |name: &Written<ComponentSpec>| {
            format!("--{key} {name} replaces each scheduler's own {part}")
        };
        lines.extend(given.as_ref().map(line));
    }
    lines
}

fn has<T>(components: &ComponentRegistry<T>, name: &str) -> bool {
    components.iter().any(|(n, _)| n == name)
}

pub(super) fn contestants(names: &[String]) -> Result<Vec<Contestant>, Failure> {
    let mut list: Vec<Contestant> = Vec::new();
    for text in names {
        let named: ComponentSpec = text.parse()?;
        let label = named.to_string();
        if list.iter().any(|c| c.label == label) {
            return Err(Failure::new(format!(
                "scheduler `{label}` is named twice, expected different schedulers"
            )));
        }
        let taken = |folder: &str| list.iter().any(|c| c.folder == folder);
        let folder = not_taken(folder_name(&label), taken);
        list.push(Contestant {
            label,
            folder,
            named,
        });
    }
    Ok(list)
}

pub(super) fn baseline(given: &Given, contestants: &[Contestant]) -> Result<usize, Failure> {
    let Some(text) = &given.options.baseline else {
        return Ok(0);
    };
    let label = text.parse::<ComponentSpec>().map(|n| n.to_string());
    let found = contestants
        .iter()
        .position(|c| Ok(&c.label) == label.as_ref());
    found.ok_or_else(|| {
        let known: Vec<&str> = contestants.iter().map(|c| c.label.as_str()).collect();
        given.unknown("baseline", text, known)
    })
}
