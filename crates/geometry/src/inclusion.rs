use crate::closed_form::{axis_hits, worst_position};
use crate::count::crops_that_see;
use crate::expectation;
use crate::region::RegionShape;
use crate::rounding::{ratio_down, ratio_up};
use crate::search::for_each_placement;
use crate::segments::{Segment, segments};
use crate::windows::{AxisWindow, central_maximum, interval_hits, windows};
use crate::{CropDistribution, GeometryError, Mask, Pipeline, Region, Size};

/// Where the private region may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Anywhere: the worst of all translations that keep the region inside the original image.
    Anywhere,
    /// Where the mask says; the region is a mask of the image's size.
    Annotated,
    /// With the first pixel of its bounding box at (x, y) of the original image.
    At {
        /// Column.
        x: u32,
        /// Row.
        y: u32,
    },
}

impl std::fmt::Display for Placement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anywhere => formatter.write_str("anywhere"),
            Self::Annotated => formatter.write_str("annotated"),
            Self::At { x, y } => write!(formatter, "at {x},{y}"),
        }
    }
}

impl std::str::FromStr for Placement {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        match text {
            "anywhere" => Ok(Self::Anywhere),
            "annotated" => Ok(Self::Annotated),
            _ => Err(GeometryError::UnknownName {
                what: "placement",
                found: text.to_owned(),
                known: "anywhere, annotated",
            }),
        }
    }
}

/// How many of the equally likely crops see the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Crop origins whose crop may depend on the region.
    pub hits: u64,
    /// All crop origins.
    pub crop_origins: u64,
}

/// How likely a crop sees the private region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inclusion {
    lower: f64,
    upper: f64,
    /// The counts behind the probability, for a crop of fixed size. Where the bound is not exact, they are those of the enclosing
    /// rectangle.
    pub counts: Option<Counts>,
    /// The worst place for the first pixel of the region's bounding box, in the original image (`None` when the place
    /// was given).
    pub worst_origin: Option<(u32, u32)>,
}

impl Inclusion {
    pub(crate) fn from_counts(hits: u64, crop_origins: u64, worst_origin: Option<(u32, u32)>) -> Self {
        Self {
            lower: ratio_down(hits, crop_origins),
            upper: ratio_up(hits, crop_origins),
            counts: Some(Counts { hits, crop_origins }),
            worst_origin,
        }
    }

    pub(crate) fn from_bounds(lower: f64, upper: f64, worst_origin: Option<(u32, u32)>) -> Self {
        let upper = upper.clamp(0.0, 1.0);
        Self { lower: lower.clamp(0.0, upper), upper, counts: None, worst_origin }
    }

    /// The probability to account with.
    ///
    /// # Guarantee
    /// Never below the true probability that the crop depends on the region: the exact ratio rounded up, or the upper
    /// end of a certified bracket.
    pub fn probability(&self) -> f64 {
        self.upper
    }

    /// A lower bound on the same probability; `probability() - lower_bound()` is what this answer may be too large by.
    pub fn lower_bound(&self) -> f64 {
        self.lower
    }

    /// Whether the counts are exact, so that the bracket is nothing but rounding.
    pub fn is_exact(&self) -> bool {
        self.upper - self.lower <= 4.0 * f64::EPSILON
    }

    /// The worse of two answers, for regions annotated in several images.
    pub fn worse(self, other: Self) -> Self {
        let mut worse = if other.upper > self.upper { other } else { self };
        worse.lower = self.lower.max(other.lower);
        worse
    }
}

/// Number of crop origins; the caller keeps the crop inside.
pub(crate) fn crop_origins(image: Size, crop: Size) -> u64 {
    u64::from(image.width() - crop.width() + 1) * u64::from(image.height() - crop.height() + 1)
}

