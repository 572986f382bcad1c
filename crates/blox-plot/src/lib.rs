//! Charts of scheduling results as SVG, and with the feature `png` as PNG and PDF.
//!
//! - [`Chart`] draws [`Series`] over two axes: lines with intervals, steps and cumulative
//!   distributions, in one frame or in a panel for each series.
//! - [`BarChart`] compares a few numbers.
//! - [`Gantt`] shows the jobs on each GPU over time.
//! - [`Outline`] shows a tree, with a line for each node.
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
//! # Properties of every picture
//! - The same data give the same bytes. Points that are not finite are left out.
//! - A picture is 400 units wide. In a column of 3.3 inch, its smallest text has 6.5 pt.
//! - Axes end at the data and name their unit. Legends stand below the axes.
//! - Twenty series differ without colour, by dash and marker; bars differ by hatching.
//! - The background is transparent. Every colour is legible on white and on dark pages: the contrast
//!   of [`COLOURS`] is at least 3 on both.
//! - Text is lighter if the reader prefers dark pages (`prefers-color-scheme`). A page that includes
//!   a picture can restyle the classes `ink`, `soft`, `grid` and `ink-line`: `svg .ink { fill: .. }`.
//!
//! | Task | Start with |
//! |---|---|
//! | Draw lines, steps or a distribution | [`Chart`], [`Series`] |
//! | Compare a few numbers | [`BarChart`] |
//! | Draw jobs on GPUs over time | [`Gantt`], [`Bar`], [`colours_apart`] |
//! | Draw a tree | [`Outline`] |
//! | Label an axis and choose its scale and unit | [`Axis`], [`TimeUnit`] |
//! | Convert a picture to PNG or PDF (feature `png`) | `png`, `pdf` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod axis;
mod bar;
mod bars;
mod chart;
mod colouring;
mod drawing;
mod frame;
mod gantt;
mod outline;
mod panels;
#[cfg(feature = "png")]
mod parsed;
#[cfg(feature = "png")]
mod pdf;
#[cfg(feature = "png")]
mod png;
mod series;
mod style;
mod svg;

pub use axis::{Axis, TimeUnit, grouped};
pub use bar::Bar;
pub use bars::BarChart;
pub use chart::Chart;
pub use colouring::colours_apart;
pub use gantt::Gantt;
pub use outline::Outline;
#[cfg(feature = "png")]
pub use parsed::ConversionError;
#[cfg(feature = "png")]
pub use pdf::pdf;
#[cfg(feature = "png")]
pub use png::png;
pub use series::Series;
pub use style::{COLOURS, colour};
pub use svg::Escaped;
