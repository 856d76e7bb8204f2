//! Plots, tables and self-contained pages.
//!
//! Everything here turns plain data into bytes: a [`Figure`] of [`Chart`]s becomes SVG, PDF or PNG, a [`Table`]
//! becomes terminal text, Markdown, CSV or HTML, a [`Page`] becomes one HTML file that needs no network.
//! Nothing is written to disk, and equal input gives equal output, byte for byte.
//!
//! A figure is first laid out as a [`graphic::Graphic`], a flat list of shapes; the writers of SVG, PDF and PNG
//! all draw that list, so that they always agree.
//!
//! ```
//! use dapple_report::{Axis, Chart, Figure, Series, Theme};
//!
//! let chart = Chart::new("Privacy profile")
//!     .x(Axis::linear("ε"))
//!     .y(Axis::log("δ"))
//!     .series(Series::line("Poisson", [(0.0, 1e-1), (1.0, 1e-3), (2.0, 1e-6)]));
//! let svg = Figure::single(chart).to_svg(Theme::Auto);
//! assert!(svg.starts_with("<svg"));
//! ```

// Input arrives here, and nothing may be expected of it.
#![warn(clippy::expect_used)]

mod budget_bar;
pub mod chart;
mod class_bars;
pub mod crop;
mod error;
mod escape;
mod figure;
mod font;
pub mod graphic;
mod heat_map;
pub mod page;
pub mod paint;
pub mod raster;
pub mod table;

pub use budget_bar::{BudgetBar, budget_bars};
pub use chart::{Axis, BandPoint, Bar, Chart, Dash, ErrorPoint, LegendPlace, ReferenceLine, Series};
pub use class_bars::class_bars;
pub use crop::{CropPicture, crop_picture};
pub use error::ReportError;
pub use figure::Figure;
pub use heat_map::confusion_map;
pub use page::{Headline, Page, Section, style_variables};
pub use paint::{Rgb, Theme};
pub use raster::{LabelPicture, Picture, class_colour};
pub use table::{Cell, Column, Table, TableRows, TextStyle};
