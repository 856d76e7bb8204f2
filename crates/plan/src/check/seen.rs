//! How likely a crop sees the private region, as users ask for it.

use dapple_geometry::Region;
use serde::Serialize;

use crate::{PlanError, Spatial};

/// How likely the views of an image see the private region, at its worst place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seen {
    /// That any of the views sees the region; never too small.
    pub probability: f64,
    /// Where the region's bounding box starts, at its worst: x, y.
    pub worst_origin: Option<(u32, u32)>,
    /// Places of a crop of fixed size.
    pub crop_origins: Option<u64>,
    /// Those that see the region.
    pub hits: Option<u64>,
    /// That one view sees the region; never too small.
    pub probability_of_one_view: f64,
    /// Views of a record.
    pub views: u32,
}

impl Seen {
    /// What a spatial part says of its region.
    ///
    /// # Errors
    /// No region, or no crop.
    pub fn new(spatial: &Spatial) -> Result<Self, PlanError> {
        let protected = spatial.protected().ok_or(PlanError::Missing {
            key: "region.patch",
            why: "there is no private region; give a patch, a circle or a mask",
        })?;
        let seen = spatial.seen().ok_or(PlanError::Missing {
            key: "pipeline.crop",
            why: "without a crop every view shows the region",
        })?;
        // An annotated region lies where its mask says.
        let annotated = match protected.regions() {
            [Region::Mask(mask)] => mask.bounding_box().map(|(x, y, _)| (x, y)),
            _ => None,
        };
        Ok(Self {
            probability: spatial.inclusion_probability(),
            worst_origin: seen.worst_origin.or(annotated),
            crop_origins: seen.counts.map(|counts| counts.crop_origins),
            hits: seen.counts.map(|counts| counts.hits),
            probability_of_one_view: seen.probability(),
            views: spatial.views(),
        })
    }
}
