//! Runs a graph: forward, and the clipped sum of per-sample gradients.
//!
//! ```
//! use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Targets};
//! use dapple_graph::{Parameters, zoo};
//!
//! let graph = zoo::small_cnn(&[1, 28, 28], 10)?;
//! let parameters = Parameters::init(&graph, 1);
//! let mut executor = CpuExecutor::new(&graph, CpuOptions::default())?;
//! let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, executor.layout())?;
//! let mut sum = executor.gradient_sum();
//!
//! let inputs = vec![0.5; 2 * 28 * 28];
//! let batch = Batch::new(&inputs, Targets::Classes(&[3, 7]));
//! let mut loaded = executor.load(&parameters)?;
//! let stats = loaded.clipped_sum(&batch, &rule, &mut sum)?;
//! let gradient = loaded.gradient(sum)?;
//!
//! assert_eq!(stats.losses.len(), 2);
//! let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
//! assert!(norm <= 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`CpuExecutor`] is the one to use; [`reference::ReferenceExecutor`] is slow and obvious, and the others are tested against it.

mod batch;
mod clipping;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod layout;
mod loss;
mod op;
pub mod reference;
mod stats;
mod update;

pub use batch::{Batch, DropoutSource, Targets, UnitMasks};
pub use clipping::{Clipping, ClippingRule};
pub use cpu::{
    ClippedVector, CpuExecutor, CpuOptions, GradientSum, JointNumbers, Loaded, Total, VectorSum, arrangement,
    sample_bytes,
};
pub use error::EngineError;
pub use layout::{Layout, LayoutEntry};
pub use stats::StepStats;
pub use update::{UpdateNumbers, UpdateRule};
