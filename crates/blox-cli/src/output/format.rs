//! Output formats.

use super::super::args::Options;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputFormat {
    Table,
    Markdown,
    Csv,
    Json,
}

impl OutputFormat {
    pub fn of(o: &Options) -> Self {
        let json = o.json.then_some(OutputFormat::Json);
        o.output_format.or(json).unwrap_or(OutputFormat::Table)
    }

    /// Returns true for machine-readable formats; notices then go to standard error.
    pub fn is_data(self) -> bool {
        matches!(self, OutputFormat::Csv | OutputFormat::Json)
    }
}
