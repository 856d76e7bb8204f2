//! Runs beside each other.

use dapple_report::{Axis, Chart, Figure, LegendPlace, Series, Theme};
use serde::{Deserialize, Serialize};

use super::RunDesk;
use crate::error::ServeError;

/// The most runs in one drawing; the palette has no more colours.
const MOST: usize = 8;

/// The runs to compare, by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComparisonQuestion {
    runs: Vec<String>,
}

/// A drawing of their scores.
#[derive(Debug, Serialize)]
pub(crate) struct ComparisonAnswer {
    svg: String,
}

impl RunDesk {
    /// The scores of runs over their steps.
    pub(crate) fn compare(&self, compared: &ComparisonQuestion) -> Result<ComparisonAnswer, ServeError> {
        if compared.runs.len() > MOST {
            return Err(ServeError::refused(
                format!("more than {MOST} runs do not fit into one drawing"),
                None,
            ));
        }
        let mut chart = Chart::new("").x(Axis::linear("step")).legend(LegendPlace::Above);
        let mut measures = Vec::new();
        for name in &compared.runs {
            let folder = self.folders.folder(name)?;
            let lines = dapple_train::evaluations(&folder)?;
            measures.extend(lines.last().map(|line| line.evaluation.score().measure.words()));
            let points = lines.iter().map(|line| (line.step as f64, line.evaluation.score().value));
            chart = chart.series(Series::line_points(name.as_str(), points));
        }
        measures.dedup();
        let figure = Figure::single(chart.y(Axis::linear(measures.join(", ")))).panel_size(420.0, 260.0);
        Ok(ComparisonAnswer { svg: figure.to_svg(Theme::Auto) })
    }
}
