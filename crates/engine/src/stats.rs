//! What a step reports about its samples.

/// Losses and gradient norms of a batch, one per sample. They are not private: show them to nobody whom the guarantee protects against.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepStats {
    /// Loss of each sample, the mean over its views.
    pub losses: Vec<f32>,
    /// Norm of each sample's gradient before clipping, rounded up by a little where it is not written down; zero where clipping is off.
    pub norms: Vec<f32>,
    /// Samples whose gradient was not finite. They added nothing.
    pub not_finite: usize,
    /// Samples whose gradient clipping left as it was.
    pub unclipped: usize,
}

impl StepStats {
    /// Takes in what another part of the same step reports.
    pub fn join(&mut self, part: Self) {
        self.losses.extend(part.losses);
        self.norms.extend(part.norms);
        self.not_finite += part.not_finite;
        self.unclipped += part.unclipped;
    }
}
