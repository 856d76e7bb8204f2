//! Attention of several heads on the card.

use dapple_graph::op::Attention;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{Softmax, SoftmaxBackward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::product::MatrixSide;
use crate::cuda::run::CardRun;
use crate::cuda::slice::DeviceSlice;

#[derive(Debug)]
struct CudaAttentionKernel {
    heads: usize,
    width: usize,
    queries: usize,
    keys: usize,
}

impl CudaAttentionKernel {
    /// A head's columns of so many rows.
    fn columns<'m>(&self, values: DeviceSlice<'m, f32>, head: usize, rows: usize) -> MatrixSide<'m> {
        let features = self.heads * self.width;
        MatrixSide::new(values.after(head * self.width), features, rows * features)
    }

    /// A head's scores, or what becomes of them.
    fn scores<'m>(&self, values: DeviceSlice<'m, f32>, head: usize) -> MatrixSide<'m> {
        let square = self.queries * self.keys;
        MatrixSide::new(values.after(head * square), self.keys, self.heads * square)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    fn square(&self) -> usize {
        self.heads * self.queries * self.keys
    }
}

impl CudaOperation for Attention {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (queries, features) = (node.channels(), node.input()[1]);
        let keys = node.inputs.get(1).map_or(queries, |key| key[0]);
        let heads = self.heads;
        Box::new(CudaAttentionKernel { heads, width: features / heads, queries, keys })
    }
}

impl CudaKernel for CudaAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { heads, width, queries, keys } = *self;
        let (device, items, y) = (run.device, run.items(), run.value(node));
        let weights = run.kept(node).expect("attention works in what it keeps");
        let [query, key, value] = [0, 1, 2].map(|slot| run.read(node, slot));
        for head in 0..heads {
            let sides = (self.columns(query, head, queries), self.columns(key, head, keys).transposed());
            device.product((queries, width, keys), sides, self.scores(weights, head), (1.0, 0.0), items)?;
        }
        let rows = items * heads * queries;
        Softmax { x: weights, y: weights, features: keys, rows, scale: self.scale() }.launch(device)?;
        for head in 0..heads {
            let sides = (self.scores(weights, head), self.columns(value, head, keys));
            let to = self.columns(y, head, queries);
            device.product((queries, keys, width), sides, to, (1.0, 0.0), items)?;
        }
        Ok(())
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let targets = [0, 1, 2].map(|slot| run.target(node, slot));
        if targets.iter().all(Option::is_none) {
            return Ok(());
        }
        let Self { heads, width, queries, keys } = *self;
        let (device, items, g) = (run.device, run.items(), run.gradient(node));
        let weights = run.kept(node).expect("attention works in what it keeps");
        let scores = run.scratch(node).expect("attention has scratch in the backward pass");
        let [query, key, value] = [0, 1, 2].map(|slot| run.read(node, slot));
        for head in 0..heads {
            let sides = (self.columns(g, head, queries), self.columns(value, head, keys).transposed());
            device.product((queries, width, keys), sides, self.scores(scores, head), (1.0, 0.0), items)?;
        }
        let (rows, scale) = (items * heads * queries, self.scale());
        SoftmaxBackward { y: weights, g: scores, dx: scores, features: keys, rows, scale, accumulate: false }
            .launch(device)?;
        for (slot, target) in targets.into_iter().enumerate() {
            let Some(target) = target else { continue };
            for head in 0..heads {
                let (scores, weights) = (self.scores(scores, head), self.scores(weights, head));
                let (rows, inner, sides) = match slot {
                    0 => (queries, keys, (scores, self.columns(key, head, keys))),
                    1 => (keys, queries, (scores.transposed(), self.columns(query, head, queries))),
                    _ => (keys, queries, (weights.transposed(), self.columns(g, head, queries))),
                };
                let to = self.columns(target.values, head, rows);
                device.product((rows, inner, width), sides, to, (1.0, target.keep()), items)?;
            }
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        self.square()
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        self.square()
    }
}
