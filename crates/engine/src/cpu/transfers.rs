//! Operations that only move values.

use super::form::Transfer;
use super::operation::{BackwardPass, BackwardReads, CpuKernel, ForwardPass};

/// Moves every input by its transfers. Together, these cover the output exactly once.
#[derive(Debug)]
pub(crate) struct TransferKernel(Vec<Vec<Transfer>>);

impl TransferKernel {
    /// A kernel with a list of transfers for each input.
    pub(crate) fn new(transfers: Vec<Vec<Transfer>>) -> Self {
        Self(transfers)
    }
}

impl CpuKernel for TransferKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::NOTHING
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            for (index, transfers) in self.0.iter().enumerate() {
                transfers.iter().for_each(|transfer| transfer.copy(item.values.input(index), item.y));
            }
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            for (index, transfers) in self.0.iter().enumerate() {
                if let Some(dx) = item.input_gradients.sum(index) {
                    transfers.iter().for_each(|transfer| transfer.add_back(item.g, dx));
                }
            }
        });
    }
}
