//! Turns what a user asks for into everything that a run needs, before anything is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_data::{DataError, Opened, RecordPart, Views, open};
use dapple_engine::Clipping;
use dapple_geometry::Mask;
use dapple_graph::{Graph, Parameters};
use dapple_plan::spec::{Delta, PlanSpec};
use dapple_plan::{
    BracketPrecision, Certificate, Conduct, DataPlan, GradientBound, HeldOut, PerformancePlan, Plan,
    RecordOrigin, TrainingPlan, ViewPlan,
};
use dapple_private::AdaptiveClip;

use crate::error::TrainError;
use crate::masked::MaskedPasses;
use crate::model::{self, Blueprint, FirstParameters};
use crate::ranks::RankGroup;
use crate::split::TrainedSplit;
use crate::terms::{Terms, price};

/// A plan to train, with the folder that its paths are relative to and the masks that it names.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub spec: PlanSpec,
    /// The folder of the plan's file.
    pub base: PathBuf,
    /// The decoded mask that `region.mask` names.
    pub masks: Vec<Mask>,
}

impl Request {
    /// A plan that names its files by absolute paths, and no mask.
    #[must_use]
    pub fn of(spec: PlanSpec) -> Self {
        Self { spec, base: PathBuf::new(), masks: Vec::new() }
    }

    /// The same request with absolute paths, so that it means the same from everywhere.
    #[must_use]
    pub fn in_full(mut self) -> Self {
        let base = &self.base;
        self.spec.each_file(|key, path| {
            // The mask was read already, relative to wherever it was named.
            if key.path != "region.mask" {
                let joined = base.join(&*path);
                *path = std::path::absolute(&joined).unwrap_or(joined).display().to_string();
            }
        });
        Self { base: PathBuf::new(), ..self }
    }
}

/// A request with everything filled in: the data opened, the noise or the steps solved for, every part checked.
pub(crate) struct Prepared {
    pub(crate) spec: PlanSpec,
    pub(crate) masks: Vec<Mask>,
    pub(crate) training: TrainingPlan,
    /// The price of the whole plan; `None` without privacy.
    pub(crate) planned: Option<Certificate>,
    pub(crate) data: Opened,
    /// The views of each phase of the plan; then the graph of each.
    pub(crate) views: Vec<Views>,
    pub(crate) graphs: Vec<Graph>,
    /// How the model is split; `None` if every record updates all of it.
    pub(crate) split: Option<TrainedSplit>,
    /// How private and public parts of images are seen apart; `None` if records are not parted.
    pub(crate) masked: Option<MaskedPasses>,
    pub(crate) parameters: Parameters,
    /// The model, for views of any size.
    pub(crate) blueprint: Blueprint,
    /// What a user should know about the model before the first step.
    pub(crate) notes: Vec<String>,
    /// The processes that share the run; `None` if one process has it to itself.
    pub(crate) ranks: Option<Arc<RankGroup>>,
}

impl Prepared {
    /// Opens the data and fills in what the plan leaves open.
    pub(crate) fn new(request: &Request) -> Result<Self, TrainError> {
        let Request { mut spec, base, masks } = request.clone().in_full();
        let plan = DataPlan::check(&spec)?;
        let data = open(&plan, &base)?;
        if matches!(plan.origin, RecordOrigin::Stored { held_out: HeldOut::Files(_), .. }) {
            data.check_disjoint()?;
        }
        data.check_pool_apart()?;
        dapple_data::fill_in(&mut spec, &*data.train)?;
        solve(&mut spec, &masks)?;
        Self::assemble(spec, masks, data)
    }

    /// The same for a plan that was filled in before.
    pub(crate) fn again(spec: PlanSpec, masks: Vec<Mask>) -> Result<Self, TrainError> {
        let data = open(&DataPlan::check(&spec)?, Path::new(""))?;
        Self::assemble(spec, masks, data)
    }

