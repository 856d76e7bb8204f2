//! One step: the clipped sum of per-sample gradients, the noise, the division by the expected batch, and the optimiser.

mod drawn;

use std::sync::Arc;

use dapple_data::rand_core::Rng;
use dapple_data::{Loader, MasterKey, Microbatch, Purpose, PurposeKey};
use dapple_engine::{Clipping, ClippingRule, StepStats};
use dapple_graph::{DropoutUnits, Graph, Parameters};
use dapple_plan::{LearningRate, Plan};
use dapple_private::{
    AdaptiveClip, CorrelatedSums, Executor, GradientScales, Learned, Microbatches, Noise, PublicParts,
    ScaleState, StepError, Update, masked_step, private_step,
};

use crate::checkpoint::{Checkpoint, CheckpointPlace};
use crate::device::Machine;
use crate::digest;
use crate::error::TrainError;
use crate::masked::MaskedPasses;
use crate::optimiser::optimiser_settings;
use crate::prepare::Prepared;
use crate::ranks::RankGroup;
use drawn::{DrawnBatch, DropoutDraws, next};

/// A model in training.
pub(crate) struct Trainer {
    parts: Vec<TrainerPart>,
    machine: Machine,
    executor: Box<dyn Executor>,
    /// Runs the whole model, if the other executor trains on features or on subsets of tokens.
    whole: Option<Box<dyn Executor>>,
    /// The phase whose graph the executor runs.
    entered: usize,
    /// What was learned. If a GPU computes, this is out of date until it is fetched.
    learned: Learned,
    rate: LearningRate,
    rule: ClippingRule,
    /// How gradients of the public parts of images are bounded, and their weight; `None` if records are not parted.
    public: Option<(ClippingRule, f32)>,
    /// The clip norm `C` of a split model, in whose multiples both the bounds of its parts and the noise are given.
    split_clip: Option<f64>,
    /// The processes that share every step.
    ranks: Option<Arc<RankGroup>>,
}

/// The first records of a step; then the loader of public parts with the first of these, if records are parted.
type FirstRecords<'l> = (Microbatch, Option<(&'l mut Loader, Microbatch)>);

/// What each phase of the plan does in its own way.
struct TrainerPart {
    graph: Graph,
    /// The submodels of the graph that records update; empty if they update all of it.
    submodels: Vec<Graph>,
    /// The units of its dropout layers for which each record draws a mask, if these split the model.
    units: Option<DropoutUnits>,
    /// The expected batch.
    batch: u64,
    /// The expected number of contributions, by which the noisy sum is divided: records, or groups that are clipped together.
    contributions: u64,
    /// None without privacy.
    noise: Option<PartNoise>,
}

/// The noise of a part of the plan.
struct PartNoise {
    /// Standard deviation of that on the sum, in clip norms.
    multiplier: f64,
    /// That on twice the count of records within the clip norm, where it is released.
    count: Option<Noise>,
}

impl PartNoise {
    /// The noise of a part, which can be drawn for each of these clip norms.
    fn new(part: &Plan, clip_norms: &[f64]) -> Result<Self, StepError> {
        let count = part.count_noise().map(|deviation| Noise::new(2.0 * deviation)).transpose()?;
        let noise = Self { multiplier: part.gradient_noise(), count };
        clip_norms.iter().try_for_each(|&norm| noise.on_sum(norm).map(|_| ()))?;
        Ok(noise)
    }

    /// The noise on a sum of gradients of at most this norm.
    fn on_sum(&self, sensitivity: f64) -> Result<Noise, StepError> {
        Noise::new(self.multiplier * sensitivity)
    }
}

/// Keys of the randomness that a step uses, apart from its records and views.
pub(crate) struct StepKeys {
    pub(crate) noise: PurposeKey,
    pub(crate) count: PurposeKey,
    pub(crate) dropout: PurposeKey,
    pub(crate) units: PurposeKey,
}

