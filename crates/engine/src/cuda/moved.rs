//! Copies boxes of values from one tensor to another, for concatenations, slices and permutations.

use super::backward::CardParameterGradients;
use super::error::CudaError;
use super::kernels::{MoveFour, MoveValues};
use super::lower::CardSteps;
use super::operation::CudaKernel;
use super::run::CardRun;
use super::slice::DeviceSlice;

/// The distances between neighbours along the axes of a tensor.
fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

/// A tensor as a box sees it: the distances along the box's axes, how many values an item has, and where the box begins in it.
#[derive(Clone, Copy)]
struct Strided<'s> {
    strides: &'s [usize],
    len: usize,
    start: usize,
}

/// A box of values that is copied from one tensor to another.
#[derive(Debug, Clone, Copy)]
struct MovedBox {
    /// The tables for the way there and for the way back.
    table: usize,
    back: usize,
    /// How many values the box has, and whether they are copied four at a time.
    len: usize,
    fours: bool,
    /// The first element of the box in the input and in the output.
    from: usize,
    to: usize,
}

/// An axis of a box: its size, and its distance in each of the two tensors.
type BoxAxis = [usize; 3];

/// The axes of a box. Neighbouring axes that form one run in both tensors are joined.
fn axes(size: &[usize], from: &[usize], to: &[usize]) -> Vec<BoxAxis> {
    let mut axes: Vec<BoxAxis> = Vec::new();
    for (&size, (&from, &to)) in size.iter().zip(from.iter().zip(to)).filter(|(size, _)| **size != 1) {
        match axes.last_mut() {
            Some(last) if last[1] == size * from && last[2] == size * to => {
                *last = [last[0] * size, from, to]
            }
            _ => axes.push([size, from, to]),
        }
    }
    axes
}

impl MovedBox {
    /// A box of this size that is copied between two tensors.
    fn new(steps: &mut CardSteps, size: &[usize], from: Strided<'_>, to: Strided<'_>) -> Self {
        let mut axes = axes(size, from.strides, to.strides);
        let four = |value: &usize| value.is_multiple_of(4);
        let fours = match axes.split_last() {
            Some(([size, 1, 1], rest)) => {
                four(size)
                    && rest.iter().all(|[_, from, to]| four(from) && four(to))
                    && [from.len, from.start, to.len, to.start].iter().all(four)
            }
            _ => false,
        };
        if fours {
            let last = axes.len() - 1;
            axes[last][0] /= 4;
            axes[..last].iter_mut().for_each(|[_, from, to]| (*from, *to) = (*from / 4, *to / 4));
        }
        let table = |target: usize, source: usize| -> Vec<i32> {
            let rows = axes.iter().flat_map(|axis| [axis[0], axis[target], axis[source]]);
            std::iter::once(axes.len()).chain(rows).map(|value| value as i32).collect()
        };
        let (table, back) = (steps.table(table(2, 1)), steps.table(table(1, 2)));
        Self { table, back, len: size.iter().product(), fours, from: from.start, to: to.start }
    }

    /// Copies the box of every item. Each tensor is given with how many values an item has and where the box begins in it.
    fn launch(
        &self,
        run: &CardRun<'_>,
        table: usize,
        (x, x_item, x_start): (DeviceSlice<'_, f32>, usize, usize),
        (y, y_item, y_start): (DeviceSlice<'_, f32>, usize, usize),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let (table, len) = (run.table(table), self.len);
        if !self.fours {
            let n = run.items() * len;
            let moved = MoveValues { x, y, table, x_item, y_item, x_start, y_start, len, n, accumulate };
            // SAFETY: the tables were made from the shapes of both tensors, in which the box lies.
            return unsafe { moved.launch(run.device) };
        }
        let moved = MoveFour {
            x: x.cast(),
            y: y.cast(),
            table,
            x_item: x_item / 4,
            y_item: y_item / 4,
            x_start: x_start / 4,
            y_start: y_start / 4,
            len: len / 4,
            n: run.items() * len / 4,
            accumulate,
        };
        // SAFETY: as above, and four divides all sizes.
        unsafe { moved.launch(run.device) }
    }
}

/// One box for each input.
#[derive(Debug)]
pub(crate) struct Moved(Vec<MovedBox>);

impl Moved {
    /// Joins several tensors along an axis, one after the other.
    pub(crate) fn concatenated(
        steps: &mut CardSteps,
        axis: usize,
        inputs: &[&[usize]],
        shape: &[usize],
    ) -> Self {
        let to = strides(shape);
        let mut first = 0;
        let each = inputs.iter().map(|input| {
            let from = Strided { strides: &strides(input), len: input.iter().product(), start: 0 };
            let target = Strided { strides: &to, len: shape.iter().product(), start: first * to[axis] };
            first += input[axis];
            MovedBox::new(steps, input, from, target)
        });
        Self(each.collect())
    }

    /// Takes a part of a tensor along an axis, from `start` on.
    pub(crate) fn sliced(
        steps: &mut CardSteps,
        (axis, start): (usize, usize),
        input: &[usize],
        shape: &[usize],
    ) -> Self {
        let (from, to) = (strides(input), strides(shape));
        let source = Strided { strides: &from, len: input.iter().product(), start: start * from[axis] };
        let target = Strided { strides: &to, len: shape.iter().product(), start: 0 };
        Self(vec![MovedBox::new(steps, shape, source, target)])
    }

    /// Reorders the axes of a tensor.
    pub(crate) fn permuted(steps: &mut CardSteps, axes: &[usize], input: &[usize], shape: &[usize]) -> Self {
        let (from, to) = (strides(input), strides(shape));
        let from: Vec<usize> = axes.iter().map(|&axis| from[axis]).collect();
        let target = Strided { strides: &to, len: shape.iter().product(), start: 0 };
        Self(vec![MovedBox::new(steps, shape, Strided { strides: &from, ..target }, target)])
    }
}

impl CudaKernel for Moved {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        for (slot, moved) in self.0.iter().enumerate() {
            let from = (run.read(node, slot), run.input_len(node, slot), moved.from);
            let to = (run.value(node), run.len(node), moved.to);
            moved.launch(run, moved.table, from, to, false)?;
        }
        Ok(())
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        for (slot, moved) in self.0.iter().enumerate() {
            let Some(target) = run.target(node, slot) else { continue };
            let len = run.input_len(node, slot);
            if !target.accumulate && moved.len < len {
                run.device.clear(target.values.first(run.items() * len))?;
            }
            let from = (run.gradient(node), run.len(node), moved.to);
            moved.launch(run, moved.back, from, (target.values, len, moved.from), target.accumulate)?;
        }
        Ok(())
    }
}
