//! Which records a step sees, drawn as the accountant assumes.

mod balanced;
mod event;
mod groups;
mod poisson;
mod submodels;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use chacha20::rand_core::Rng;
use dapple_plan::{Plan, Sampling};

use crate::DataError;
use crate::keys::{MasterKey, Purpose, PurposeKey};
use crate::uniform::{below, subset};
use balanced::{Allocation, AllocationLaw};
use poisson::Rate;

pub use event::SamplingEvent;
pub(crate) use groups::clip_groups;
pub use submodels::SubmodelLaw;
pub(crate) use submodels::by_submodel;

/// Records for each one that a step draws, up to which all are marked: a byte each then takes no more memory than a list of those drawn would.
const MARKS_A_RECORD: u64 = 16;

/// The records of one step, or the users where the plan draws these, in growing order. A Poisson draw may be empty, and even then the step adds noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// The step, from 0.
    pub step: u64,
    /// The phase that the step belongs to, as an index into [`Plan::phases`]; 0 in a plan without phases.
    pub phase: usize,
    /// The records or users, each at most once.
    pub indices: Vec<usize>,
    /// How many groups the records are clipped in; `None` if each is clipped by itself.
    pub clip_groups: Option<u64>,
    /// How records draw their submodels; `None` if each updates the whole model.
    pub submodels: Option<Arc<SubmodelLaw>>,
}

/// The keys by which records are drawn.
#[derive(Debug, Clone)]
pub struct SamplerKeys {
    /// Which records join a step; in balanced sampling, which steps a record joins.
    pub draws: PurposeKey,
    /// The group of each record, where steps draw from groups. Every process of a run must have the same.
    pub groups: PurposeKey,
}

impl SamplerKeys {
    /// The keys that follow from a master key.
    #[must_use]
    pub fn of(master: &MasterKey) -> Self {
        Self { draws: master.purpose(Purpose::Sampling), groups: master.purpose(Purpose::Groups) }
    }
}

/// Draws the records of every step of a plan. A draw is a function of (keys, step) alone, so a run can go on from any step if only the keys
/// are known.
///
/// # Guarantee
/// The participation of records follows exactly the law of the plan's scheme, given a key from the operating system (that is, up to
/// the security of ChaCha20):
/// - Poisson: each record joins each step with probability batch / records, independently of all others. No rounding: the coin is
///   decided by as many random bits as the ratio of the two integers needs. Where noise cancels across `b` steps, each record belongs to one
///   of `b` groups, uniformly and independently of all others, and to the same one in all steps; step `t` draws each record of group
///   `t mod b` with probability `b * batch / records`, and no other.
/// - without replacement: each step sees a uniform subset of exactly `batch` records, independently of all other steps.
/// - balanced: each record joins `per_record` steps of each epoch, a uniform subset of the epoch's steps, independently of other
///   records and epochs.
///
/// [`Sampler::event`] is the accountant's name for what a step did.
///
/// # Memory
/// That of the records of the steps at hand, and no list of all records: of one step, and with the balanced scheme of as many steps of an epoch
/// as two million places of records hold, but at least of one. What is kept changes nothing that is drawn.
#[derive(Debug, Clone)]
pub struct Sampler {
    keys: SamplerKeys,
    records: u64,
    phases: Vec<Phase>,
    allocation: Option<Arc<Allocation>>,
}

#[derive(Debug, Clone)]
struct Phase {
    first_step: u64,
    steps: u64,
    event: SamplingEvent,
    clip_groups: Option<u64>,
    submodels: Option<Arc<SubmodelLaw>>,
}

impl Sampler {
    /// A sampler for a data set of `records` records, or of so many users where the plan draws these: [`Dataset::units`](crate::Dataset::units).
    /// What is said of records here holds for users then.
    ///
    /// # Errors
    /// A plan for another number of records; a batch larger than the data set.
    pub fn new(plan: &Plan, records: usize, keys: SamplerKeys) -> Result<Self, DataError> {
        let records = records as u64;
        if plan.records() != records {
            return Err(DataError::size(plan, records));
        }
        let parts = plan.parts();
        let mut first_step = 0;
        let mut phases = Vec::with_capacity(parts.len());
        for part in parts {
            if part.batch() > records {
                return Err(DataError::BatchTooLarge { batch: part.batch(), records });
            }
            let (steps, event, clip_groups) = (part.steps(), SamplingEvent::of(part), part.clip_groups());
            let submodels = SubmodelLaw::of(part).map(Arc::new);
            phases.push(Phase { first_step, steps, event, clip_groups, submodels });
            first_step += part.steps();
        }
        Ok(Self { keys, records, phases, allocation: None })
    }