impl StepKeys {
    /// The keys of a run.
    pub(crate) fn of(master: &MasterKey) -> Self {
        Self {
            noise: master.purpose(Purpose::Noise),
            count: master.purpose(Purpose::CountNoise),
            dropout: master.purpose(Purpose::Dropout),
            units: master.purpose(Purpose::DropoutUnits),
        }
    }
}

impl Trainer {
    /// A model before its first step, on the machine that the plan asks for. What a user should know about the machine is added to the
    /// notes.
    pub(crate) fn new(prepared: &Prepared, notes: &mut Vec<String>) -> Result<Self, TrainError> {
        check_units(prepared)?;
        let clipping = prepared.clipping()?;
        let clip = prepared.adaptive_clip();
        let split_clip = prepared.split.as_ref().map(|_| prepared.plan().clip_norm());
        let mut clip_norms = vec![split_clip.unwrap_or(clipping.sensitivity())];
        clip_norms.extend(clip.iter().flat_map(AdaptiveClip::bounds));
        let of_subsets = prepared.masked.as_ref().and_then(MaskedPasses::graphs);
        let graphs = of_subsets.unwrap_or(&prepared.graphs);
        let parts = prepared.parts().iter().zip(graphs).map(|(part, graph)| {
            let noise = match clipping {
                Clipping::Off => None,
                _ => Some(PartNoise::new(part, &clip_norms)?),
            };
            let (batch, contributions) = (part.batch(), part.contributions());
            let submodels = prepared.split.as_ref().map(|split| split.submodels(graph)).transpose()?;
            let submodels = submodels.unwrap_or_default();
            let units = prepared.split.as_ref().and_then(|split| split.units(graph));
            Ok(TrainerPart { graph: graph.clone(), submodels, units, batch, contributions, noise })
        });
        let parts = parts.collect::<Result<Vec<_>, TrainError>>()?;
        let mut machine = Machine::for_training(prepared)?;
        let executor = machine.executor(&parts[0].graph, &parts[0].submodels, notes)?;
        let rule = ClippingRule::new(&clipping, executor.layout())?;
        parts.iter().try_for_each(|part| fits(&rule, part.batch, prepared.plan().records()))?;
        let most = parts.iter().map(|part| most_drawn(part.batch, prepared.plan().records())).max();
        let public = prepared.masked.as_ref();
        let public = public.map(|passes| passes.public_rule(&rule, executor.layout(), most.unwrap_or(0)));
        let whole = match (of_subsets, prepared.graphs.last()) {
            (Some(_), Some(graph)) => Some(machine.executor(graph, &[], &mut Vec::new())?),
            _ => None,
        };
        let settings = optimiser_settings(&prepared.training.optimiser, &parts[0].graph)?;
        let correlated = correlated_sums(prepared.plan(), &rule)?;
        let learned = Learned::new(&settings, executor.layout(), prepared.parameters.clone());
        let scales = prepared.training.optimiser.rule.scales();
        let scales = scales.map(|decay| GradientScales::new(decay, executor.layout()));
        let learned = Learned { clip, scales, correlated, ..learned };
        Ok(Self {
            entered: 0,
            parts,
            machine,
            executor,
            whole,
            learned,
            rate: prepared.training.schedule,
            rule,
            public: public.transpose()?,
            split_clip,
            ranks: prepared.ranks.clone(),
        })
    }

