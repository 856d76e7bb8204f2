//! Convolutions of tokens.

use super::shape::elements;
use super::{GraphOperation, Window};
use crate::graph::{Parameter, ParameterId};

/// Depthwise convolution over the grid that tokens lie in, with one bank of filters for all heads:
/// `[1 + positions, features] -> [1 + new positions, features]`. The first token has no position and is copied as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenConv {
    /// Frames, rows and columns of the grid.
    pub grid: [usize; 3],
    /// The sliding window over them.
    pub window: Window,
    /// The number of heads. Their features lie side by side, and feature `i` of every head uses the same filter.
    pub heads: usize,
    /// `[features / heads, 1, kernel..]`.
    pub weight: ParameterId,
}

impl TokenConv {
    /// The shape of the weight that convolves this input.
    pub(crate) fn weight_shape(window: &Window, heads: usize, input: &[usize]) -> Result<Vec<usize>, String> {
        match *input {
            [_, features] if heads > 0 && features.is_multiple_of(heads) => {
                Ok([features / heads, 1].into_iter().chain(window.kernel.iter().copied()).collect())
            }
            _ => Err(format!("{input:?} is not made of tokens with features of {heads} heads")),
        }
    }
}

impl GraphOperation for TokenConv {
    fn name(&self) -> &'static str {
        "TokenConv"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        vec![self.weight]
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let wanted = Self::weight_shape(&self.window, self.heads, inputs[0])?;
        let (weight, grid, features) = (&parameters[self.weight.index()].shape, self.grid, inputs[0][1]);
        if *weight != wanted {
            return Err(format!("a weight of shape {weight:?} is not of {wanted:?}"));
        }
        if grid.contains(&0) || elements(&grid) != Some(inputs[0][0] - 1) {
            return Err(format!("{} tokens are not one and a grid of {grid:?}", inputs[0][0]));
        }
        let output = self.window.shape(&[features, grid[0], grid[1], grid[2]], features)?;
        Ok(vec![1 + output[1..].iter().product::<usize>(), features])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, Init};

    #[test]
    fn tokens_are_one_and_a_grid() {
        let mut builder = GraphBuilder::new(&[1 + 2 * 4 * 6, 8]);
        let weight = builder.parameter("weight", &[4, 1, 3, 3, 3], Init::Constant(0.0), false).unwrap();
        let window = Window { stride: vec![1, 2, 2], ..Window::new(3, 3).padding(1) };
        for (grid, heads, kernel, shape) in [
            ([2, 4, 6], 2, 3, Some([1 + 2 * 2 * 3, 8])),
            ([2, 6, 4], 2, 3, Some([1 + 2 * 3 * 2, 8])),
            ([2, 4, 5], 2, 3, None),
            ([2, 4, 6], 4, 3, None),
            ([2, 4, 6], 3, 3, None),
            ([2, 4, 6], 0, 3, None),
            ([2, 4, 6], 2, 2, None),
            ([usize::MAX, 4, 6], 2, 3, None),
        ] {
            let window = Window { kernel: vec![kernel; 3], ..window.clone() };
            let conv = TokenConv { grid, window, heads, weight };
            let made = builder.add(&format!("{grid:?} {heads} {kernel}"), conv, &[builder.input()]);
            assert_eq!(made.ok().map(|id| builder.shape(id).to_vec()), shape.map(Vec::from), "{grid:?}");
        }
    }
}
