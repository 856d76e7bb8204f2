//! Private steps on a GPU, or on several of one machine, which keep what a run has learned in their own memory.

use std::sync::{Arc, Mutex, PoisonError};

use dapple_engine::cuda::{
    CudaAddition, CudaError, CudaGroup, CudaGroupError, CudaGroupState, CudaGroupSum, CudaLink, CudaOptions,
    LatticeNoise, StateValues,
};
use dapple_engine::{ClippingRule, EngineError, Layout, StepStats, Total};
use dapple_graph::{Graph, Parameters};

use crate::correlated::CorrelatedSums;
use crate::error::StepError;
use crate::executor::{Executor, Forward, Microbatches};
use crate::joined::{JoinedCard, JoinedWhere, join};
use crate::learned::{Learned, Update};
use crate::optimiser::OptimiserState;
use crate::peers::{Peers, mark};

/// How the sums of cards of several processes are added up.
#[derive(Debug, Clone)]
pub enum PeerCards {
    /// In the hosts' memory, by the processes.
    OnHosts,
    /// By NCCL, over the links between the cards. The link outlives executors, which follow each other where a plan has phases.
    Linked(Arc<Mutex<CudaLink>>),
}

/// An executor on GPUs that knows whether the host or the cards have the newest state of the run.
#[derive(Debug)]
pub struct Cards {
    group: CudaGroup,
    /// What the optimiser remembers, and the sums of earlier steps where noise cancels across steps; `None` until training begins.
    state: Option<CudaGroupState>,
    /// The sum of the step under way.
    sum: Option<CudaGroupSum>,
    /// Whether the parameters in the cards' memory are those of the run.
    holds_parameters: bool,
    /// Whether the cards have learned something that the host does not know yet.
    ahead: bool,
    /// The device as a user names it.
    device: String,
    /// The processes that take the steps together with this one, and how their sums are added up.
    peers: Option<(Arc<dyn Peers>, PeerCards)>,
}

impl Cards {
    /// Makes an executor on the cards of these numbers, whose batches may belong to submodels of the graph; `device` is what a user calls
    /// the cards.
    ///
    /// # Errors
    /// Cards that cannot be used, together or at all.
    pub fn new(
        (graph, submodels): (&Graph, &[Graph]),
        cards: &[usize],
        options: CudaOptions,
        addition: CudaAddition,
        device: String,
    ) -> Result<Self, CudaGroupError> {
        let group = CudaGroup::with_submodels(graph, submodels, cards, options, addition)?;
        Ok(Self { group, state: None, sum: None, holds_parameters: false, ahead: false, device, peers: None })
    }

    /// The same executor, which must have one card and takes every step together with the cards of other processes: each is shown a part of the
    /// records, and all come to the sum of all.
    #[must_use]
    pub fn among(self, peers: Arc<dyn Peers>, cards: PeerCards) -> Self {
        Self { peers: Some((peers, cards)), ..self }
    }

    /// Adds up the clipped gradients of this process's own part of a step.
    fn own_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError> {
        self.sum = None;
        self.train(learned)?;
        let Self { group, device, .. } = self;
        let failed = |error| failed(device, error);
        let mut sum = group.gradient_sum().map_err(failed)?;
        let mut stats = StepStats::default();
        while let Some(batch) = microbatches.next()? {
            stats.join(group.clipped_sum(&batch, rule, &mut sum).map_err(failed)?);
        }
        self.sum = Some(sum);
        Ok(stats)
    }