    /// Takes one step with the next microbatches of the loader.
    ///
    /// # Guarantee
    /// The guarantee of [`private_step`], with the plan's rule, its noise multiplier times the rule's sensitivity, and its expected
    /// batch. Where dropout splits the model, each record has a mask that follows from a secret key, the step and the record, one for all its
    /// views, and where users are drawn each user, one for all its records and local steps. The parts of a split model are bounded in multiples of the clip norm, and the noise multiplier is one of it too. If gradients are scaled, the rule bounds the scaled ones, by scales that follow from what earlier steps released. If the clip norm follows a quantile, rule and noise are those of the clip norm that the steps before have come to, and sum
    /// and count together have the plan's noise multiplier ([`ClipQuantile`](dapple_plan::ClipQuantile)).
    ///
    /// Where images have private and public parts, the loader shows their private ones and `public` the others, and the guarantee is that
    /// of [`masked_step`].
    pub(crate) fn step(
        &mut self,
        loader: &mut Loader,
        public: Option<&mut Loader>,
        keys: &StepKeys,
        step: u64,
    ) -> Result<Taken, TrainError> {
        let (first, public) = self.ready(loader, public)?;
        let Self { parts, executor, learned, rate, rule, public: public_rule, split_clip, .. } = self;
        let part = &parts[first.phase];
        if let Some(clip) = learned.clip.filter(|clip| clip.norm() != rule.sensitivity()) {
            *rule = ClippingRule::new(&Clipping::Flat { max_norm: clip.norm() }, executor.layout())?;
        }
        if let Some(scales) = learned.scales.as_ref().filter(|_| rule.unit().is_some()) {
            let scaled = Clipping::Scaled { max_norm: rule.sensitivity(), scales: scales.scales() };
            *rule = ClippingRule::new(&scaled, executor.layout())?;
        }
        let (key, count_key) = (keys.noise.step(step), keys.count.step(step));
        // The sensitivity is taken from the rule, so that the noise always matches how gradients are bounded.
        let clip_norm = split_clip.unwrap_or(rule.sensitivity());
        let on_sum = part.noise.as_ref().map(|noise| noise.on_sum(clip_norm)).transpose()?;
        let on_count = part.noise.as_ref().and_then(|noise| noise.count.as_ref());
        let learning_rate = rate.at(step);
        let update = Update {
            noise: on_sum.as_ref().map(|noise| (noise, &key)),
            count: on_count.map(|noise| (noise, &count_key)),
            batch: part.contributions,
            learning_rate,
        };
        let drawn = first.drawn;
        let dropout = DropoutDraws {
            seed: keys.dropout.step(step).stream(0).next_u64(),
            masks: part.units.as_ref().map(|units| (keys.units.step(step), units)),
        };
        let public_dropout = DropoutDraws { seed: dropout.seed, masks: None };
        let mut batch = DrawnBatch::new(loader, first, dropout);
        let stats = match (public, public_rule) {
            (Some((loader, first)), Some((public_rule, weight))) => {
                let mut microbatches = DrawnBatch::new(loader, first, public_dropout);
                let microbatches: &mut dyn Microbatches = &mut microbatches;
                let public = PublicParts { microbatches, rule: public_rule, weight: *weight };
                masked_step(&mut **executor, learned, (&mut batch, rule), public, &update)?
            }
            _ => private_step(&mut **executor, learned, &mut batch, rule, &update)?,
        };
        Ok(Taken { learning_rate, drawn, stats, bound: rule.sensitivity() })
    }

