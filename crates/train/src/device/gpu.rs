//! Executors on the GPUs that a plan asks for.

use std::sync::Arc;

use dapple_engine::cuda::{
    Convolutions, CudaAddition, CudaError, CudaGroupError, CudaOptions, Precision, device_count,
};
use dapple_graph::Graph;
use dapple_plan::spec::{DeviceChoice, FactorPrecision};

use dapple_private::{Cards, Executor, Peers, failed};

use super::{Machine, Unusable};

/// Samples that a GPU runs together if the same bits must be computed again.
const REPEATABLE: usize = 64;

impl Machine {
    /// An executor on the GPUs that were asked for.
    pub(super) fn gpu(
        &mut self,
        graph: &Graph,
        submodels: &[Graph],
    ) -> Result<Box<dyn Executor>, Box<Unusable>> {
        let numbers = self.numbers().map_err(|error| unusable(&self.device.to_string(), error.into()))?;
        let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let device = format!("cuda:{}", names.join(","));
        // NCCL may add in another order in another process, and a single card has nothing to add.
        let on_host = self.repeatable || numbers.len() == 1;
        let addition = if on_host { CudaAddition::Host } else { CudaAddition::Nccl };
        let sharing = self.ranks.as_ref().map_or(numbers.len(), |ranks| ranks.size());
        let options = self.options(sharing);
        let cards = Cards::new((graph, submodels), &numbers, options, addition, device.clone())
            .map_err(|error| unusable(&device, error))?;
        self.words = format!("{device} ({}, {})", cards.names(), self.precision.name());
        self.cards = numbers.len();
        Ok(Box::new(match &self.ranks {
            Some(ranks) => {
                let peers = ranks.peer_cards(self.patience);
                cards.among(Arc::clone(ranks) as Arc<dyn Peers>, peers)
            }
            None => cards,
        }))
    }

    /// The numbers of the cards.
    fn numbers(&self) -> Result<Vec<usize>, CudaError> {
        Ok(match &self.device {
            DeviceChoice::Auto | DeviceChoice::Cpu => vec![0],
            DeviceChoice::Cuda(number) => vec![*number as usize],
            DeviceChoice::Cards(list) => list.numbers().map(|number| number as usize).collect(),
            // If there is no card, the error should say that the first one is missing.
            DeviceChoice::AllCards => (0..device_count()?.max(1)).collect(),
        })
    }

    fn options(&self, cards: usize) -> CudaOptions {
        CudaOptions {
            batch: self.planned.map_or(0, |planned| planned.each(cards)),
            // How much memory is free and what is measured to be fastest may differ another time.
            microbatch: if self.repeatable && self.microbatch == 0 { REPEATABLE } else { self.microbatch },
            convolutions: if self.repeatable { Convolutions::Own } else { Convolutions::Fastest },
            precision: match self.precision {
                FactorPrecision::F32 => Precision::F32,
                FactorPrecision::Tf32 => Precision::Tf32,
                FactorPrecision::Bf16 => Precision::Bf16,
            },
            ..CudaOptions::default()
        }
    }
}

fn unusable(device: &str, error: CudaGroupError) -> Box<Unusable> {
    let none = matches!(
        error,
        CudaGroupError::Together(
            CudaError::Library { library: "the CUDA driver" } | CudaError::NoDevice { count: 0, .. }
        )
    );
    Box::new(Unusable { worth_telling: !none, error: failed(device, error).into() })
}
