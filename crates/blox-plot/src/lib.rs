//! Charts of scheduling results as SVG, and with the feature `png` as PNG.
//!
//! - [`Chart`] draws [`Series`] over two axes: lines with intervals, steps,
//!   cumulative distributions; in one frame, or as a panel a series.
//! - [`BarChart`] compares a few numbers.
//! - [`Gantt`] shows which job held which GPUs when.
//! - [`Outline`] shows a tree, a line a node.
//!
//! ```
//! use blox_plot::{Axis, BarChart, Chart, Series};
//!
//! let jct = Chart::distribution("Job completion time", Axis::seconds("JCT").log())
//!     .with(Series::distribution("fifo", [300.0, 900.0, 86_400.0]))
//!     .with(Series::distribution("las", [300.0, 600.0, 172_800.0]));
//! assert!(jct.svg().starts_with("<svg"));
//!
//! let load = Chart::new("Load", Axis::new("load (jobs/h)"), Axis::seconds("average JCT"))
//!     .with(Series::line("fifo", [(2.0, 3600.0), (4.0, 7200.0)]).between([(3000.0, 4000.0), (7000.0, 7500.0)]));
//! let bars = BarChart::new("Average JCT", Axis::seconds("average JCT"))
//!     .with("fifo", [("load 8", 131_411.7)])
//!     .with("las", [("load 8", 188_995.2)]);
//! # let _ = (load.svg(), bars.svg());
//! ```
//!
//! # What holds for every picture
//! - The same data give the same bytes. Points that are not finite are left out.
//! - Twenty series stay apart without colour: seven colours that the
//!   colour-blind can tell apart (Okabe and Ito 2008, without yellow, which is
//!   too light for lines on white), times three dashes, and eight markers.
//! - Axes name their unit. Seconds are shown in the unit that a person would choose.
//! - Light by itself; a page with a dark background can say otherwise through the
//!   classes `bg`, `ink`, `soft`, `grid` and `ink-line`.

#![warn(missing_docs)]

mod axis;
mod bars;
mod chart;
mod frame;
mod gantt;
mod outline;
mod panels;
#[cfg(feature = "png")]
mod png;
mod series;
mod style;
mod svg;

pub use axis::{Axis, grouped};
pub use bars::BarChart;
pub use chart::Chart;
pub use gantt::{Bar, Gantt};
pub use outline::Outline;
#[cfg(feature = "png")]
pub use png::{PngError, png};
pub use series::Series;
pub use style::{COLOURS, colour};
pub use svg::Escaped;
