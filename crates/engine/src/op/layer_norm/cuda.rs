//! How the card normalises rows of features.

use dapple_graph::op::LayerNorm;

use super::NormRows;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{LayerAffine, LayerBackward, LayerForward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaLayerNormKernel {
    norm: LayerNorm,
    rows: NormRows,
}

impl CudaOperation for LayerNorm {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaLayerNormKernel { norm: *self, rows: NormRows::new(self.over, node.shape) })
    }
}

impl CudaKernel for CudaLayerNormKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let LayerNorm { centred, eps, affine, .. } = self.norm;
        let NormRows { rows, features, apart } = self.rows;
        LayerForward {
            x: run.read(node, 0),
            y: run.value(node),
            kept: run.kept(node),
            weight: affine.map(|affine| run.parameter(affine.weight)),
            bias: affine.and_then(|affine| affine.bias).map(|bias| run.parameter(bias)),
            features,
            apart,
            rows: run.items() * rows,
            eps,
            centred,
        }
        .launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let LayerNorm { centred, affine, .. } = self.norm;
        let NormRows { rows, features, apart } = self.rows;
        let (dw, db, accumulate) = parameters.affine(run, affine);
        let (x, g) = (run.read(node, 0), run.gradient(node));
        let kept = run.kept(node).expect("a norm that trains keeps its means");
        if dw.is_some() || db.is_some() {
            LayerAffine {
                x,
                g,
                kept,
                dw,
                db,
                stride: run.program.written,
                features,
                apart,
                sample_rows: rows * run.program.views,
                samples: run.samples,
                accumulate,
            }
            .launch(run.device)?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        LayerBackward {
            x,
            g,
            kept,
            weight: affine.map(|affine| run.parameter(affine.weight)),
            dx: target.values,
            features,
            apart,
            rows: run.items() * rows,
            centred,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }

    fn name(&self, backward: bool) -> &'static str {
        if backward { "norm backward" } else { "norm forward" }
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        2 * self.rows.rows
    }
}