/// The probability that a crop of `image` through `pipeline` depends on the private region.
///
/// For crops of fixed size the answer is an exact count over all crop origins (patch-level paper, P, Definition 6), of the influence mask
/// rather than of the region itself. Rectangles take O(1) (P Lemma 1, Theorem 1) or O(side) time; other
/// regions O(pixels). Under [`Placement::Anywhere`] a non-rectangular region behind an operation that is not
/// translation-invariant (a resize, JPEG) is enclosed in its bounding rectangle; the bracket tells what that costs.
/// For random resized crops the answer is the expectation over sizes.
///
/// # Guarantee
/// [`Inclusion::probability`] is an upper bound on the probability, over the crop alone, that the crop depends on the
/// region's pixels; under `Anywhere` for every placement inside the image.
pub fn inclusion(
    region: &Region,
    placement: Placement,
    image: Size,
    pipeline: &Pipeline,
) -> Result<Inclusion, GeometryError> {
    let reaching = pipeline.size_before_crop(image)?;
    if let CropDistribution::Fixed(crop) = pipeline.crop_distribution()
        && !reaching.contains(*crop)
    {
        return Err(GeometryError::CropTooLarge { crop: *crop, image: reaching });
    }
    if placement == Placement::Annotated {
        let Region::Mask(mask) = region else {
            return Err(GeometryError::NotAnnotated { shape: region.kind() });
        };
        return annotated(mask, image, pipeline);
    }
    let shape = region.shape()?;
    if !image.contains(shape.extent()) {
        return Err(GeometryError::RegionTooLarge { region: shape.extent(), image });
    }
    if let Placement::At { x, y } = placement {
        return placed(&shape, x, y, image, pipeline);
    }
    match pipeline.crop_distribution() {
        CropDistribution::Fixed(crop) => anywhere(&shape, image, pipeline, *crop),
        CropDistribution::Resized(crop) => expectation::anywhere(&shape, image, pipeline, crop),
    }
}

/// The worst of several annotated images: every mask is of its image's size, and images may differ in size.
///
/// # Guarantee
/// The probability holds for each of the images.
pub fn inclusion_of_masks<'a>(
    masks: impl IntoIterator<Item = &'a Mask>,
    pipeline: &Pipeline,
) -> Result<Inclusion, GeometryError> {
    let mut worst: Option<Inclusion> = None;
    for mask in masks {
        let size = mask.size();
        let reaching = pipeline.size_before_crop(size)?;
        if let CropDistribution::Fixed(crop) = pipeline.crop_distribution()
            && !reaching.contains(*crop)
        {
            return Err(GeometryError::CropTooLarge { crop: *crop, image: reaching });
        }
        let this = annotated(mask, size, pipeline)?;
        worst = Some(worst.map_or(this, |worst| worst.worse(this)));
    }
    worst.ok_or(GeometryError::NoMasks)
}

fn annotated(mask: &Mask, image: Size, pipeline: &Pipeline) -> Result<Inclusion, GeometryError> {
    if mask.size() != image {
        return Err(GeometryError::MaskSize { mask: mask.size(), image });
    }
    if mask.is_empty() {
        return Err(GeometryError::EmptyMask);
    }
    let propagated;
    let influence = if pipeline.before().is_empty() {
        mask
    } else {
        propagated = pipeline.influence(mask)?;
        &propagated
    };
    match pipeline.crop_distribution() {
        CropDistribution::Fixed(crop) => {
            let hits = crops_that_see(influence, *crop);
            Ok(Inclusion::from_counts(hits, crop_origins(influence.size(), *crop), None))
        }
        CropDistribution::Resized(crop) => expectation::annotated(influence, crop),
    }
}

/// A region at a given place.
pub(crate) fn placed(
    shape: &RegionShape,
    x: u32,
    y: u32,
    image: Size,
    pipeline: &Pipeline,
) -> Result<Inclusion, GeometryError> {
    let extent = shape.extent();
    let inside =
        |start: u32, length: u32, limit: u32| start.checked_add(length).is_some_and(|end| end <= limit);
    if !inside(x, extent.width(), image.width()) || !inside(y, extent.height(), image.height()) {
        return Err(GeometryError::RegionOutside { region: extent, x, y, image });
    }
    if let (RegionShape::Rectangle(patch), Some(plain), CropDistribution::Fixed(crop)) =
        (shape, pipeline.plain_padding(), pipeline.crop_distribution())
    {
        let along = if plain.swapped { crop.transposed() } else { *crop };
        let hits = axis_hits(image.width(), plain.x, along.width(), patch.width(), x)
            * axis_hits(image.height(), plain.y, along.height(), patch.height(), y);
        return Ok(Inclusion::from_counts(
            hits,
            crop_origins(pipeline.size_before_crop(image)?, *crop),
            None,
        ));
    }
    let mut mask = Mask::empty(image)?;
    mask.add(&shape.to_mask()?, x, y);
    annotated(&mask, image, pipeline)
}

