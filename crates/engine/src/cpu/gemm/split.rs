//! Splits products among the threads that work inside one sample. Each thread writes some of the rows, so that no sum is split.

use rayon::prelude::*;

use crate::cpu::kernel::{
    OuterProduct, OuterShape, OuterTarget, Right, RowClass, RowPair, RowProduct, RowShape, RowSource,
    StartValue,
};

/// A row product before it is split among threads.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub(super) source: RowSource<'a>,
    pub(super) inner: usize,
    pub(super) right: Right<'a>,
    pub(super) taps: usize,
    pub(super) columns: usize,
    pub(super) start: StartValue<'a>,
    pub(super) classes: &'a [RowClass],
    pub(super) items: usize,
}

impl Product<'_> {
    /// Fills the target. With more than one thread, each fills some of the rows.
    pub(super) fn run(self, target: &mut [f32], target_shape: RowShape, rows: usize, parallel: usize) {
        let part = |target: &mut [f32], rows: std::ops::Range<u32>| {
            let Self { source, inner, right, taps, columns, start, classes, items } = self;
            RowProduct {
                source,
                inner,
                right,
                taps,
                columns,
                start,
                classes,
                target,
                target_shape,
                rows,
                items,
            }
            .run();
        };
        if parallel <= 1 || rows < 2 * parallel {
            return part(target, 0..rows as u32);
        }
        if self.items > 1 {
            for item in 0..self.items {
                let data = &self.source.data[item * self.source.shape.item..];
                let product = Self { source: RowSource { data, ..self.source }, items: 1, ..self };
                product.run(&mut target[item * target_shape.item..], target_shape, rows, parallel);
            }
            return;
        }
        let chunk = rows.div_ceil(parallel);
        let target = &mut target[..rows * target_shape.row];
        target.par_chunks_mut(chunk * target_shape.row).enumerate().for_each(|(index, target)| {
            let first = index * chunk;
            part(target, first as u32..(first + chunk).min(rows) as u32);
        });
    }
}

/// Adds outer products to a target of `rows x columns`. With more than one thread, each adds to some of the rows.
pub(super) fn outer(
    items: &[(&[f32], &[f32])],
    pairs: &[RowPair],
    shape: OuterShape,
    (rows, columns): (usize, usize),
    out: OuterTarget<'_>,
    parallel: usize,
) {
    // Each thread gets whole tiles of six rows.
    let chunk = match parallel <= 1 || rows < 2 * parallel {
        true => rows,
        false => rows.div_ceil(4 * parallel).next_multiple_of(6),
    };
    let part = |index: usize, rows: usize, out: OuterTarget<'_>| {
        let shape = OuterShape { first_row: shape.first_row + index * chunk, ..shape };
        OuterProduct { items, pairs, shape, rows, columns, out }.run();
    };
    match out {
        OuterTarget::Added(out) => {
            let parts = out[..rows * columns].par_chunks_mut(chunk * columns).enumerate();
            parts.for_each(|(index, out)| part(index, out.len() / columns, OuterTarget::Added(out)));
        }
        OuterTarget::Counted { out, samples } => {
            let parts = out[..rows * columns].par_chunks_mut(chunk * columns).enumerate();
            parts.for_each(|(index, out)| {
                part(index, out.len() / columns, OuterTarget::Counted { out, samples })
            });
        }
    }
}
