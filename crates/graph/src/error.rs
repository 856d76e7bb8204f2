//! What can be wrong with a graph, its parameters, or a weights file.

use crate::weights::Mismatch;

/// A graph, a set of parameters, or a weights file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// An operation cannot take the shapes it is given.
    #[error("{node} ({op}): {reason}")]
    Shape {
        /// Name of the node.
        node: String,
        /// Name of the operation.
        op: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// An operation would let one example influence the result for another.
    #[error("{node} ({op}) mixes examples")]
    MixesExamples {
        /// Name of the node.
        node: String,
        /// Name of the operation.
        op: &'static str,
    },
    /// Two nodes read one parameter.
    #[error("{first} and {second} both read the parameter {parameter}")]
    SharedParameter {
        /// Name of the parameter.
        parameter: String,
        /// Name of the node that reads it first.
        first: String,
        /// Name of the other node.
        second: String,
    },
    /// Two nodes or two parameters have the same name.
    #[error("the name {0:?} is used twice")]
    DuplicateName(String),
    /// Something that is not part of this graph: a node, a parameter, a backbone.
    #[error("{0} is not part of this graph")]
    Unknown(String),
    /// The model is to have the names of a library that does not offer it.
    #[error("{library} has no {model}")]
    Names {
        /// Name of the model.
        model: &'static str,
        /// Name of the library.
        library: &'static str,
    },
    /// The model does not have the part that is to train.
    #[error("{0}")]
    Tuning(String),
    /// A block that the model does not have, or that cannot be left out of it.
    #[error("{block}: {reason}")]
    Block {
        /// The name of the block, or a range of names.
        block: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The output does not suit the loss.
    #[error("the output {shape:?} does not suit {loss}")]
    Loss {
        /// Shape of the output.
        shape: Vec<usize>,
        /// The loss.
        loss: &'static str,
    },
    /// The names or shapes of a weights file do not match the graph.
    #[error("the weights do not match the model: {0}")]
    Weights(Mismatch),
    /// A weights file that cannot be read as safetensors.
    #[error("the weights cannot be read: {0}")]
    Format(String),
    /// A weights file that cannot be opened or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl GraphError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::MixesExamples { op: "BatchNorm", .. } => Some(
                "use group norm, or freeze the batch norm, or remove it (Norm::Group, Norm::Frozen, Norm::Removed)"
                    .into(),
            ),
            Self::SharedParameter { second, .. } => {
                Some(format!("give {second} a parameter of its own: a gradient is kept for one reader alone"))
            }
            Self::DuplicateName(_) => Some("give every node and parameter a name of its own".into()),
            Self::Names { model, .. } => {
                Some(format!("give a file with a {model} under the names of timm or torchvision"))
            }
            Self::Weights(_) => Some(
                "check the architecture, the number of classes and the norm; a .pth file must be converted first (docs/engine.md)".into(),
            ),
            Self::Format(_) => Some("the file must be .safetensors; convert a .pth file first (docs/engine.md)".into()),
            Self::File { .. } => {
                Some("check the path and who may read it; paths of a plan begin in the plan's folder".into())
            }
            _ => None,
        }
    }
}
