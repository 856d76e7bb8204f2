//! How the CPU multiplies two activations.

use dapple_graph::op::MatMul;

use crate::cpu::kernel::{Lanes, RowClass};
use crate::cpu::matrix::{Matrix, identity, product, product_scratch};
use crate::cpu::operation::{
    BackwardItem, BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass,
    LoweredNode, Order,
};

/// A batch of products of `m x k` by `k x n` matrices. The right sides may be stored transposed.
#[derive(Debug)]
struct MatMulKernel {
    batches: usize,
    m: usize,
    k: usize,
    n: usize,
    transpose: bool,
    classes: Vec<RowClass>,
}

impl MatMulKernel {
    fn right<'a>(&self, b: &'a [f32], batch: usize) -> Matrix<'a> {
        let b = &b[batch * self.k * self.n..][..self.k * self.n];
        if self.transpose { Matrix::rows(b, self.k).transposed() } else { Matrix::rows(b, self.n) }
    }
}

impl CpuOperation for MatMul {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (left, shape) = (&node.inputs[0].shape, &node.form.shape);
        let rank = shape.len();
        let batches = shape[..rank - 2].iter().product();
        let (m, k, n) = (shape[rank - 2], left[rank - 1], shape[rank - 1]);
        let classes = identity(m.max(k).max(n));
        Box::new(MatMulKernel { batches, m, k, n, transpose: self.transpose, classes })
    }
}

impl CpuKernel for MatMulKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn scratch(&self, lanes: Lanes, _: usize) -> usize {
        let Self { m, k, n, .. } = *self;
        let shapes = [(m, k, n), (m, n, k), (k, m, n), (n, m, k)];
        shapes.map(|(a, b, c)| product_scratch(lanes, a, b, c)).into_iter().max().unwrap_or(0)
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let Self { m, k, n, .. } = *self;
            let ForwardItem { values, y, scratch, .. } = item;
            let (lanes, a, b) = (values.lanes(), values.input(0), values.input(1));
            y.fill(0.0);
            for batch in 0..self.batches {
                let a = Matrix::rows(&a[batch * m * k..][..m * k], k);
                let y = &mut y[batch * m * n..][..m * n];
                product(lanes, (m, k, n), a, self.right(b, batch), y, n, &self.classes, scratch);
            }
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|item| {
            let Self { m, k, n, .. } = *self;
            let BackwardItem { values, g, mut input_gradients, scratch, .. } = item;
            let (lanes, a, b) = (values.lanes(), values.input(0), values.input(1));
            let rows = |batch: usize| Matrix::rows(&g[batch * m * n..][..m * n], n);
            if let Some(da) = input_gradients.sum(0) {
                for batch in 0..self.batches {
                    let (b, da) = (self.right(b, batch).transposed(), &mut da[batch * m * k..][..m * k]);
                    product(lanes, (m, n, k), rows(batch), b, da, k, &self.classes, scratch);
                }
            }
            if let Some(db) = input_gradients.sum(1) {
                for batch in 0..self.batches {
                    let (g, a) = (rows(batch), Matrix::rows(&a[batch * m * k..][..m * k], k));
                    let db = &mut db[batch * k * n..][..k * n];
                    if self.transpose {
                        product(lanes, (n, m, k), g.transposed(), a, db, k, &self.classes, scratch);
                    } else {
                        product(lanes, (k, m, n), a.transposed(), g, db, n, &self.classes, scratch);
                    }
                }
            }
        });
    }
}
