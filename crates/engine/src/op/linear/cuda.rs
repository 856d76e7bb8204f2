//! How the card runs a linear layer.

use dapple_graph::ParameterId;
use dapple_graph::op::Linear;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::clip::SumTarget;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::AddBias;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::last;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::product::MatrixSide;
use crate::cuda::program::{LIBRARY_PRODUCTS, OUTER_PRODUCTS, PRODUCTS, written};
use crate::cuda::run::CardRun;
use crate::layout::Layout;

#[derive(Debug)]
struct CudaLinearKernel {
    weight: ParameterId,
    bias: Option<ParameterId>,
    rows: usize,
    features: usize,
    out: usize,
}

impl CudaOperation for Linear {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let Self { weight, bias } = *self;
        let (rows, features, out) = (node.rows(), node.features(), last(node.shape));
        Box::new(CudaLinearKernel { weight, bias, rows, features, out })
    }
}

impl CudaKernel for CudaLinearKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { weight, bias, rows, features, out } = *self;
        let (items, y) = (run.items(), run.value(node));
        let left = MatrixSide::new(run.read(node, 0), features, 0);
        let right = MatrixSide::new(run.parameter(weight), features, 0).transposed();
        let sizes = (items * rows, features, out);
        run.device.product(sizes, (left, right), MatrixSide::new(y, out, 0), (1.0, 0.0), 1)?;
        let Some(bias) = bias else { return Ok(()) };
        let (bias, n) = (run.parameter(bias), items * run.len(node));
        AddBias { y, bias, channels: out, positions: 1, n }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { weight, bias, rows, features, out } = *self;
        let (g, x) = (run.gradient(node), run.read(node, 0));
        let bias = parameters.written(run, bias);
        run.bias_gradient(g, bias, (out, rows), (1, out))?;
        let of_sample = rows * run.program.views;
        if let Some(target) = parameters.written(run, Some(weight)) {
            let left = MatrixSide::new(g, out, of_sample * out);
            let right = MatrixSide::new(x, features, of_sample * features);
            let sizes = (out, of_sample, features);
            let target = MatrixSide::new(target.values, features, run.program.written);
            run.device.product(sizes, (left.transposed(), right), target, (1.0, 0.0), run.samples)?;
        } else if run.norms && run.program.deferred[node] {
            let partials = run.partials(parameters.layout, weight);
            run.linear_norm(of_sample, (x, features), (g, out), partials)?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let sides = (MatrixSide::new(g, out, 0), MatrixSide::new(run.parameter(weight), features, 0));
        let sizes = (run.items() * rows, out, features);
        let to = MatrixSide::new(target.values, features, 0);
        run.device.product(sizes, sides, to, (1.0, target.keep()), 1)
    }

    fn name(&self, _backward: bool) -> &'static str {
        "linear"
    }

    fn reads_input(&self, _slot: usize, trains: bool) -> bool {
        trains
    }

    fn weight(&self) -> Option<ParameterId> {
        Some(self.weight)
    }

    fn prefers_ghost(&self, views: usize) -> bool {
        let (rows, weights) = ((self.rows * views) as f64, (self.features * self.out) as f64);
        let products = 2.0 * rows * rows * (self.features + self.out) as f64;
        let longer = 2.0 * rows * weights * (1.0 / OUTER_PRODUCTS - 1.0 / LIBRARY_PRODUCTS);
        rows == 1.0 || products / PRODUCTS + longer < written(weights)
    }

    fn ghost_workspace(&self, views: usize) -> usize {
        4 * (self.rows * views).pow(2)
    }

    fn deferred_sum(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        layout: &Layout,
        target: SumTarget<'_>,
    ) -> Result<(), CudaError> {
        let position = layout.position(self.weight).expect("a deferred weight trains");
        let target = target.of(&layout.entries()[position]);
        let sides = (run.gradient(node), run.read(node, 0));
        let sizes = (self.out, self.features, self.rows * run.program.views);
        run.linear_sum(sides, sizes, position, target)?;
        run.mark("linear sum")
    }
}
