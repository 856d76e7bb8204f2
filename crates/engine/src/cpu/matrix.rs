//! Matrix products of two activations.

use super::kernel::{Lanes, Right, RowClass, RowPair, RowProduct, RowShape, RowSource, StartValue, pack};

/// A matrix in a slice, in which entry `(i, j)` is `data[i * row + j * column]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a> Matrix<'a> {
    pub(crate) fn rows(data: &'a [f32], columns: usize) -> Self {
        Self { data, row: columns, column: 1 }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }
}

/// Row classes that pair every row with itself.
pub(crate) fn identity(rows: usize) -> Vec<RowClass> {
    let pairs: Vec<RowPair> = (0..rows as u32).map(|row| RowPair { source: row, target: row }).collect();
    RowClass::sort(&[pairs], rows)
}

/// How many numbers of scratch [`product`] needs.
pub(crate) fn product_scratch(lanes: Lanes, m: usize, k: usize, n: usize) -> usize {
    k * lanes.padded(n) + m * k
}

/// Adds `a b` to `c`, which is `m x n` with rows that are `row` numbers apart. `a` is `m x k`, and `b` is `k x n`.
pub(crate) fn product(
    lanes: Lanes,
    (m, k, n): (usize, usize, usize),
    a: Matrix<'_>,
    b: Matrix<'_>,
    c: &mut [f32],
    row: usize,
    classes: &[RowClass],
    scratch: &mut [f32],
) {
    let (packed, rest) = scratch.split_at_mut(k * lanes.padded(n));
    pack(lanes, (1, k, n), b.data, (0, b.row, b.column), packed);
    let left = if a.column == 1 {
        RowSource { data: a.data, shape: RowShape { item: 0, row: a.row, column: 0 } }
    } else {
        for i in 0..m {
            for l in 0..k {
                rest[i * k + l] = a.data[i * a.row + l * a.column];
            }
        }
        RowSource { data: &rest[..m * k], shape: RowShape { item: 0, row: k, column: 0 } }
    };
    RowProduct {
        source: left,
        inner: k,
        right: Right::Packed(packed),
        taps: 1,
        columns: n,
        start: StartValue::Existing,
        classes,
        target: c,
        target_shape: RowShape { item: 0, row, column: 0 },
        rows: 0..m as u32,
        items: 1,
    }
    .run();
}
