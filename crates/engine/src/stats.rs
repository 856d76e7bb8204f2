//! What a step reports about its samples.

/// Losses and gradient norms of a batch, one for each sample. No noise protects them: do not show them to anyone against whom the guarantee
/// is meant to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepStats {
    /// The loss of each sample, which is the mean over its views.
    pub losses: Vec<f32>,
    /// The norm of each sample's gradient before clipping, as an upper bound that is only a little too large. If clipping is off, no executor
    /// but the reference computes it, and it is zero.
    pub norms: Vec<f32>,
    /// How many samples had a gradient that was not finite. They added nothing to the sum.
    pub not_finite: usize,
    /// The number of samples whose gradient was within the bound, so that clipping left it as it was.
    pub unclipped: usize,
}

impl StepStats {
    /// Appends what another part of the same step reports.
    pub fn join(&mut self, part: Self) {
        self.losses.extend(part.losses);
        self.norms.extend(part.norms);
        self.not_finite += part.not_finite;
        self.unclipped += part.unclipped;
    }
}
