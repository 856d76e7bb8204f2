//! Layers that are so large, for samples so small, that reading the weights takes longest. Their weights are read in the order in which the
//! parameter is stored, once for all items, and are never packed.

use std::ops::Range;

use super::Gemm;
use crate::cpu::kernel::{DotProduct, Right, RowProduct, RowShape, RowSource, StartValue};

/// A vast layer has more weights than this.
const VAST: usize = 1 << 20;

impl Gemm {
    /// Whether this is such a layer. Its channels must fill whole vectors on any machine.
    pub(crate) fn vast(&self) -> bool {
        self.natural()
            && (self.groups, self.rows_in, self.rows_out) == (1, 1, 1)
            && self.weight_len() > VAST
            && self.channels.is_multiple_of(16)
    }

    /// Computes some columns of `y = x w + b`. `source` and `target` have one row for every item.
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

    /// Computes some columns of the data gradient, which must be whole vectors, and writes them to the target or adds them to it.
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
