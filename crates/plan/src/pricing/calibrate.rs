//! Solves a plan for one unknown.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dapple_accounting::search::Strides;
use dapple_accounting::{Effort, Precision, Work, search};
use dapple_geometry::{CropDistribution, Mask, Size};
use serde::Serialize;

use super::loss;
use crate::Plan;
use crate::certificate::Certificate;
use crate::error::PlanError;
use crate::spec::{Accountant, Pixels, PlanSpec};
use crate::{Sampling, Scheme};

/// The range of noise multipliers that is searched.
const NOISE: (f64, f64) = (0.05, 1e4);
/// Units of work that a search may take: less than five seconds.
const MOST_WORK: f64 = 6e7;
/// The most steps of a run.
const MAX_STEPS: u64 = 10_000_000;

/// What a plan is solved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// The least noise.
    NoiseMultiplier,
    /// The most passes over the data set.
    Epochs,
    /// The most steps.
    Steps,
    /// The largest batch.
    Batch,
    /// The largest crop.
    Crop,
    /// The largest protected patch.
    Patch,
}

impl Unknown {
    /// Every unknown.
    pub const ALL: [Self; 6] =
        [Self::NoiseMultiplier, Self::Epochs, Self::Steps, Self::Batch, Self::Crop, Self::Patch];

    /// The name of its flag.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoiseMultiplier => "noise-multiplier",
            Self::Epochs => "epochs",
            Self::Steps => "steps",
            Self::Batch => "batch",
            Self::Crop => "crop",
            Self::Patch => "patch",
        }
    }
}

/// A number that was solved for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number: steps, records, or the width of a crop or patch.
    Whole(u64),
    /// A real number.
    Real(f64),
}

/// The unknown and its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Solved {
    /// Name of the unknown.
    pub name: &'static str,
    /// Its value; for a crop or a patch the width.
    pub value: Value,
    /// Width and height, for a crop or a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Pixels>,
}

/// The plan that was solved for, and its certificate.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The unknown and its value.
    pub solved: Solved,
    /// The plan with that value.
    pub plan: Plan,
    /// Its certificate.
    pub certificate: Certificate,
}

/// Finds the least noise, or the most of anything else, for which the plan's epsilon stays at or below
/// `privacy.epsilon`. A value given for the unknown itself is replaced; a crop or patch keeps its shape (a square where
/// none is given).
///
/// # Guarantee
/// The certificate is that of the plan returned, and its `epsilon.upper` is at most the target.
///
/// # Errors
/// A plan that is wrong apart from the unknown, a target that no value reaches, or more work than a search may take.
pub fn calibrate(
    spec: &PlanSpec,
    masks: &[Mask],
    unknown: Unknown,
    precision: Precision,
) -> Result<Calibrated, PlanError> {
    calibrate_watched(spec, masks, unknown, precision, &|_| {})
}

/// A price on the way to an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Which one, from 1.
    pub number: u32,
    /// What it gave; infinite where epsilon is too large to report.
    pub epsilon: f64,
    /// The share of the work that a search may take, up to here.
    pub share: f64,
}

/// [`calibrate`], which tells of each price.
///
/// # Guarantee
/// That of [`calibrate`].
///
/// # Errors
/// As for [`calibrate`].
pub fn calibrate_watched(
    spec: &PlanSpec,
    masks: &[Mask],
    unknown: Unknown,
    precision: Precision,
    watch: &dyn Fn(Trial),
) -> Result<Calibrated, PlanError> {
    let target = spec.privacy.epsilon.ok_or(PlanError::Missing {
        key: "privacy.epsilon",
        why: "calibration needs the epsilon to reach",
    })?;
    let open_noise = spec.phases.iter().any(|phase| phase.noise_multiplier.is_none());
    let solvable = spec.phases.is_empty() || (unknown == Unknown::NoiseMultiplier && open_noise);
    if !solvable {
        return Err(PlanError::invalid(
            "phases",
            format!("a schedule has no single value of {} to solve for", unknown.name()),
            "solve for the noise-multiplier of the phases that give none, or price schedules one by one with `dapple account`",
        ));
    }
    let problem = Problem {
        spec,
        masks,
        target,
        precision,
        watch,
        work: Work::at_most(MOST_WORK),
        prices: RefCell::default(),
        bounds: RefCell::default(),
    };
    problem.solve(unknown)
}

