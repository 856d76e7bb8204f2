//! Products of two activations, softmax, attention.

use super::kernel::{Class, Lanes, Pair, Right, RowProduct, RowShape, Rows, Start, pack};

/// A matrix inside a slice: `at(i, j) = data[i * row + j * column]`.
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

/// Every row by itself.
fn identity(rows: usize) -> Vec<Class> {
    let pairs: Vec<Pair> = (0..rows as u32).map(|row| Pair { source: row, target: row }).collect();
    Class::sort(&[pairs], rows)
}

/// Scratch that [`product`] needs.
pub(crate) fn product_scratch(lanes: Lanes, m: usize, k: usize, n: usize) -> usize {
    k * lanes.padded(n) + m * k
}

/// Adds `a b` to the rows of `c`, `m x n` with `row` numbers between rows. `a` is `m x k`, `b` is `k x n`.
pub(crate) fn product(
    lanes: Lanes,
    (m, k, n): (usize, usize, usize),
    a: Matrix<'_>,
    b: Matrix<'_>,
    c: &mut [f32],
    row: usize,
    classes: &[Class],
    scratch: &mut [f32],
) {
    let (packed, rest) = scratch.split_at_mut(k * lanes.padded(n));
    pack(lanes, (1, k, n), b.data, (0, b.row, b.column), packed);
    let left = if a.column == 1 {
        Rows { data: a.data, shape: RowShape { item: 0, row: a.row, column: 0 } }
    } else {
        for i in 0..m {
            for l in 0..k {
                rest[i * k + l] = a.data[i * a.row + l * a.column];
            }
        }
        Rows { data: &rest[..m * k], shape: RowShape { item: 0, row: k, column: 0 } }
    };
    RowProduct {
        source: left,
        inner: k,
        right: Right::Packed(packed),
        taps: 1,
        columns: n,
        start: Start::Existing,
        classes,
        target: c,
        target_shape: RowShape { item: 0, row, column: 0 },
        rows: 0..m as u32,
        items: 1,
    }
    .run();
}

pub(crate) fn softmax(x: &[f32], y: &mut [f32], features: usize) {
    for (x, y) in x.chunks_exact(features).zip(y.chunks_exact_mut(features)) {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - max).exp());
        let inverse = 1.0 / y.iter().sum::<f32>();
        y.iter_mut().for_each(|y| *y *= inverse);
    }
}

pub(crate) fn softmax_backward(y: &[f32], g: &[f32], dx: &mut [f32], features: usize, accumulate: bool) {
    for ((y, g), dx) in
        y.chunks_exact(features).zip(g.chunks_exact(features)).zip(dx.chunks_exact_mut(features))
    {
        let along: f32 = y.iter().zip(g).map(|(y, g)| y * g).sum();
        for ((dx, y), g) in dx.iter_mut().zip(y).zip(g) {
            let term = y * (g - along);
            *dx = if accumulate { *dx + term } else { term };
        }
    }
}

/// A batch of products `m x k` by `k x n`; the right side may be stored transposed.
#[derive(Debug, Clone)]
pub(crate) struct MatMul {
    pub(crate) batches: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) transpose: bool,
    pub(crate) classes: Vec<Class>,
}

impl MatMul {
    pub(crate) fn new(batches: usize, m: usize, k: usize, n: usize, transpose: bool) -> Self {
        let classes = identity(m.max(k).max(n));
        Self { batches, m, k, n, transpose, classes }
    }

    pub(crate) fn scratch(&self, lanes: Lanes) -> usize {
        let Self { m, k, n, .. } = *self;
        [(m, k, n), (m, n, k), (k, m, n), (n, m, k)]
            .map(|(a, b, c)| product_scratch(lanes, a, b, c))
            .into_iter()
            .max()
            .unwrap_or(0)
    }

    fn right<'a>(&self, b: &'a [f32], batch: usize) -> Matrix<'a> {
        let b = &b[batch * self.k * self.n..][..self.k * self.n];
        if self.transpose { Matrix::rows(b, self.k).transposed() } else { Matrix::rows(b, self.n) }
    }

    pub(crate) fn forward(&self, lanes: Lanes, a: &[f32], b: &[f32], y: &mut [f32], scratch: &mut [f32]) {
        let Self { m, k, n, .. } = *self;
        y.fill(0.0);
        for batch in 0..self.batches {
            let a = Matrix::rows(&a[batch * m * k..][..m * k], k);
            let y = &mut y[batch * m * n..][..m * n];
            product(lanes, (m, k, n), a, self.right(b, batch), y, n, &self.classes, scratch);
        }
    }

    /// Adds to the gradients of both sides that are wanted.
    pub(crate) fn backward(
        &self,
        lanes: Lanes,
        a: &[f32],
        b: &[f32],
        g: &[f32],
        da: Option<&mut [f32]>,
        db: Option<&mut [f32]>,
        scratch: &mut [f32],
    ) {
        let Self { m, k, n, .. } = *self;
        if let Some(da) = da {
            for batch in 0..self.batches {
                let g = Matrix::rows(&g[batch * m * n..][..m * n], n);
                let da = &mut da[batch * m * k..][..m * k];
                product(
                    lanes,
                    (m, n, k),
                    g,
                    self.right(b, batch).transposed(),
                    da,
                    k,
                    &self.classes,
                    scratch,
                );
            }
        }
        if let Some(db) = db {
            for batch in 0..self.batches {
                let g = Matrix::rows(&g[batch * m * n..][..m * n], n);
                let a = Matrix::rows(&a[batch * m * k..][..m * k], k);
                let db = &mut db[batch * k * n..][..k * n];
                if self.transpose {
                    product(lanes, (n, m, k), g.transposed(), a, db, k, &self.classes, scratch);
                } else {
                    product(lanes, (k, m, n), a.transposed(), g, db, n, &self.classes, scratch);
                }
            }
        }
    }
}

