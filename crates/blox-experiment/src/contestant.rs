//! Schedulers by name, and their pipelines.

use crate::error::ExperimentError;
use crate::settings::Experiment;
use crate::value::Written;
use blox_core::{Composition, OnEvent, Pipeline, Role, Rounds, Seconds};
use blox_policies::formula::Formula;
use blox_policies::placement::{Consolidated, InOrder};
use blox_registry::{ComponentRegistry, ComponentSpec, Registry, RegistryError};

/// One scheduler of an experiment.
#[allow(
    missing_debug_implementations,
    reason = "it has policies of other crates"
)]
#[non_exhaustive]
pub struct Contestant {
    /// Name with parameters.
    pub label: String,
    /// The same, parsed.
    pub named: ComponentSpec,
    /// Seconds of a round, if the scheduler has rounds.
    pub period: Option<f64>,
    /// The scheduler, unless it is built anew for its run.
    pub(crate) kept: Option<Pipeline>,
}

/// Policies that replace a scheduler's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replacements<'a> {
    /// Admission policy.
    pub admission: Option<&'a ComponentSpec>,
    /// Placement policy.
    pub placement: Option<&'a ComponentSpec>,
    /// Cluster manager.
    pub cluster_manager: Option<&'a ComponentSpec>,
}

/// Builds the scheduler of a text, or its scheduling policy with the placement of most schedulers.
///
/// # Errors
/// There is no such scheduler or policy, or a parameter is wrong.
pub fn scheduler(
    registry: &Registry,
    text: &str,
    seed: u64,
) -> Result<(ComponentSpec, Pipeline), RegistryError> {
    let named: ComponentSpec = text.parse()?;
    let known = registry.schedulers.get(&named.name).is_some();
    if known || registry.scheduling.get(&named.name).is_none() {
        let pipeline = registry.schedulers.build(&named, seed)?;
        return Ok((named, pipeline));
    }
    let scheduling = registry.scheduling.build(&named, seed)?;
    let pipeline = Composition::new(named.to_string())
        .scheduling(scheduling)
        .placement(InOrder::new(Consolidated::default()))
        .seed(seed)
        .build()?;
    Ok((named, pipeline))
}

/// Replaces policies of a scheduler.
///
/// # Errors
/// There is no such policy, or the policies do not fit; with the key of the policy.
pub fn replace(
    mut pipeline: Pipeline,
    registry: &Registry,
    by: Replacements<'_>,
    seed: u64,
) -> Result<Pipeline, (&'static str, Box<RegistryError>)> {
    if let Some(part) = part("admission", by.admission, &registry.admission, seed)? {
        pipeline = pipeline
            .with_admission(part)
            .map_err(|e| ("admission", Box::new(e.into())))?;
    }
    if let Some(part) = part("placement", by.placement, &registry.placement, seed)? {
        pipeline = pipeline
            .with_placement(part)
            .map_err(|e| ("placement", Box::new(e.into())))?;
    }
    if let Some(part) = part(
        "cluster-manager",
        by.cluster_manager,
        &registry.cluster,
        seed,
    )? {
        pipeline = pipeline
            .with_cluster(part)
            .map_err(|e| ("cluster-manager", Box::new(e.into())))?;
    }
    Ok(pipeline)
}

/// Builds the component of a key.
fn part<T>(
    key: &'static str,
    named: Option<&ComponentSpec>,
    components: &ComponentRegistry<T>,
    seed: u64,
) -> Result<Option<T>, (&'static str, Box<RegistryError>)> {
    let built = named.map(|named| components.build(named, seed));
    built.transpose().map_err(|e| (key, Box::new(e)))
}