    /// The names of the cards' models, each with how many such cards there are.
    #[must_use]
    pub fn names(&self) -> String {
        let mut counted: Vec<(String, usize)> = Vec::new();
        for name in self.group.device_names() {
            match counted.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counted.push((name, 1)),
            }
        }
        let words = counted.into_iter().map(|(name, count)| match count {
            1 => name,
            _ => format!("{count} x {name}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Prepares the cards for training: puts on them the state and the parameters that only the host has.
    fn train(&mut self, learned: &Learned) -> Result<(), StepError> {
        let Self { group, state, holds_parameters, device, .. } = self;
        let failed = |error| failed(device, error);
        if state.is_none() {
            let remembered = learned.optimiser.state();
            let values = StateValues {
                first: remembered.first.clone(),
                second: remembered.second.clone(),
                mean: learned.mean.as_ref().map(|mean| mean.parameters().values().to_vec()),
            };
            let state = state.insert(group.state(&values, learned.optimiser.groups()).map_err(failed)?);
            if let Some(correlated) = &learned.correlated {
                let (coefficients, unit) = correlated.whole();
                group.correlate(state, coefficients, unit).map_err(failed)?;
            }
        }
        if !*holds_parameters {
            group.load(&learned.parameters).map_err(failed)?;
            *holds_parameters = true;
        }
        Ok(())
    }
}

impl Executor for Cards {
    fn layout(&self) -> &Layout {
        self.group.layout()
    }

    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError> {
        let own = self.own_sum(learned, microbatches, rule);
        let Some((peers, cards)) = self.peers.clone() else { return own };
        // Parameters stay on the cards, and are compared when they are fetched; here processes must agree on the step and on the bound.
        let updates = f32::from_bits(learned.optimiser.state().updates as u32);
        let mark = mark(&[updates], rule);
        let (at, link) = match cards {
            PeerCards::OnHosts => (JoinedWhere::Hosts, None),
            PeerCards::Linked(link) => (JoinedWhere::Links, Some(link)),
        };
        let joined = join(&*peers, own, &mut StepCard { cards: self, rule, link }, at, (rule, mark));
        if joined.is_err() {
            self.sum = None;
        }
        joined
    }

    /// The cards do the noise, the division and the optimiser's work; the host only counts the update.
    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError> {
        if learned.scales.is_some() {
            return Err(StepError::GradientScales);
        }
        let Self { group, state, sum, device, ahead, .. } = self;
        let (Some(state), Some(sum)) = (state, sum.take()) else {
            return Err(EngineError::Parameters.into());
        };
        let Learned { optimiser, correlated, .. } = learned;
        let variance = update.variance() * correlated.as_ref().map_or(1.0, CorrelatedSums::variance);
        let (rule, numbers) =
            (optimiser.rule(), optimiser.advance(update.learning_rate, update.batch, variance));
        let updates = optimiser.state().updates;
        let noise = update.noise.map(|(noise, key)| LatticeNoise {
            key: key.bytes(),
            lattice: noise.step(),
            deviation: noise.deviation_in_steps(),
        });
        let mean_rest = learned.mean.as_ref().map_or(0.0, |mean| mean.rest(updates));
        let update = dapple_engine::cuda::CudaUpdate { noise, rule, numbers: &numbers, mean_rest };
        group.update(sum, state, &update).map_err(|error| failed(device, error))?;
        learned.correlated.iter_mut().for_each(CorrelatedSums::count_step);
        *ahead = true;
        Ok(())
    }

    fn fetch(&mut self, learned: &mut Learned) -> Result<(), StepError> {
        let Self { group, state, ahead, device, .. } = self;
        let failed = |error| failed(device, error);
        let Some(state) = state.as_ref().filter(|_| *ahead) else { return Ok(()) };
        let StateValues { first, second, mean } =
            group.fetch(&mut learned.parameters, state).map_err(failed)?;
        let OptimiserState { updates, noise, .. } = *learned.optimiser.state();
        learned.optimiser.restore(OptimiserState { updates, first, second, noise });
        if let (Some(mean), Some(values)) = (&mut learned.mean, mean) {
            mean.parameters_mut().values_mut().copy_from_slice(&values);
        }
        *ahead = false;
        Ok(())
    }

    /// Overwrites the run's parameters on the cards with these, so whatever was learned must have been fetched before.
    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError> {
        debug_assert!(!self.ahead, "what was learned is fetched before the cards hold something else");
        self.holds_parameters = false;
        let Self { group, device, .. } = self;
        group.load(parameters).map_err(|error| failed(device, error))?;
        Ok(Box::new(Evaluated { group, device }))
    }
}

/// A card amid a step that several processes take.
struct StepCard<'c> {
    cards: &'c mut Cards,
    rule: &'c ClippingRule,
    link: Option<Arc<Mutex<CudaLink>>>,
}

impl StepCard<'_> {
    /// Does something with the card's sum.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut CudaGroup, &mut CudaGroupSum, &ClippingRule) -> Result<T, CudaGroupError>,
    ) -> Result<T, StepError> {
        let Cards { group, sum, device, .. } = &mut *self.cards;
        let sum = sum.as_mut().ok_or(EngineError::Parameters)?;
        work(group, sum, self.rule).map_err(|error| failed(device, error))
    }
}

