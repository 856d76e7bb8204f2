//! Windows of frames, and how likely they see a region that is in view for some frames.

use dapple_geometry::{GeometryError, window_inclusion};

use crate::PlanError;
use crate::spec::PlanSpec;

/// Views of clips that show a window of consecutive frames, whose first one is uniform over all places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipWindow {
    frames: u32,
    shown: u32,
    duration: Option<u32>,
    probability: f64,
}

impl ClipWindow {
    /// Checks the window of a plan; `None` if views show all frames. `region` says whether something is protected.
    ///
    /// # Guarantee
    /// [`ClipWindow::probability`] is never below the probability that a window shows a frame of the region.
    ///
    /// # Errors
    /// A window that does not fit, frames or a duration that mean nothing.
    pub(super) fn check(spec: &PlanSpec, region: bool) -> Result<Option<Self>, PlanError> {
        let (pipeline, duration) = (&spec.pipeline, spec.region.duration);
        let missing = |key, why| Err(PlanError::Missing { key, why });
        let Some(shown) = pipeline.window else {
            return match (pipeline.frames, duration) {
                (None, None) => Ok(None),
                (Some(_), _) => missing("pipeline.window", "pipeline.frames is what a window is cut from"),
                (None, Some(_)) => missing("pipeline.window", "without a window every view shows all frames"),
            };
        };
        let Some(frames) = pipeline.frames else {
            return missing("pipeline.frames", "a window is cut from this many frames of a clip");
        };
        if duration.is_some() && !region {
            return missing("region.patch", "a duration is given without a region");
        }
        if pipeline.pixel_noise.is_some() {
            return Err(PlanError::invalid(
                "pipeline.window",
                "noise on pixels is counted for images, which have no frames",
                "leave pipeline.pixel_noise out",
            ));
        }
        if duration == Some(0) {
            return Err(PlanError::invalid(
                "region.duration",
                "a region that is in no frame",
                "give at least 1, or protect no region",
            ));
        }
        let lasts = duration.unwrap_or(frames).min(frames);
        let seen = window_inclusion(frames, shown, lasts)
            .map_err(|source: GeometryError| PlanError::Geometry { key: "pipeline.window", source })?;
        let duration = duration.filter(|duration| *duration < frames);
        Ok(Some(Self { frames, shown, duration, probability: seen.probability() }))
    }

    /// The frames of a clip that reach the pipeline.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// The frames that a view shows.
    #[must_use]
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// How many consecutive frames show the region at most; `None` if all may.
    #[must_use]
    pub fn duration(&self) -> Option<u32> {
        self.duration
    }

    /// The probability that a window shows a frame of the region, at the worst of its times.
    #[must_use]
    pub fn probability(&self) -> f64 {
        self.probability
    }
}
