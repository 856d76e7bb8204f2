//! Why an executor cannot do what it is asked to.

/// A batch, a set of parameters, a clipping rule or a sum that an executor cannot use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A slice has the wrong length.
    #[error("{what}: expected {expected} values, found {found}")]
    Length {
        /// What the slice holds.
        what: String,
        /// Values needed.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The parameters belong to another graph.
    #[error("the parameters do not belong to this graph")]
    Parameters,
    /// A batch belongs to a submodel that the executor does not have.
    #[error("there is no submodel {submodel}; the executor has {submodels}")]
    Submodel {
        /// The number of the submodel, from 0.
        submodel: usize,
        /// How many there are.
        submodels: usize,
    },
    /// The targets are of a kind the loss cannot use.
    #[error("the loss takes {expected}, not {found}")]
    Targets {
        /// The kind the loss takes.
        expected: &'static str,
        /// The kind that was given.
        found: &'static str,
    },
    /// A class that does not exist.
    #[error("sample {sample}: class {class} is not below {classes}")]
    Class {
        /// Index of the sample in the batch.
        sample: usize,
        /// The class.
        class: u32,
        /// Number of classes.
        classes: usize,
    },
    /// A value that is infinite or not a number.
    #[error("{place}: sample {sample} has a value that is not finite")]
    NotFinite {
        /// Name of the node or parameter.
        place: String,
        /// Index of the sample in the batch.
        sample: usize,
    },
    /// Masks of dropout layers were given to a submodel.
    #[error("masks of dropout layers are applied to whole models alone")]
    Masks,
    /// A clipping rule that does not fit the model.
    #[error("clipping: {0}")]
    Clipping(String),
    /// More samples than a sum can hold, or another clipping rule than the sum began with.
    #[error("a sum holds {capacity} samples by one clipping rule; this batch does not fit it")]
    Sum {
        /// The number of samples that it can hold.
        capacity: usize,
    },
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

impl EngineError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Parameters => Some("make them with Parameters::init or weights::load for the same graph"),
            Self::NotFinite { .. } => {
                Some("check the inputs, and whether training has diverged: lower the learning rate")
            }
            Self::Masks => Some("leave the submodel or the masks out"),
            Self::Targets { .. } => Some("choose the loss with Graph::with_loss"),
            _ => None,
        }
    }
}
