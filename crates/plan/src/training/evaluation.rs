//! How images are looked at in evaluation.

use super::TargetKind;
use crate::error::PlanError;
use crate::spec::{ClassMeasure, EvaluationKind, TrainSpec};

/// The step from one window to the next if the plan does not say: two thirds of a window, so that most pixels are seen twice or more.
const STRIDE: f64 = 2.0 / 3.0;

/// How images are looked at in evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EvaluationPlan {
    /// An image has one class, and the probabilities of some crops of it are averaged.
    Crops {
        /// Crops along each side.
        grid: u32,
        /// What the model is judged by.
        measure: ClassMeasure,
    },
    /// Every pixel has a class.
    Maps(MapEvaluation),
}

/// How a model looks at an image of any size in which every pixel has a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MapEvaluation {
    /// At the whole image at once.
    Whole,
    /// Window by window, each of the size that the model was trained on. Where windows overlap, their scores are averaged.
    Sliding {
        /// The step from one window to the next, as a share of the window.
        stride: f64,
    },
}

/// How images are to be looked at instead of what a plan says. What is left out is as in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Look {
    /// Crops along each side of an image, whose probabilities are averaged, if an image has one class.
    pub grid: Option<u32>,
    /// Whether an image with a label map is seen at once or window by window.
    pub kind: Option<EvaluationKind>,
    /// The step from one window to the next, as a share of the window.
    pub stride: Option<f64>,
}

impl EvaluationPlan {
    /// What a plan says, for records with these targets.
    ///
    /// # Errors
    /// A setting that does not suit the targets, or makes no sense.
    pub fn check(spec: &TrainSpec, targets: TargetKind) -> Result<Self, PlanError> {
        let said = Look { grid: spec.evaluation_grid, kind: spec.evaluation, stride: spec.evaluation_stride };
        let usual = match targets {
            TargetKind::Class => Self::Crops { grid: 1, measure: spec.measure.unwrap_or_default() },
            TargetKind::LabelMap if spec.measure.is_some() => {
                return Err(PlanError::invalid(
                    "train.measure",
                    "the data set has a class a pixel, and the model is judged by mIoU",
                    "leave it out",
                ));
            }
            TargetKind::LabelMap => Self::Maps(MapEvaluation::Whole),
        };
        usual.with(said)
    }

    /// The same plan with the changes that `look` asks for.
    ///
    /// # Errors
    /// As [`EvaluationPlan::check`].
    pub fn with(self, look: Look) -> Result<Self, PlanError> {
        let Look { grid, kind, stride } = look;
        let said = match self {
            Self::Crops { .. } if kind.is_some() || stride.is_some() => {
                return Err(PlanError::invalid(
                    "train.evaluation",
                    "the data set has one class an image",
                    "leave it out; train.evaluation_grid averages over crops",
                ));
            }
            Self::Crops { grid: said, measure } => {
                return Ok(Self::Crops { grid: grid.unwrap_or(said), measure });
            }
            Self::Maps(said) => said,
        };
        if grid.is_some() {
            return Err(PlanError::invalid(
                "train.evaluation_grid",
                "the data set has a class a pixel",
                "leave it out; train.evaluation = \"sliding\" averages over windows",
            ));
        }
        said.with(kind, stride).map(Self::Maps)
    }
}

impl MapEvaluation {
    fn with(self, kind: Option<EvaluationKind>, stride: Option<f64>) -> Result<Self, PlanError> {
        let (said, step) = match self {
            Self::Whole => (EvaluationKind::Whole, STRIDE),
            Self::Sliding { stride } => (EvaluationKind::Sliding, stride),
        };
        match (kind.unwrap_or(said), stride) {
            (EvaluationKind::Whole, None) => Ok(Self::Whole),
            (EvaluationKind::Whole, Some(_)) => Err(PlanError::invalid(
                "train.evaluation_stride",
                "images are seen at once",
                "set train.evaluation = \"sliding\"",
            )),
            (EvaluationKind::Sliding, Some(stride)) if !(stride > 0.0 && stride <= 1.0) => {
                Err(PlanError::invalid(
                    "train.evaluation_stride",
                    format!("{stride} is not in (0, 1]"),
                    "give a share of the window such as 0.5",
                ))
            }
            (EvaluationKind::Sliding, stride) => Ok(Self::Sliding { stride: stride.unwrap_or(step) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_suit_the_data() {
        let plan = TrainSpec::default();
        let check = |look: Look, plan: &TrainSpec, targets| {
            EvaluationPlan::check(plan, targets).and_then(|plan| plan.with(look))
        };
        let sliding = Look { kind: Some(EvaluationKind::Sliding), ..Look::default() };
        let grid = Look { grid: Some(2), ..Look::default() };
        let stride = |stride| Look { stride: Some(stride), ..sliding };
        for (look, targets) in [
            (Look::default(), TargetKind::Class),
            (grid, TargetKind::Class),
            (Look::default(), TargetKind::LabelMap),
            (stride(1.0), TargetKind::LabelMap),
        ] {
            check(look, &plan, targets).unwrap();
        }
        for (look, targets) in [
            (sliding, TargetKind::Class),
            (grid, TargetKind::LabelMap),
            (stride(0.0), TargetKind::LabelMap),
            (stride(f64::NAN), TargetKind::LabelMap),
            (Look { stride: Some(0.5), ..Look::default() }, TargetKind::LabelMap),
        ] {
            let error = check(look, &plan, targets).unwrap_err();
            assert!(error.hint().is_some() && error.to_string().starts_with("train.evaluation"), "{error}");
        }
        // What is asked for takes precedence over the plan.
        let plan =
            TrainSpec { evaluation: Some(EvaluationKind::Sliding), evaluation_stride: Some(0.5), ..plan };
        let asked = Look { kind: Some(EvaluationKind::Whole), ..Look::default() };
        assert_eq!(
            check(asked, &plan, TargetKind::LabelMap).unwrap(),
            EvaluationPlan::Maps(MapEvaluation::Whole)
        );
        let own = check(Look::default(), &plan, TargetKind::LabelMap).unwrap();
        assert_eq!(own, EvaluationPlan::Maps(MapEvaluation::Sliding { stride: 0.5 }));
        let judged = TrainSpec { measure: Some(ClassMeasure::ClassAccuracy), ..TrainSpec::default() };
        let measure = ClassMeasure::ClassAccuracy;
        let plan = check(grid, &judged, TargetKind::Class).unwrap();
        assert_eq!(plan, EvaluationPlan::Crops { grid: 2, measure });
        let error = check(Look::default(), &judged, TargetKind::LabelMap).unwrap_err();
        assert!(error.to_string().starts_with("train.measure"), "{error}");
        let usual = check(sliding, &TrainSpec::default(), TargetKind::LabelMap).unwrap();
        assert_eq!(usual, EvaluationPlan::Maps(MapEvaluation::Sliding { stride: STRIDE }));
    }
}
