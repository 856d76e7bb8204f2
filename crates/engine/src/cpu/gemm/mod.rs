//! Convolutions and linear layers, which are sums of one matrix product for each tap.

mod ghost;
mod passes;
mod split;
mod vast;
mod weights;
mod window;
mod winograd;

use std::ops::Range;

use dapple_graph::{ParameterId, Window};

use super::kernel::{
    Lanes, OuterShape, OuterTarget, Right, RowClass, RowPair, RowShape, RowSource, Sample, StartValue,
};
use ghost::SampleViews;
use split::{Product, outer};
pub(crate) use weights::PreparedWeights;
use window::{CopyRun, copy_runs, pair_runs};
pub(crate) use window::{reversed_pairs, window_pairs};
use winograd::{FilterPass, Winograd};

/// A convolution or linear layer of one sample: `rows_in x channels -> rows_out x out`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gemm {
    pub(crate) weight: ParameterId,
    pub(crate) bias: Option<ParameterId>,
    pub(crate) standardise: Option<f32>,
    pub(crate) relu: bool,
    pub(crate) channels: usize,
    pub(crate) out: usize,
    pub(crate) groups: usize,
    /// Whether the weight is stored as `[channels, out / groups, tap]`, as a transposed convolution's is, rather than as
    /// `[out, channels / groups, tap]`.
    transposed: bool,
    pub(crate) rows_in: usize,
    pub(crate) rows_out: usize,
    /// The rows that each tap reads and writes, in the order of the rows written.
    pub(crate) taps: Vec<Vec<RowPair>>,
    /// The output rows, sorted by the taps that reach them.
    pub(crate) classes: Vec<RowClass>,
    /// The input rows, sorted by the taps whose gradient reaches them.
    pub(crate) back: Vec<RowClass>,
    /// Whether the taps of a position are gathered into one row first, which pays if there are few channels.
    pub(crate) narrow: bool,
    /// The copies that gather the taps.
    runs: Vec<CopyRun>,
    /// How values and gradients are computed by minimal filtering, if that pays.
    winograd: Option<Winograd>,
    /// Every output row paired with itself, for products with gathered taps.
    pub(crate) identity: Vec<RowPair>,
    /// The same pairs as classes, and below, the classes of the input rows paired with themselves.
    pub(crate) identity_rows: Vec<RowClass>,
    pub(crate) identity_rows_in: Vec<RowClass>,
    /// The pairs of every tap in runs of neighbours: the first pair of each run, and how long it is.
    pub(crate) pair_runs: Vec<Vec<(RowPair, usize)>>,
}

impl Gemm {
    /// A linear layer over `rows` rows.
    pub(crate) fn linear(
        weight: ParameterId,
        bias: Option<ParameterId>,
        rows: usize,
        channels: usize,
        out: usize,
    ) -> Self {
        let identity: Vec<RowPair> =
            (0..rows as u32).map(|row| RowPair { source: row, target: row }).collect();
        let classes = RowClass::sort(std::slice::from_ref(&identity), rows);
        Self {
            weight,
            bias,
            standardise: None,
            relu: false,
            channels,
            out,
            groups: 1,
            transposed: false,
            rows_in: rows,
            rows_out: rows,
            taps: vec![identity.clone()],
            back: classes.clone(),
            narrow: false,
            runs: Vec::new(),
            winograd: None,
            identity_rows: classes.clone(),
            pair_runs: vec![pair_runs(&identity)],
            identity_rows_in: classes.clone(),
            classes,
            identity,
        }
    }

