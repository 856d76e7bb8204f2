//! Evaluates a run as its plan says.

use std::sync::Arc;

use dapple_data::{Dataset, TargetKind, Views};
use dapple_graph::Parameters;
use dapple_plan::spec::{EvaluationKind, TrainSpec};
use dapple_private::Executor;

use super::{Evaluation, Method, Segmenter, classify};
use crate::device::{Machine, one_card};
use crate::error::TrainError;
use crate::inference::Inference;
use crate::prepare::Prepared;
use crate::step::Trainer;

/// The step from window to window unless told otherwise: two thirds of a window, so that most pixels are seen twice or more.
const STRIDE: f64 = 2.0 / 3.0;

/// How images are looked at in evaluation; what is left out is as in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Look {
    /// Crops along each side of an image whose probabilities are averaged, where an image has one class.
    pub grid: Option<u32>,
    /// Whether an image with a label map is seen at once or window by window.
    pub kind: Option<EvaluationKind>,
    /// The step from one window to the next, as a share of the window.
    pub stride: Option<f64>,
}

impl Look {
    /// The same with what the plan says filled in.
    fn or(self, plan: &TrainSpec) -> Self {
        let kind = self.kind.or(plan.evaluation);
        // The plan's step belongs to the plan's windows.
        let step = plan.evaluation_stride.filter(|_| kind == plan.evaluation);
        Self { grid: self.grid.or(plan.evaluation_grid), kind, stride: self.stride.or(step) }
    }

    /// Refuses what does not suit the data, or makes no sense.
    pub(crate) fn check(self, plan: &TrainSpec, targets: TargetKind) -> Result<Self, TrainError> {
        let look = self.or(plan);
        match targets {
            TargetKind::Class if look.kind.is_some() || look.stride.is_some() => Err(TrainError::setting(
                "train.evaluation",
                "the data set has one class an image",
                "leave it out; train.evaluation_grid averages over crops",
            )),
            TargetKind::LabelMap if look.grid.is_some() => Err(TrainError::setting(
                "train.evaluation_grid",
                "the data set has a class a pixel",
                "leave it out; train.evaluation = \"sliding\" averages over windows",
            )),
            _ if look.stride.is_some() && look.kind != Some(EvaluationKind::Sliding) => {
                Err(TrainError::setting(
                    "train.evaluation_stride",
                    "images are seen at once",
                    "set train.evaluation = \"sliding\"",
                ))
            }
            _ => match look.stride {
                Some(stride) if !(stride > 0.0 && stride <= 1.0) => Err(TrainError::setting(
                    "train.evaluation_stride",
                    format!("{stride} is not in (0, 1]"),
                    "give a share of the window such as 0.5",
                )),
                _ => Ok(look),
            },
        }
    }

    /// How an image with a label map is seen.
    pub(crate) fn method(self) -> Method {
        match self.kind.unwrap_or_default() {
            EvaluationKind::Whole => Method::Whole,
            EvaluationKind::Sliding => Method::Sliding { stride: self.stride.unwrap_or(STRIDE) },
        }
    }
}

/// Evaluates the model of a run, again and again.
pub(crate) struct Evaluator {
    look: Look,
    inference: Inference,
}

impl Evaluator {
    pub(crate) fn new(prepared: &Prepared, look: Look) -> Result<Self, TrainError> {
        let train = &prepared.data.train;
        Ok(Self {
            look: look.check(&prepared.spec.train, train.target_kind())?,
            inference: Inference::new(
                &prepared.training.model,
                train.classes() as usize,
                &prepared.spec.performance,
                prepared.deterministic(),
            ),
        })
    }

    /// Evaluates the model of a run that goes on, with the executor that it trains with where that will do.
    pub(crate) fn evaluate(
        &mut self,
        prepared: &Prepared,
        trainer: &mut Trainer,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        match dataset.target_kind() {
            TargetKind::Class => {
                let (executor, parameters) = trainer.evaluator()?;
                self.classify(prepared, executor, parameters, dataset)
            }
            TargetKind::LabelMap => self.segment(prepared, trainer.weights()?, dataset),
        }
    }

    /// Evaluates weights of the model, on one card of several.
    pub(crate) fn evaluate_weights(
        &mut self,
        prepared: &Prepared,
        parameters: &Parameters,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        match dataset.target_kind() {
            TargetKind::Class => {
                let graph = &prepared.graphs[prepared.graphs.len() - 1];
                let mut machine =
                    Machine::new(&one_card(&prepared.spec.performance), None, prepared.deterministic());
                let mut executor = machine.executor(graph, &mut Vec::new())?;
                self.classify(prepared, &mut *executor, parameters, dataset)
            }
            TargetKind::LabelMap => self.segment(prepared, parameters, dataset),
        }
    }

    fn classify(
        &self,
        prepared: &Prepared,
        executor: &mut dyn Executor,
        parameters: &Parameters,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        let (views, threads) = seen(prepared);
        classify(executor, parameters, dataset, views, self.look.grid.unwrap_or(1), threads)
    }

    fn segment(
        &mut self,
        prepared: &Prepared,
        parameters: &Parameters,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        let (views, threads) = seen(prepared);
        let (inference, method) = (&mut self.inference, self.look.method());
        Segmenter { inference, parameters, views, method }.evaluate(dataset, threads)
    }
}

/// What the last part of the plan sees, and with how many threads.
fn seen(prepared: &Prepared) -> (&Views, usize) {
    let threads = prepared.spec.performance.worker_threads();
    (&prepared.views[prepared.views.len() - 1], threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_suit_the_data() {
        let plan = TrainSpec::default();
        let sliding = Look { kind: Some(EvaluationKind::Sliding), ..Look::default() };
        let grid = Look { grid: Some(2), ..Look::default() };
        let stride = |stride| Look { stride: Some(stride), ..sliding };
        for (look, targets) in [
            (Look::default(), TargetKind::Class),
            (grid, TargetKind::Class),
            (Look::default(), TargetKind::LabelMap),
            (stride(1.0), TargetKind::LabelMap),
        ] {
            look.check(&plan, targets).unwrap();
        }
        for (look, targets) in [
            (sliding, TargetKind::Class),
            (grid, TargetKind::LabelMap),
            (stride(0.0), TargetKind::LabelMap),
            (stride(f64::NAN), TargetKind::LabelMap),
            (Look { stride: Some(0.5), ..Look::default() }, TargetKind::LabelMap),
        ] {
            let error = look.check(&plan, targets).unwrap_err();
            assert!(error.hint().is_some() && error.to_string().starts_with("train.evaluation"), "{error}");
        }
        // What is asked for goes before the plan.
        let plan =
            TrainSpec { evaluation: Some(EvaluationKind::Sliding), evaluation_stride: Some(0.5), ..plan };
        let asked = Look { kind: Some(EvaluationKind::Whole), ..Look::default() };
        assert_eq!(asked.check(&plan, TargetKind::LabelMap).unwrap().method(), Method::Whole);
        let own = Look::default().check(&plan, TargetKind::LabelMap).unwrap();
        assert_eq!(own.method(), Method::Sliding { stride: 0.5 });
        assert_eq!(sliding.method(), Method::Sliding { stride: STRIDE });
    }
}
