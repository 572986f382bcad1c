//! All figures, by name.

use crate::blox::figures as blox;
use crate::elasticflow::figures as elasticflow;
use crate::figure::{Figure, ReproduceError};
use crate::gavel::figures as gavel;
use crate::lucid::figures as lucid;
use crate::sia::figures as sia;
use crate::{synergy, tiresias};
use blox_core::suggest::did_you_mean;

/// All figures, in order of their names.
static FIGURES: [Figure; 29] = [
    blox::fig12::FIG12,
    blox::fig13::FIG13,
    blox::fig14::FIG14,
    blox::fig16::FIG16,
    blox::fig6::FIG6,
    blox::table4::TABLE4,
    elasticflow::fig10::FIG10,
    elasticflow::fig11::FIG11,
    elasticflow::fig8a::FIG8A,
    elasticflow::fig8b::FIG8B,
    elasticflow::fig9::FIG9,
    lucid::errors::ERRORS,
    gavel::fig8::FIG8,
    gavel::physical::LAS,
    gavel::physical::MAKESPAN,
    gavel::scale::SCALE,
    lucid::energy::HELIOS,
    lucid::FIG8,
    lucid::FIG9,
    lucid::QUIRKS,
    lucid::TABLE4,
    lucid::TABLE5,
    sia::pollux_osdi21::POLLUX,
    sia::arrivals::FIG7,
    sia::scale::SCALE,
    sia::tables::TABLE3,
    sia::tables::TABLE4,
    synergy::figures::JOBS_100,
    tiresias::figures::JOBS_60,
];

/// Returns all figures, in order of their names.
pub fn figures() -> &'static [Figure] {
    &FIGURES
}

/// Returns the figure with this name.
///
/// # Errors
/// Fails for an unknown name. The error lists the known names.
pub fn figure(name: &str) -> Result<&'static Figure, ReproduceError> {
    let names = || FIGURES.iter().map(|f| f.name);
    let found = FIGURES.iter().find(|f| f.name == name);
    found.ok_or_else(|| ReproduceError::Unknown {
        name: name.to_owned(),
        suggestion: did_you_mean(name, names(), "; "),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Plan;
    use blox_sim::Watch;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn an_unknown_figure_lists_the_known_ones() {
        let names: Vec<&str> = figures().iter().map(|f| f.name).collect();
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
            if let Ok(Plan::Whole(whole)) = figure.plan(None) {
                assert_eq!(whole(&watch).unwrap(), None, "{}", figure.name);
                stopped.push(figure.name);
            }
        }
        assert_eq!(stopped.len(), 8, "{stopped:?}");
    }

    #[test]
    fn figures_are_in_order_of_their_names() {
        assert!(figures().is_sorted_by_key(|f| f.name));
    }
}