    /// Replaces the rows of a linear layer by those of a window over an image or clip.
    pub(crate) fn over(mut self, window: &Window, input: &[usize], output: &[usize], groups: usize) -> Self {
        let rows = (input.iter().product(), output.iter().product());
        self = self.through(window_pairs(window, input, output), rows, groups);
        self.narrow = groups == 1 && self.taps.len() > 1 && self.channels <= 16;
        if self.narrow {
            self.runs = copy_runs(&self.classes, self.taps.len(), self.channels);
        }
        if groups == 1 && window.kernel == [3, 3] && window.stride == [1, 1] && window.dilation == [1, 1] {
            let pairs = self.taps.iter().map(Vec::len).sum();
            self.winograd = Winograd::plan(input, output, &window.padding, (self.channels, self.out), pairs);
        }
        self
    }

    /// Makes a transposed convolution from a linear layer: each row of the input is spread over a window of the output.
    pub(crate) fn spread(
        mut self,
        window: &Window,
        input: &[usize],
        output: &[usize],
        groups: usize,
    ) -> Self {
        self.transposed = true;
        let rows = (input.iter().product(), output.iter().product());
        self.through(reversed_pairs(&window_pairs(window, output, input)), rows, groups)
    }

    /// Replaces the rows of a linear layer by those that taps read and write.
    fn through(
        mut self,
        taps: Vec<Vec<RowPair>>,
        (rows_in, rows_out): (usize, usize),
        groups: usize,
    ) -> Self {
        (self.taps, self.rows_in, self.rows_out, self.groups) = (taps, rows_in, rows_out, groups);
        self.classes = RowClass::sort(&self.taps, self.rows_out);
        self.back = RowClass::sort(&reversed_pairs(&self.taps), self.rows_in);
        self.identity = (0..self.rows_out as u32).map(|row| RowPair { source: row, target: row }).collect();
        self.identity_rows = RowClass::sort(std::slice::from_ref(&self.identity), self.rows_out);
        let rows_in: Vec<RowPair> =
            (0..self.rows_in as u32).map(|row| RowPair { source: row, target: row }).collect();
        self.identity_rows_in = RowClass::sort(&[rows_in], self.rows_in);
        self.pair_runs = self.taps.iter().map(|pairs| pair_runs(pairs)).collect();
        self
    }

    /// The number of channels and of outputs of one group.
    fn group(&self) -> (usize, usize) {
        (self.channels / self.groups, self.out / self.groups)
    }

    /// The number of values of the weight.
    pub(crate) fn weight_len(&self) -> usize {
        self.out * self.channels / self.groups * self.taps.len()
    }

    /// Whether weight gradients are stored in the parameter's own order, `[out, channels]`, rather than as `[group, tap, channel, out]`.
    pub(crate) fn natural(&self) -> bool {
        self.taps.len() == 1 && self.standardise.is_none() && !self.transposed
    }

    /// The number of multiplications in one forward pass over one item.
    pub(crate) fn multiplications(&self) -> usize {
        let (channels, out) = self.group();
        self.groups * channels * out * self.taps.iter().map(Vec::len).sum::<usize>()
    }

    /// Gathers the taps of one item into rows, `[rows_out, tap, channel]`.
    fn gather(&self, x: &[f32], columns: &mut [f32]) {
        let mut rest = columns;
        for run in &self.runs {
            let (to, after) = rest.split_at_mut(run.len as usize);
            match run.source {
                Some(source) => to.copy_from_slice(&x[source as usize..][..to.len()]),
                None => to.fill(0.0),
            }
            rest = after;
        }
    }

