//! Where a run computes.

#[cfg(feature = "cuda")]
mod cards;
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

    #[cfg(feature = "cuda")]
    fn gpu(&mut self, graph: &Graph) -> Result<Executor, Box<Unusable>> {
        use dapple_engine::cuda::{
            Convolutions, CudaAddition, CudaError, CudaGroupError, CudaOptions, Precision, device_count,
        };
        let unusable = |device: &str, error: CudaGroupError| {
            let none = matches!(
                error,
                CudaGroupError::Together(
                    CudaError::Library { library: "the CUDA driver" } | CudaError::NoDevice { count: 0, .. }
                )
            );
            Box::new(Unusable { worth_telling: !none, error: cards::failed(device, error) })
        };
        let numbers: Vec<usize> = match &self.device {
            DeviceChoice::Auto | DeviceChoice::Cpu => vec![0],
            DeviceChoice::Cuda(number) => vec![*number as usize],
            DeviceChoice::Cards(list) => list.numbers().map(|number| number as usize).collect(),
            DeviceChoice::AllCards => {
                let count = device_count().map_err(|error| unusable("cuda:all", error.into()))?;
                // Where there is none, the first is what is missing.
                (0..count.max(1)).collect()
            }
        };
        let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let device = format!("cuda:{}", names.join(","));
        let options = CudaOptions {
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
        // So may the order in which NCCL adds; and one card has nothing to add.
        let on_host = self.repeatable || numbers.len() == 1;
        let addition = if on_host { CudaAddition::Host } else { CudaAddition::Nccl };
        let cards = cards::Cards::new(graph, &numbers, options, addition, device.clone())
            .map_err(|error| unusable(&device, error))?;
        self.words = format!("{device} ({}, {})", cards.names(), self.precision.name());
        self.cards = numbers.len();
        Ok(Executor::Cuda(Box::new(cards)))
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
