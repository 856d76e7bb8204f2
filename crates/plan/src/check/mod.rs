//! Turns what a user wrote into what can be priced: the checked plan and its parts.

mod balanced;
mod batch_limit;
mod correlated;
pub(crate) mod hash;
pub mod masked;
mod mix;
mod operations;
mod phase;
mod pixel_noise;
mod plan;
mod prefix;
mod quantile;
mod relation;
mod sampling;
mod schedule;
mod seen;
mod sizes;
mod spatial;
mod split;
mod window;

pub use batch_limit::BatchLimit;
pub(crate) use correlated::Chances;
pub use correlated::CorrelatedNoise;
pub use masked::{MaskedTokens, PublicTokens};
pub use mix::Averaged;
pub(crate) use operations::one_line;
pub use pixel_noise::PixelNoise;
pub use plan::Plan;
pub use quantile::ClipQuantile;
pub use relation::Relation;
pub use sampling::{Sampling, Scheme};
pub use seen::Seen;
pub use sizes::SizeBounds;
pub use spatial::{Protected, Spatial};
pub use split::Split;
pub use window::ClipWindow;
