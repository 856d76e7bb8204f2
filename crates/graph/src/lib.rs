//! Models as data: nodes, shapes, named parameters, the model zoo, weights files.
//!
//! A [`Graph`] describes what happens to *one sample*; there is no batch axis, and nothing in a checked graph can mix examples.
//!
//! ```
//! use dapple_graph::{Parameters, zoo};
//!
//! let graph = zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, zoo::Norm::Group(32))?;
//! assert_eq!(graph.output_shape(), [10]);
//! assert!(graph.find_parameter("layer4.1.conv2.weight").is_some());
//! let parameters = Parameters::init(&graph, 1);
//! assert!(parameters.fit(&graph));
//! # Ok::<(), dapple_graph::GraphError>(())
//! ```

mod builder;
mod cells;
mod error;
mod graph;
mod halves;
mod head_dropout;
mod init;
mod loss;
pub mod op;
pub mod plan;
mod print;
mod products;
mod split;
mod submodel;
pub mod tune;
mod validate;
pub mod weights;
pub mod zoo;

pub use builder::{ConvSpec, GraphBuilder, LinearNames};
pub use error::GraphError;
pub use graph::{Auxiliary, Graph, Node, NodeId, Parameter, ParameterId};
pub use halves::Halves;
pub use init::{Init, Parameters};
pub use loss::{IGNORED, Loss};
pub use op::{Affine, Op, Window};
pub use split::{DropoutSplit, DropoutUnits, SplitParameter, UnitLayer};
