//! Norms of weight gradients that are never written down.

use super::device::{Grid, Pointer, Side, arguments};
use super::error::CudaError;
use super::kind::Conv;
use super::run::Run;
use crate::layout::Layout;

impl Run<'_> {
    /// The norm of a linear layer's weight gradient: of one row that of an outer product, of several by inner products of rows,
    /// `sum over p, q of (x_p . x_q)(g_p . g_q)`.
    pub(super) fn linear_norm(
        &self,
        rows: usize,
        (x, features): (Side, usize),
        (g, out): (Side, usize),
        partials: Pointer,
    ) -> Result<(), CudaError> {
        let (device, samples, stride) = (self.device, self.samples, self.program.partials);
        if rows == 1 {
            let list = arguments![x.data, g.data, features, out, partials, stride];
            return device.launch("outer_norm", Grid::blocks(samples, 128), list);
        }
        let first = self.work.workspace;
        let second = first.at(samples * rows * rows);
        for (side, inner, target) in [(x, features, first), (g, out, second)] {
            let target = Side::new(target, rows, rows * rows);
            device.exact_product(
                (rows, inner, rows),
                (side, side.transposed()),
                target,
                (1.0, 0.0),
                samples,
            )?;
        }
        let list = arguments![first, second, rows * rows, partials, stride];
        device.launch("gram_norm", Grid::blocks(samples, 128), list)
    }

    /// The norm of a convolution's weight gradient, filter by filter, by inner products of unfolded positions:
    /// `sum over p, q of (col_p . col_q) g_p g_q` (Goodfellow 2015; Li et al. 2021), and through the standardisation if there is one.
    pub(super) fn convolution_norm(
        &self,
        node: usize,
        conv: &Conv,
        x: Pointer,
        g: Pointer,
        layout: &Layout,
    ) -> Result<(), CudaError> {
        let (device, samples, geometry) = (self.device, self.samples, &conv.geometry);
        let (inside, outside, taps) = (geometry.positions_in(), geometry.positions(), geometry.taps());
        let (channels, out) = (geometry.channels, geometry.out);
        let inputs = self.work.workspace;
        let columns = inputs.at(samples * inside * inside);
        let products = columns.at(samples * outside * outside);
        let reached = products.at(samples * out * outside);
        let sources = self.table(conv.sources);
        let image = Side::new(x, inside, channels * inside);
        let target = Side::new(inputs, inside, inside * inside);
        device.exact_product(
            (inside, channels, inside),
            (image.transposed(), image),
            target,
            (1.0, 0.0),
            samples,
        )?;
        let n = samples * outside * outside;
        device.launch(
            "gram_columns",
            Grid::each(n),
            arguments![inputs, columns, sources, inside, outside, taps, n],
        )?;
        let sides = (Side::new(g, outside, out * outside), Side::new(columns, outside, outside * outside));
        let target = Side::new(products, outside, out * outside);
        device.exact_product((out, outside, outside), sides, target, (1.0, 0.0), samples)?;
        let mut stats = Pointer::NULL;
        if let Some((_, start)) = conv.used {
            stats = self.model.stats.at(start);
            let list = arguments![x, reached, sources, channels, inside, outside, taps];
            let grid = Grid { shared: 4 * inside as u32, ..Grid::blocks(samples, 256) };
            device.launch("reached_sums", grid, list)?;
        }
        // The norm must not come out too small: an output that was rounded on its way is left out of it.
        let y = if self.choices.rounds { Pointer::NULL } else { self.value(node) };
        let bias = self.optional(conv.bias);
        let (partials, stride) = (self.partials(layout, conv.weight), self.program.partials);
        device.launch(
            "filter_norms",
            Grid::warps(samples * out),
            arguments![
                products,
                g,
                y,
                bias,
                reached,
                stats,
                out,
                outside,
                geometry.inner() as f64,
                samples,
                partials,
                stride,
            ],
        )
    }
}