    /// A plan that was filled in, on data that is open.
    pub(crate) fn assemble(spec: PlanSpec, masks: Vec<Mask>, data: Opened) -> Result<Self, TrainError> {
        let (plan, planned) = checked(&spec, &masks)?;
        let units = data.train.units() as u64;
        let sized = match plan.records() == units {
            true => Ok(()),
            false => Err(DataError::size(&plan, units)),
        };
        let training = TrainingPlan::new(plan, &spec)?;
        sized?;
        let views = views(training.privacy.parts(), &training.data.views, &data)?;
        let smoothing = training.conduct.label_smoothing;
        let blueprint = Blueprint::read(&training.model, Path::new(""))?;
        let graphs = views
            .iter()
            .map(|views| blueprint.build(&views.shape(), data.train.classes() as usize, smoothing))
            .map(|graph| match training.is_split_by_dropout() {
                true => graph.map(Graph::with_even_dropout),
                false => graph,
            })
            .collect::<Result<Vec<_>, _>>()?;
        model::check_answers(&training.model, &graphs[0], data.train.target_kind())?;
        let FirstParameters { parameters, mut notes } =
            model::first_weights(&training.model, &graphs[0], Path::new(""))?;
        if let Some(phase) = graphs.iter().position(|graph| !parameters.fit(graph)) {
            return Err(TrainError::setting(
                "pipeline.crop",
                format!("phase {}: the model has other parameters for crops of this size", phase + 1),
                "choose a model that ends in a global pooling (wrn, resnet), or set data.size",
            ));
        }
        notes.extend(mixing_notes(&training));
        let split = TrainedSplit::of(&training);
        let classes = data.train.classes() as usize;
        let masked = MaskedPasses::of(&training, &blueprint, &views, classes, (&graphs, &parameters))?;
        let prepared = Self {
            spec,
            masks,
            training,
            planned,
            data,
            views,
            graphs,
            split,
            masked,
            parameters,
            blueprint,
            notes,
            ranks: None,
        };
        prepared.check_split()?;
        Ok(prepared)
    }

    /// The phases of the plan in order, or the plan itself if it has none.
    pub(crate) fn parts(&self) -> &[Plan] {
        self.plan().parts()
    }

    /// The part of the plan that is priced.
    pub(crate) fn plan(&self) -> &Plan {
        &self.training.privacy
    }

    /// Whether every random number follows from a seed.
    pub(crate) fn deterministic(&self) -> bool {
        self.training.conduct.seed.is_some()
    }

    /// Checks that the model can be split as the plan says.
    fn check_split(&self) -> Result<(), TrainError> {
        let Some(split) = &self.split else { return Ok(()) };
        self.graphs.iter().try_for_each(|graph| split.submodels(graph).map(|_| ()))?;
        self.clipping().map(|_| ())
    }

    /// How gradients are bounded.
    ///
    /// # Errors
    /// A split model whose parts the plan does not bound.
    pub(crate) fn clipping(&self) -> Result<Clipping, TrainError> {
        let bound = self.training.clipping;
        let of_parts = self.split.as_ref().map(|split| split.clipping(&self.graphs, bound)).transpose()?;
        Ok(match bound {
            GradientBound::Off => Clipping::Off,
            GradientBound::Flat { max_norm } => Clipping::Flat { max_norm },
            GradientBound::Automatic { max_norm, stability } => Clipping::Automatic { max_norm, stability },
            GradientBound::PerLayer { max_norm } => Clipping::PerLayer { max_norm },
            GradientBound::Parts { .. } => {
                of_parts.flatten().expect("only a split model has parts, and their bound is one of parts")
            }
        })
    }

    /// The clip norm before the first step, where it follows a quantile.
    pub(crate) fn adaptive_clip(&self) -> Option<AdaptiveClip> {
        let plan = self.plan();
        let quantile = plan.clip_quantile().filter(|_| self.training.is_private())?;
        Some(AdaptiveClip::new(plan.clip_norm(), quantile.quantile(), quantile.rate()))
    }