    /// Waits for the first records of a step, and gets ready for its phase. Processes that share the step hear of it if this one cannot.
    fn ready<'l>(
        &mut self,
        loader: &mut Loader,
        public: Option<&'l mut Loader>,
    ) -> Result<FirstRecords<'l>, TrainError> {
        let found = || {
            let first = next(loader)?;
            let public = public.map(|loader| next(loader).map(|first| (loader, first))).transpose()?;
            self.enter(first.phase)?;
            Ok((first, public))
        };
        let found: Result<_, TrainError> = found();
        if let (Err(error), Some(ranks)) = (&found, &self.ranks) {
            // The others report their part of the sum at this place. That this one failed is what they will hear; it knows already.
            let _ = ranks.exchange(Err(error.to_string()));
        }
        found
    }

    /// Gets ready for a phase of the plan. Only another graph needs another executor. Equal shapes of samples do not tell, because an image
    /// and the shares of its tokens lie in one vector, which may be as long for views of another shape.
    fn enter(&mut self, phase: usize) -> Result<(), TrainError> {
        let TrainerPart { graph, submodels, .. } = &self.parts[phase];
        if self.entered != phase && self.parts[self.entered].graph != *graph {
            self.executor.fetch(&mut self.learned)?;
            // The first executor settled the machine, so there is nothing to note.
            self.executor = self.machine.executor(graph, submodels, &mut Vec::new())?;
        }
        self.entered = phase;
        Ok(())
    }

    /// From here on trains only what follows a frozen trunk, and a record is what the trunk makes of it. Both halves have the parameters
    /// of the whole model, so what is learned stays in place; all dropout layers must be in this half.
    pub(crate) fn train_behind(&mut self, rest: Graph) -> Result<(), TrainError> {
        self.executor.fetch(&mut self.learned)?;
        let executor = self.machine.executor(&rest, &[], &mut Vec::new())?;
        let before = std::mem::replace(&mut self.executor, executor);
        // What trained on subsets of tokens before is no whole model.
        self.whole.get_or_insert(before);
        let part = &mut self.parts[0];
        part.units = part.units.is_some().then(|| rest.dropout_units());
        part.graph = rest;
        Ok(())
    }

    /// The graph that is trained in each phase of the plan.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.parts.iter().map(|part| &part.graph)
    }

    /// The machine in words.
    pub(crate) fn machine(&self) -> &str {
        self.machine.words()
    }

    /// Number of cards that share every batch; the processor counts as one.
    pub(crate) fn cards(&self) -> usize {
        self.machine.cards()
    }

    /// The weights to evaluate and to keep.
    pub(crate) fn weights(&mut self) -> Result<&Parameters, TrainError> {
        self.executor.fetch(&mut self.learned)?;
        Ok(self.learned.weights())
    }

    /// The executor of the last phase's whole model, and the weights to run it with.
    pub(crate) fn evaluator(&mut self) -> Result<(&mut dyn Executor, &Parameters), TrainError> {
        self.enter(self.parts.len() - 1)?;
        self.executor.fetch(&mut self.learned)?;
        let executor = self.whole.as_mut().unwrap_or(&mut self.executor);
        Ok((&mut **executor, self.learned.weights()))
    }

    /// The executor of what follows a frozen trunk, and the weights to run it with.
    pub(crate) fn behind_trunk(&mut self) -> Result<(&mut dyn Executor, &Parameters), TrainError> {
        self.executor.fetch(&mut self.learned)?;
        Ok((&mut *self.executor, self.learned.weights()))
    }

    /// Number of updates so far.
    pub(crate) fn updates(&self) -> u64 {
        self.learned.optimiser.state().updates
    }

    /// The noise's part of the optimiser's second moments, where it takes one off.
    pub(crate) fn noise_part(&self) -> Option<f64> {
        Some(self.learned.optimiser.state().noise).filter(|noise| *noise > 0.0)
    }

    /// The clip norm of the next step; infinite without clipping.
    pub(crate) fn clip_norm(&self) -> f64 {
        self.adapted_clip_norm().or(self.split_clip).unwrap_or_else(|| self.rule.sensitivity())
    }

    /// The same where it follows a quantile.
    pub(crate) fn adapted_clip_norm(&self) -> Option<f64> {
        self.learned.clip.map(|clip| clip.norm())
    }

    /// What the scales of gradients follow from, where there are any.
    pub(crate) fn gradient_scales(&self) -> Option<[Vec<f64>; 2]> {
        let ScaleState { moments, doubts } = self.learned.scales.as_ref()?.state().clone();
        Some([moments, doubts])
    }

    /// What the run goes on from.
    pub(crate) fn checkpoint(&mut self, place: CheckpointPlace) -> Result<Checkpoint, TrainError> {
        self.executor.fetch(&mut self.learned)?;
        Checkpoint::of(&self.learned, place)
    }

    /// A digest of all that was learned.
    pub(crate) fn digest(&mut self) -> Result<String, TrainError> {
        self.executor.fetch(&mut self.learned)?;
        let state = self.learned.optimiser.state();
        let mean = self.learned.mean.as_ref().map(|mean| mean.parameters().values());
        let values =
            [self.learned.parameters.values(), &state.first, &state.second, mean.unwrap_or_default()];
        let parts = values.map(digest::of_values);
        let clip = self.adapted_clip_norm().unwrap_or_default().to_bits();
        Ok(digest::of(&[parts.concat().as_bytes(), &state.updates.to_le_bytes(), &clip.to_le_bytes()]))
    }

    /// Restores a checkpoint before the first step; `false` if it does not fit.
    pub(crate) fn restore(&mut self, checkpoint: Checkpoint) -> bool {
        checkpoint.restore(&mut self.learned)
    }

    /// Replaces the device by one that is made from it.
    #[cfg(test)]
    pub(crate) fn replace_device(&mut self, make: impl FnOnce(Box<dyn Executor>) -> Box<dyn Executor>) {
        let graph = &self.parts[0].graph;
        let none = dapple_private::Processor::new(graph, 1).expect("a processor");
        self.executor = make(std::mem::replace(&mut self.executor, Box::new(none)));
    }
}

