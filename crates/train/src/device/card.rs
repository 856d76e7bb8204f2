//! A GPU that keeps what a run has learned.

use dapple_engine::Layout;
use dapple_engine::cuda::{
    CudaError, CudaExecutor, CudaGradientSum, CudaOptions, CudaState, LatticeNoise, StateValues,
};
use dapple_graph::{Graph, Parameters};

use super::executor::Loaded;
use crate::error::TrainError;
use crate::learned::{Learned, Update};
use crate::optimiser::State;

/// An executor on a GPU, and where the newest state of the run lies.
#[derive(Debug)]
pub(crate) struct Card {
    executor: CudaExecutor,
    /// What the optimiser remembers, once training has begun.
    state: Option<CudaState>,
    /// Whether the parameters in the card's memory are those of the run.
    holds_parameters: bool,
    /// Whether the card has learned what the host does not know yet.
    ahead: bool,
    /// The device as a user names it.
    device: String,
}

impl Card {
    pub(crate) fn new(graph: &Graph, options: CudaOptions) -> Result<Self, CudaError> {
        let executor = CudaExecutor::new(graph, options)?;
        let device = format!("cuda:{}", options.device);
        Ok(Self { executor, state: None, holds_parameters: false, ahead: false, device })
    }

    /// The card's own name.
    pub(crate) fn name(&self) -> String {
        self.executor.device_name()
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.executor.layout()
    }

    pub(crate) fn sum(&mut self) -> Result<CudaGradientSum, TrainError> {
        self.executor.gradient_sum().map_err(|error| failed(&self.device, error))
    }

    /// Puts parameters on the card that are not the run's own; those must be fetched before.
    pub(crate) fn load<'e, 'p>(
        &'e mut self,
        parameters: &'p Parameters,
    ) -> Result<Loaded<'e, 'p>, TrainError> {
        debug_assert!(!self.ahead, "what was learned is fetched before the card holds something else");
        self.holds_parameters = false;
        let Self { executor, device, .. } = self;
        let loaded = executor.load(parameters).map_err(|error| failed(device, error))?;
        Ok(Loaded::Cuda { loaded, device })
    }

    /// Puts on the card what the host knows and the card does not.
    pub(crate) fn train<'e, 'p>(&'e mut self, learned: &'p Learned) -> Result<Loaded<'e, 'p>, TrainError> {
        let Self { executor, state, holds_parameters, device, .. } = self;
        let failed = |error| failed(device, error);
        if state.is_none() {
            let remembered = learned.optimiser.state();
            let values = StateValues {
                first: remembered.first.clone(),
                second: remembered.second.clone(),
                mean: learned.mean.as_ref().map(|mean| mean.parameters().values().to_vec()),
            };
            *state = Some(executor.state(&values).map_err(failed)?);
        }
        if !*holds_parameters {
            executor.load(&learned.parameters).map_err(failed)?;
            *holds_parameters = true;
        }
        Ok(Loaded::Cuda { loaded: executor.resident().map_err(failed)?, device })
    }

    /// Noise, division and optimiser on the card; the host only counts the update.
    pub(crate) fn update(
        &mut self,
        sum: CudaGradientSum,
        learned: &mut Learned,
        update: &Update<'_>,
    ) -> Result<(), TrainError> {
        let Self { executor, state, device, ahead, .. } = self;
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
        executor.resident().map_err(failed)?.update(sum, state, &numbers).map_err(failed)?;
        *ahead = true;
        Ok(())
    }

    /// Brings what the card has learned to the host.
    pub(crate) fn fetch(&mut self, learned: &mut Learned) -> Result<(), TrainError> {
        let Self { executor, state, ahead, device, .. } = self;
        let failed = |error| failed(device, error);
        let Some(state) = state.as_ref().filter(|_| *ahead) else { return Ok(()) };
        executor.resident().map_err(failed)?.fetch(&mut learned.parameters).map_err(failed)?;
        let StateValues { first, second, mean } = state.fetch(executor).map_err(failed)?;
        let updates = learned.optimiser.state().updates;
        learned.optimiser.restore(State { updates, first, second });
        if let (Some(mean), Some(values)) = (&mut learned.mean, mean) {
            mean.parameters_mut().values_mut().copy_from_slice(&values);
        }
        *ahead = false;
        Ok(())
    }
}

/// What went wrong on a device, as a run tells it.
pub(super) fn failed(device: &str, error: CudaError) -> TrainError {
    let hint = match error {
        CudaError::OutOfMemory { .. } => Some(
            "set performance.microbatch to fewer records, in the plan or in the plan.toml of the run, or stop what else uses the card: nvidia-smi shows it",
        ),
        _ => error.hint(),
    };
    match error {
        CudaError::Engine(error) => error.into(),
        CudaError::NotFinite { what } => TrainError::NotFinite { what },
        other => TrainError::Device { device: device.to_owned(), problem: other.to_string(), hint },
    }
}
