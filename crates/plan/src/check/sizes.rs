//! Images of several sizes, in a range that the plan declares.

use dapple_geometry::{CropDistribution, Operation, PaddingMode, Pipeline, Placement, Region, Size};

use crate::error::PlanError;
use crate::spec::{Pixels, PlanSpec, SizeRange};

const KEY: &str = "pipeline.sizes";

/// The sizes that images may have: at least as wide and high as one size, and at most as wide and high as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBounds {
    /// The least width and height.
    pub least: Size,
    /// The largest width and height.
    pub most: Size,
}

impl SizeBounds {
    /// Whether an image of this size is within both.
    #[must_use]
    pub fn allow(&self, size: Size) -> bool {
        size.contains(self.least) && self.most.contains(size)
    }

    /// Reads the range; `None` if all images have one size.
    ///
    /// # Errors
    /// A size without pixels, a range that is empty, or one size given as well.
    pub(super) fn check(spec: &PlanSpec) -> Result<Option<Self>, PlanError> {
        let Some(SizeRange { least, most }) = spec.pipeline.sizes else { return Ok(None) };
        if spec.pipeline.image.is_some() {
            return Err(PlanError::invalid(
                KEY,
                "pipeline.image is given as well",
                "images have one size or several: give one of the two",
            ));
        }
        let size = |Pixels { x, y }: Pixels| {
            Size::named("image", x, y).map_err(|source| PlanError::Geometry { key: KEY, source })
        };
        let bounds = Self { least: size(least)?, most: size(most)? };
        match bounds.most.contains(bounds.least) {
            true => Ok(Some(bounds)),
            false => Err(PlanError::invalid(
                KEY,
                format!("{most} is narrower or lower than {least}"),
                "give the least width and height first, e.g. 480x360:1920x1080",
            )),
        }
    }

    /// Refuses what is not known to be worst in the smallest image.
    ///
    /// # Guarantee
    /// If it passes, a crop sees the region with no larger probability in any image of the range than in one of the least width and height.
    /// `docs/relations.md` proves it for rectangles and discs anywhere, crops of fixed size, and padding with a constant.
    pub(super) fn check_worst(
        spec: &PlanSpec,
        (regions, placement): (&[Region], Placement),
        pipeline: Option<&Pipeline>,
    ) -> Result<(), PlanError> {
        let no = |problem: &str, hint: &str| Err(PlanError::invalid(KEY, problem, hint));
        let Some(pipeline) = pipeline.filter(|_| !regions.is_empty()) else { return Ok(()) };
        let simple = |region: &Region| matches!(region, Region::Rectangle(_) | Region::Circle { .. });
        let constant =
            |operation: &Operation| matches!(operation, Operation::Pad { mode: PaddingMode::Zero, .. });
        match pipeline.crop_distribution() {
            _ if !regions.iter().all(simple) || placement != Placement::Anywhere => {
                no("a mask has one size", "protect a patch or a circle, or bring all images to one size")
            }
            _ if spec.region.travel.is_some() => {
                no("a region that moves is counted in images of one size", "bring all clips to one size")
            }
            CropDistribution::Resized(_) => {
                no("random resized crops are counted in images of one size", "give pipeline.crop")
            }
            CropDistribution::Fixed(_) if !pipeline.before().iter().all(constant) => no(
                "operations before the crop are counted in images of one size",
                "pad with zeros at most, or carry them out on the files beforehand (`dapple prepare`)",
            ),
            CropDistribution::Fixed(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Plan, PlanSpec, Spatial};

    fn spatial(pipeline: &str, region: &str) -> Result<Spatial, crate::PlanError> {
        let spec = PlanSpec::from_toml(&format!("[region]\n{region}\n[pipeline]\n{pipeline}\n")).unwrap();
        Spatial::check(&spec, &[])
    }

    /// The guarantee by brute force: every size of a range, each priced by itself as one size.
    #[test]
    fn no_size_of_the_range_is_worse_than_the_price() {
        for (region, crop, pad, least, most) in [
            ("patch = [3, 2]", "5x4", 0, (6, 5), (19, 14)),
            ("patch = [3, 3]", "3x3", 2, (3, 3), (12, 12)),
            ("patch = [1, 6]", "4x4", 1, (4, 6), (15, 13)),
            ("patch = [7, 1]", "2x5", 3, (7, 5), (16, 12)),
            ("circle = 2.5", "4x3", 0, (6, 6), (15, 14)),
            ("circle = 1.5", "2x6", 2, (4, 4), (13, 12)),
            ("circle = 3.0", "7x7", 4, (7, 7), (18, 11)),
        ] {
            let rest = format!("crop = '{crop}'\npad = {pad}");
            let range = format!("sizes = '{}x{}:{}x{}'", least.0, least.1, most.0, most.1);
            let price = spatial(&format!("{range}\n{rest}"), region).unwrap().inclusion_probability();
            let mut worst: f64 = 0.0;
            for width in least.0..=most.0 {
                for height in least.1..=most.1 {
                    let one = spatial(&format!("image = [{width}, {height}]\n{rest}"), region).unwrap();
                    worst = worst.max(one.inclusion_probability());
                }
            }
            assert_eq!(price, worst, "{region} {crop} {pad}");
        }
    }

    #[test]
    fn what_is_not_proved_is_refused_by_its_key() {
        let patch = "patch = [2, 2]";
        for (pipeline, region) in [
            ("sizes = '9x9:8x12'\ncrop = '4x4'", patch),
            ("sizes = '0x9:8x12'\ncrop = '4x4'", patch),
            ("sizes = '9x9:12x12'\nimage = [9, 9]\ncrop = '4x4'", patch),
            ("sizes = '9x9:12x12'\ncrop_scale = [0.5, 1.0]", patch),
            ("sizes = '9x9:12x12'\ncrop = '4x4'\npad = 2\npad_mode = 'reflect'", patch),
            ("sizes = '9x9:12x12'\ncrop = '4x4'\noperations = ['resize 20x20 bilinear']", patch),
            ("sizes = '9x9:12x12'\ncrop = '4x4'", "patch = [2, 2]\ntravel = [1, 1]"),
        ] {
            let error = spatial(pipeline, region).unwrap_err();
            assert!(error.to_string().starts_with("pipeline.sizes"), "{pipeline}: {error}");
            assert!(error.hint().is_some());
        }
        // Too large for the smallest image.
        assert!(spatial("sizes = '9x9:12x12'\ncrop = '10x4'", patch).is_err());
        assert!(spatial("sizes = '9x9:12x12'\ncrop = '4x4'", "patch = [10, 2]").is_err());
    }

    #[test]
    fn the_range_is_stated_and_is_part_of_the_plan() {
        let plan = |sizes: &str| {
            let text = format!(
                "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[region]\npatch = [2, 2]\n\
                 [pipeline]\n{sizes}\ncrop = [4, 4]\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 5\n"
            );
            let spec = PlanSpec::from_toml(&text).unwrap();
            assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
            Plan::check(&spec).unwrap()
        };
        let (range, one) = (plan("sizes = '9x9:12x16'"), plan("image = [9, 9]"));
        let price = |plan: &Plan| plan.price(crate::BracketPrecision::default()).unwrap();
        assert_eq!(price(&range).epsilon, price(&one).epsilon);
        assert_ne!(range.hash(), one.hash());
        let certificate = price(&range);
        assert!(
            certificate.protects.contains("any one image of 9x9 to 12x16 pixels"),
            "{}",
            certificate.protects
        );
        assert!(certificate.assumptions.iter().any(|sentence| sentence.contains("from 9x9 to 12x16")));
    }
}
