//! Takes a plan's steps in memory, on the caller's own records and model, for experiments on the training itself.

use std::path::Path;
use std::sync::Arc;

use dapple_data::{DataError, Dataset, Opened, PurposeKey, Sampler, SubmodelLaw, open};
use dapple_geometry::Mask;
use dapple_graph::{DropoutUnits, Graph, GraphError, Parameters};
use dapple_plan::spec::{MaskedPass, ModelSpec, OptimiserSpec, PlanSpec, PredictionModel, TrainSpec};
use dapple_plan::{
    Certificate, Conduct, DataLimits, DataPlan, EvaluationPlan, GradientBound, LearningRate, MaskedPlan,
    ModelPlan, OptimiserPlan, PerformancePlan, Plan, RecordOrigin, SubmodelPlan, TrainingPlan, UserPlan,
    ViewPlan,
};
use dapple_private::draw_unit_masks;

use super::keys::Keys;
use super::loaders::StepLoaders;
use super::shown::ShownPasses;
use crate::error::TrainError;
use crate::masked::MaskedPasses;
use crate::model::Blueprint;
use crate::prepare::{Prepared, Request, checked, solve, views};
use crate::split::TrainedSplit;
use crate::step::{StepKeys, Trainer};

/// A request with everything filled in, and what it costs.
#[derive(Debug, Clone)]
pub struct Completed {
    /// The plan as a file would say it, with the records counted and the noise or the steps solved for.
    pub spec: PlanSpec,
    /// The decoded mask that `region.mask` names.
    pub masks: Vec<Mask>,
    /// The plan.
    pub plan: Plan,
    /// The price of the plan.
    pub certificate: Certificate,
    /// Where the records come from, and how they are shown.
    pub data: DataPlan,
    /// How a record's gradient is bounded.
    pub clipping: GradientBound,
    /// How the machine is used.
    pub performance: PerformancePlan,
    /// How the run is carried out.
    pub conduct: Conduct,
}

/// Fills in what a request leaves open, as a run would. If the request names data, the data is opened to count and measure it.
///
/// # Errors
/// A plan that cannot be trained privately.
pub fn complete(request: &Request) -> Result<Completed, TrainError> {
    completed(request, |data, spec, base| match data.origin {
        RecordOrigin::Caller => Ok(()),
        _ => dapple_data::fill_in(spec, &*open(data, base)?.train),
    })
}

/// As [`complete`], for those who do not look at the records: the data is opened only if the plan leaves something to it, and need not be
/// there otherwise.
///
/// # Errors
/// As [`complete`].
pub fn complete_without_records(request: &Request) -> Result<Completed, TrainError> {
    completed(request, |_, spec, base| dapple_data::fill_in_from(spec, base))
}

fn completed(
    request: &Request,
    fill_in: impl FnOnce(&DataPlan, &mut PlanSpec, &Path) -> Result<(), DataError>,
) -> Result<Completed, TrainError> {
    let Request { mut spec, base, masks } = request.clone().in_full();
    if spec.train.private == Some(false) {
        let problem = "a run without privacy promises nothing";
        return Err(TrainError::setting("train.private", problem, "leave it out"));
    }
    let data = DataPlan::check(&spec)?;
    fill_in(&data, &mut spec, &base)?;
    solve(&mut spec, &masks)?;
    let (plan, certificate) = checked(&spec, &masks)?;
    let certificate = certificate.expect("the plan is private");
    Ok(Completed {
        data,
        clipping: GradientBound::check(&plan, &spec.train)?,
        performance: PerformancePlan::check(&spec.performance)?,
        conduct: Conduct::check(&spec.train)?,
        spec,
        masks,
        plan,
        certificate,
    })
}

impl Completed {
    /// The plan with the caller's records and model and with plain gradient descent in place of its own.
    fn rehearsed(&self, records: &dyn Dataset, learning_rate: f64) -> Result<TrainingPlan, TrainError> {
        // This name appears in messages.
        let model = ModelSpec { name: Some("the model of a rehearsal".to_owned()), ..ModelSpec::default() };
        let optimiser = OptimiserSpec { learning_rate: Some(learning_rate), ..OptimiserSpec::default() };
        let ViewPlan { size, flip, .. } = self.data.views;
        let masked = MaskedPlan::check(&self.plan, &self.spec, records.target_kind())?;
        Ok(TrainingPlan {
            privacy: self.plan.clone(),
            data: DataPlan {
                origin: RecordOrigin::Caller,
                classes: None,
                limits: DataLimits::default(),
                check_records: false,
                views: ViewPlan { size, flip, ..ViewPlan::default() },
                pool: None,
                masks: None,
                users: None,
            },
            model: ModelPlan::check(&model)?,
            // The caller's model tells its blocks.
            submodels: None,
            // The caller's model tells no tokens apart.
            masked: masked.map(|masked| MaskedPlan { pass: Some(MaskedPass::Blank), ..masked }),
            users: UserPlan::check(&self.plan, &self.spec)?,
            clipping: self.clipping,
            optimiser: OptimiserPlan::check(&optimiser)?,
            schedule: LearningRate::check(&optimiser, self.plan.steps())?,
            evaluation: EvaluationPlan::check(&TrainSpec::default(), records.target_kind())?,
            performance: self.performance.clone(),
            conduct: self.conduct,
        })
    }
}

/// What records of a split model draw, and by which key.
enum RehearsedDraw {
    Submodels(SubmodelLaw, PurposeKey),
    Masks(DropoutUnits, PurposeKey),
}

