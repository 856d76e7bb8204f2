//! Epsilon over one choice of the plan.

use dapple_pages::level_words;
use dapple_plan::{Plan, PlanError, PlanSpec, Relation};
use dapple_report::paint::method;
use dapple_report::{Axis, Chart, Figure, ReferenceLine, Series, Theme};
use serde::Serialize;

use crate::answer::precision;
use crate::asked::{Asked, AskedPlan, Explorer};
use crate::error::ServeError;

/// The points of a curve.
const POINTS: usize = 17;

/// A drawing of a curve.
#[derive(Debug, Serialize)]
pub(crate) struct CurveAnswer {
    svg: String,
}

/// A choice that curves are drawn over.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Crop,
    Noise,
    Batch,
    Epochs,
    Patch,
}

impl Choice {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "crop" => Self::Crop,
            "noise" => Self::Noise,
            "batch" => Self::Batch,
            "epochs" => Self::Epochs,
            "patch" => Self::Patch,
            _ => return None,
        })
    }

    fn key(self) -> &'static str {
        match self {
            Self::Crop => "pipeline.crop",
            Self::Noise => "privacy.noise_multiplier",
            Self::Batch => "sampling.batch",
            Self::Epochs => "sampling.epochs",
            Self::Patch => "region.patch",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Crop => "side of the crop (pixels)",
            Self::Noise => "noise multiplier",
            Self::Batch => "expected batch",
            Self::Epochs => "epochs",
            Self::Patch => "side of the patch (pixels)",
        }
    }

    /// Where the plan stands.
    fn now(self, plan: &Plan, spec: &PlanSpec) -> Option<f64> {
        match self {
            Self::Crop => spec.pipeline.crop.map(|crop| f64::from(crop.x.max(crop.y))),
            Self::Noise => Some(plan.noise_multiplier()),
            Self::Batch => Some(plan.batch() as f64),
            Self::Epochs => Some(plan.steps() as f64 * plan.sample_rate()),
            Self::Patch => spec.region.patch.map(|patch| f64::from(patch.x.max(patch.y))),
        }
    }

    /// From where to where a curve reaches that shows this plan.
    fn range(self, plan: &Plan, spec: &PlanSpec, now: f64) -> (f64, f64) {
        let shorter = spec.pipeline.image.map_or(f64::MAX, |image| f64::from(image.x.min(image.y)));
        match self {
            Self::Crop => (1.0f64.max(now / 8.0), shorter.min(now * 4.0)),
            Self::Patch => (1.0, shorter.min(now * 8.0)),
            Self::Noise => (now / 4.0, now * 4.0),
            Self::Batch => (1.0f64.max(now / 8.0), (plan.records() as f64).min(now * 8.0)),
            Self::Epochs => (1.0f64.max(now / 8.0), now * 8.0),
        }
    }

    /// The value as the plan is given it.
    fn written(self, value: f64) -> String {
        match self {
            Self::Crop | Self::Patch | Self::Batch | Self::Epochs => {
                (value.round().max(1.0) as u64).to_string()
            }
            Self::Noise => format!("{value:e}"),
        }
    }
}

impl Explorer {
    /// Draws epsilon over a choice, at the plan's level and at that of whole records.
    pub(crate) fn curve(&self, asked: &Asked) -> Result<CurveAnswer, ServeError> {
        let name = asked.over.as_deref().unwrap_or("crop");
        let choice =
            Choice::named(name).ok_or_else(|| ServeError::Question(format!("no curve over {name:?}")))?;
        let AskedPlan { mut settled, plan, .. } = self.plan(asked)?;
        let none = || PlanError::Missing { key: choice.key(), why: "the curve begins where the plan stands" };
        let now = choice.now(&plan, &settled).ok_or_else(none)?;
        let (low, high) = choice.range(&plan, &settled, now);
        // A number of steps would stay as it is while the batch, or the epochs, change.
        if matches!(choice, Choice::Epochs) {
            settled.sampling.steps = None;
        }
        let mut chart = Chart::new("").x(Axis::log(choice.label())).y(Axis::log("epsilon"));
        for relation in levels(&plan) {
            let points = self.points(&settled, choice, (low, high), relation)?;
            let color = method::of_level(relation.name(), plan.sampling().name());
            chart = chart.series(Series::line(level_words(relation), points).color(color));
        }
        let figure = Figure::single(chart.reference(ReferenceLine::vertical(now, "this plan")))
            .panel_size(420.0, 270.0);
        Ok(CurveAnswer { svg: figure.to_svg(Theme::Auto) })
    }

    /// The upper ends of epsilon at values that lie evenly on a logarithmic axis. Values that no plan can have, and prices that are too large
    /// to report, are left out.
    fn points(
        &self,
        spec: &PlanSpec,
        choice: Choice,
        (low, high): (f64, f64),
        relation: Relation,
    ) -> Result<Vec<(f64, f64)>, ServeError> {
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(POINTS);
        for index in 0..POINTS {
            let value = low * (high / low).powf(index as f64 / (POINTS - 1) as f64);
            let written = choice.written(value);
            let at: f64 = written.parse().unwrap_or(value);
            if points.last().is_some_and(|&(last, _)| last >= at) {
                continue;
            }
            let Ok(plan) = self.varied(spec, choice.key(), &written) else { continue };
            match plan.at_relation(relation).epsilon(precision()) {
                Ok(epsilon) => points.push((at, epsilon.upper)),
                Err(error) if error.is_too_large() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(points)
    }
}

/// The levels at which a plan has a price.
fn levels(plan: &Plan) -> Vec<Relation> {
    match plan.relation() {
        Relation::Patch => vec![Relation::Patch, Relation::Replace],
        other => vec![other],
    }
}
