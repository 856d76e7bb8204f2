//! The private step: everything between the records that were drawn and the parameters that may be released.
//!
//! 1. An [`Executor`] adds up the clipped gradients of the records drawn. Each depends on its own record alone, has a norm that the
//!    [`ClippingRule`](dapple_engine::ClippingRule) bounds, and consists of whole numbers, so that the sum is exact.
//! 2. [`Noise`] is added to the sum, on a lattice that depends on the plan alone.
//! 3. The noisy sum is divided by the *expected* batch, never by the number drawn.
//! 4. The [`Optimiser`] moves the parameters. From here on everything is post-processing.
//!
//! Several processes may take a step together ([`Peers`]): their sums become one before the noise, which all of them add alike.
//!
//! Where whole users are protected, a contribution is what a user trained on its own records ([`UserProcessor`]) or sent from elsewhere
//! ([`UpdateSum`]), clipped and added in the same way.
//!
//! Sums of successive steps may be released together ([`CorrelatedSums`]), so that the noise of different steps cancels.
//!
//! Where gradients are scaled before they are clipped ([`GradientScales`]), the scales follow from what earlier steps released.
//!
//! If the clip norm follows a quantile ([`AdaptiveClip`]), the number of records within it is released beside the sum, with noise of its own,
//! and moves the clip norm of the next step.
//!
//! [`private_step`] does all of this in order, on the processor ([`Processor`]) and on GPUs (`Cards`) alike, and [`masked_step`] does where
//! only a part of each record is private; nothing else in the workspace turns records into parameters. Which records are drawn, and how often, is not decided here: the plan says so, and the accountant
//! prices it.

#![forbid(unsafe_code)]

mod adaptive;
#[cfg(feature = "cuda")]
mod cards;
mod correlated;
mod error;
mod executor;
#[cfg(any(test, feature = "cuda"))]
mod joined;
mod learned;
mod masked;
mod masks;
mod noise;
mod optimiser;
mod parallel;
mod peers;
mod processor;
mod scales;
mod step;
mod updates;
mod users;

pub use adaptive::AdaptiveClip;
#[cfg(feature = "cuda")]
pub use cards::{Cards, PeerCards, failed};
pub use correlated::CorrelatedSums;
pub use error::StepError;
pub use executor::{Executor, Forward, Microbatches};
pub use learned::{Learned, Update};
pub use masked::{PublicParts, masked_step};
pub use masks::draw_unit_masks;
pub use noise::Noise;
pub use optimiser::{Ema, Optimiser, OptimiserSettings, OptimiserState};
pub use peers::Peers;
pub use processor::Processor;
pub use scales::{GradientScales, ScaleState};
pub use step::private_step;
pub use updates::{AddedUpdate, UpdateSum};
pub use users::{LocalSteps, LocalTraining, UserProcessor};
