//! Output formats.

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
    /// Returns true for machine-readable formats; notices then go to standard error.
    pub fn is_data(self) -> bool {
        matches!(self, OutputFormat::Csv | OutputFormat::Json)
    }
}
