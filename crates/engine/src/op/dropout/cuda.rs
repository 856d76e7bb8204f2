//! How the card drops values.

use dapple_graph::op::Dropout;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::memory::mask_words;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;
use crate::cuda::slice::DeviceSlice;

/// Drops each run of `together` values as a whole.
#[derive(Debug)]
struct CudaDropoutKernel {
    rate: f32,
    /// The number of the layer, by which it makes random choices of its own.
    number: usize,
    together: usize,
}

impl CudaDropoutKernel {
    /// Drops values, forward or backward: those that the masks name, where there are masks and the layer has units in them, else as the keys
    /// decide. If dropout is off, they are copied.
    fn drop_values(
        &self,
        run: &CardRun<'_>,
        node: usize,
        (x, y): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let Self { rate, number, together } = *self;
        let len = run.len(node);
        let n = run.items() * len;
        let units = &run.program.steps.units;
        if let Some(layer) = units.of(node).filter(|_| run.masks) {
            let (masks, words, first) = (run.work.masks(), mask_words(units), layer.first);
            let (views, factor) = (run.program.views, 1.0 / (1.0 - rate));
            return kernels::MaskedDropout {
                x,
                y,
                masks,
                words,
                first,
                len,
                together,
                views,
                factor,
                n,
                accumulate,
            }
            .launch(run.device);
        }
        if !run.dropout {
            return kernels::Copy { x, y, n, accumulate }.launch(run.device);
        }
        let keys = run.work.keys();
        kernels::Dropout { x, y, keys, node: number, len, together, rate, n, accumulate }.launch(run.device)
    }
}

impl CudaOperation for Dropout {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let together = if self.channels { node.positions() } else { 1 };
        Box::new(CudaDropoutKernel { rate: self.rate, number: self.number, together })
    }
}

impl CudaKernel for CudaDropoutKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        self.drop_values(run, node, (run.read(node, 0), run.value(node)), false)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        self.drop_values(run, node, (run.gradient(node), target.values), target.accumulate)
    }
}
