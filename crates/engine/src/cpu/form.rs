//! How a value lies in memory, and copies between forms.

/// The shape of one item's value, and its order in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) shape: Vec<usize>,
    /// Whether the first axis, the channels, is stored last.
    pub(crate) channels_last: bool,
}

impl Form {
    pub(crate) fn row_major(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), channels_last: false }
    }

    pub(crate) fn channels_last(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), channels_last: shape.len() > 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of positions and of channels of a channels-last value. A vector has one position.
    pub(crate) fn positions(&self) -> (usize, usize) {
        (self.shape[1..].iter().product(), self.shape[0])
    }

    /// The number of rows and of features of a row-major value.
    pub(crate) fn rows(&self) -> (usize, usize) {
        let features = self.shape[self.shape.len() - 1];
        (self.len() / features, features)
    }

    /// The distance between neighbours along each axis.
    pub(crate) fn strides(&self) -> Vec<usize> {
        let shape = &self.shape;
        let after = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        match self.channels_last {
            false => (0..shape.len()).map(after).collect(),
            true => (0..shape.len()).map(|axis| if axis == 0 { 1 } else { after(axis) * shape[0] }).collect(),
        }
    }
}

/// A block of values to move: for every index of `shape`, `to[target] = from[source]` at the given offsets and strides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    shape: Vec<usize>,
    source: (usize, Vec<usize>),
    target: (usize, Vec<usize>),
}

impl Transfer {
    pub(crate) fn new(shape: &[usize], source: (usize, Vec<usize>), target: (usize, Vec<usize>)) -> Self {
        // The axis with the shortest target step goes innermost, so that writes go through memory in order.
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse((target.1[axis], source.1[axis])));
        let pick = |values: &[usize]| -> Vec<usize> { axes.iter().map(|&axis| values[axis]).collect() };
        Self { shape: pick(shape), source: (source.0, pick(&source.1)), target: (target.0, pick(&target.1)) }
    }

    /// The transfer of a whole value from one form into another.
    pub(crate) fn whole(from: &Form, to: &Form) -> Self {
        Self::new(&to.shape, (0, from.strides()), (0, to.strides()))
    }

    /// Copies the source's values over the target's.
    pub(crate) fn copy(&self, from: &[f32], to: &mut [f32]) {
        self.each_run(|s, ds, t, dt, n| {
            if ds == 1 && dt == 1 {
                to[t..t + n].copy_from_slice(&from[s..s + n]);
            } else {
                for i in 0..n {
                    to[t + i * dt] = from[s + i * ds];
                }
            }
        });
    }

    /// Adds the target's gradient to the source's.
    pub(crate) fn add_back(&self, target: &[f32], source: &mut [f32]) {
        self.each_run(|s, ds, t, dt, n| {
            for i in 0..n {
                source[s + i * ds] += target[t + i * dt];
            }
        });
    }

    /// Calls `run(source, source step, target, target step, count)` for every innermost run.
    fn each_run(&self, mut run: impl FnMut(usize, usize, usize, usize, usize)) {
        let (source, target) = (&self.source, &self.target);
        walk(&self.shape, source.0, &source.1, target.0, &target.1, &mut run);
    }
}

/// Goes through all axes but the innermost, for [`Transfer::each_run`].
fn walk(
    shape: &[usize],
    source: usize,
    source_strides: &[usize],
    target: usize,
    target_strides: &[usize],
    run: &mut impl FnMut(usize, usize, usize, usize, usize),
) {
    match shape {
        [] => run(source, 1, target, 1, 1),
        [count] => run(source, source_strides[0], target, target_strides[0], *count),
        [count, rest @ ..] => {
            for i in 0..*count {
                walk(
                    rest,
                    source + i * source_strides[0],
                    &source_strides[1..],
                    target + i * target_strides[0],
                    &target_strides[1..],
                    run,
                );
            }
        }
    }
}