/// Refuses records that do not tell their users where users are drawn, and the other way round: what is clipped must be what is drawn.
fn check_units(prepared: &Prepared) -> Result<(), TrainError> {
    match prepared.training.users.is_some() == prepared.data.train.users().is_some() {
        true => Ok(()),
        false => Err(TrainError::setting(
            "data.users",
            "the relation is user where records tell their users, and only there",
            "give privacy.relation = \"user\" and data.users together",
        )),
    }
}

/// The most records that a step draws: every record of the data set, or as many as Poisson sampling ever draws. By Chernoff's bound,
/// `P(X >= b + l) <= exp(-l^2 / (2 (b + l / 3)))` is below e^-140 for `l = 40 sqrt(b) + 100`.
fn most_drawn(batch: u64, records: u64) -> u64 {
    records.min((batch as f64 + 40.0 * (batch as f64).sqrt() + 100.0) as u64)
}

/// Refuses batches with more records than a sum can hold.
fn fits(rule: &ClippingRule, batch: u64, records: u64) -> Result<(), TrainError> {
    let (most, capacity) = (most_drawn(batch, records), rule.capacity());
    if most > capacity as u64 { Err(dapple_engine::EngineError::Sum { capacity }.into()) } else { Ok(()) }
}

/// The sums that are released together where noise cancels across the steps of a plan.
fn correlated_sums(plan: &Plan, rule: &ClippingRule) -> Result<Option<CorrelatedSums>, TrainError> {
    let Some(noise) = plan.correlated_noise().filter(|_| rule.unit().is_some()) else { return Ok(None) };
    let (coefficients, unit) = noise.whole();
    let sums = CorrelatedSums::new(coefficients, unit);
    let most = most_drawn(plan.batch(), plan.records());
    match rule.holds(most, sums.growth()) {
        true => Ok(Some(sums)),
        false => Err(TrainError::setting(
            "noise.bands",
            format!(
                "sums of {} steps of up to {most} records each have more digits than double precision",
                noise.bands()
            ),
            "give fewer bands, or a smaller batch",
        )),
    }
}

/// What can be reported about a step.
pub(crate) struct Taken {
    pub(crate) learning_rate: f64,
    drawn: usize,
    stats: StepStats,
    bound: f64,
}

impl Taken {
    /// Records drawn.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn
    }

    /// Mean loss of the contributions whose loss is finite.
    pub(crate) fn loss(&self) -> Option<f64> {
        let finite = || self.stats.losses.iter().filter(|loss| loss.is_finite());
        let sum: f64 = finite().map(|&loss| f64::from(loss)).sum();
        (finite().count() > 0).then(|| sum / finite().count() as f64)
    }

    /// How many contributions had a gradient that was not finite, and so added nothing.
    pub(crate) fn not_finite(&self) -> usize {
        self.stats.not_finite
    }

    /// Norms of all gradients before clipping.
    pub(crate) fn norms(&self) -> &[f32] {
        &self.stats.norms
    }

    /// Share of gradients that were longer than the bound.
    pub(crate) fn clipped(&self) -> Option<f64> {
        let longer = self.stats.norms.iter().filter(|&&norm| f64::from(norm) > self.bound).count();
        let contributions = self.stats.losses.len();
        (contributions > 0).then(|| longer as f64 / contributions as f64)
    }
}

#[cfg(test)]
mod masked_tests;
#[cfg(test)]
mod mix_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod user_tests;
