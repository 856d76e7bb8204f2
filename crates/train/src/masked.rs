//! How a run sees the private and the public part of each image apart.

use dapple_data::{PartGrid, RecordPart, Views};
use dapple_engine::{Clipping, ClippingRule, Layout};
use dapple_geometry::{GeometryError, TokenGrid};
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
    /// What each phase of the plan trains on the places of a part, if the model is told them; otherwise the pixels of the other part are
    /// blank, and that is all.
    placed: Option<Placed>,
}

/// Models that are told where a part lies, one for each phase of a plan.
#[derive(Debug, Clone)]
struct Placed {
    grids: Vec<PartGrid>,
    graphs: Vec<Graph>,
}

impl MaskedPasses {
    /// The passes of a plan on these views; `None` if records are not parted.
    ///
    /// # Errors
    /// A model that cannot be told where a part lies although the plan says so, and views of which no part can be shown.
    pub(crate) fn of(
        training: &TrainingPlan,
        blueprint: &Blueprint,
        views: &[Views],
        classes: usize,
        whole: (&[Graph], &Parameters),
    ) -> Result<Option<Self>, TrainError> {
        let (Some(plan), Some(tokens)) = (training.masked, training.privacy.parts()[0].masked()) else {
            return Ok(None);
        };
        let (graphs, parameters) = whole;
        let pass = plan.pass.unwrap_or_else(|| default_pass(blueprint, graphs));
        let smoothing = training.conduct.label_smoothing;
        let told = |which: ModelTokens| {
            let build = |views: &Views| {
                let graph = blueprint.build_on(which, &views.shape(), classes, smoothing)?;
                debug_assert!(parameters.fit(&graph), "a model on a part has the parameters of the whole");
                Ok(graph)
            };
            views.iter().map(build).collect::<Result<Vec<Graph>, TrainError>>()
        };
        let placed = match pass {
            MaskedPass::Blank => None,
            MaskedPass::Pooled => {
                let told = told(ModelTokens::Pooled)?;
                let grids = graphs.iter().map(cells).collect::<Result<_, _>>()?;
                Some(Placed { grids, graphs: told })
            }
            MaskedPass::Tokens => {
                let graphs = told(ModelTokens::Subset)?;
                // A model without a grid is refused where it is built.
                let grid = blueprint.token_grid().map(PartGrid::Tokens);
                Some(Placed { grids: grid.into_iter().cycle().take(views.len()).collect(), graphs })
            }
        };
        let passes = Self { plan, public: tokens.public, placed };
        for part in [RecordPart::Private, RecordPart::Public] {
            passes.views(views, part)?;
        }
        Ok(Some(passes))
    }

    /// What each phase shows of a part of every image.
    pub(crate) fn views(&self, views: &[Views], part: RecordPart) -> Result<Vec<Views>, TrainError> {
        let grid = |phase: usize| self.placed.as_ref().and_then(|placed| placed.grids.get(phase).copied());
        let of = |(phase, views): (usize, &Views)| views.clone().of_part(part, grid(phase));
        Ok(views.iter().enumerate().map(of).collect::<Result<_, _>>()?)
    }

    /// The graph that each phase trains, if it is not the whole model.
    pub(crate) fn graphs(&self) -> Option<&[Graph]> {
        self.placed.as_ref().map(|placed| &placed.graphs[..])
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

/// What a model is told of a part where the plan does not say it.
fn default_pass(blueprint: &Blueprint, graphs: &[Graph]) -> MaskedPass {
    if blueprint.token_grid().is_some() {
        return MaskedPass::Tokens;
    }
    match graphs.iter().all(|graph| graph.pooled_grid().is_some()) {
        true => MaskedPass::Pooled,
        false => MaskedPass::Blank,
    }
}

/// The cells over which a model takes its last mean.
fn cells(graph: &Graph) -> Result<PartGrid, TrainError> {
    let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
    let grid = match *graph.pooled_grid().unwrap_or_default() {
        [rows, columns] => TokenGrid::cells(None, side(rows), side(columns)),
        [frames, rows, columns] => TokenGrid::cells(Some(side(frames)), side(rows), side(columns)),
        _ => TokenGrid::cells(None, 1, 1),
    };
    let wrong = |error: GeometryError| {
        TrainError::setting("masked.pass", format!("the features of the model: {error}"), "give \"blank\"")
    };
    Ok(PartGrid::Cells(grid.map_err(wrong)?))
}