    /// `y = x * w + b` for a range of items; `strides` are the distances between items of `x` and of `y`.
    fn multiply(
        &self,
        lanes: Lanes,
        prepared: &PreparedWeights,
        x: &[f32],
        y: &mut [f32],
        strides: (usize, usize),
        run: &mut ItemRun<'_>,
    ) {
        let len = self.rows_out * self.out;
        let (channels, out) = self.group();
        let items = run.items.len();
        if let Some(winograd) = &self.winograd {
            let pass = FilterPass {
                lanes,
                back: false,
                source: &x[run.items.start * strides.0..],
                source_item: strides.0,
                target_item: strides.1,
                items,
                weights: &prepared.forward,
                start: start(&prepared.bias, 0, out),
                relu: self.relu,
            };
            winograd.filter(&pass, &mut y[run.items.start * strides.1..], run.scratch, run.parallel);
            return;
        }
        if self.narrow {
            let width = self.taps.len() * self.channels;
            let start = start(&prepared.bias, 0, out);
            for item in run.items.clone() {
                self.gather(&x[item * strides.0..], run.scratch);
                let source =
                    RowSource { data: run.scratch, shape: RowShape { item: 0, row: width, column: 0 } };
                let right = Right::Packed(&prepared.forward);
                let classes = &self.identity_rows;
                let product =
                    Product { source, inner: width, right, taps: 1, columns: out, start, classes, items: 1 };
                let shape = RowShape { item: 0, row: self.out, column: 0 };
                product.run(&mut y[item * strides.1..][..len], shape, self.rows_out, run.parallel);
            }
        } else {
            let block = prepared.forward.len() / self.groups;
            for group in 0..self.groups {
                let shape = RowShape { item: strides.0, row: self.channels, column: group * channels };
                let source = RowSource { data: &x[run.items.start * strides.0..], shape };
                let right = Right::Packed(&prepared.forward[group * block..][..block]);
                let start = start(&prepared.bias, group, out);
                let (taps, classes) = (self.taps.len(), &self.classes);
                let product =
                    Product { source, inner: channels, right, taps, columns: out, start, classes, items };
                let shape = RowShape { item: strides.1, row: self.out, column: group * out };
                product.run(&mut y[run.items.start * strides.1..], shape, self.rows_out, run.parallel);
            }
        }
        if self.relu {
            for item in run.items.clone() {
                super::pointwise::relu(&mut y[item * strides.1..][..len]);
            }
        }
    }

    /// Writes the data gradient to `dx`, or adds it if `accumulate` is set.
    fn backward_data(
        &self,
        lanes: Lanes,
        prepared: &PreparedWeights,
        g: &[f32],
        dx: &mut [f32],
        strides: (usize, usize),
        accumulate: bool,
        run: &mut ItemRun<'_>,
    ) {
        let (channels, out) = self.group();
        if let Some(winograd) = &self.winograd {
            let pass = FilterPass {
                lanes,
                back: true,
                source: &g[run.items.start * strides.0..],
                source_item: strides.0,
                target_item: strides.1,
                items: run.items.len(),
                weights: &prepared.backward,
                start: if accumulate { StartValue::Existing } else { StartValue::Zero },
                relu: false,
            };
            winograd.filter(&pass, &mut dx[run.items.start * strides.1..], run.scratch, run.parallel);
            return;
        }
        let block = prepared.backward.len() / self.groups;
        for group in 0..self.groups {
            let shape = RowShape { item: strides.0, row: self.out, column: group * out };
            let source = RowSource { data: &g[run.items.start * strides.0..], shape };
            let right = Right::Packed(&prepared.backward[group * block..][..block]);
            let start = if accumulate { StartValue::Existing } else { StartValue::Zero };
            let (taps, classes, items) = (self.taps.len(), &self.back, run.items.len());
            let product =
                Product { source, inner: out, right, taps, columns: channels, start, classes, items };
            let shape = RowShape { item: strides.1, row: self.channels, column: group * channels };
            product.run(&mut dx[run.items.start * strides.1..], shape, self.rows_in, run.parallel);
        }
    }

    /// Adds the weight gradient of one item, in the stored order, to `sum`.
    fn item_weight_gradient(
        &self,
        x: &[f32],
        g: &[f32],
        sum: &mut [f32],
        scratch: &mut [f32],
        parallel: usize,
    ) {
        match &self.winograd {
            Some(winograd) => winograd.weight_gradient(x, g, sum, scratch, parallel),
            None => self.backward_weight(&[(x, g)], sum, scratch, parallel),
        }
    }

