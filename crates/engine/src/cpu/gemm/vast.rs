//! Layers so large, over samples so small, that reading the weights is what counts: they are read as the parameter is stored, each once
//! for all items, and nothing is packed.

use std::ops::Range;

use super::Gemm;
use crate::cpu::kernel::{DotProduct, Right, RowProduct, RowShape, RowSource, StartValue};

/// Weights of a vast layer, at least.
const VAST: usize = 1 << 20;

impl Gemm {
    /// Whether this is such a layer. Its channels are whole vectors of any machine.
    pub(crate) fn vast(&self) -> bool {
        self.natural()
            && (self.groups, self.rows_in, self.rows_out) == (1, 1, 1)
            && self.weight_len() > VAST
            && self.channels.is_multiple_of(16)
    }

    /// Some columns of `y = x w + b`, with a row of `source` for every item, and one of `target`.
    pub(crate) fn vast_forward(
        &self,
        weight: &[f32],
        bias: &[f32],
        source: &[f32],
        columns: Range<usize>,
        target: &mut [f32],
    ) {
        DotProduct {
            source,
            source_item: self.channels,
            weight: &weight[columns.start * self.channels..columns.end * self.channels],
            inner: self.channels,
            bias: bias.get(columns.clone()).unwrap_or(&[]),
            target_item: columns.len(),
            columns: columns.len(),
            items: target.len() / columns.len(),
            target,
        }
        .run();
        if self.relu {
            crate::cpu::pointwise::relu(target);
        }
    }

    /// Some columns of the data gradient, likewise, whole vectors of them; added to what the target holds, or written.
    pub(crate) fn vast_backward(
        &self,
        weight: &[f32],
        source: &[f32],
        columns: Range<usize>,
        accumulate: bool,
        target: &mut [f32],
    ) {
        RowProduct {
            source: RowSource { data: source, shape: RowShape { item: self.out, row: self.out, column: 0 } },
            inner: self.out,
            right: Right::Plain(&weight[columns.start..], self.channels),
            taps: 1,
            columns: columns.len(),
            start: if accumulate { StartValue::Existing } else { StartValue::Zero },
            classes: &self.back,
            items: target.len() / columns.len(),
            target,
            target_shape: RowShape { item: columns.len(), row: columns.len(), column: 0 },
            rows: 0..1,
        }
        .run();
    }
}
