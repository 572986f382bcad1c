//! Drawing of a chart: over the same axes, or in panels.

use crate::chart::Chart;
use crate::panels;

impl Chart {
    /// Returns the picture.
    pub fn svg(&self) -> String {
        match self.panels {
            true => panels::svg(self),
            false => self.overlaid(),
        }
    }
}
