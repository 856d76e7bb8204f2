//! What a run would cost, found out before it begins: everything is prepared as a run prepares it, and nothing is written.

use std::sync::Arc;
use std::time::Instant;

use dapple_data::{
    DataError, Dataset, Image, LabelMap, Opened, Sampler, Target, TargetKind, Values, fill_in, open,
};
use dapple_geometry::{Mask, Size};
use dapple_plan::spec::{Delta, NoiseSpec, Pixels, PlanSpec};
use dapple_plan::{Bracket, Certificate, DataPlan};

use super::keys::Keys;
use super::loaders::StepLoaders;
use super::shown::ShownPasses;
use crate::error::TrainError;
use crate::prepare::{Prepared, Request};
use crate::step::Trainer;

/// Records of the two dry steps, from which the time of a record and that of a step without records follow.
const FEW: usize = 2;
const MANY: usize = 10;
/// The side of blank images where no size is known.
const SIDE: u32 = 64;

/// A plan that a run could begin with.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The plan with everything filled in.
    pub spec: PlanSpec,
    /// The price of the whole run; `None` without privacy.
    pub certificate: Option<Certificate>,
    /// Epsilon if a whole record is substituted, where the plan protects less than that and epsilon is not too large to report.
    pub record_level: Option<Bracket>,
    /// Steps.
    pub steps: u64,
    /// Values that train.
    pub trainable: usize,
    /// The machine that would compute.
    pub machine: String,
    /// What a user should know about the model.
    pub notes: Vec<String>,
}

/// Checks a request as [`super::start`] does before it makes the folder of a run: plan, data, model, device, and every record.
///
/// # Errors
/// What a run would be refused for.
pub fn check(request: &Request) -> Result<Readiness, TrainError> {
    let prepared = Prepared::new(request)?;
    prepared.check_records()?;
    let mut notes = prepared.notes.clone();
    let trainer = Trainer::new(&prepared, &mut notes)?;
    let steps = prepared.plan().steps();
    Ok(Readiness {
        record_level: prepared.terms().cost(steps)?.whole_record,
        certificate: prepared.planned.clone(),
        steps,
        trainable: prepared.graphs[0].trainable_len(),
        machine: trainer.machine().to_owned(),
        spec: prepared.spec,
        notes,
    })
}

/// How long steps take on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Seconds of a step of the expected batch.
    pub seconds_a_step: f64,
    /// Steps of the plan.
    pub steps: u64,
    /// The machine that computed.
    pub machine: String,
}

/// Takes a few steps of the plan on blank images and tells how long its steps will take. No record is read for it: only the number of
/// classes and the size of images are those of the data.
///
/// # Errors
/// What a run would be refused for, apart from its records.
pub fn estimate(request: &Request) -> Result<Estimate, TrainError> {
    let Request { mut spec, base, masks } = request.clone().in_full();
    let train = open(&DataPlan::check(&spec)?, &base)?.train;
    fill_in(&mut spec, &*train)?;
    let size = spec.pipeline.image.or(spec.pipeline.sizes.map(|sizes| sizes.least));
    let blank = BlankRecords::like(&*train, size)?;
    let mut whole = spec.clone();
    crate::prepare::solve(&mut whole, &masks)?;
    let (plan, _) = crate::prepare::checked(&whole, &masks)?;
    let (steps, batch) = (plan.steps(), plan.batch() as f64);
    let ((few, machine), (many, _)) =
        (timed(&spec, &masks, &blank, FEW)?, timed(&spec, &masks, &blank, MANY)?);
    let a_record = ((many - few) / (MANY - FEW) as f64).max(0.0);
    let around = (few - a_record * FEW as f64).max(0.0);
    Ok(Estimate { seconds_a_step: around + a_record * batch, steps, machine })
}