/// The precision of a first search.
const ROUGH: f64 = 1e-2;
/// How near its answer is to that of the search that counts, as a factor.
const NEAR: f64 = 1.005;

/// Epsilons too large to report count as infinite.
fn finite(epsilon: Result<f64, PlanError>) -> Result<f64, PlanError> {
    match epsilon {
        Err(error) if error.is_too_large() => Ok(f64::INFINITY),
        other => other,
    }
}

struct Problem<'a> {
    spec: &'a PlanSpec,
    masks: &'a [Mask],
    target: f64,
    precision: Precision,
    watch: &'a dyn Fn(Trial),
    work: Work,
    /// What plans cost, by their hash: a search comes back to the same plan more than once.
    prices: RefCell<BTreeMap<String, Option<loss::Answer>>>,
    /// Upper ends on first grids, by hash and precision.
    bounds: RefCell<BTreeMap<(String, u64), f64>>,
}

type Answer = (Plan, Value, Option<Pixels>);

impl Problem<'_> {
    fn solve(&self, unknown: Unknown) -> Result<Calibrated, PlanError> {
        let (plan, value, size) = match unknown {
            Unknown::NoiseMultiplier => return self.priced_noise(),
            Unknown::Epochs => self.epochs()?,
            Unknown::Steps => self.steps()?,
            Unknown::Batch => self.batch()?,
            Unknown::Crop => self.crop()?,
            Unknown::Patch => self.patch()?,
        };
        let certificate = self.price(&plan)?;
        Ok(Calibrated { solved: Solved { name: unknown.name(), value, size }, plan, certificate })
    }

    /// The noise with its certificate, by a quick search, and by whole brackets where that did not meet the target.
    fn priced_noise(&self) -> Result<Calibrated, PlanError> {
        let priced = |(plan, noise): (Plan, f64)| {
            let certificate = self.price(&plan)?;
            let solved =
                Solved { name: Unknown::NoiseMultiplier.name(), value: Value::Real(noise), size: None };
            Ok(Calibrated { solved, plan, certificate })
        };
        match self.noise(Self::quick_epsilon).and_then(priced) {
            Ok(found) if found.certificate.epsilon.upper <= self.target => Ok(found),
            Err(error) if !error.is_too_large() => Err(error),
            _ => priced(self.noise(Self::epsilon)?),
        }
    }

    /// The plan with some keys set.
    fn plan(&self, change: impl FnOnce(&mut PlanSpec)) -> Result<Plan, PlanError> {
        let mut spec = self.spec.clone();
        change(&mut spec);
        Plan::check_with_masks(&spec, self.masks)
    }

    /// Epsilon as a certificate would state it, or infinity where it is too large to report.
    fn epsilon(&self, plan: &Plan) -> Result<f64, PlanError> {
        Ok(self.answer(plan)?.map_or(f64::INFINITY, |answer| answer.epsilon.upper))
    }

    /// Epsilon with both ends; nothing where it is too large to report.
    fn answer(&self, plan: &Plan) -> Result<Option<loss::Answer>, PlanError> {
        if let Some(known) = self.prices.borrow().get(plan.hash()) {
            return Ok(*known);
        }
        let answer = plan.answer(plan.accountant(), self.effort(self.precision));
        let answer = answer.map(Some).or_else(PlanError::or_none)?;
        self.tell(answer.map_or(f64::INFINITY, |answer| answer.epsilon.upper));
        self.prices.borrow_mut().insert(plan.hash().to_owned(), answer);
        Ok(answer)
    }

    fn price(&self, plan: &Plan) -> Result<Certificate, PlanError> {
        let answer = self.answer(plan)?.ok_or_else(|| PlanError::too_large(plan.delta))?;
        Certificate::new(plan, answer, plan.accountant())
    }

    fn effort(&self, precision: Precision) -> Effort<'_> {
        Effort::counted(precision, &self.work)
    }

    /// Tells whoever watches of a price.
    fn tell(&self, epsilon: f64) {
        let number = self.prices.borrow().len() + self.bounds.borrow().len() + 1;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        (self.watch)(Trial { number, epsilon, share: self.work.spent() / MOST_WORK });
    }

    /// The same from a first grid, in half the time; a certificate only ever refines it downwards.
    fn quick_epsilon(&self, plan: &Plan) -> Result<f64, PlanError> {
        self.epsilon_to(plan, self.precision)
    }

    /// The same from a first grid of any precision.
    fn epsilon_to(&self, plan: &Plan, precision: Precision) -> Result<f64, PlanError> {
        if plan.accountant() == Accountant::Rdp {
            return self.epsilon(plan);
        }
        self.bound((plan.hash().to_owned(), precision.relative.to_bits()), || {
            finite(plan.epsilon_upper(self.effort(precision)))
        })
    }

    /// An upper end that may be known already.
    fn bound(
        &self,
        key: (String, u64),
        compute: impl FnOnce() -> Result<f64, PlanError>,
    ) -> Result<f64, PlanError> {
        if let Some(known) = self.bounds.borrow().get(&key) {
            return Ok(*known);
        }
        let epsilon = compute()?;
        self.tell(epsilon);
        self.bounds.borrow_mut().insert(key, epsilon);
        Ok(epsilon)
    }

    /// The largest number in `low..=high` whose plan meets the target.
    fn largest(
        &self,
        low: u64,
        high: u64,
        plan: impl Fn(u64) -> Result<Plan, PlanError>,
    ) -> Result<Option<u64>, PlanError> {
        self.largest_by(low, high, &plan, |n, precision| self.epsilon_to(&plan(n)?, precision))
    }

    /// The same by quick searches, with little precision first, and then from their answer on with whole brackets.
    fn largest_by(
        &self,
        low: u64,
        high: u64,
        plan: impl Fn(u64) -> Result<Plan, PlanError>,
        quick: impl Fn(u64, Precision) -> Result<f64, PlanError>,
    ) -> Result<Option<u64>, PlanError> {
        let range = (low, high);
        let near = search::largest(low, high, self.target, |n| quick(n, self.rough()))?.unwrap_or(low);
        // Epsilon grows about as the root of steps: a hundredth of it is at least a fiftieth of them.
        let strides = Strides { first: near / 100, growth: 2 };
        let quick = |n| quick(n, self.precision);
        let near = search::largest_from(near, strides, range, self.target, quick)?.unwrap_or(low);
        let full = |n| self.epsilon(&plan(n)?);
        // Whole brackets are narrower: so much that a straight line from here would meet the target.
        let room = (self.target / full(near)? - 1.0) * near as f64;
        let start = near.saturating_add(room.max(0.0) as u64).min(high);
        let strides = Strides { first: room as u64 / 4, growth: 2 };
        search::largest_from(start, strides, range, self.target, full)
    }

    /// The precision of a first search, which is cheap.
    fn rough(&self) -> Precision {
        Precision { relative: self.precision.relative.max(ROUGH) }
    }

    fn is_balanced(&self) -> bool {
        self.spec.sampling.scheme == Some(Scheme::Balanced)
    }

    fn unreachable(&self, unknown: Unknown, low: f64, high: f64) -> PlanError {
        PlanError::Unreachable { unknown: unknown.name(), low, high, epsilon: self.target }
    }

    fn noise(
        &self,
        epsilon: impl Fn(&Self, &Plan) -> Result<f64, PlanError>,
    ) -> Result<(Plan, f64), PlanError> {
        let (low, high) = NOISE;
        let base = self.plan(|spec| spec.privacy.noise_multiplier = Some(1.0))?;
        // In a schedule the noise of the phases that give none is solved for.
        let with = |noise_multiplier| match self.spec.phases.is_empty() {
            true => Ok(base.changed(|plan| plan.noise_multiplier = noise_multiplier)),
            false => self.plan(|spec| spec.privacy.noise_multiplier = Some(noise_multiplier)),
        };
        // Most of the way with little precision, which is cheap; the rest in small steps.
        let rough = |noise| self.epsilon_to(&with(noise)?, self.rough());
        let near = search::smallest_real(low, high, self.target, rough)?;
        let (start, range) = (near.unwrap_or(high), (low, high));
        let value = |noise| epsilon(self, &with(noise)?);
        let noise = search::smallest_real_from(start, NEAR, range, self.target, value)?
            .ok_or_else(|| self.unreachable(Unknown::NoiseMultiplier, low, high))?;
        Ok((with(noise)?, noise))
    }

    fn epochs(&self) -> Result<Answer, PlanError> {
        let base = match self.is_balanced() {
            true => self.plan(|spec| spec.sampling.epochs = spec.sampling.epochs.or(Some(1)))?,
            false => self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (Some(1), None))?,
        };
        let (plan, epochs) = self.most_epochs(base, Unknown::Epochs)?;
        Ok((plan, Value::Whole(epochs), None))
    }

    /// The most repetitions of the base plan's epoch.
    fn most_epochs(&self, base: Plan, unknown: Unknown) -> Result<(Plan, u64), PlanError> {
        let length = match base.sampling {
            Sampling::Balanced { epoch_steps, .. } => epoch_steps,
            Sampling::Poisson | Sampling::WithoutReplacement => base.steps,
        };
        let most = MAX_STEPS / length;
        let with = |epochs| base.changed(|plan| plan.steps = length * epochs);
        let found = if let (Accountant::Pld, Ok(epoch)) = (base.accountant(), with(1).pld()) {
            // The distribution of an epoch is made once; other bounds may only be better.
            let quick = |epochs: u64, precision: Precision| {
                self.bound((epochs.to_string(), precision.relative.to_bits()), || {
                    let run = epoch.self_compose(epochs);
                    finite(run.epsilon_upper(base.delta, self.effort(precision)).map_err(PlanError::from))
                })
            };
            self.largest_by(1, most, |epochs| Ok(with(epochs)), quick)?
        } else {
            self.largest(1, most, |epochs| Ok(with(epochs)))?
        };
        let epochs = found.ok_or_else(|| self.unreachable(unknown, 1.0, most as f64))?;
        Ok((with(epochs), epochs))
    }

    fn steps(&self) -> Result<Answer, PlanError> {
        if self.is_balanced() {
            // More steps in an epoch hide a record better; more epochs show it more often. Whole epochs are counted.
            let base = self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (Some(1), None))?;
            let (plan, _) = self.most_epochs(base, Unknown::Steps)?;
            let steps = plan.steps;
            return Ok((plan, Value::Whole(steps), None));
        }
        let base = self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (None, Some(1)))?;
        let (plan, steps) = self.most_epochs(base, Unknown::Steps)?;
        Ok((plan, Value::Whole(steps), None))
    }

    /// A larger batch shortens the epochs of balanced sampling, in which a record is seen as often as before.
    fn balanced_batch(&self) -> Result<Answer, PlanError> {
        let with = |batch| {
            self.plan(|spec| {
                spec.sampling.batch = Some(batch);
                spec.sampling.steps = None;
                spec.sampling.epochs = spec.sampling.epochs.or(Some(1));
            })
        };
        let records = self.spec.sampling.records.unwrap_or(1);
        with(records)?;
        let draws = [self.spec.sampling.per_record.unwrap_or(1), self.spec.sampling.epochs.unwrap_or(1)]
            .iter()
            .fold(u128::from(records), |draws, &factor| draws.saturating_mul(factor.into()));
        let least = u64::try_from(draws.div_ceil(MAX_STEPS.into())).unwrap_or(records).clamp(1, records);
        let found = self.largest(least, records, with)?;
        let batch = found.ok_or_else(|| self.unreachable(Unknown::Batch, least as f64, records as f64))?;
        let plan = with(batch)?;
        // As many steps as the largest batch allows, evenly filled.
        let batch = plan.batch;
        Ok((plan, Value::Whole(batch), None))
    }

    /// Where the epochs are fixed, a larger batch takes fewer steps: epsilon grows with the batch between two changes of
    /// `ceil(records / batch)` and drops at each. So first the fewest parts of an epoch, then the largest batch for them.
    fn batch(&self) -> Result<Answer, PlanError> {
        if self.is_balanced() {
            return self.balanced_batch();
        }
        let records = self.spec.sampling.records.unwrap_or(1);
        // The largest batch is checked first, because a batch of one may need more steps than are allowed.
        let base = self.plan(|spec| spec.sampling.batch = Some(records))?;
        let epochs = self.spec.sampling.epochs;
        let with = |batch: u64| {
            base.changed(|plan| {
                plan.batch = batch;
                if let Some(epochs) = epochs {
                    plan.steps = epochs * records.div_ceil(batch);
                }
            })
        };
        // Rates below the accountant's limit, and runs of more steps than it takes, are not searched.
        let smallest = (records as f64 * 1e-8).ceil().max(1.0) as u64;
        let most_parts = epochs.map_or(records, |epochs| (MAX_STEPS / epochs).min(records)).max(1);
        let least = smallest.max(records.div_ceil(most_parts));
        let (low, high) = match epochs {
            None => (least, records),
            Some(_) => {
                let batch_of = |parts: u64| records.div_ceil(parts).max(least);
                let most_parts = records.div_ceil(least);
                let meets = |parts, precision| self.epsilon_to(&with(batch_of(parts)), precision);
                let unreachable = || self.unreachable(Unknown::Batch, least as f64, records as f64);
                let rough = |parts| meets(parts, self.rough());
                let near = search::smallest(1, most_parts, self.target, rough)?.unwrap_or(most_parts);
                // With more precision perhaps fewer: the more are left out, the larger epsilon.
                let range = (0, most_parts - 1);
                let strides = Strides { first: near / 100, growth: 2 };
                let quick = |left_out| meets(most_parts - left_out, self.precision);
                let left_out =
                    search::largest_from(most_parts - near, strides, range, self.target, quick)?.unwrap_or(0);
                let strides = Strides { first: 1, growth: 2 };
                let full = |left_out| self.epsilon(&with(batch_of(most_parts - left_out)));
                let left_out = search::largest_from(left_out, strides, range, self.target, full)?;
                let parts = most_parts - left_out.ok_or_else(unreachable)?;
                let low = batch_of(parts);
                let high = if parts > 1 { (batch_of(parts - 1) - 1).max(low) } else { records };
                (low, high)
            }
        };
        let found = self.largest(low, high, |batch| Ok(with(batch)))?;
        let batch = found.ok_or_else(|| self.unreachable(Unknown::Batch, least as f64, records as f64))?;
        Ok((with(batch), Value::Whole(batch), None))
    }

    fn crop(&self) -> Result<Answer, PlanError> {
        let shape = self.spec.pipeline.crop;
        let limit = self.plan(|spec| {
            spec.pipeline.crop = Some(Pixels { x: 1, y: 1 });
            (spec.pipeline.crop_scale, spec.pipeline.crop_ratio) = (None, None);
        })?;
        let (image, pipeline) = match (limit.spatial().image(), limit.spatial().pipeline()) {
            (Some(image), Some(pipeline)) => (image, pipeline),
            _ => {
                return Err(PlanError::Missing {
                    key: "pipeline.image",
                    why: "the largest crop depends on the image it is cut from",
                });
            }
        };
        debug_assert!(matches!(pipeline.crop_distribution(), CropDistribution::Fixed(_)));
        let reaching = pipeline
            .size_before_crop(image)
            .map_err(|source| PlanError::Geometry { key: "pipeline.image", source })?;
        self.size(Unknown::Crop, shape, reaching, |spec, size| {
            spec.pipeline.crop = Some(size);
            (spec.pipeline.crop_scale, spec.pipeline.crop_ratio) = (None, None);
        })
    }

    fn patch(&self) -> Result<Answer, PlanError> {
        let shape = self.spec.region.patch;
        let set = |spec: &mut PlanSpec, size| {
            spec.region.patch = Some(size);
            (spec.region.circle, spec.region.mask) = (None, None);
        };
        let limit = self.plan(|spec| set(spec, Pixels { x: 1, y: 1 }))?;
        let image = limit.spatial().image().ok_or(PlanError::Missing {
            key: "pipeline.image",
            why: "the largest patch depends on the image it lies in",
        })?;
        self.size(Unknown::Patch, shape, image, set)
    }

    /// The largest rectangle of a given shape.
    fn size(
        &self,
        unknown: Unknown,
        shape: Option<Pixels>,
        limit: Size,
        set: impl Fn(&mut PlanSpec, Pixels),
    ) -> Result<Answer, PlanError> {
        let shape = shape.filter(|shape| shape.x > 0 && shape.y > 0).unwrap_or(Pixels { x: 1, y: 1 });
        let scaled = |width: u64| {
            let height = (width * u64::from(shape.y) / u64::from(shape.x)).max(1);
            let within = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
            Pixels { x: within(width), y: within(height) }
        };
        // The widest that is not too high.
        let by_height = (u64::from(limit.height()) + 1) * u64::from(shape.x) - 1;
        let widest = u64::from(limit.width()).min(by_height / u64::from(shape.y)).max(1);
        let with = |width: u64| self.plan(|spec| set(spec, scaled(width)));
        let found = self.largest(1, widest, with)?;
        let width = found.ok_or_else(|| self.unreachable(unknown, 1.0, widest as f64))?;
        Ok((with(width)?, Value::Whole(width), Some(scaled(width))))
    }
}
