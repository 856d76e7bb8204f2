//! Where a run computes.

#[cfg(feature = "cuda")]
mod card;
mod executor;
mod processor;

use dapple_graph::Graph;
use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};

use crate::error::TrainError;
pub(crate) use executor::Executor;

/// Samples that a GPU runs together where every process must come to the same bits.
#[cfg(feature = "cuda")]
const REPEATABLE: usize = 64;

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
    words: String,
}

impl Machine {
    pub(crate) fn new(performance: &Performance, repeatable: bool) -> Self {
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            device: performance.device.unwrap_or_default(),
            precision: performance.precision.unwrap_or_default(),
            threads: performance.threads.unwrap_or(0) as usize,
            microbatch: performance.microbatch.map_or(0, whole),
            repeatable,
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
        let number = match self.device {
            DeviceChoice::Cpu => return self.processor(graph, notes),
            DeviceChoice::Auto => 0,
            DeviceChoice::Cuda(number) => number,
        };
        match self.gpu(graph, number) {
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
                self.device = DeviceChoice::Cuda(number);
                Ok(executor)
            }
        }
    }

    /// The machine in words, once there is an executor: the device, and how it rounds.
    pub(crate) fn words(&self) -> &str {
        &self.words
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

    #[cfg(feature = "cuda")]
    fn gpu(&mut self, graph: &Graph, number: u32) -> Result<Executor, Box<Unusable>> {
        use dapple_engine::cuda::{Convolutions, CudaError, CudaOptions, Precision};
        let options = CudaOptions {
            device: number as usize,
            // What memory is free, and what is measured to be the fastest, may be otherwise in another process.
            microbatch: if self.repeatable && self.microbatch == 0 { REPEATABLE } else { self.microbatch },
            convolutions: if self.repeatable { Convolutions::Own } else { Convolutions::Fastest },
            precision: match self.precision {
                FactorPrecision::F32 => Precision::F32,
                FactorPrecision::Tf32 => Precision::Tf32,
                FactorPrecision::Bf16 => Precision::Bf16,
            },
            ..CudaOptions::default()
        };
        let card = card::Card::new(graph, options).map_err(|error| {
            let none = matches!(
                error,
                CudaError::Library { library: "the CUDA driver" } | CudaError::NoDevice { count: 0, .. }
            );
            let error = card::failed(&format!("cuda:{number}"), error);
            Box::new(Unusable { worth_telling: !none, error })
        })?;
        self.words = format!("cuda:{number} ({}, {})", card.name(), self.precision.name());
        Ok(Executor::Cuda(Box::new(card)))
    }

    #[cfg(not(feature = "cuda"))]
    fn gpu(&mut self, _: &Graph, number: u32) -> Result<Executor, Box<Unusable>> {
        let error = TrainError::Device {
            device: format!("cuda:{number}"),
            problem: "this program was built without CUDA".to_owned(),
            hint: Some("build it with --features cuda, or compute on the processor: --device cpu"),
        };
        Err(Box::new(Unusable { worth_telling: false, error }))
    }
}

/// Why a GPU is not used.
struct Unusable {
    /// Whether there seems to be one, so that a user would want to know.
    worth_telling: bool,
    error: TrainError,
}
