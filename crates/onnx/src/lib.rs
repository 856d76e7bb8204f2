//! Writes a graph with its parameters as an ONNX file.
//!
//! The file asks the questions that [`Graph`] answers, for any number of samples at once: the first axis of its input and of its output is the
//! batch. Dropout is left out, and weights that the model standardises are stored standardised.
//!
//! ```
//! use dapple_graph::{Parameters, zoo};
//!
//! let graph = zoo::small_cnn(&[1, 28, 28], 10)?;
//! let parameters = Parameters::init(&graph, 1);
//! let mut file = Vec::new();
//! dapple_onnx::write(&graph, &parameters, &[("classes", "0 to 9")], &mut file)?;
//! assert!(file.len() > 4 * parameters.values().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod file;
mod node;
mod op;

use std::io::{self, Write};

use dapple_graph::{Graph, Parameters};
use thiserror::Error;

use file::OnnxFile;
use node::WrittenNode;

/// The version of the operators: the first in which `Resize` resizes some axes to a size, and leaves the batch alone. It is from 2023, and
/// nothing that came later is needed.
pub const OPERATORS: i64 = 18;
/// The version of the file format that came with these operators.
const FORMAT: i64 = 8;
/// The largest message of protocol buffers.
const LARGEST: u64 = (1 << 31) - 1;

/// Why no file was written.
#[derive(Debug, Error)]
pub enum OnnxError {
    /// The parameters are not those of the graph.
    #[error("the parameters do not belong to the model")]
    Parameters,
    /// One file cannot hold the model.
    #[error("the file would have {0} bytes, and ONNX holds at most 2147483647 in one file")]
    TooLarge(u64),
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes a model. Its input is called `input`, its output `output`, and its weights have the names that they have in the graph. Notes are
/// stored beside it as pairs of a key and a text.
///
/// # Errors
/// Parameters of another model, a model that does not fit into one file, and what the writer says.
pub fn write(
    graph: &Graph,
    parameters: &Parameters,
    notes: &[(&str, &str)],
    out: &mut impl Write,
) -> Result<(), OnnxError> {
    if !parameters.fit(graph) {
        return Err(OnnxError::Parameters);
    }
    let mut file = OnnxFile::new(graph, parameters);
    let reached = graph.reached(false);
    let mut values = vec![String::new(); graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| reached[*index]) {
        let inputs = node.inputs.iter().map(|input| values[input.index()].as_str()).collect();
        let shapes = node.inputs.iter().map(|input| graph.node(*input).shape.as_slice()).collect();
        let written = WrittenNode { name: &node.name, inputs, shapes, shape: &node.shape };
        let value = op::of(&node.op).write(&written, &mut file);
        values[index] = value;
    }
    let message = file.finish(&values[graph.output().index()], notes);
    match message.length() {
        length if length > LARGEST => Err(OnnxError::TooLarge(length)),
        _ => Ok(message.write(out)?),
    }
}
