//! Layer normalisation: every row of features is normalised by its own mean and variance, or, as RMS norm, by its mean square.
//!
//! A row is a token, a whole image, or the channels of a position. The mean and one over the deviation of every row are kept for the backward
//! pass.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

use dapple_graph::op::NormAxes;

/// How the values of a sample are divided into rows, each of which is normalised by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NormRows {
    rows: usize,
    features: usize,
    /// The distance from one feature of a row to the next, in the row-major order of values.
    apart: usize,
}

impl NormRows {
    fn new(over: NormAxes, shape: &[usize]) -> Self {
        let (features, apart) = match over {
            NormAxes::Last(count) => (shape[shape.len() - count..].iter().product(), 1),
            NormAxes::Channels => (shape[0], shape[1..].iter().product()),
        };
        Self { rows: shape.iter().product::<usize>() / features, features, apart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_what_is_normalised_together() {
        let rows = |over| NormRows::new(over, &[6, 4, 5]);
        assert_eq!(rows(NormAxes::Last(1)), NormRows { rows: 24, features: 5, apart: 1 });
        assert_eq!(rows(NormAxes::Last(3)), NormRows { rows: 1, features: 120, apart: 1 });
        assert_eq!(rows(NormAxes::Channels), NormRows { rows: 20, features: 6, apart: 20 });
    }
}
