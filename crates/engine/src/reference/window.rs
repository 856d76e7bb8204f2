//! Windows over positions, and linear maps between positions.

use dapple_graph::Window;

use super::Tensor;

/// All index tuples of a shape, in row-major order.
pub(super) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product()).map(|mut flat: usize| {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        index
    })
}

/// Where an index lies in a row-major tensor.
pub(crate) fn flat(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |sum, (size, i)| sum * size + i)
}

/// For every output position, the taps that fall inside the input, as flat indices `(output, tap, input)`.
pub(crate) fn taps(window: &Window, input: &[usize], output: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut list = Vec::new();
    for position in indices(output) {
        for tap in indices(&window.kernel) {
            let place: Option<Vec<usize>> = (0..input.len())
                .map(|axis| {
                    let padded = position[axis] * window.stride[axis] + tap[axis] * window.dilation[axis];
                    padded.checked_sub(window.padding[axis]).filter(|&i| i < input[axis])
                })
                .collect();
            if let Some(place) = place {
                list.push((flat(output, &position), flat(&window.kernel, &tap), flat(input, &place)));
            }
        }
    }
    list
}

/// A linear map between positions, the same for every channel, as a list of `(output, input, weight)`.
pub(crate) struct ResamplingMap(Vec<(usize, usize, f64)>);

impl ResamplingMap {
    /// The product of one map for each axis, for which `axis(from, to, position)` lists the places that a position reads, with their
    /// weights.
    pub(crate) fn new(
        input: &[usize],
        output: &[usize],
        axis: impl Fn(usize, usize, usize) -> Vec<(usize, f64)>,
    ) -> Self {
        let (input, output) = (&input[1..], &output[1..]);
        let mut list = Vec::new();
        for position in indices(output) {
            let mut terms = vec![(0, 1.0)];
            for a in 0..input.len() {
                let weights = axis(input[a], output[a], position[a]);
                terms = terms
                    .iter()
                    .flat_map(|&(place, w)| weights.iter().map(move |&(i, v)| (place * input[a] + i, w * v)))
                    .collect();
            }
            list.extend(terms.into_iter().map(|(place, weight)| (flat(output, &position), place, weight)));
        }
        Self(list)
    }

    pub(crate) fn forward(&self, x: &Tensor, y: &mut Tensor) {
        let (inside, outside) = (x.positions(), y.positions());
        for &(position, place, weight) in &self.0 {
            for c in 0..x.shape[0] {
                y.data[c * outside + position] += weight * x.data[c * inside + place];
            }
        }
    }

    pub(crate) fn backward(&self, g: &Tensor, dx: &mut Tensor) {
        let (inside, outside) = (dx.positions(), g.positions());
        for &(position, place, weight) in &self.0 {
            for c in 0..g.shape[0] {
                dx.data[c * inside + place] += weight * g.data[c * outside + position];
            }
        }
    }
}