impl Contestant {
    /// Builds the scheduler of a text.
    pub(crate) fn of(
        text: &str,
        registry: &Registry,
        of: &Experiment,
        seed: u64,
    ) -> Result<(Self, Pipeline), ExperimentError> {
        let wrong = |source: RegistryError| ExperimentError::Component {
            before: match source {
                RegistryError::BadValue { .. } => match text.parse::<ComponentSpec>() {
                    Ok(named) => format!("`{named}`: "),
                    Err(_) => String::new(),
                },
                _ => String::new(),
            },
            source: Box::new(source),
            after: match text.contains('|') {
                true => "; alternatives with `|` belong to `blox sweep`",
                false => "",
            },
        };
        let (named, mut pipeline) = scheduler(registry, text, seed).map_err(wrong)?;
        let label = named.to_string();
        let shared = pipeline.roles_beside(Role::Scheduling);
        for (key, role, given) in [
            ("admission", Role::Admission, &of.admission),
            ("placement", Role::Placement, &of.placement),
            ("cluster-manager", Role::Cluster, &of.cluster_manager),
        ] {
            if let Some(given) = given.as_ref().filter(|_| shared.contains(&role)) {
                let option = of.origin.option(key);
                return Err(ExperimentError::Setting(format!(
                    "{option} is `{given}`, which has no meaning with `{label}`: that brings its own"
                )));
            }
        }
        let by = Replacements {
            admission: of.admission.as_deref(),
            placement: of.placement.as_deref(),
            cluster_manager: of.cluster_manager.as_deref(),
        };
        pipeline = replace(pipeline, registry, by, seed).map_err(|(key, source)| {
            ExperimentError::Component {
                before: match *source {
                    RegistryError::BadValue { .. } => format!("{}: ", of.origin.option(key)),
                    _ => String::new(),
                },
                source,
                after: "",
            }
        })?;
        let round = of.round.map(|round| Seconds::new(round.0));
        if let Some(rounds) = round.and_then(Rounds::every) {
            pipeline = pipeline.with_trigger(rounds);
        }
        if let Some(gap) = of.on_event {
            pipeline = pipeline.with_trigger(OnEvent::with_gap(Seconds::new(gap.0)));
        }
        let pipeline = pipeline.renamed(label.as_str());
        let period = pipeline.trigger().period();
        let contestant = Contestant {
            period: period.map(|period| period.secs()),
            kept: None,
            named,
            label,
        };
        Ok((contestant, pipeline))
    }
}

/// Returns a line for each key of a file that an option replaces, and for each policy that replaces
/// the schedulers' own.
pub(crate) fn replaced(of: &Experiment) -> Vec<String> {
    let parts = [
        (
            "placement",
            "placement policy and rule for blocked jobs",
            &of.placement,
        ),
        ("admission", "admission policy", &of.admission),
        ("cluster-manager", "cluster manager", &of.cluster_manager),
    ];
    let mut lines = of.origin.replaced.clone();
    for (key, part, given) in parts {
        let line = |name: &Written<ComponentSpec>| {
            let option = of.origin.option(key);
            format!("{option} {name} replaces each scheduler's own {part}")
        };
        lines.extend(given.as_ref().map(line));
    }
    lines
}

/// Returns a scheduler with its formulas in canonical form: formulas that differ only in blanks are
/// equal.
fn canonical(named: &ComponentSpec) -> ComponentSpec {
    let mut named = named.clone();
    let names: Vec<String> = named.params.names().map(str::to_owned).collect();
    for name in names {
        if let Ok(formula) = named.params.text(&name).parse::<Formula>() {
            named.params.set(name, formula.to_string());
        }
    }
    named
}

/// Builds the schedulers of an experiment.
pub(crate) fn contestants(
    names: &[String],
    registry: &Registry,
    of: &Experiment,
    seed: u64,
) -> Result<Vec<Contestant>, ExperimentError> {
    let mut list: Vec<Contestant> = Vec::new();
    let mut forms: Vec<ComponentSpec> = Vec::new();
    for text in names {
        let (mut contestant, pipeline) = Contestant::of(text, registry, of, seed)?;
        contestant.kept = Some(pipeline);
        let form = canonical(&contestant.named);
        if forms.contains(&form) {
            return Err(ExperimentError::Setting(format!(
                "scheduler `{}` is named twice, expected different schedulers",
                contestant.label
            )));
        }
        forms.push(form);
        list.push(contestant);
    }
    Ok(list)
}

/// Returns the index of the scheduler with which the others are compared.
pub(crate) fn baseline(
    of: &Experiment,
    contestants: &[Contestant],
) -> Result<usize, ExperimentError> {
    let Some(text) = &of.baseline else {
        return Ok(0);
    };
    let named = text.parse::<ComponentSpec>().ok();
    let named = named.as_ref().map(canonical);
    let found = contestants
        .iter()
        .position(|c| Some(canonical(&c.named)) == named);
    found.ok_or_else(|| {
        let known: Vec<&str> = contestants.iter().map(|c| c.label.as_str()).collect();
        of.unknown("baseline", text, known)
    })
}
