//! How the card resamples an image: by tables of what every output reads, and of which outputs read every input.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::Upsample;

use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::tabled::tabled_kernel;

tabled_kernel!(CudaUpsampleKernel: Upsample, UpsampleBackward);

impl CudaOperation for Upsample {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaUpsampleKernel(steps.table(table(&node.input()[1..], &self.0))))
    }
}

/// The table of bilinear resampling that the kernels read.
fn table(from: &[usize], to: &[usize]) -> Vec<i32> {
    let axes = [Resampling::new(from[0], to[0]), Resampling::new(from[1], to[1])];
    let sizes = [from[0], from[1], to[0], to[1], axes[0].most(), axes[1].most(), 0, 0];
    let mut table: Vec<i32> = sizes.iter().map(|&size| size as i32).collect();
    for blend in axes.iter().flat_map(|axis| &axis.blends) {
        table.extend([blend.low as i32, blend.high as i32, blend.share.to_bits() as i32, 0]);
    }
    axes.iter().for_each(|axis| table.extend(axis.readers()));
    table
}

/// The two inputs that a resampled position lies between, and the share of the second.
struct Blend {
    low: usize,
    high: usize,
    share: f32,
}

/// Bilinear resampling along one axis, in which positions are the centres of equal parts of the axis.
struct Resampling {
    from: usize,
    blends: Vec<Blend>,
}

impl Resampling {
    fn new(from: usize, to: usize) -> Self {
        let blend = |out: usize| {
            let at = ((out as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
            let low = (at as usize).min(from - 1);
            Blend { low, high: (low + 1).min(from - 1), share: (at - low as f64) as f32 }
        };
        Self { from, blends: (0..to).map(blend).collect() }
    }

    /// The first and the last output that read an input.
    fn span(&self, input: usize) -> Option<(usize, usize)> {
        let reads = |blend: &Blend| blend.low == input || blend.high == input;
        Some((self.blends.iter().position(reads)?, self.blends.iter().rposition(reads)?))
    }

    /// The largest number of outputs from the first to the last that read an input.
    fn most(&self) -> usize {
        let spans = (0..self.from).filter_map(|input| self.span(input));
        spans.map(|(first, last)| last - first + 1).max().unwrap_or(0)
    }

    /// For every input, the first of the outputs that read it, and the weights of the outputs from there on. All inputs have equally many
    /// weights.
    fn readers(&self) -> Vec<i32> {
        let most = self.most();
        let row = |input: usize| {
            let first = self.span(input).map_or(0, |(first, _)| first).min(self.blends.len() - most);
            let weights = self.blends[first..first + most].iter().map(move |blend| {
                let low = if blend.low == input { 1.0 - blend.share } else { 0.0 };
                let high = if blend.high == input { blend.share } else { 0.0 };
                (low + high).to_bits() as i32
            });
            std::iter::once(first as i32).chain(weights)
        };
        (0..self.from).flat_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Both directions hold the same weights: those of an output add up to one, and an input's row lists exactly the outputs that read
        /// it.
        #[test]
        fn readers_hold_the_weights_of_outputs(from in 1usize..40, to in 1usize..90) {
            let axis = Resampling::new(from, to);
            let most = axis.most();
            let rows = axis.readers();
            prop_assert_eq!(rows.len(), from * (most + 1));
            let mut weights = vec![vec![0.0f32; to]; from];
            for (input, row) in rows.chunks(most + 1).enumerate() {
                let first = row[0] as usize;
                prop_assert!(first + most <= to);
                for (at, bits) in row[1..].iter().enumerate() {
                    weights[input][first + at] = f32::from_bits(*bits as u32);
                }
            }
            for (out, blend) in axis.blends.iter().enumerate() {
                for (input, row) in weights.iter().enumerate() {
                    let low = if blend.low == input { 1.0 - blend.share } else { 0.0 };
                    let high = if blend.high == input { blend.share } else { 0.0 };
                    prop_assert_eq!(row[out], low + high);
                }
                let total: f32 = weights.iter().map(|row| row[out]).sum();
                // Only 1 - share is rounded, and only once.
                prop_assert!((total - 1.0).abs() <= f32::EPSILON);
            }
        }
    }
}
