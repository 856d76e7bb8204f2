//! How a graph's output is judged.

/// How the output of a graph is compared with a target; always the mean over what one sample holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Cross-entropy of the logits with a class or with class probabilities. Logits are `[classes]`, or `[classes, ..]` with a class
    /// per position; positions that hold [`IGNORED`] do not count.
    CrossEntropy {
        /// Share of the target's mass that is spread evenly over all classes.
        label_smoothing: f32,
    },
    /// Mean squared error.
    SquaredError,
}

/// The class that marks a position without a label.
pub const IGNORED: u32 = u32::MAX;
