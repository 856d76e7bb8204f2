//! How the card scales channels.

use dapple_graph::ParameterId;
use dapple_graph::op::ChannelScale;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

/// Values are blocks of channels, and each channel is a run of neighbours: `[block, channel, run]`.
#[derive(Debug)]
struct CudaChannelScaleKernel {
    weight: ParameterId,
    blocks: usize,
    channels: usize,
    run: usize,
}

impl CudaOperation for ChannelScale {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (before, after) = (&node.shape[..self.axis], &node.shape[self.axis + 1..]);
        let (blocks, run) = (before.iter().product(), after.iter().product());
        Box::new(CudaChannelScaleKernel { weight: self.weight, blocks, channels: node.shape[self.axis], run })
    }
}

impl CudaKernel for CudaChannelScaleKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (weight, n) = (run.parameter(self.weight), run.items() * run.len(node));
        let (x, y) = (run.read(node, 0), run.value(node));
        let (channels, neighbours) = (self.channels, self.run);
        kernels::ChannelScale { x, weight, y, channels, run: neighbours, n, accumulate: false }
            .launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let (x, g) = (run.read(node, 0), run.gradient(node));
        let (channels, neighbours) = (self.channels, self.run);
        if let Some(place) = parameters.written(run, Some(self.weight)) {
            kernels::ChannelScaleGradient {
                x,
                g,
                d: place.values,
                stride: run.program.written,
                channels,
                run: neighbours,
                blocks: self.blocks * run.program.views,
                samples: run.samples,
                accumulate: place.accumulate,
            }
            .launch(run.device)?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let (weight, n) = (run.parameter(self.weight), run.items() * run.len(node));
        let (y, accumulate) = (target.values, target.accumulate);
        kernels::ChannelScale { x: g, weight, y, channels, run: neighbours, n, accumulate }.launch(run.device)
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }
}
