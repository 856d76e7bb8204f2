//! How a graph's output is judged.

/// How the output of a graph is compared with a target. A loss is always the mean over the positions or values of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Cross-entropy of the logits with a class or with class probabilities. Logits are `[classes]`, or `[classes, ..]` with one class
    /// for each position; positions labelled [`IGNORED`] do not count.
    CrossEntropy {
        /// Share of the target's mass that is spread evenly over all classes.
        label_smoothing: f32,
    },
    /// The mean squared error.
    SquaredError,
}

/// The class that marks a position without a label.
pub const IGNORED: u32 = u32::MAX;
