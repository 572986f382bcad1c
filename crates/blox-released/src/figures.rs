//! All figures, by name.

use crate::blox::figures as blox;
use crate::elasticflow::figures as elasticflow;
use crate::figure::{Figure, Planner, ReproduceError, Source};
use crate::gavel::figures as gavel;
use crate::lucid::figures as lucid;
use crate::sia::figures as sia;
use crate::{synergy, tiresias};
use blox_core::SortedMap;
use blox_core::suggest::did_you_mean;
use serde::Deserialize;
use std::sync::LazyLock;

/// Functions that plan figures whose description is not enough.
const PLANNERS: [(&str, Planner); 37] = [
    ("blox-fig10", blox::fig10),
    ("blox-fig11", blox::fig11),
    ("blox-fig3", sia::blox_fig3),
    ("blox-fig4", tiresias::figures::blox_fig4),
    ("blox-fig8", sia::blox_fig8),
    ("blox-table4", blox::table4),
    ("elasticflow-fig10", elasticflow::fig10::plan),
    ("elasticflow-fig11", elasticflow::fig11::plan),
    ("elasticflow-fig8a", elasticflow::fig8a),
    ("elasticflow-fig8b", elasticflow::fig8b),
    ("elasticflow-fig9", elasticflow::fig9),
    ("gavel-fig10", gavel::fig10),
    ("gavel-fig11", gavel::fig11),
    ("gavel-fig13", gavel::hierarchy::plan),
    ("gavel-fig9", gavel::fig9),
    ("gavel-las", gavel::physical),
    ("gavel-makespan", gavel::physical),
    ("gavel-scale", gavel::scale::plan),
    ("helios-ces", lucid::energy::plan),
    ("helios-qssf", lucid::qssf),
    ("lucid-fig13a", lucid::models::fig13a),
    ("lucid-fig7", lucid::models::fig7),
    ("lucid-fig8", lucid::fig8),
    ("lucid-fig9", lucid::fig9),
    ("lucid-quirks", lucid::quirks),
    ("lucid-table4", lucid::table4),
    ("lucid-table5", lucid::table5),
    ("lucid-table7", lucid::models::table7),
    ("pollux-osdi21", sia::pollux_osdi21),
    ("sia-fig10", sia::sensitivity::fig10),
    ("sia-fig11", sia::sensitivity::fig11),
    ("sia-fig7", sia::fig7),
    ("sia-scale", sia::scale::plan),
    ("sia-table3", sia::tables::table3),
    ("sia-table4", sia::tables::table4),
    ("synergy-100job", synergy::figures::plan),
    ("tiresias-60job", tiresias::figures::plan),
];

/// All figures, in order of their names.
static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        sources: SortedMap<String, Source>,
        figure: Vec<Figure>,
    }
    let file = toml::from_str(include_str!("figures.toml"));
    let mut file: File = file.expect("figures.toml describes figures");
    for figure in &mut file.figure {
        let named = |(name, _): &&(&str, _)| *name == figure.name;
        figure.plan = PLANNERS.iter().find(named).map(|(_, plan)| *plan);
        for needed in figure.data.iter_mut().chain(&mut figure.optional) {
            needed.origin = file.sources[&needed.source].clone();
        }
    }
    file.figure
});

/// Returns all figures, in order of their names.
pub fn figures() -> &'static [Figure] {
    &FIGURES
}

/// Returns the figure with this name.
///
/// # Errors
/// Fails for an unknown name. The error lists the known names.
pub fn figure(name: &str) -> Result<&'static Figure, ReproduceError> {
    let names = || FIGURES.iter().map(|f| f.name.as_str());
    let found = FIGURES.iter().find(|f| f.name == name);
    found.ok_or_else(|| ReproduceError::Unknown {
        name: name.to_owned(),
        suggestion: match names().find(|known| known.ends_with(&format!("-{name}"))) {
            Some(known) => format!(", did you mean `{known}`? "),
            None => did_you_mean(name, names(), "; "),
        },
        known: names().collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_sim::Watch;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn an_unknown_figure_lists_the_known_ones() {
        let names: Vec<&str> = figures().iter().map(|f| f.name.as_str()).collect();
        assert!(names.contains(&"blox-fig12"));
        let error = figure("fig99").err().map(|e| e.to_string());
        let known = names.join(", ");
        let expected = format!("unknown figure `fig99`; known: {known}");
        assert_eq!(error, Some(expected));
        let slip = figure("blox-fig-12").err().map(|e| e.to_string());
        let start = "unknown figure `blox-fig-12`, did you mean `blox-fig12`? known: ";
        assert!(slip.is_some_and(|e| e.starts_with(start)));
    }

    #[test]
    fn a_stop_ends_figures_that_are_made_at_once() {
        let watch: Arc<Watch> = Arc::default();
        watch.stop.store(true, Ordering::Relaxed);
        let mut stopped = Vec::new();
        for figure in figures() {
            let plan = figure.plan(None).ok().filter(|plan| plan.runs() == 0);
            if let Some(plan) = plan {
                let watches = [Arc::clone(&watch)];
                let done = plan.reproduce(&watches, &AtomicU64::new(0)).unwrap();
                assert_eq!(done.findings, None, "{}", figure.name);
                stopped.push(&figure.name);
            }
        }
        assert_eq!(stopped.len(), 13, "{stopped:?}");
    }

    #[test]
    fn quick_figures_hold_on_their_own_workloads() {
        for name in ["gavel-fig13", "helios-qssf"] {
            let plan = figure(name).unwrap().plan(None).unwrap();
            let done = plan.reproduce(&[], &AtomicU64::new(0)).unwrap();
            let findings = done.findings.unwrap();
            assert!(
                findings.rows.iter().all(|row| row.seeds.is_some()),
                "{name}"
            );
            let mut failed = findings.claims.iter().filter(|claim| !claim.holds);
            assert_eq!(failed.next(), None, "{name}: {:?}", findings.rows);
        }
    }

    #[test]
    fn figures_are_in_order_of_their_names() {
        assert!(figures().is_sorted_by_key(|f| &f.name));
        assert!(PLANNERS.iter().all(|(name, _)| figure(name).is_ok()));
        let mut described = figures().iter().filter(|f| f.plan.is_none());
        assert!(described.all(|f| f.plan(None).is_ok_and(|plan| plan.runs() > 0)));
    }
}