/// Seconds of a step that draws exactly so many blank records, and the machine that took it.
fn timed(
    spec: &PlanSpec,
    masks: &[Mask],
    blank: &BlankRecords,
    records: usize,
) -> Result<(f64, String), TrainError> {
    let train = Arc::new(BlankRecords { records, ..blank.clone() });
    let data = Opened { train, test: None, pool: None };
    let prepared = Prepared::assemble(dry(spec, records), masks.to_vec(), data)?;
    let mut trainer = Trainer::new(&prepared, &mut Vec::new())?;
    let keys = Keys::fresh(&prepared)?;
    let sampler = Sampler::new(prepared.plan(), records, keys.sampling.clone())?;
    let shown = ShownPasses::of_records(&prepared)?;
    let mut loaders = StepLoaders::new((&prepared, &keys), shown, &sampler, 0..2, trainer.cards())?;
    // The first step plans its memory, which later steps do not.
    loaders.step(&mut trainer, &keys.step, 0)?;
    let began = Instant::now();
    loaders.step(&mut trainer, &keys.step, 1)?;
    Ok((began.elapsed().as_secs_f64(), trainer.machine().to_owned()))
}

/// The plan of two steps that draw all of so many records.
fn dry(spec: &PlanSpec, records: usize) -> PlanSpec {
    let mut spec = spec.clone();
    let records = records as u64;
    spec.phases.clear();
    spec.noise = NoiseSpec::default();
    spec.mix.pool = None;
    spec.mix.synthetic = None;
    (spec.privacy.epsilon, spec.privacy.noise_multiplier) = (None, Some(1.0));
    spec.privacy.delta = Some(Delta::Value(1e-5));
    (spec.sampling.scheme, spec.sampling.per_record) = (None, None);
    (spec.sampling.records, spec.sampling.batch) = (Some(records), Some(records));
    (spec.sampling.epochs, spec.sampling.steps) = (None, Some(2));
    (spec.train.until_budget, spec.train.private) = (None, None);
    spec
}

/// Records of one colour, like those of a data set but for what they show.
#[derive(Debug, Clone)]
struct BlankRecords {
    records: usize,
    classes: u32,
    channels: usize,
    frames: Option<usize>,
    size: Size,
    kind: TargetKind,
}

impl BlankRecords {
    fn like(dataset: &dyn Dataset, image: Option<Pixels>) -> Result<Self, DataError> {
        let side = |x, y| {
            Size::named("image", x, y)
                .map_err(|source| DataError::Geometry { place: "`pipeline.image`".to_owned(), source })
        };
        let size = match (image, dataset.image_size()) {
            (Some(Pixels { x, y }), _) => side(x, y)?,
            (None, Some(size)) => size,
            (None, None) => match dataset.size_of(0)? {
                Some(size) => size,
                None => side(SIDE, SIDE)?,
            },
        };
        Ok(Self {
            records: dataset.len(),
            classes: dataset.classes(),
            channels: dataset.channels(),
            frames: dataset.frames(),
            size,
            kind: dataset.target_kind(),
        })
    }

    fn bytes(&self) -> usize {
        self.size.pixels() as usize * self.channels * self.frames.unwrap_or(1)
    }
}

impl Dataset for BlankRecords {
    fn len(&self) -> usize {
        self.records
    }

    fn classes(&self) -> u32 {
        self.classes
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn frames(&self) -> Option<usize> {
        self.frames
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target_kind(&self) -> TargetKind {
        self.kind
    }

    fn target(&self, _: usize) -> Result<Target, DataError> {
        let labels = vec![0; self.size.pixels() as usize];
        match self.kind {
            TargetKind::Class => Ok(Target::Class(0)),
            TargetKind::LabelMap => {
                Ok(LabelMap::new(self.size, labels).map_or(Target::Class(0), Target::Map))
            }
        }
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let grey = vec![128; self.bytes()];
        let image = match self.frames {
            None => Image::new(self.size, self.channels, Values::Bytes(grey)),
            Some(frames) => Image::clip(self.size, self.channels, frames, &grey),
        };
        image.ok_or(DataError::Record { record, records: self.records })
    }

    /// The upper half.
    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        let half = (size.pixels() / 2) as usize;
        let bytes = (0..size.pixels() as usize).map(|pixel| u8::from(pixel < half)).collect();
        let mask = Mask::from_bytes(size, bytes);
        mask.map(Some).map_err(|_| DataError::Record { record, records: self.records })
    }

    fn place(&self, record: usize) -> String {
        format!("blank record {record}")
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok("blank".to_owned())
    }
}
