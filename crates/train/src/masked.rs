//! How a run sees the private and the public part of each image apart.

use dapple_data::{RecordPart, Views};
use dapple_engine::{Clipping, ClippingRule, Layout};
use dapple_geometry::TokenGrid;
use dapple_graph::{Graph, Parameters};
use dapple_plan::spec::MaskedPass;
use dapple_plan::{MaskedPlan, PublicTokens, TrainingPlan};

use crate::error::TrainError;
use crate::model::{Blueprint, ModelTokens};

/// The two passes of a run whose images have private and public parts.
#[derive(Debug, Clone)]
pub(crate) struct MaskedPasses {
    plan: MaskedPlan,
    public: PublicTokens,
    /// The tokens of the model, if it is given those of a part; otherwise the pixels of the other part are blank, and that is all.
    tokens: Option<TokenGrid>,
    /// The graph that each phase of the plan trains, if it is not the whole model.
    graphs: Option<Vec<Graph>>,
}

impl MaskedPasses {
    /// The passes of a plan on these views; `None` if records are not parted.
    ///
    /// # Errors
    /// A model that takes no subsets of tokens although the plan says so, and views of which no part can be shown.
    pub(crate) fn of(
        training: &TrainingPlan,
        blueprint: &Blueprint,
        views: &[Views],
        classes: usize,
        parameters: &Parameters,
    ) -> Result<Option<Self>, TrainError> {
        let (Some(plan), Some(tokens)) = (training.masked, training.privacy.parts()[0].masked()) else {
            return Ok(None);
        };
        let grid = blueprint.token_grid();
        let default = if grid.is_some() { MaskedPass::Tokens } else { MaskedPass::Blank };
        let smoothing = training.conduct.label_smoothing;
        let subset = |views: &Views| {
            let graph = blueprint.build_on(ModelTokens::Subset, &views.shape(), classes, smoothing)?;
            debug_assert!(parameters.fit(&graph), "a model on a subset has the parameters of the whole");
            Ok(graph)
        };
        let (grid, graphs) = match plan.pass.unwrap_or(default) {
            MaskedPass::Blank => (None, None),
            MaskedPass::Tokens => {
                (grid, Some(views.iter().map(subset).collect::<Result<Vec<_>, TrainError>>()?))
            }
        };
        let passes = Self { plan, public: tokens.public, tokens: grid, graphs };
        for part in [RecordPart::Private, RecordPart::Public] {
            passes.views(views, part)?;
        }
        Ok(Some(passes))
    }

    /// What each phase shows of a part of every image.
    pub(crate) fn views(&self, views: &[Views], part: RecordPart) -> Result<Vec<Views>, TrainError> {
        let of = |views: &Views| views.clone().of_part(part, self.tokens);
        Ok(views.iter().map(of).collect::<Result<_, _>>()?)
    }

    /// The graph that each phase trains, if it is not the whole model.
    pub(crate) fn graphs(&self) -> Option<&[Graph]> {
        self.graphs.as_deref()
    }

    /// Whether public parts come from a batch of their own, rather than from the records whose private parts are seen.
    pub(crate) fn decoupled(&self) -> bool {
        self.public == PublicTokens::Decoupled
    }

    /// How gradients of public parts are bounded, where those of private parts are by `rule`, and what they are multiplied by.
    ///
    /// # Errors
    /// A public clip norm so far from the private one that sums of this many records could not be added exactly.
    pub(crate) fn public_rule(
        &self,
        rule: &ClippingRule,
        layout: &Layout,
        records: u64,
    ) -> Result<(ClippingRule, f32), TrainError> {
        let bound = match self.public {
            PublicTokens::CoupledClipped { clip } if rule.unit().is_some() => Some(clip * rule.sensitivity()),
            _ => None,
        };
        let Some(max_norm) = bound else {
            return Ok((ClippingRule::new(&Clipping::Off, layout)?, self.plan.public_weight as f32));
        };
        let public = ClippingRule::new(&Clipping::Flat { max_norm }, layout)?;
        if !rule.joins(&public, records) {
            return Err(TrainError::setting(
                "masked.public_clip",
                format!(
                    "sums of {records} gradients this much longer or shorter than private ones are not added exactly"
                ),
                "give a number nearer to 1, or a smaller batch",
            ));
        }
        Ok((public, 1.0))
    }
}
