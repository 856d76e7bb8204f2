//! Where a run computes.

#[cfg(feature = "cuda")]
mod cards;
mod executor;
#[cfg(feature = "cuda")]
mod gpu;
mod processor;

use dapple_graph::Graph;
use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};

use crate::error::TrainError;
pub(crate) use executor::Executor;

/// The machine of a run: what was asked for, and once `auto` is settled, what it is.
#[derive(Debug)]
pub(crate) struct Machine {
    device: DeviceChoice,
    precision: FactorPrecision,
    threads: usize,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU splits batches by it"))]
    microbatch: usize,
    /// Whether another process must come to the same bits.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the processor always does"))]
    repeatable: bool,
    /// Cards that share every batch; the processor counts as one.
    cards: usize,
    words: String,
}

impl Machine {
    pub(crate) fn new(performance: &Performance, repeatable: bool) -> Self {
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            device: performance.device.clone().unwrap_or_default(),
            precision: performance.precision.unwrap_or_default(),
            threads: performance.threads.unwrap_or(0) as usize,
            microbatch: performance.microbatch.map_or(0, whole),
            repeatable,
            cards: 1,
            words: String::new(),
        }
    }

    /// An executor for a graph. The first one settles `auto`: a GPU if it can be used; what speaks against one that is there is told.
    ///
    /// # Errors
    /// A GPU that was asked for and cannot be used.
    pub(crate) fn executor(
        &mut self,
        graph: &Graph,
        notes: &mut Vec<String>,
    ) -> Result<Executor, TrainError> {
        if self.device == DeviceChoice::Cpu {
            return self.processor(graph, notes);
        }
        match self.gpu(graph) {
            Err(unusable) if self.device == DeviceChoice::Auto => {
                let Unusable { worth_telling, error } = *unusable;
                if worth_telling {
                    let hint = error.hint().map_or(String::new(), |hint| format!(" ({hint})"));
                    notes.push(format!("no GPU is used: {error}{hint}"));
                }
                self.processor(graph, notes)
            }
            Err(unusable) => Err(unusable.error),
            Ok(executor) => {
                if self.device == DeviceChoice::Auto {
                    self.device = DeviceChoice::Cuda(0);
                }
                Ok(executor)
            }
        }
    }

    /// The machine in words, once there is an executor: the device, and how it rounds.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Cards that share every batch, once there is an executor; the processor counts as one.
    pub(crate) fn cards(&self) -> usize {
        self.cards
    }

    fn processor(&mut self, graph: &Graph, notes: &mut Vec<String>) -> Result<Executor, TrainError> {
        self.device = DeviceChoice::Cpu;
        self.words = "cpu".to_owned();
        if self.precision != FactorPrecision::F32 {
            let name = self.precision.name();
            notes.push(format!("performance.precision = {name} is for GPUs; the processor computes in f32"));
            self.precision = FactorPrecision::F32;
        }
        Executor::new(graph, self.threads)
    }

    #[cfg(not(feature = "cuda"))]
    fn gpu(&mut self, _: &Graph) -> Result<Executor, Box<Unusable>> {
        let error = TrainError::Device {
            device: self.device.to_string(),
            problem: "this program was built without CUDA".to_owned(),
            hint: Some("build it with --features cuda, or compute on the processor: --device cpu"),
        };
        Err(Box::new(Unusable { worth_telling: false, error }))
    }
}

/// These settings with the first card where they name several: for single images, which cards cannot share.
pub(crate) fn one_card(performance: &Performance) -> Performance {
    let device = performance.device.as_ref().map(DeviceChoice::first);
    Performance { device, ..performance.clone() }
}

/// Why a GPU is not used.
struct Unusable {
    /// Whether there seems to be one, so that a user would want to know.
    worth_telling: bool,
    error: TrainError,
}