fn anywhere(
    shape: &RegionShape,
    image: Size,
    pipeline: &Pipeline,
    crop: Size,
) -> Result<Inclusion, GeometryError> {
    let origins = crop_origins(pipeline.size_before_crop(image)?, crop);
    if let (RegionShape::Rectangle(patch), Some(plain)) = (shape, pipeline.plain_padding()) {
        let along = if plain.swapped { crop.transposed() } else { crop };
        let x = worst_position(image.width(), patch.width());
        let y = worst_position(image.height(), patch.height());
        let hits = axis_hits(image.width(), plain.x, along.width(), patch.width(), x)
            * axis_hits(image.height(), plain.y, along.height(), patch.height(), y);
        return Ok(Inclusion::from_counts(hits, origins, Some((x, y))));
    }
    let axes = CropWindows::new(image, pipeline, crop)?;
    let (hits, worst_origin, searched) = match shape {
        RegionShape::Pixels(mask) => match axes.families() {
            Some((along_x, along_y)) => {
                let mut worst = WorstPlacement::new(mask.size(), image);
                for_each_placement(mask, image, &along_x, &along_y, |y, hits| worst.see(y, hits));
                (worst.hits, worst.origin, true)
            }
            None => axes.worst_rectangle(mask.size()),
        },
        RegionShape::Rectangle(patch) => axes.worst_rectangle(*patch),
    };
    let mut found = Inclusion::from_counts(hits, origins, Some(worst_origin));
    let enclosed = matches!(shape, RegionShape::Pixels(_)) && !searched;
    if enclosed || !axes.exact {
        // An upper bound; the region itself, at the place found, bounds the worst case from below. Too large an image to draw it
        // into leaves only the trivial bound.
        found.lower =
            placed(shape, worst_origin.0, worst_origin.1, image, pipeline).map_or(0.0, |there| there.lower);
    }
    Ok(found)
}

/// The windows of all crop origins along the two axes of the original image.
pub(crate) struct CropWindows {
    image: Size,
    x: Vec<AxisWindow>,
    y: Vec<AxisWindow>,
    exact: bool,
}

impl CropWindows {
    /// The caller keeps the crop inside the image that reaches it.
    pub(crate) fn new(image: Size, pipeline: &Pipeline, crop: Size) -> Result<Self, GeometryError> {
        let axes = pipeline.axes(image)?;
        let (x, y) = (windows(&axes.x, crop.width()), windows(&axes.y, crop.height()));
        let (x, y) = if axes.swapped { (y, x) } else { (x, y) };
        Ok(Self { image, x, y, exact: axes.are_exact() })
    }

    /// For a rectangle, the number of crop origins along each axis that see it, for each of its positions.
    pub(crate) fn rectangle_hits(&self, patch: Size) -> (Vec<u32>, Vec<u32>) {
        let x = interval_hits(&self.x, self.image.width(), patch.width());
        (x, interval_hits(&self.y, self.image.height(), patch.height()))
    }

    fn worst_rectangle(&self, patch: Size) -> (u64, (u32, u32), bool) {
        let (along_x, along_y) = self.rectangle_hits(patch);
        let (x, hits_x) = central_maximum(&along_x);
        let (y, hits_y) = central_maximum(&along_y);
        (u64::from(hits_x) * u64::from(hits_y), (x as u32, y as u32), false)
    }

    /// The windows along both axes as sliding families, if they are few.
    pub(crate) fn families(&self) -> Option<(Vec<Segment>, Vec<Segment>)> {
        /// More layers than this would take longer than the enclosing rectangle is worth.
        const MAX_LAYERS: usize = 64;
        let found = segments(&self.x, self.image.width()).zip(segments(&self.y, self.image.height()));
        found.filter(|(x, y)| x.len() * y.len() <= MAX_LAYERS)
    }
}

/// The placement with the most hits; among equals one near the centre.
struct WorstPlacement {
    centre: (u32, u32),
    hits: u64,
    origin: (u32, u32),
}

impl WorstPlacement {
    fn new(region: Size, image: Size) -> Self {
        let centre = ((image.width() - region.width()) / 2, (image.height() - region.height()) / 2);
        Self { centre, hits: 0, origin: centre }
    }

    fn see(&mut self, y: u32, hits: &[u64]) {
        let most = hits.iter().copied().max().unwrap_or(0);
        let distance = |(x, y): (u32, u32)| x.abs_diff(self.centre.0).max(y.abs_diff(self.centre.1));
        if most < self.hits || (most == self.hits && y.abs_diff(self.centre.1) >= distance(self.origin)) {
            return;
        }
        for (x, _) in (0u32..).zip(hits).filter(|&(_, &count)| count == most) {
            if most > self.hits || distance((x, y)) < distance(self.origin) {
                self.hits = most;
                self.origin = (x, y);
            }
        }
    }
}
