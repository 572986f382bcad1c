//! Names of figures.

use crate::summary::COLUMNS;
use serde_json::Value;

/// Named values.
pub type Fields = serde_json::Map<String, Value>;

/// Returns the columns of figures: the columns of a summary, and `complete` beside the counts of
/// jobs.
pub fn figure_columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().flat_map(|c| {
        let counts = c.name == "completed";
        [Some(c.name), counts.then_some("complete")]
            .into_iter()
            .flatten()
    })
}
