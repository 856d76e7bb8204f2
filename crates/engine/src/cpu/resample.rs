//! Pooling and resampling over channels-last rows.

use pulp::Arch;

use super::form::Form;
use super::kernel::RowPair;
use super::operation::{BackwardPass, BackwardReads, CpuKernel, ForwardPass};

/// A fixed linear map between positions, the same for every channel: average pooling, adaptive pooling, bilinear resampling.
#[derive(Debug)]
pub(crate) struct ResampleKernel {
    channels: usize,
    terms: Vec<(RowPair, f32)>,
}

impl ResampleKernel {
    /// A map given by its terms, each of which is a row to read, a row to write and a factor.
    pub(crate) fn new(channels: usize, terms: Vec<(RowPair, f32)>) -> Self {
        Self { channels, terms }
    }

    /// A map that is a product of one map for each axis. `axis(from, to, position)` lists the places that a position reads, with their
    /// factors.
    pub(crate) fn separable(
        input: &Form,
        output: &Form,
        axis: impl Fn(usize, usize, usize) -> Vec<(usize, f32)>,
    ) -> Self {
        let (channels, input, output) = (output.shape[0], &input.shape[1..], &output.shape[1..]);
        let mut terms = Vec::new();
        for target in 0..output.iter().product() {
            let mut rest: usize = target;
            let mut index = vec![0; output.len()];
            for a in (0..output.len()).rev() {
                index[a] = rest % output[a];
                rest /= output[a];
            }
            let mut places = vec![(0, 1.0)];
            for a in 0..input.len() {
                let along = axis(input[a], output[a], index[a]);
                places = places
                    .iter()
                    .flat_map(|&(place, w)| along.iter().map(move |&(i, v)| (place * input[a] + i, w * v)))
                    .collect();
            }
            let pair = |source: usize| RowPair { source: source as u32, target: target as u32 };
            terms.extend(places.into_iter().filter(|(_, w)| *w != 0.0).map(|(source, w)| (pair(source), w)));
        }
        Self { channels, terms }
    }

    #[inline(always)]
    fn apply(&self, from: &[f32], to: &mut [f32], rows: impl Fn(&RowPair) -> (u32, u32)) {
        let channels = self.channels;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (pair, weight) in &self.terms {
                    let (source, target) = rows(pair);
                    let from = &from[source as usize * channels..][..channels];
                    let to = &mut to[target as usize * channels..][..channels];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
                }
            },
        );
    }
}

impl CpuKernel for ResampleKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::NOTHING
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            item.y.fill(0.0);
            self.apply(item.values.input(0), item.y, |pair| (pair.source, pair.target));
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some(dx) = item.input_gradients.sum(0) {
                self.apply(item.g, dx, |pair| (pair.target, pair.source));
            }
        });
    }
}
