//! How the CPU normalises rows of features.

use dapple_graph::op::{LayerNorm, NormAxes};

use super::NormRows;
use crate::cpu::affine::coefficients;
use crate::cpu::kernel::Lanes;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass, LoweredNode, Order,
};

#[derive(Debug)]
struct LayerNormKernel {
    norm: LayerNorm,
    rows: usize,
    features: usize,
}

impl CpuOperation for LayerNorm {
    /// The features of a row lie side by side.
    fn order(&self) -> Order {
        match self.over {
            NormAxes::Last(_) => Order::RowMajor,
            NormAxes::Channels => Order::ChannelsLast,
        }
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let NormRows { rows, features, .. } = NormRows::new(self.over, &node.form.shape);
        Box::new(LayerNormKernel { norm: *self, rows, features })
    }
}

impl CpuKernel for LayerNormKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    /// The mean and one over the deviation of every row.
    fn saved(&self) -> usize {
        2 * self.rows
    }

    fn scratch(&self, _: Lanes, _: usize) -> usize {
        2 * self.features
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let features = self.features;
            let ForwardItem { values, y, saved, scratch } = item;
            let (scale, shift) = scratch[..2 * features].split_at_mut(features);
            coefficients(values.affine(self.norm.affine), |_| (0.0, 1.0), scale, shift);
            let rows = values.input(0).chunks_exact(features).zip(y.chunks_exact_mut(features));
            for ((x, y), saved) in rows.zip(saved.chunks_exact_mut(2)) {
                let mean = if self.norm.centred { average(features, |c| x[c]) } else { 0.0 };
                let variance = average(features, |c| (x[c] - mean) * (x[c] - mean));
                let inverse = 1.0 / (variance + self.norm.eps).sqrt();
                saved.copy_from_slice(&[mean, inverse]);
                for ((y, x), (a, b)) in y.iter_mut().zip(x).zip(scale.iter().zip(&*shift)) {
                    *y = (x - mean) * inverse * a + b;
                }
            }
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            let features = self.features;
            let (x, saved) = (item.values.input(0), item.values.saved());
            let weight = item.values.affine(self.norm.affine).map(|(weight, _)| weight);
            let (mut dw, mut db) = item.parameter_gradients.affine(self.norm.affine);
            let mut dx = item.input_gradients.part(0);
            for (row, (x, g)) in x.chunks_exact(features).zip(item.g.chunks_exact(features)).enumerate() {
                let (mean, inverse) = (saved[2 * row], saved[2 * row + 1]);
                let hat = |c: usize| (x[c] - mean) * inverse;
                let scaled = |c: usize| weight.map_or(g[c], |w| w[c] * g[c]);
                if let Some(dw) = &mut dw {
                    dw.iter_mut().enumerate().for_each(|(c, dw)| *dw += g[c] * hat(c));
                }
                if let Some(db) = &mut db {
                    db.iter_mut().zip(g).for_each(|(db, g)| *db += g);
                }
                if let Some((dx, accumulate)) = &mut dx {
                    let level = if self.norm.centred { average(features, scaled) } else { 0.0 };
                    let along = average(features, |c| scaled(c) * hat(c));
                    for (c, dx) in dx[row * features..][..features].iter_mut().enumerate() {
                        let term = (scaled(c) - level - hat(c) * along) * inverse;
                        *dx = if *accumulate { *dx + term } else { term };
                    }
                }
            }
        });
    }
}

/// How many terms are added up one after the other. The row of a whole image has so many that adding them one by one would round too much.
const CHAIN: usize = 2048;

/// The mean of a function over this many features.
fn average(features: usize, term: impl Fn(usize) -> f32) -> f32 {
    let chain = |first: usize| (first..features.min(first + CHAIN)).map(&term).sum::<f32>();
    (0..features).step_by(CHAIN).map(chain).sum::<f32>() / features as f32
}
