//! How the card runs a transposed convolution: with the kernels of a convolution, whose forward pass and data gradient change places.

use dapple_graph::ParameterId;
use dapple_graph::op::{Conv, TransposedConv};

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::clip::WeightSum;
use crate::cuda::cudnn::{ConvolutionDirection, Tensors};
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::geometry::Geometry;
use crate::cuda::lower::CardSteps;
use crate::cuda::memory::CardModel;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;
use crate::op::conv::CudaConvKernel;

/// A transposed convolution.
#[derive(Debug)]
struct CudaTransposedConvKernel {
    /// The convolution from its output to its input, whose data gradient it computes. This convolution has no bias.
    conv: CudaConvKernel,
    bias: Option<ParameterId>,
}

impl CudaOperation for TransposedConv {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let Self { window, groups, weight, bias, .. } = self;
        let (window, groups, weight) = (window.clone(), *groups, *weight);
        let geometry = Geometry::new(&window, groups, node.shape, node.input());
        let conv = Conv { window, groups, weight, bias: None, standardise: None };
        let conv = CudaConvKernel::new(&conv, geometry, true, steps);
        Box::new(CudaTransposedConvKernel { conv, bias: *bias })
    }
}

impl CudaTransposedConvKernel {
    /// How many channels the output has, and how many positions each channel has.
    fn output(&self) -> (usize, usize) {
        (self.conv.geometry.channels, self.conv.geometry.positions_in())
    }
}

impl CudaKernel for CudaTransposedConvKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let y = run.value(node);
        let tensors = Tensors { input: y, weight: run.weight(&self.conv), output: run.read(node, 0) };
        run.convolve(node, &self.conv, ConvolutionDirection::Data, tensors, false)?;
        run.add_bias(node, self.bias, self.output())
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let (g, x) = (run.gradient(node), run.read(node, 0));
        run.channel_bias_gradient(node, self.bias, self.output(), parameters)?;
        self.conv.weight_gradient(run, node, (g, x), parameters)?;
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let tensors = Tensors { input: g, weight: run.weight(&self.conv), output: target.values };
        run.convolve(node, &self.conv, ConvolutionDirection::Forward, tensors, target.accumulate)
    }

    fn name(&self, backward: bool) -> &'static str {
        self.conv.name(backward)
    }

    fn reads_input(&self, slot: usize, trains: bool) -> bool {
        self.conv.reads_input(slot, trains)
    }

    fn weight(&self) -> Option<ParameterId> {
        self.conv.weight()
    }

    fn arrange(&self, device: &Device, model: &CardModel, parameters: &[usize]) -> Result<(), CudaError> {
        self.conv.arrange(device, model, parameters)
    }

    fn convolution(&self) -> Option<&CudaConvKernel> {
        Some(&self.conv)
    }

    fn transposes(&self) -> bool {
        true
    }

    fn prefers_ghost(&self, views: usize) -> bool {
        self.conv.prefers_ghost(views)
    }

    fn ghost_workspace(&self, views: usize) -> usize {
        self.conv.ghost_workspace(views)
    }

    fn deferred_sum(&self, run: &mut CardRun<'_>, node: usize, sum: WeightSum<'_>) -> Result<(), CudaError> {
        run.convolution_sum(&self.conv, (run.gradient(node), run.read(node, 0)), sum)
    }
}
