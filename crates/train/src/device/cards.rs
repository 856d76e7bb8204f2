//! A GPU, or several of one machine, that keep what a run has learned.

use dapple_engine::Layout;
use dapple_engine::cuda::{
    CudaAddition, CudaError, CudaGroup, CudaGroupError, CudaGroupState, CudaGroupSum, CudaOptions,
    LatticeNoise, StateValues,
};
use dapple_graph::{Graph, Parameters};

use super::executor::Loaded;
use crate::error::TrainError;
use crate::learned::{Learned, Update};
use crate::optimiser::State;

/// Executors on GPUs, and where the newest state of the run lies.
#[derive(Debug)]
pub(crate) struct Cards {
    group: CudaGroup,
    /// What the optimiser remembers, once training has begun.
    state: Option<CudaGroupState>,
    /// Whether the parameters in the cards' memory are those of the run.
    holds_parameters: bool,
    /// Whether the cards have learned what the host does not know yet.
    ahead: bool,
    /// The device as a user names it.
    device: String,
}

impl Cards {
    pub(crate) fn new(
        graph: &Graph,
        cards: &[usize],
        options: CudaOptions,
        addition: CudaAddition,
        device: String,
    ) -> Result<Self, CudaGroupError> {
        let group = CudaGroup::new(graph, cards, options, addition)?;
        Ok(Self { group, state: None, holds_parameters: false, ahead: false, device })
    }

    /// The cards' own names, each once with how often it is there.
    pub(crate) fn names(&self) -> String {
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

    pub(crate) fn layout(&self) -> &Layout {
        self.group.layout()
    }

    pub(crate) fn sum(&mut self) -> Result<CudaGroupSum, TrainError> {
        self.group.gradient_sum().map_err(|error| failed(&self.device, error))
    }

    /// Puts parameters on the cards that are not the run's own; those must be fetched before.
    pub(crate) fn load<'e, 'p>(&'e mut self, parameters: &Parameters) -> Result<Loaded<'e, 'p>, TrainError> {
        debug_assert!(!self.ahead, "what was learned is fetched before the cards hold something else");
        self.holds_parameters = false;
        let Self { group, device, .. } = self;
        group.load(parameters).map_err(|error| failed(device, error))?;
        Ok(Loaded::Cuda { group, device })
    }

    /// Puts on the cards what the host knows and they do not.
    pub(crate) fn train<'e, 'p>(&'e mut self, learned: &Learned) -> Result<Loaded<'e, 'p>, TrainError> {
        let Self { group, state, holds_parameters, device, .. } = self;
        let failed = |error| failed(device, error);
        if state.is_none() {
            let remembered = learned.optimiser.state();
            let values = StateValues {
                first: remembered.first.clone(),
                second: remembered.second.clone(),
                mean: learned.mean.as_ref().map(|mean| mean.parameters().values().to_vec()),
            };
            *state = Some(group.state(&values).map_err(failed)?);
        }
        if !*holds_parameters {
            group.load(&learned.parameters).map_err(failed)?;
            *holds_parameters = true;
        }
        Ok(Loaded::Cuda { group, device })
    }

    /// Noise, division and optimiser on the cards; the host only counts the update.
    pub(crate) fn update(
        &mut self,
        sum: CudaGroupSum,
        learned: &mut Learned,
        update: &Update<'_>,
    ) -> Result<(), TrainError> {
        let Self { group, state, device, ahead, .. } = self;
        let failed = |error| failed(device, error);
        let Some(state) = state else { return Err(dapple_engine::EngineError::Parameters.into()) };
        let (keep, rule) = learned.optimiser.advance(update.learning_rate);
        let updates = learned.optimiser.state().updates;
        let noise = update.noise.map(|(noise, key)| LatticeNoise {
            key: key.bytes(),
            lattice: noise.step(),
            deviation: noise.deviation_in_steps(),
        });
        let numbers = dapple_engine::cuda::Update {
            noise,
            share: update.share(),
            keep,
            rule: rule.into(),
            mean_rest: learned.mean.as_ref().map_or(0.0, |mean| mean.rest(updates)),
        };
        group.update(sum, state, &numbers).map_err(failed)?;
        *ahead = true;
        Ok(())
    }

    /// Brings what the cards have learned to the host.
    pub(crate) fn fetch(&mut self, learned: &mut Learned) -> Result<(), TrainError> {
        let Self { group, state, ahead, device, .. } = self;
        let failed = |error| failed(device, error);
        let Some(state) = state.as_ref().filter(|_| *ahead) else { return Ok(()) };
        let StateValues { first, second, mean } =
            group.fetch(&mut learned.parameters, state).map_err(failed)?;
        let updates = learned.optimiser.state().updates;
        learned.optimiser.restore(State { updates, first, second });
        if let (Some(mean), Some(values)) = (&mut learned.mean, mean) {
            mean.parameters_mut().values_mut().copy_from_slice(&values);
        }
        *ahead = false;
        Ok(())
    }
}

/// What went wrong on a device, as a run tells it: a card of several by its own name.
pub(super) fn failed(device: &str, error: CudaGroupError) -> TrainError {
    let (device, error) = match error {
        CudaGroupError::Card { device, source } => (format!("cuda:{device}"), source),
        CudaGroupError::Together(error) => (device.to_owned(), error),
        CudaGroupError::Empty | CudaGroupError::Twice { .. } | CudaGroupError::Apart { .. } => {
            let hint = error.hint();
            return TrainError::Device { device: device.to_owned(), problem: error.to_string(), hint };
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
        CudaError::NotFinite { what } => TrainError::NotFinite { what },
        other => TrainError::Device { device, problem: other.to_string(), hint },
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
        assert!(one.hint().is_some_and(|hint| hint.starts_with("set performance.microbatch")));
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
            assert!(error.hint().is_some(), "{words}");
        }
        let diverged =
            of(CudaGroupError::Card { device: 1, source: CudaError::NotFinite { what: "the sum" } });
        assert!(matches!(diverged, TrainError::NotFinite { what: "the sum" }));
    }
}