impl JoinedCard for StepCard<'_> {
    fn settle(&mut self) -> Result<(), StepError> {
        self.with(|group, _, _| group.settle())
    }

    fn read(&mut self) -> Result<Total, StepError> {
        self.with(|group, sum, rule| group.read(sum, rule))
    }

    fn write(&mut self, total: &Total) -> Result<(), StepError> {
        self.with(|group, sum, rule| group.write(sum, rule, total))
    }

    fn add_over_links(&mut self) -> Result<(), StepError> {
        let link = self.link.clone().ok_or(EngineError::Parameters)?;
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|group, sum, rule| group.add_over(sum, rule, &mut link))
    }
}

/// Cards that hold parameters to be evaluated.
struct Evaluated<'e> {
    group: &'e mut CudaGroup,
    device: &'e str,
}

impl Forward for Evaluated<'_> {
    fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, StepError> {
        self.group.forward(inputs).map_err(|error| failed(self.device, error))
    }
}

/// Says what went wrong on a device as a run reports it; if it was one card of several, that card is named.
#[must_use]
pub fn failed(device: &str, error: CudaGroupError) -> StepError {
    let (device, error) = match error {
        CudaGroupError::Card { device, source } => (format!("cuda:{device}"), source),
        CudaGroupError::Together(error) => (device.to_owned(), error),
        CudaGroupError::Empty | CudaGroupError::Twice { .. } | CudaGroupError::Apart { .. } => {
            let hint = error.hint();
            return StepError::Device { device: device.to_owned(), problem: error.to_string(), hint };
        }
    };
    let hint = match error {
        CudaError::OutOfMemory { .. } => Some(
            "set performance.microbatch to fewer records, in the plan or in the plan.toml of the run, or stop what else uses the card: nvidia-smi shows it",
        ),
        _ => error.hint(),
    };
    match error {
        CudaError::Engine(error) => error.into(),
        CudaError::NotFinite { what } => StepError::NotFinite { what },
        other => StepError::Device { device, problem: other.to_string(), hint },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_names_the_card_and_a_way_out() {
        let memory = CudaError::OutOfMemory { wanted_mb: 9000, free_mb: 80 };
        let of = |error| failed("cuda:0,1", error);
        let one = of(CudaGroupError::Card { device: 1, source: memory });
        assert_eq!(one.to_string(), "cuda:1: out of memory on the GPU: 9000 MB wanted, 80 MB free");
        let hint = |error: &StepError| match error {
            StepError::Device { hint, .. } => *hint,
            _ => None,
        };
        assert!(hint(&one).is_some_and(|hint| hint.starts_with("set performance.microbatch")));
        for (error, words) in [
            (CudaError::Library { library: "NCCL" }.into(), "cuda:0,1: NCCL was not found"),
            (CudaGroupError::Twice { device: 1 }, "cuda:0,1: card 1 is named twice"),
            (
                CudaGroupError::Apart { device: 1 },
                "cuda:0,1: card 1 holds other parameters than the first card",
            ),
        ] {
            let error = of(error);
            assert_eq!(error.to_string(), words);
            assert!(hint(&error).is_some(), "{words}");
        }
        let diverged =
            of(CudaGroupError::Card { device: 1, source: CudaError::NotFinite { what: "the sum" } });
        assert!(matches!(diverged, StepError::NotFinite { what: "the sum" }));
    }
}