    /// Steps of the whole plan.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.phases.last().map_or(0, |phase| phase.first_step + phase.steps)
    }

    /// Which phase of the plan a step belongs to.
    ///
    /// # Errors
    /// A step beyond the end.
    pub fn phase(&self, step: u64) -> Result<usize, DataError> {
        let after = self.phases.partition_point(|phase| phase.first_step <= step);
        match after.checked_sub(1) {
            Some(phase) if step < self.steps() => Ok(phase),
            _ => Err(DataError::Step { step, steps: self.steps() }),
        }
    }

    /// The event that the accountant prices for a step.
    ///
    /// # Errors
    /// A step beyond the end.
    pub fn event(&self, step: u64) -> Result<SamplingEvent, DataError> {
        Ok(self.phases[self.phase(step)?].event)
    }

    /// The records of a step.
    ///
    /// # Errors
    /// A step beyond the end.
    pub fn draw(&mut self, step: u64) -> Result<Draw, DataError> {
        let phase = self.phase(step)?;
        let Phase { first_step, event, clip_groups, .. } = self.phases[phase];
        let submodels = self.phases[phase].submodels.clone();
        let indices = match event.sampling() {
            Sampling::Poisson if event.groups > 1 => self.of_group(step, event.batch, event.groups),
            Sampling::Poisson => self.limited(step, self.coins(step, event.batch), event.max_batch),
            Sampling::WithoutReplacement => self.fixed_size(step, event.batch),
            Sampling::Balanced { per_record, epoch_steps } => {
                let epoch_steps = epoch_steps.max(1);
                let place = (step - first_step) % epoch_steps;
                // An epoch's allocation is keyed by its first step, which no other epoch shares.
                let epoch = step - place;
                let kept = self.allocation.take().filter(|allocation| allocation.holds(epoch, place));
                let allocation = kept.unwrap_or_else(|| {
                    let mut random = self.keys.draws.step(epoch).stream(0);
                    let law = AllocationLaw { records: self.records, per_record, epoch_steps };
                    Arc::new(Allocation::draw(&mut random, epoch, &law, law.window(place)))
                });
                let indices = allocation.at(place);
                self.allocation = Some(allocation);
                indices
            }
        };
        Ok(Draw { step, phase, indices, clip_groups, submodels })
    }

    /// The records whose coins show heads.
    fn coins(&self, step: u64, batch: u64) -> Vec<usize> {
        let mut random = self.keys.draws.step(step).stream(0);
        Rate::new(batch, self.records).toss(self.records, &mut random)
    }

    /// A uniform subset of so many of the records drawn, or all if there are no more; `most` is 0 if there is no limit.
    fn limited(&self, step: u64, drawn: Vec<usize>, most: u64) -> Vec<usize> {
        let count = drawn.len() as u64;
        if most == 0 || count <= most {
            return drawn;
        }
        let kept = ordered_subset(&mut self.keys.draws.step(step).stream(1), most, count);
        kept.into_iter().map(|place| drawn[place]).collect()
    }

    /// The same among the records of the step's group, at as many times the rate as there are groups. Every record's coin is tossed, whatever its
    /// group.
    fn of_group(&self, step: u64, batch: u64, groups: u64) -> Vec<usize> {
        let mut heads = self.coins(step, batch.saturating_mul(groups));
        heads.retain(|&record| self.group(record) == Some(step % groups));
        heads
    }

    /// The group of a record, where steps draw from groups.
    #[must_use]
    pub fn group(&self, record: usize) -> Option<u64> {
        let groups = self.phases.first().map_or(0, |phase| phase.event.groups);
        (groups > 1).then(|| below(&mut self.keys.groups.step(0).stream(record as u64), groups))
    }

    fn fixed_size(&self, step: u64, batch: u64) -> Vec<usize> {
        ordered_subset(&mut self.keys.draws.step(step).stream(0), batch, self.records)
    }
}

/// A uniform subset of so many numbers below a bound, in ascending order.
fn ordered_subset(random: &mut impl Rng, count: u64, bound: u64) -> Vec<usize> {
    // A mark for each number is quicker to find than one among those taken, as long as there are not many more numbers than these.
    if bound / MARKS_A_RECORD <= count {
        let mut taken = vec![false; bound as usize];
        subset(random, count, bound, |number| !std::mem::replace(&mut taken[number as usize], true));
        return taken.iter().enumerate().filter_map(|(number, &taken)| taken.then_some(number)).collect();
    }
    let mut taken = BTreeSet::new();
    subset(random, count, bound, |number| taken.insert(number as usize));
    taken.into_iter().collect()
}
