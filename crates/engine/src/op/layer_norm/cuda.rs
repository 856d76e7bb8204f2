//! How the card normalises rows of features.

use dapple_graph::op::LayerNorm;

use super::NormRows;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{
    LayerAffine, LayerBackward, LayerForward, MOST_FEATURES, NarrowLayerAffine, NarrowLayerBackward,
    NarrowLayerForward, NarrowLayerGradients, NarrowLayerParts, norm_parts,
};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaLayerNormKernel {
    norm: LayerNorm,
    rows: NormRows,
    /// Whether kernels can read its scale and shift in vectors of four numbers.
    fours: bool,
    /// Whether its values are narrow.
    narrow: bool,
}

impl CudaOperation for LayerNorm {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let mut read =
            self.affine.iter().flat_map(|affine| std::iter::once(affine.weight).chain(affine.bias));
        let fours = read.all(|id| steps.parameters[id.index()].is_multiple_of(4));
        let rows = NormRows::new(self.over, node.shape);
        Box::new(CudaLayerNormKernel { norm: *self, rows, fours, narrow: false })
    }
}

impl CudaLayerNormKernel {
    /// Normalises rows and writes them as narrow numbers.
    fn forward_narrow(&self, run: &CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let LayerNorm { centred, eps, affine, .. } = self.norm;
        NarrowLayerForward {
            x: run.read(node, 0).cast(),
            y: run.value(node).cast(),
            kept: run.kept(node),
            weight: affine.map(|affine| run.parameter(affine.weight).cast()),
            bias: affine.and_then(|affine| affine.bias).map(|bias| run.parameter(bias).cast()),
            features: self.rows.features,
            rows: run.items() * self.rows.rows,
            eps,
            centred,
        }
        .launch(run.device)
    }

    /// Computes all gradients from a narrow gradient.
    fn backward_narrow(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let LayerNorm { centred, affine, .. } = self.norm;
        let NormRows { rows, features, .. } = self.rows;
        let (dw, db, accumulate) = parameters.affine(run, affine);
        let (x, g) = (run.read(node, 0).cast(), run.gradient(node).cast());
        let kept = run.kept(node).expect("a norm that trains keeps its means");
        let (stride, items, samples) = (run.program.written, run.items(), run.samples);
        let weight = affine.map(|affine| run.parameter(affine.weight).cast());
        let (wanted, target) = (dw.is_some() || db.is_some(), run.target(node, 0));
        if let (true, Some(target), Some(parts)) = (wanted, target, run.scratch(node)) {
            NarrowLayerGradients {
                items,
                x,
                g,
                kept,
                weight,
                dx: target.values.cast(),
                parts,
                features,
                item_rows: rows,
                centred,
                accumulate: target.accumulate,
            }
            .launch(run.device)?;
            let (count, n) = (norm_parts(rows) * run.program.views, samples * features);
            return NarrowLayerParts { parts, dw, db, stride, features, count, n, accumulate }
                .launch(run.device);
        }
        if wanted {
            let sample_rows = rows * run.program.views;
            NarrowLayerAffine { samples, x, g, kept, dw, db, stride, features, sample_rows, accumulate }
                .launch(run.device)?;
        }
        let Some(target) = target else { return Ok(()) };
        let (dx, rows, accumulate) = (target.values.cast(), items * rows, target.accumulate);
        NarrowLayerBackward { x, g, kept, weight, dx, features, rows, centred, accumulate }.launch(run.device)
    }
}

impl CudaKernel for CudaLayerNormKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        if self.narrow {
            return self.forward_narrow(run, node);
        }
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
        if self.narrow {
            return self.backward_narrow(run, node, parameters);
        }
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

    fn scratch(&self) -> usize {
        let NormRows { rows, features, .. } = self.rows;
        let in_parts = self.narrow && self.norm.affine.is_some() && features <= MOST_FEATURES;
        if in_parts { 2 * norm_parts(rows) * features } else { 0 }
    }

    fn settle_narrow(&mut self, _input: bool, output: bool) {
        self.narrow = output;
    }

    fn writes_narrow(&self) -> bool {
        let NormRows { features, apart, .. } = self.rows;
        apart == 1 && features.is_multiple_of(8) && self.fours
    }
}
