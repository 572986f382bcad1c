//! Schedulers by name, and their pipelines.

use super::super::Failure;
use super::super::config::Given;
use super::super::failure::Coded;
use super::world::Tempo;
use blox_core::registry::{ComponentSpec, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Role};
use blox_policies::placement::{Consolidated, InOrder};

/// One scheduler of an experiment.
pub(crate) struct Contestant {
    /// Name with parameters.
    pub label: String,
    /// Name in paths.
    pub folder: String,
    pub named: ComponentSpec,
}

/// Components that replace a scheduler's own.
#[derive(Default)]
pub(super) struct Overrides {
    pub admission: Option<ComponentSpec>,
    pub placement: Option<ComponentSpec>,
    pub cluster: Option<ComponentSpec>,
}

impl Overrides {
    pub fn of(given: &Given) -> Result<Self, Failure> {
        let named = |key: &str, text: &Option<String>| -> Result<Option<ComponentSpec>, Failure> {
            text.as_deref()
                .map(|t| t.parse::<ComponentSpec>())
                .transpose()
                .map_err(|e| given.because(key, e))
        };
        let o = &given.options;
        Ok(Overrides {
            admission: named("admission", &o.admission)?,
            placement: named("placement", &o.placement)?,
            cluster: named("cluster-manager", &o.cluster_manager)?,
        })
    }

    /// Returns the given components.
    pub fn iter(&self) -> impl Iterator<Item = &ComponentSpec> {
        let all = [&self.admission, &self.placement, &self.cluster];
        all.into_iter().flatten()
    }
}

impl Contestant {
    /// Creates the pipeline of this scheduler.
    pub(super) fn pipeline(
        &self,
        r: &Registry,
        overrides: &Overrides,
        trigger: Option<Tempo>,
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
                .build()
                .map_err(Failure::new)?
        } else {
            r.schedulers.build(named, seed).map_err(of)?
        };
        let of = |key: &str, e: RegistryError| match e {
            RegistryError::BadValue { .. } => Failure::of(e.code(), format!("--{key}: {e}")),
            e => Failure::new(e),
        };
        let shared = pipeline.roles_beside(Role::Scheduling);
        let brought = [
            ("admission", shared.contains(&Role::Admission)),
            ("placement", shared.contains(&Role::Placement)),
            ("cluster-manager", shared.contains(&Role::Cluster)),
        ];
        let given = [
            &overrides.admission,
            &overrides.placement,
            &overrides.cluster,
        ];
        for ((key, brought), given) in brought.into_iter().zip(given) {
            if let (true, Some(given)) = (brought, given) {
                return Err(Failure::new(format!(
                    "--{key} is `{given}`, which has no meaning with `{label}`: that brings its own"
                )));
            }
        }
        if let Some(n) = &overrides.admission {
            let part = r.admission.build(n, seed).map_err(|e| of("admission", e))?;
            pipeline = pipeline.with_admission(part).map_err(Failure::new)?;
        }
        if let Some(n) = &overrides.placement {
            let part = r.placement.build(n, seed).map_err(|e| of("placement", e))?;
            pipeline = pipeline.with_placement(part).map_err(Failure::new)?;
        }
        if let Some(n) = &overrides.cluster {
            let part = r
                .cluster
                .build(n, seed)
                .map_err(|e| of("cluster-manager", e))?;
            pipeline = pipeline.with_cluster(part).map_err(Failure::new)?;
        }
        pipeline = match trigger {
            Some(Tempo::Rounds(rounds)) => pipeline.with_trigger(rounds),
            Some(Tempo::OnEvent(on_event)) => pipeline.with_trigger(on_event),
            None => pipeline,
        };
        Ok(pipeline.renamed(label.as_str()))
    }
}

fn has<T>(shelf: &blox_core::registry::ComponentRegistry<T>, name: &str) -> bool {
    shelf.iter().any(|(n, _)| n == name)
}

/// Returns the name of a scheduler in paths, without the number that distinguishes equal names.
pub(crate) fn in_paths(label: &str) -> String {
    blox_results::in_paths(label.trim_end_matches('}'))
}

pub(super) fn contestants(names: &[String]) -> Result<Vec<Contestant>, Failure> {
    let mut list: Vec<Contestant> = Vec::new();
    for text in names {
        let named: ComponentSpec = text.parse().map_err(Failure::new)?;
        let label = named.to_string();
        if list.iter().any(|c| c.label == label) {
            return Err(Failure::new(format!(
                "scheduler `{label}` is named twice, expected different schedulers"
            )));
        }
        let plain = in_paths(&label);
        let mut folder = plain.clone();
        let mut n = 2;
        while list.iter().any(|c| c.folder == folder) {
            folder = format!("{plain}-{n}");
            n += 1;
        }
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
