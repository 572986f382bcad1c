//! Names of figures.

use crate::statistics::Paired;
use crate::summary::COLUMNS;
use serde_json::{Value, json};

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

/// Adds the comparison with a baseline to figures. `averages` are the average job completion times of
/// both.
pub(crate) fn compare(fields: &mut Fields, averages: [f64; 2], paired: Option<Paired>) {
    let [own, base] = averages;
    if base > 0.0 {
        fields.insert("relative_avg_jct".to_owned(), json!(own / base));
    }
    if let Some(paired) = paired {
        fields.insert("paired".to_owned(), json!(paired));
    }
}
