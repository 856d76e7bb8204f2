//! What the loader hands to the trainer.

/// Records of a step, ready for the model: all of them, or one microbatch.
///
/// A *sample* is what is clipped at once: a record with its views, or a group of records that are clipped together.
#[derive(Debug, Clone, PartialEq)]
pub struct Microbatch {
    /// The step, counted from 0; always 0 in evaluation.
    pub step: u64,
    /// The phase of the plan that the step belongs to.
    pub phase: usize,
    /// Which records these are: `[samples, together]`.
    pub records: Vec<usize>,
    /// Records of each sample; 1 unless several are clipped together.
    pub together: usize,
    /// What the model is to say.
    pub labels: Labels,
    /// `[samples, views, channels, height, width]`.
    pub inputs: Vec<f32>,
    /// Views of each sample.
    pub views: usize,
    /// The submodel that all records of the microbatch update; `None` for the whole model. It is a secret of the run, like the records.
    pub submodel: Option<usize>,
    /// The user whose records these are, in the order in which its steps go through them; `None` if records are drawn by themselves.
    pub user: Option<usize>,
    /// How many records of the step came in earlier microbatches.
    pub first: usize,
    /// Records of the step that are shown here; 0 for an empty Poisson batch, which comes as one microbatch without records.
    pub total: usize,
    /// Records or users that the step drew. They are more than are shown here if several processes share it.
    pub drawn: usize,
}

impl Microbatch {
    /// Whether this is the last microbatch of its step that is shown here.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.first + self.records.len() == self.total
    }
}

/// What the model is to say about each view.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// One class for each view, `[samples, views]`, or for label maps `[samples, views, height, width]`, where
    /// [`IGNORED`](crate::IGNORED) marks a position without a class.
    Classes(Vec<u32>),
    /// The probability of each class for each view, `[samples, views, classes]`, where views of two classes are mixed.
    Probabilities(Vec<f32>),
}

impl Labels {
    /// The classes, if views have one each.
    #[must_use]
    pub fn classes(&self) -> Option<&[u32]> {
        match self {
            Self::Classes(classes) => Some(classes),
            Self::Probabilities(_) => None,
        }
    }
}

impl From<Vec<u32>> for Labels {
    fn from(classes: Vec<u32>) -> Self {
        Self::Classes(classes)
    }
}

impl From<Vec<f32>> for Labels {
    fn from(probabilities: Vec<f32>) -> Self {
        Self::Probabilities(probabilities)
    }
}
