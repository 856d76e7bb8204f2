//! Matrix products of the oracle.

/// A matrix in a slice, with a stride between rows and one between columns.
#[derive(Clone, Copy)]
pub(crate) struct MatrixView<'a> {
    data: &'a [f64],
    row: usize,
    column: usize,
}

impl<'a> MatrixView<'a> {
    pub(crate) fn rows(data: &'a [f64], columns: usize) -> Self {
        Self { data, row: columns, column: 1 }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }

    fn at(self, i: usize, j: usize) -> f64 {
        self.data[i * self.row + j * self.column]
    }
}

/// The product of an `m x k` and a `k x n` matrix, row after row.
pub(crate) fn product(m: usize, k: usize, n: usize, a: MatrixView<'_>, b: MatrixView<'_>) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|l| a.at(i, l) * b.at(l, j)).sum();
        }
    }
    c
}
