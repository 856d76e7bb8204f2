//! Pixels, regions, masks, spatial pipelines, and how likely a crop sees the private region.
//!
//! Training on random crops hides most of an image most of the time. This crate answers how much: given the private
//! [`Region`] of an image, the [`Pipeline`] that leads from the image to the model, and where the region may lie
//! ([`Placement`]), [`inclusion()`] returns the probability that a crop depends on the region at all. That probability
//! multiplies the sampling rate in patch-level privacy accounting, so it must never be too small: counts are exact integers, and
//! every rounding goes up.
//!
//! ```
//! use dapple_geometry::{
//!     CropDistribution, Operation, Padding, PaddingMode, Pipeline, Placement, Region, Size, inclusion, views,
//! };
//!
//! # fn main() -> Result<(), dapple_geometry::GeometryError> {
//! // Street scenes of 2048x1024, crops of 505x505, and a licence plate of at most 10x10 anywhere.
//! let image = Size::new(2048, 1024)?;
//! let plate = Region::Rectangle(Size::new(10, 10)?);
//! let pipeline = Pipeline::crop(CropDistribution::fixed(505, 505)?);
//! let seen = inclusion(&plate, Placement::Anywhere, image, &pipeline)?;
//! assert!((seen.probability() - 0.3290604).abs() < 5e-8);
//! assert_eq!(seen.worst_origin, Some((1019, 507)));
//!
//! // Four views of each image, and a face instead of a plate, behind reflected padding.
//! let face = Region::Circle { radius: 20.0 };
//! let pad = Operation::Pad { padding: Padding::uniform(64), mode: PaddingMode::Reflect };
//! let pipeline = Pipeline::new(vec![pad], CropDistribution::fixed(505, 505)?)?;
//! let seen = inclusion(&face, Placement::Anywhere, image, &pipeline)?;
//! assert!(views(seen.probability(), 4)? > seen.probability());
//!
//! // An operation that looks at the whole image has no inclusion probability below 1.
//! let equalize = Operation::Global(dapple_geometry::GlobalOperation::Equalize);
//! let refused = Pipeline::new(vec![equalize], CropDistribution::fixed(505, 505)?).unwrap_err();
//! assert!(refused.to_string().starts_with("`equalize` before the crop"));
//! # Ok(())
//! # }
//! ```
//!
//! # How it counts
//! - **Influence, not position.** Operations before the crop spread private content: reflected padding copies it, a resize or a
//!   blur smears it, JPEG spreads it over its block. What counts is the *influence mask*, the pixels that may depend on the
//!   region ([`Pipeline::influence`]). Operations behind the crop are free.
//! - **Rectangles** behind constant padding have a closed form (P Lemma 1 and Theorem 1). Behind anything else every operation is
//!   separable, so each axis is searched by itself in linear time.
//! - **Any other set of pixels** takes one pass with one counter for each column at a given place, and for all places at once a moving box
//!   sum over the set dilated by the crop. The centre is *not* always the worst place for such sets.
//! - **Random resized crops**: the real-valued width and height before rounding are uniform on a set bounded by two hyperbolas and
//!   two lines, so each size's probability is an area in closed form; the answer is a bracket whose upper end is used.
//!
//! P is the patch-level paper. The crate is pure: it uses no files, clock, randomness or threads.

mod augmentation;
mod axis;
mod closed_form;
mod count;
mod crop;
mod empty_windows;
mod error;
mod expectation;
mod footprint;
mod heatmap;
mod inclusion;
mod mask;
mod operation;
mod padding;
mod pipeline;
mod propagate;
mod region;
mod rounding;
mod search;
mod segments;
mod size;
mod size_law;
mod time;
mod tokens;
mod views;
mod windows;

pub use augmentation::{AffineRanges, Augmentation, AugmentationKind, ColourJitter, PixelReach};
pub use crop::{CropDistribution, ResizedCrop};
pub use error::GeometryError;
pub use heatmap::{HeatMap, heatmap};
pub use inclusion::{Counts, Inclusion, Placement, inclusion, inclusion_of_masks};
pub use mask::Mask;
pub use operation::{Filter, GlobalOperation, Operation};
pub use padding::{Padding, PaddingMode};
pub use pipeline::{Pipeline, influence};
pub use region::{Region, RegionPart};
pub use size::{MAX_PIXELS, Size};
pub use time::window_inclusion;
pub use tokens::TokenGrid;
pub use views::views;
