//! Finds the largest crop, and the largest protected patch.

use dapple_geometry::{CropDistribution, Size};

use super::problem::Problem;
use super::{Solution, SolvedValue, Unknown};
use crate::error::PlanError;
use crate::spec::{Pixels, PlanSpec};

impl Problem<'_> {
    pub(super) fn crop(&self) -> Result<Solution, PlanError> {
        let shape = self.spec.pipeline.crop;
        let limit = self.plan(|spec| {
            spec.pipeline.crop = Some(Pixels { x: 1, y: 1 });
            (spec.pipeline.crop_scale, spec.pipeline.crop_ratio) = (None, None);
        })?;
        let (image, pipeline) = match (limit.spatial().image(), limit.spatial().pipeline()) {
            (Some(image), Some(pipeline)) => (image, pipeline),
            _ => {
                return Err(PlanError::Missing {
                    key: "pipeline.image",
                    why: "the largest crop depends on the image it is cut from",
                });
            }
        };
        debug_assert!(matches!(pipeline.crop_distribution(), CropDistribution::Fixed(_)));
        let reaching = pipeline
            .size_before_crop(image)
            .map_err(|source| PlanError::Geometry { key: "pipeline.image", source })?;
        self.size(Unknown::Crop, shape, reaching, |spec, size| {
            spec.pipeline.crop = Some(size);
            (spec.pipeline.crop_scale, spec.pipeline.crop_ratio) = (None, None);
        })
    }

    pub(super) fn patch(&self) -> Result<Solution, PlanError> {
        let shape = self.spec.region.patch;
        let set = |spec: &mut PlanSpec, size| {
            spec.region.patch = Some(size);
            (spec.region.circle, spec.region.mask) = (None, None);
        };
        let limit = self.plan(|spec| set(spec, Pixels { x: 1, y: 1 }))?;
        let image = limit.spatial().image().ok_or(PlanError::Missing {
            key: "pipeline.image",
            why: "the largest patch depends on the image it lies in",
        })?;
        self.size(Unknown::Patch, shape, image, set)
    }

    /// Finds the largest rectangle of a given shape.
    fn size(
        &self,
        unknown: Unknown,
        shape: Option<Pixels>,
        limit: Size,
        set: impl Fn(&mut PlanSpec, Pixels),
    ) -> Result<Solution, PlanError> {
        let shape = shape.filter(|shape| shape.x > 0 && shape.y > 0).unwrap_or(Pixels { x: 1, y: 1 });
        let scaled = |width: u64| {
            let height = (width * u64::from(shape.y) / u64::from(shape.x)).max(1);
            let within = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
            Pixels { x: within(width), y: within(height) }
        };
        // The widest rectangle that is not too high.
        let by_height = (u64::from(limit.height()) + 1) * u64::from(shape.x) - 1;
        let widest = u64::from(limit.width()).min(by_height / u64::from(shape.y)).max(1);
        let with = |width: u64| self.plan(|spec| set(spec, scaled(width)));
        let found = self.largest(1, widest, with)?;
        let width = found.ok_or_else(|| self.unreachable(unknown, 1.0, widest as f64))?;
        Ok((with(width)?, SolvedValue::Whole(width), Some(scaled(width))))
    }
}