    /// What epsilon depends on.
    pub(crate) fn terms(&self) -> Terms<'_> {
        Terms { training: &self.training, planned: self.planned.as_ref() }
    }

    /// Refuses records in shards of which one does not lie on this machine, and on several ranks a plan for which each record would have to lie
    /// where others do.
    ///
    /// # Errors
    /// A shard that is not here, or records of several shards that are clipped together.
    pub(crate) fn check_shards(&self) -> Result<(), TrainError> {
        let Some(ranks) = &self.ranks else {
            let Opened { train, test, .. } = &self.data;
            for dataset in [Some(train), test.as_ref()].into_iter().flatten() {
                let in_shards = dataset.shard(0).is_some();
                if let Some(missing) =
                    (0..dataset.len()).find(|&record| in_shards && !dataset.is_here(record))
                {
                    let shard = dataset.shard(missing).unwrap_or_default().to_owned();
                    return Err(DataError::OtherShard { path: dataset.place(missing).into(), shard }.into());
                }
            }
            return Ok(());
        };
        if ranks.have_shards() && self.parts().iter().any(|part| part.clip_groups().is_some()) {
            return Err(TrainError::setting(
                "privacy.records_per_clip",
                "records that are clipped together may lie in shards of several ranks",
                "leave it out, or train on one machine that has all shards",
            ));
        }
        Ok(())
    }

    /// Reads every record once that this process may have to, so that a bad one costs no step, unless the plan says not to or all records are
    /// known to be intact.
    ///
    /// # Errors
    /// A record that training or the evaluation could not use.
    pub(crate) fn check_records(&self) -> Result<(), TrainError> {
        if !self.training.data.check_records {
            return Ok(());
        }
        let threads = self.training.performance.threads;
        let (mut train, mut test) = (Arc::clone(&self.data.train), self.data.test.clone());
        let pool = &self.data.pool;
        if let Some(ranks) = &self.ranks {
            train = ranks.own_shards(&train, |dealt| dealt.train.as_ref())?;
            test = test.map(|test| ranks.own_shards(&test, |dealt| dealt.test.as_ref())).transpose()?;
        }
        if let Some(pool) =
            pool.as_ref().filter(|_| self.parts().iter().any(|part| part.averaged().synthetic > 0))
        {
            dapple_data::check_pool(&**pool, &self.views, threads)?;
        }
        if let Some(passes) = &self.masked {
            for part in [RecordPart::Private, RecordPart::Public] {
                dapple_data::check_records(&*train, &passes.views(&self.views, part)?, threads)?;
            }
        } else if !train.is_whole() && self.views.iter().any(Views::show_records) {
            dapple_data::check_records(&*train, &self.views, threads)?;
        }
        if let (Some(test), Some(last)) = (test.filter(|test| !test.is_whole()), self.views.last()) {
            dapple_data::check_test(&*test, last, threads)?;
        }
        Ok(())
    }
}

/// What each phase of a plan shows of a record, and beside it.
pub(crate) fn views(parts: &[Plan], plan: &ViewPlan, data: &Opened) -> Result<Vec<Views>, TrainError> {
    let (records, pool) = (&*data.train, data.pool.as_ref());
    let of = |part: &Plan| {
        let (averaged, kind) = (part.averaged(), records.target_kind());
        Views::new(part.spatial(), plan, records)?
            .with_synthetic(averaged.synthetic, pool, kind)?
            .with_mixtures(averaged, kind)
    };
    Ok(parts.iter().map(of).collect::<Result<_, _>>()?)
}

/// What a user should know about synthetic images before the first step.
fn mixing_notes(training: &TrainingPlan) -> Vec<String> {
    let parts = training.privacy.parts();
    let mut notes = Vec::new();
    if training.data.pool.is_some() && parts.iter().all(|part| part.averaged().synthetic == 0) {
        notes.push("mix.pool is not used, because mix.synthetic is 0".to_owned());
    }
    if parts.iter().any(|part| part.spatial().views() == 0) {
        notes.push(
            "no view of a record is shown: all that is learned comes from synthetic images, and epsilon buys nothing"
                .to_owned(),
        );
    }
    notes
}

/// The plan of a completed request and its price; no price without privacy.
pub(crate) fn checked(spec: &PlanSpec, masks: &[Mask]) -> Result<(Plan, Option<Certificate>), TrainError> {
    PerformancePlan::check(&spec.performance)?;
    let conduct = Conduct::check(&spec.train)?;
    let plan = Plan::check_with_masks(spec, masks)?;
    let planned = match conduct.private {
        true => Some(price(&plan, &DataPlan::check(spec)?)?),
        false => None,
    };
    if let (Some(planned), Some(target)) = (&planned, spec.privacy.epsilon)
        && planned.epsilon.upper > target
    {
        return Err(TrainError::setting(
            "privacy.epsilon",
            format!("the plan spends {:.4}, more than {target}", planned.epsilon.upper),
            "leave privacy.noise_multiplier out to have it solved for, or set train.until_budget = true",
        ));
    }
    Ok((plan, planned))
}

/// Fills in what follows from the target: the noise, or the steps.
pub(crate) fn solve(spec: &mut PlanSpec, masks: &[Mask]) -> Result<(), TrainError> {
    if spec.train.private == Some(false) {
        // The sampler needs a complete plan. Nothing is certified.
        spec.privacy.noise_multiplier = spec.privacy.noise_multiplier.or(Some(1.0));
        spec.privacy.delta = spec.privacy.delta.or(Some(Delta::Value(1e-5)));
        spec.privacy.epsilon = None;
        return Ok(());
    }
    spec.settle(masks, BracketPrecision::default())?;
    Ok(())
}
