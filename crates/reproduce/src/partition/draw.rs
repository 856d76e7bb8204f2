//! A figure of the partitioning paper as a picture.

use dapple_report::{Axis, Chart, Dash, Figure, ReferenceLine, Series};

use super::compute::PartitionResults;
use super::figures::PanelQuestion;
use super::price::PartitionPricing;

/// Adds the charts to a figure.
pub(super) fn draw(results: &PartitionResults, figure: Figure) -> Figure {
    let mut figure = figure.columns(results.panels.len().min(2)).panel_size(430.0, 320.0);
    for (index, panel) in results.panels.iter().enumerate() {
        let y = match panel.question {
            PanelQuestion::NoiseOverSteps { .. } => Axis::linear(panel.question.y()),
            _ => Axis::log(panel.question.y()),
        };
        let mut chart = Chart::new(panel.title).x(Axis::linear(panel.question.x())).y(y);
        if matches!(panel.question, PanelQuestion::DeltaOverSteps { .. }) {
            chart = chart.reference(ReferenceLine::horizontal(1e-5, "δ = 10⁻⁵"));
        }
        for curve in results.curves.iter().filter(|curve| curve.panel == index) {
            let points = curve.points.iter().map(|point| (point.x, point.value.upper.max(1e-30)));
            let series = Series::line(curve.line.label, points).color(curve.line.color);
            let dash =
                if curve.line.price == PartitionPricing::Certified { Dash::Solid } else { curve.line.dash };
            chart = chart.series(series.dash(dash));
        }
        figure = figure.panel(chart);
    }
    figure
}