/// Multi-head attention over `rows` queries and `keys` keys.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    pub(crate) heads: usize,
    pub(crate) rows: usize,
    pub(crate) keys: usize,
    pub(crate) features: usize,
    pub(crate) classes: Vec<Class>,
}

impl Attention {
    pub(crate) fn new(heads: usize, rows: usize, keys: usize, features: usize) -> Self {
        let longest = rows.max(keys);
        Self { heads, rows, keys, features, classes: identity(longest) }
    }

    pub(crate) fn scratch(&self, lanes: Lanes) -> usize {
        let width = self.features / self.heads;
        let (rows, keys) = (self.rows, self.keys);
        let shapes = [(rows, width, keys), (rows, keys, width), (keys, rows, width)];
        3 * rows * keys
            + shapes.map(|(m, k, n)| product_scratch(lanes, m, k, n)).into_iter().max().unwrap_or(0)
    }

    /// Columns of one head.
    fn head<'a>(&self, x: &'a [f32], head: usize) -> Matrix<'a> {
        Matrix { data: &x[head * (self.features / self.heads)..], row: self.features, column: 1 }
    }

    fn weights(
        &self,
        lanes: Lanes,
        q: &[f32],
        k: &[f32],
        head: usize,
        weights: &mut [f32],
        scratch: &mut [f32],
    ) {
        let width = self.features / self.heads;
        let (scores, weights) = weights.split_at_mut(self.rows * self.keys);
        scores.fill(0.0);
        let shape = (self.rows, width, self.keys);
        let keys = self.head(k, head).transposed();
        product(lanes, shape, self.head(q, head), keys, scores, self.keys, &self.classes, scratch);
        let scale = 1.0 / (width as f32).sqrt();
        scores.iter_mut().for_each(|score| *score *= scale);
        softmax(scores, &mut weights[..self.rows * self.keys], self.keys);
    }

    pub(crate) fn forward(&self, lanes: Lanes, [q, k, v]: [&[f32]; 3], y: &mut [f32], scratch: &mut [f32]) {
        let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
        let width = self.features / self.heads;
        y.fill(0.0);
        for head in 0..self.heads {
            self.weights(lanes, q, k, head, own, scratch);
            let weights = Matrix::rows(&own[self.rows * self.keys..], self.keys);
            let y = &mut y[head * width..];
            let shape = (self.rows, self.keys, width);
            product(lanes, shape, weights, self.head(v, head), y, self.features, &self.classes, scratch);
        }
    }

    /// Adds to the gradients of query, key and value that are wanted.
    pub(crate) fn backward(
        &self,
        lanes: Lanes,
        [q, k, v]: [&[f32]; 3],
        g: &[f32],
        [mut dq, mut dk, mut dv]: [Option<&mut [f32]>; 3],
        scratch: &mut [f32],
    ) {
        let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
        let width = self.features / self.heads;
        let (rows, keys, features) = (self.rows, self.keys, self.features);
        for head in 0..self.heads {
            self.weights(lanes, q, k, head, own, scratch);
            let (scores, rest) = own.split_at_mut(rows * keys);
            let (weights, dweights) = rest.split_at_mut(rows * keys);
            let upstream = self.head(g, head);
            if let Some(dv) = &mut dv {
                let weights = Matrix::rows(weights, keys).transposed();
                let dv = &mut dv[head * width..];
                product(lanes, (keys, rows, width), weights, upstream, dv, features, &self.classes, scratch);
            }
            dweights.fill(0.0);
            let values = self.head(v, head).transposed();
            product(lanes, (rows, width, keys), upstream, values, dweights, keys, &self.classes, scratch);
            softmax_backward(weights, dweights, scores, keys, false);
            let scale = 1.0 / (width as f32).sqrt();
            scores.iter_mut().for_each(|score| *score *= scale);
            let scores = Matrix::rows(scores, keys);
            if let Some(dq) = &mut dq {
                let dq = &mut dq[head * width..];
                product(
                    lanes,
                    (rows, keys, width),
                    scores,
                    self.head(k, head),
                    dq,
                    features,
                    &self.classes,
                    scratch,
                );
            }
            if let Some(dk) = &mut dk {
                let dk = &mut dk[head * width..];
                let shape = (keys, rows, width);
                product(
                    lanes,
                    shape,
                    scores.transposed(),
                    self.head(q, head),
                    dk,
                    features,
                    &self.classes,
                    scratch,
                );
            }
        }
    }
}