impl RehearsedDraw {
    /// The number of what a record draws in a step; `None` if it has more binary digits than a number.
    fn of(&self, step: u64, record: usize) -> Option<usize> {
        match self {
            Self::Submodels(law, key) => Some(law.submodel(&key.step(step), record)),
            Self::Masks(units, key) => (units.len() <= usize::BITS as usize).then(|| {
                let kept = draw_unit_masks(&key.step(step), &[record], units);
                kept.iter().rev().fold(0, |number, &kept| number << 1 | usize::from(kept))
            }),
        }
    }
}

/// Takes the steps of a plan as [`start`](super::start) does (sampler, views, clipped sum, noise, gradient descent), without a folder, a
/// ledger or an evaluation. Never use it on anybody's records: what it releases is not counted.
pub struct Rehearsal {
    trainer: Trainer,
    loaders: StepLoaders,
    keys: StepKeys,
    /// What a record draws in each step, if the plan splits the model.
    draw: Option<RehearsedDraw>,
    sampler: Sampler,
    step: u64,
    steps: u64,
}

impl Rehearsal {
    /// A rehearsal before its first step. `pool` holds the images that stand beside records where the plan shows any. `model` makes a model
    /// and its first weights for views of a shape, and plain gradient descent trains it at this learning rate. If the plan splits the model,
    /// all its blocks are dealt out to the submodels, or its dropout layers at one half make them. Private and public parts of records, which
    /// `records` must tell apart where the plan does, are shown with the other part blank. Views are mirrored and resized as the plan says, but neither augmented nor normalised: both only
    /// process what a view shows, so an attack gains nothing from them.
    ///
    /// # Errors
    /// Records or a model that do not fit the plan, a device that cannot be used.
    pub fn new(
        completed: &Completed,
        records: Arc<dyn Dataset>,
        pool: Option<Arc<dyn Dataset>>,
        learning_rate: f64,
        model: impl Fn(&[usize]) -> Result<(Graph, Parameters), GraphError>,
    ) -> Result<Self, TrainError> {
        let mut training = completed.rehearsed(&*records, learning_rate)?;
        let data = Opened { train: records, test: None, pool };
        let views = views(training.privacy.parts(), &training.data.views, &data)?;
        let (_, parameters) = model(&views[0].shape())?;
        let graphs = views
            .iter()
            .map(|views| model(&views.shape()).map(|(graph, _)| graph))
            .collect::<Result<Vec<_>, _>>()?;
        training.submodels = SubmodelLaw::of(&training.privacy.parts()[0])
            .map(|_| SubmodelPlan { blocks: graphs[0].block_names(), predict: PredictionModel::All });
        let (blueprint, classes) = (Blueprint::unread(&training.model), data.train.classes() as usize);
        let prepared = Prepared {
            split: TrainedSplit::of(&training),
            masked: MaskedPasses::of(&training, &blueprint, &views, classes, (&graphs, &parameters))?,
            blueprint,
            notes: Vec::new(),
            ranks: None,
            training,
            spec: completed.spec.clone(),
            masks: completed.masks.clone(),
            planned: Some(completed.certificate.clone()),
            data,
            views,
            graphs,
            parameters,
        };
        let trainer = Trainer::new(&prepared, &mut Vec::new())?;
        let keys = Keys::fresh(&prepared)?;
        let steps = prepared.plan().steps();
        let law = SubmodelLaw::of(&prepared.parts()[0]);
        let units = prepared.split.as_ref().and_then(|split| split.units(&prepared.graphs[0]));
        let submodels = law.map(|law| RehearsedDraw::Submodels(law, keys.loader.submodels.clone()));
        let masks = units.map(|units| RehearsedDraw::Masks(units, keys.step.units.clone()));
        let sampler = Sampler::new(prepared.plan(), prepared.data.train.units(), keys.sampling.clone())?;
        let shown = ShownPasses::of_records(&prepared)?;
        let loaders = StepLoaders::new((&prepared, &keys), shown, &sampler, 0..steps, trainer.cards())?;
        Ok(Self { trainer, loaders, keys: keys.step, draw: submodels.or(masks), sampler, step: 0, steps })
    }

    /// Takes the next step and returns the weights after it; `None` once all steps are taken.
    ///
    /// # Errors
    /// A step that fails.
    pub fn step(&mut self) -> Result<Option<&Parameters>, TrainError> {
        if self.step == self.steps {
            return Ok(None);
        }
        self.loaders
            .step(&mut self.trainer, &self.keys, self.step)
            .map_err(|source| TrainError::Step { step: self.step + 1, source: Box::new(source) })?;
        self.step += 1;
        self.trainer.weights().map(Some)
    }

    /// The submodel that a record draws in the next step, whether the step sees the record or not; `None` if the model is not split. Where dropout
    /// splits it, the number's lowest binary digit says whether the first unit is kept, the next one says it of the second, and so on; models with
    /// more units than a number has digits have none. A run never tells this.
    #[must_use]
    pub fn submodel(&self, record: usize) -> Option<usize> {
        self.draw.as_ref()?.of(self.step, record)
    }

    /// The group of a record, where steps draw from one group after the other. A run never tells this.
    #[must_use]
    pub fn group(&self, record: usize) -> Option<u64> {
        self.sampler.group(record)
    }

    /// The clip norm of the next step.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        self.trainer.clip_norm()
    }

    /// The machine in words.
    #[must_use]
    pub fn machine(&self) -> &str {
        self.trainer.machine()
    }
}
