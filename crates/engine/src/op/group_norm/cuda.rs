//! How the card normalises groups of channels. The same kernel runs batch norm with stored statistics.

use dapple_graph::op::GroupNorm;
use dapple_graph::{Affine, ParameterId};

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{Copy, GroupBackward, GroupForward};
use crate::cuda::lower::CardSteps;
use crate::cuda::norm::NormGroup;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

/// Group norm, or batch norm if there are `stored` statistics. With `residual` a second input is added, and a ReLU may follow.
#[derive(Debug)]
pub(crate) struct CudaGroupNormKernel {
    groups: usize,
    size: usize,
    inner: usize,
    eps: f32,
    affine: Option<Affine>,
    stored: Option<(ParameterId, ParameterId)>,
    residual: bool,
    relu: bool,
}

impl CudaGroupNormKernel {
    /// A norm of `groups` groups, each of `size` channels, each with `inner` positions.
    pub(crate) fn new(
        (groups, size, inner): (usize, usize, usize),
        eps: f32,
        affine: Option<Affine>,
        stored: Option<(ParameterId, ParameterId)>,
    ) -> Self {
        Self { groups, size, inner, eps, affine, stored, residual: false, relu: false }
    }

    fn group(&self) -> NormGroup {
        NormGroup { size: self.size, inner: self.inner }
    }
}

impl CudaOperation for GroupNorm {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let Self { groups, eps, affine } = *self;
        let sizes = (groups, node.channels() / groups, node.positions());
        Box::new(CudaGroupNormKernel::new(sizes, eps, affine, None))
    }
}

impl CudaKernel for CudaGroupNormKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { groups, size, inner, eps, affine, stored, residual, relu } = *self;
        let (grid, holds) = self.group().forward(run.items() * groups, stored.is_some(), run.device.shared);
        GroupForward {
            grid,
            x: run.read(node, 0),
            residual: residual.then(|| run.read(node, 1)),
            y: run.value(node),
            kept: run.kept(node),
            weight: affine.map(|affine| run.parameter(affine.weight)),
            bias: affine.and_then(|affine| affine.bias).map(|bias| run.parameter(bias)),
            stored_mean: stored.map(|(mean, _)| run.parameter(mean)),
            stored_variance: stored.map(|(_, variance)| run.parameter(variance)),
            groups,
            size,
            inner,
            eps,
            relu,
            holds,
        }
        .launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { groups, size, inner, eps, affine, stored, residual, relu } = *self;
        let (dw, db, accumulate_affine) = parameters.affine(run, affine);
        let (grid, holds) = self.group().backward(run.samples * groups, run.device.shared);
        let (g, target) = (run.gradient(node), run.target(node, 0));
        GroupBackward {
            grid,
            x: run.read(node, 0),
            g,
            y: self.masks().then(|| run.value(node)),
            kept: run.kept(node),
            weight: affine.map(|affine| run.parameter(affine.weight)),
            bias: affine.and_then(|affine| affine.bias).map(|bias| run.parameter(bias)),
            stored_mean: stored.map(|(mean, _)| run.parameter(mean)),
            stored_variance: stored.map(|(_, variance)| run.parameter(variance)),
            dx: target.map(|target| target.values),
            dw,
            db,
            stride: run.program.written,
            groups,
            size,
            inner,
            eps,
            relu,
            views: run.program.views,
            accumulate: target.is_some_and(|target| target.accumulate),
            accumulate_affine,
            holds,
        }
        .launch(run.device)?;
        let Some(target) = residual.then(|| run.target(node, 1)).flatten() else { return Ok(()) };
        let n = run.items() * run.len(node);
        Copy { x: g, y: target.values, n, accumulate: target.accumulate }.launch(run.device)
    }

    fn name(&self, backward: bool) -> &'static str {
        if backward { "norm backward" } else { "norm forward" }
    }

    fn reads_input(&self, slot: usize, _trains: bool) -> bool {
        slot == 0
    }

    fn reads_output(&self) -> bool {
        self.masks()
    }

    fn masks(&self) -> bool {
        self.residual && self.relu
    }

    fn passes_on(&self, slot: usize) -> bool {
        self.residual && slot == 1
    }

    fn kept(&self, _len: usize) -> usize {
        if self.stored.is_some() { 0 } else { 2 * self.groups }
    }

    fn fold_relu(&mut self, sum: bool) -> bool {
        let folds = self.residual == sum;
        self.relu |= folds;
        folds
    }

    fn fold_sum(&mut self) -> bool {
        let folds = !self.residual && !self.relu;
        self.residual |= folds;
        folds
    }
}
