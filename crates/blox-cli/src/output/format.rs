//! Output formats.

use super::super::Failure;
use super::super::config::Given;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Table,
    Markdown,
    Csv,
    Json,
}

impl OutputFormat {
    pub fn of(given: &Given) -> Result<Self, Failure> {
        let o = &given.options;
        match o.output_format.as_deref() {
            None if o.json => Ok(OutputFormat::Json),
            None | Some("table") => Ok(OutputFormat::Table),
            Some("markdown") => Ok(OutputFormat::Markdown),
            Some("csv") => Ok(OutputFormat::Csv),
            Some("json") => Ok(OutputFormat::Json),
            Some(other) => {
                let known = ["table", "markdown", "csv", "json"];
                Err(given.unknown("output-format", other, known))
            }
        }
    }

    /// Returns true for machine-readable formats; notices then go to standard error.
    pub fn is_data(self) -> bool {
        matches!(self, OutputFormat::Csv | OutputFormat::Json)
    }
}