    /// Adds the weight gradient of some items, in the stored order, to `sum`.
    pub(crate) fn backward_weight(
        &self,
        items: &[(&[f32], &[f32])],
        sum: &mut [f32],
        scratch: &mut [f32],
        parallel: usize,
    ) {
        if self.narrow {
            let width = self.taps.len() * self.channels;
            let shape = OuterShape { left: (width, 0), right: (self.out, 0), first_row: 0, swapped: false };
            for (x, g) in items {
                self.gather(x, scratch);
                let pair = [(&*scratch, *g)];
                outer(
                    &pair,
                    &self.identity,
                    shape,
                    (width, self.out),
                    OuterTarget::Added(&mut *sum),
                    parallel,
                );
            }
            return;
        }
        self.for_blocks(|pairs, shape, size, range| {
            outer(items, pairs, shape, size, OuterTarget::Added(&mut sum[range]), parallel);
        });
    }

    /// Adds the clipped weight gradients of some samples, in the stored order, to a sum in whole numbers. It does not work for layers whose
    /// taps are gathered.
    ///
    /// # Guarantee
    /// Let `d` be the exact weight gradient of a sample, from which the mean of each column is taken off if the weight is standardised, and
    /// let `S` be the sum over its positions of the norm of what is read times the norm of the gradient. Then the sample adds
    /// `round(factor v)` with `|v - d| <= eta S`, where `eta` is [`Gemm::deferred_rounding`], because each value is one chain of fused
    /// additions over the positions that begins at zero.
    pub(crate) fn count_weight(&self, samples: &[Sample<'_>], sum: &mut [u32], parallel: usize) {
        self.for_blocks(|pairs, shape, size, range| {
            outer(&[], pairs, shape, size, OuterTarget::Counted { out: &mut sum[range], samples }, parallel);
        });
    }

    /// How far rounding in single precision moves a weight gradient that is never written down, as a share of `S`. Each of `n` fused
    /// additions rounds by 2^-24 of what has been added up so far, which makes `n 2^-24 / (1 - n 2^-24)` for all of them, and taking off a
    /// mean adds 2^-23.
    pub(crate) fn deferred_rounding(&self, views: usize) -> f64 {
        let chain = self.taps.iter().map(Vec::len).max().unwrap_or(0) * views;
        let share = chain as f64 / (1u64 << 24) as f64;
        share / (1.0 - share).max(0.5) + 1.0 / (1u64 << 23) as f64
    }

    /// Calls a function for every block of the stored weight gradient, which is one group and tap, with the tap's pairs, where the two sides
    /// lie, how many rows and columns the block has, and its place.
    fn for_blocks(&self, mut run: impl FnMut(&[RowPair], OuterShape, (usize, usize), Range<usize>)) {
        let (channels, out) = self.group();
        let size = channels * out;
        for group in 0..self.groups {
            for (tap, pairs) in self.taps.iter().enumerate() {
                let start = (group * self.taps.len() + tap) * size;
                let x = (self.channels, group * channels);
                let g = (self.out, group * out);
                let natural = self.natural();
                let (left, right) = if natural { (g, x) } else { (x, g) };
                let shape = OuterShape { left, right, first_row: 0, swapped: natural };
                run(
                    pairs,
                    shape,
                    if natural { (out, channels) } else { (channels, out) },
                    start..start + size,
                );
            }
        }
    }
}

/// What a kernel call works on: a range of items, scratch memory, and the number of threads it may use inside an item.
struct ItemRun<'a> {
    items: Range<usize>,
    scratch: &'a mut [f32],
    parallel: usize,
}

/// The value that the output starts from, which is the bias of a group or zero.
fn start(bias: &[f32], group: usize, out: usize) -> StartValue<'_> {
    if bias.is_empty() { StartValue::Zero } else { StartValue::Bias(&bias[group * out..][..out]) }
}
