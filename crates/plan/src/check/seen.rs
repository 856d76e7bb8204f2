//! Answers how likely a crop is to see the private region.

use dapple_geometry::Region;
use serde::Serialize;

use crate::{PlanError, Spatial};

/// How likely the views of an image are to see the private region at the region's worst place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seen {
    /// The probability that any of the views sees the region. It is never too small.
    pub probability: f64,
    /// Where the region's bounding box starts at its worst place: x, y.
    pub worst_origin: Option<(u32, u32)>,
    /// How many places a crop of fixed size has.
    pub crop_origins: Option<u64>,
    /// From how many of these places the crop sees the region.
    pub hits: Option<u64>,
    /// The probability that one view sees the region. It is never too small.
    pub probability_of_one_view: f64,
    /// The probability that a window of frames shows one in which the region is, where views show a window. It is never too small.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability_of_window: Option<f64>,
    /// Views of a record.
    pub views: u32,
    /// Why the probability is that of the record, where no crop can miss what is protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

impl Seen {
    /// The answer for the spatial part of a plan.
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
        let window = spatial.window().map(|window| window.probability());
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
            probability_of_one_view: match &window {
                None => seen.probability(),
                Some(window) => (seen.probability() * window).next_up().min(1.0),
            },
            probability_of_window: window,
            views: spatial.views(),
            why: None,
        })
    }

    /// The answer for a plan without a region, or without a crop: whoever draws a record sees what is protected of it.
    #[must_use]
    pub fn always(spatial: &Spatial) -> Self {
        let of_one_view = spatial.window().map_or(1.0, |window| window.probability());
        Self {
            probability: spatial.inclusion_probability(),
            worst_origin: None,
            crop_origins: None,
            hits: None,
            probability_of_one_view: of_one_view,
            probability_of_window: spatial.window().map(|window| window.probability()),
            views: spatial.views(),
            why: Some(match spatial.protected() {
                None => "there is no region: every view of a drawn record shows something of it",
                Some(_) => "there is no crop: every view of a drawn record shows the region",
            }),
        }
    }
}
