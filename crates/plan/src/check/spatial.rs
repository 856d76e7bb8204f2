//! The spatial part of a plan: what is protected, and how likely a view sees it.

use dapple_geometry::{
    CropDistribution, GeometryError, HeatMap, Inclusion, Mask, Operation, Padding, PaddingMode, Pipeline,
    Placement, Region, Size, heatmap, inclusion, views,
};

use super::{ClipWindow, PixelNoise, SizeBounds, operations};
use crate::error::PlanError;
use crate::spec::{PadModeSpec, PipelineSpec, Pixels, PlacementSpec, PlanSpec, RegionSpec};

/// Torchvision's limits of a random resized crop.
const CROP_SCALE: (f64, f64) = (0.08, 1.0);
const CROP_RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// The most views of one record. More are a slip of the pen.
const MAX_VIEWS: u32 = 1_000_000;

/// The protected pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Protected {
    regions: Vec<Region>,
    placement: Placement,
    /// How far the region moves; `None` if it stays.
    travel: Option<Pixels>,
}

impl Protected {
    /// The region. There are several only if several masks were given, and then each of them counts.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Where the region may lie.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// How many columns and rows the region moves at most within a clip; `None` if it stays.
    #[must_use]
    pub fn travel(&self) -> Option<Pixels> {
        self.travel
    }

    /// What the regions may cover on their way through an image of this size, as places of one region each.
    ///
    /// # Guarantee
    /// For every path within `travel` that stays inside the image there is a place, inside the image, of a swept region that covers the
    /// region all along the path. A region never moves farther than the image has room for.
    fn swept(&self, image: Size) -> Result<Vec<Region>, PlanError> {
        let Some(Pixels { x, y }) = self.travel else { return Ok(self.regions.clone()) };
        let one = |region: &Region| {
            let extent = region.extent()?;
            let room = |travel: u32, side: u32, own: u32| travel.min(side.saturating_sub(own));
            region.swept(room(x, image.width(), extent.width()), room(y, image.height(), extent.height()))
        };
        self.regions.iter().map(|region| one(region).map_err(at("region.travel"))).collect()
    }

    /// Width and height of the region, if it is a rectangle.
    #[must_use]
    pub fn patch(&self) -> Option<Size> {
        match self.regions.as_slice() {
            [Region::Rectangle(size)] => Some(*size),
            _ => None,
        }
    }

    /// The number of pixels of the largest region.
    ///
    /// # Errors
    /// A region too large to be drawn.
    pub fn largest_region_pixels(&self) -> Result<u64, PlanError> {
        let mut largest = 0;
        for region in &self.regions {
            let pixels = match region {
                Region::Rectangle(size) => u64::from(size.width()) * u64::from(size.height()),
                other => {
                    let mask = other
                        .to_mask()
                        .map_err(|source| PlanError::Geometry { key: "region.mask", source })?;
                    mask.count()
                }
            };
            largest = largest.max(pixels);
        }
        Ok(largest)
    }

    /// The region in words: `a patch of 10x10 pixels`.
    #[must_use]
    pub fn words(&self) -> String {
        let region = self.region_words();
        match self.travel {
            None => region,
            Some(travel) => format!("{region} that moves by at most {travel} pixels"),
        }
    }

    fn region_words(&self) -> String {
        match self.regions.as_slice() {
            [Region::Rectangle(size)] => format!("a patch of {size} pixels"),
            [Region::Circle { radius }] => format!("a disc of radius {radius} pixels"),
            [Region::Mask(mask)] => format!("the {} masked pixels", mask.count()),
            [region] => format!("a {} of pixels", region.kind()),
            several => format!("the masked pixels of any of {} images", several.len()),
        }
    }
}

/// What is protected within an image, how the image gets to the model, and how likely a view is to see what is protected.
#[derive(Debug, Clone, PartialEq)]
pub struct Spatial {
    image: Option<Size>,
    sizes: Option<SizeBounds>,
    operations: Vec<Operation>,
    pipeline: Option<Pipeline>,
    protected: Option<Protected>,
    views: u32,
    seen: Option<Inclusion>,
    pixel_noise: Option<PixelNoise>,
    window: Option<ClipWindow>,
    inclusion_probability: f64,
}

impl Spatial {
    /// Checks the `[region]` and `[pipeline]` sections; `masks` are the decoded pictures that `region.mask` names.
    ///
    /// # Guarantee
    /// [`Spatial::inclusion_probability`] is never below the probability that one of the record's views depends on the
    /// protected region, and with pixel noise that it tells two contents of the region apart.
    ///
    /// # Errors
    /// Sizes that do not fit, operations that spread a pixel over the image, empty masks, missing values.
    pub fn check(spec: &PlanSpec, masks: &[Mask]) -> Result<Self, PlanError> {
        let placement = match spec.region.placement {
            None | Some(PlacementSpec::Anywhere) => Placement::Anywhere,
            Some(PlacementSpec::Annotated) => Placement::Annotated,
        };
        let regions = regions(&spec.region, masks)?;
        if regions.is_empty() && spec.region.placement.is_some() {
            return Err(PlanError::Missing {
                key: "region.patch",
                why: "a placement is given without a region",
            });
        }
        let travel = travel(spec, &regions, placement)?;
        let protected =
            (!regions.is_empty()).then(|| Protected { regions: regions.clone(), placement, travel });
        let annotated_size = match regions.as_slice() {
            [Region::Mask(mask)] if placement == Placement::Annotated => Some(mask.size()),
            _ => None,
        };
        let sizes = SizeBounds::check(spec)?;
        let image = match (sizes, spec.pipeline.image) {
            (Some(sizes), _) => Some(sizes.least),
            (None, Some(Pixels { x, y })) => Some(Size::named("image", x, y).map_err(at("pipeline.image"))?),
            (None, None) => annotated_size,
        };
        let operations = whole_image_operations(&spec.pipeline)?;
        let pipeline = pipeline(&spec.pipeline, &operations)?;
        if sizes.is_some() {
            SizeBounds::check_worst(spec, (&regions, placement), pipeline.as_ref())?;
        }
        let views_count = views_count(spec)?;
        let seen = match (&pipeline, image, regions.is_empty()) {
            (Some(_), None, false) => {
                return Err(PlanError::Missing {
                    key: "pipeline.image",
                    why: "the inclusion probability of a crop depends on the image it is cut from",
                });
            }
            (Some(pipeline), Some(image), false) => {
                let swept = protected.as_ref().map(|protected| protected.swept(image)).transpose()?;
                Some(worst(&swept.unwrap_or_default(), placement, image, pipeline)?)
            }
            (Some(pipeline), Some(image), true) => {
                fits(pipeline, image)?;
                None
            }
            (None, Some(image), false) => {
                whole_image(&regions, placement, image)?;
                None
            }
            (_, None, _) | (None, _, true) => None,
        };
        let pixel_noise = match spec.pipeline.pixel_noise {
            Some(deviation) => {
                let resizes = spec.pipeline.crop_scale.is_some() || spec.pipeline.crop_ratio.is_some();
                Some(PixelNoise::check(deviation, protected.as_ref(), &operations, resizes)?)
            }
            None => None,
        };
        let window = ClipWindow::check(spec, protected.is_some())?;
        // Crop and window are drawn independently; rounding of the product goes up.
        let crop_probability = match (seen.as_ref().map_or(1.0, Inclusion::probability), &window) {
            (crop, Some(window)) if window.probability() < 1.0 => {
                (crop * window.probability()).next_up().min(1.0)
            }
            (crop, _) => crop,
        };
        let of_one_view = match &pixel_noise {
            // Rounding of the product goes up.
            Some(noise) if protected.is_some() => (crop_probability * noise.distance()).next_up().min(1.0),
            _ => crop_probability,
        };
        // A record of which no view is shown is priced as if there were one, which is never too little.
        let inclusion_probability = views(of_one_view, views_count.max(1)).map_err(at("pipeline.views"))?;
        Ok(Self {
            image,
            sizes,
            operations,
            pipeline,
            protected,
            views: views_count,
            seen,
            pixel_noise,
            window,
            inclusion_probability,
        })
    }

    /// Size of the original image, if it is given; of images of several sizes the least width and height, for which they are priced.
    #[must_use]
    pub fn image(&self) -> Option<Size> {
        self.image
    }

    /// The sizes that images may have, where they have several.
    #[must_use]
    pub fn sizes(&self) -> Option<SizeBounds> {
        self.sizes
    }

    /// Operations on the whole image, padding included, whether or not a crop follows.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// How an image gets to the model; `None` if the model sees whole images.
    #[must_use]
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    /// What is protected; `None` at record level.
    #[must_use]
    pub fn protected(&self) -> Option<&Protected> {
        self.protected.as_ref()
    }

    /// Number of views of a record, whose gradients are averaged before clipping.
    #[must_use]
    pub fn views(&self) -> u32 {
        self.views
    }

    /// The inclusion of one view, with its counts; `None` without a region or without a crop.
    #[must_use]
    pub fn seen(&self) -> Option<&Inclusion> {
        self.seen.as_ref()
    }

    /// The noise on the pixels of each view, if there is some.
    #[must_use]
    pub fn pixel_noise(&self) -> Option<PixelNoise> {
        self.pixel_noise
    }

    /// The window of frames that a view of a clip shows; `None` if it shows all.
    #[must_use]
    pub fn window(&self) -> Option<ClipWindow> {
        self.window
    }

    /// The probability that any of the views sees the region, `c_K = 1 - (1 - c)^K`, where `c` is that of one crop, or 1 without one, times
    /// that of one window of frames, and times the distance that pixel noise leaves.
    #[must_use]
    pub fn inclusion_probability(&self) -> f64 {
        self.inclusion_probability
    }

    /// The same pipeline if every view showed the region.
    pub(crate) fn always_seen(&self) -> Self {
        Self { inclusion_probability: 1.0, ..self.clone() }
    }

    /// One view's inclusion probability for each place of the region, as a map to draw. A region that moves has a place for all that it may
    /// cover on its way.
    ///
    /// # Errors
    /// There is no region, no image size or no crop, or the geometry has no map for them.
    pub fn heatmap(&self) -> Result<HeatMap, PlanError> {
        let missing = |key, why| PlanError::Missing { key, why };
        let image =
            self.image.ok_or_else(|| missing("pipeline.image", "a heat map needs the image's size"))?;
        let pipeline =
            self.pipeline.as_ref().ok_or_else(|| missing("pipeline.crop", "a heat map shows crops"))?;
        let regions = self.protected.as_ref().map(|protected| protected.swept(image)).transpose()?;
        let region = regions.as_ref().and_then(|regions| regions.first());
        let region = region.ok_or_else(|| missing("region.patch", "a heat map shows a region"))?;
        heatmap(region, image, pipeline).map_err(|source| locate(source, region))
    }
}

/// How far the region moves, if it does.
fn travel(spec: &PlanSpec, regions: &[Region], placement: Placement) -> Result<Option<Pixels>, PlanError> {
    const KEY: &str = "region.travel";
    let Some(travel) = spec.region.travel.filter(|travel| (travel.x, travel.y) != (0, 0)) else {
        return Ok(None);
    };
    if regions.is_empty() {
        return Err(PlanError::Missing { key: "region.patch", why: "a travel is given without a region" });
    }
    if placement == Placement::Annotated {
        return Err(PlanError::invalid(
            KEY,
            "an annotated region lies where its mask marks it",
            "mark every place of the region in the mask, and leave the travel out",
        ));
    }
    if spec.pipeline.pixel_noise.is_some() {
        return Err(PlanError::invalid(
            KEY,
            "noise on pixels is counted for a region of one image",
            "leave pipeline.pixel_noise out",
        ));
    }
    Ok(Some(travel))
}

fn regions(spec: &RegionSpec, masks: &[Mask]) -> Result<Vec<Region>, PlanError> {
    let given = [
        ("region.patch", spec.patch.is_some()),
        ("region.circle", spec.circle.is_some()),
        ("region.mask", spec.mask.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        return Err(PlanError::invalid(
            second,
            format!("{first} is given as well"),
            "a plan protects one region: give a patch, a circle or a mask",
        ));
    }
    if let Some(Pixels { x, y }) = spec.patch {
        return Ok(vec![Region::Rectangle(Size::named("patch", x, y).map_err(at("region.patch"))?)]);
    }
    if let Some(radius) = spec.circle {
        let region = Region::Circle { radius };
        region.extent().map_err(at("region.circle"))?;
        return Ok(vec![region]);
    }
    if spec.mask.is_some() && masks.is_empty() {
        return Err(at("region.mask")(GeometryError::NoMasks));
    }
    if spec.mask.is_none() && !masks.is_empty() {
        return Err(PlanError::Missing { key: "region.mask", why: "a mask is given without a name" });
    }
    Ok(masks.iter().cloned().map(Region::Mask).collect())
}

/// Operations on the whole image in order, padding last.
fn whole_image_operations(spec: &PipelineSpec) -> Result<Vec<Operation>, PlanError> {
    let mut before = spec
        .operations
        .iter()
        .flatten()
        .map(|text| operations::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    let mode = match spec.pad_mode {
        None | Some(PadModeSpec::Zero) => PaddingMode::Zero,
        Some(PadModeSpec::Reflect) => PaddingMode::Reflect,
        Some(PadModeSpec::Replicate) => PaddingMode::Replicate,
        Some(PadModeSpec::Wrap) => PaddingMode::Wrap,
    };
    if let Some(Pixels { x, y }) = spec.pad
        && (x > 0 || y > 0)
    {
        before.push(Operation::Pad { padding: Padding { x, y }, mode });
    }
    Ok(before)
}

fn pipeline(spec: &PipelineSpec, before: &[Operation]) -> Result<Option<Pipeline>, PlanError> {
    let resized = spec.crop_scale.is_some() || spec.crop_ratio.is_some();
    let crop = match spec.crop {
        Some(_) if resized => {
            return Err(PlanError::invalid(
                "pipeline.crop",
                "a crop of fixed size and a random resized crop are both given",
                "give --crop, or --crop-scale and --crop-ratio",
            ));
        }
        Some(Pixels { x, y }) => Some(CropDistribution::fixed(x, y).map_err(at("pipeline.crop"))?),
        None if resized => {
            let scale = spec.crop_scale.map_or(CROP_SCALE, |range| (range.low, range.high));
            let ratio = spec.crop_ratio.map_or(CROP_RATIO, |range| (range.low, range.high));
            let key = if spec.crop_scale.is_some() { "pipeline.crop_scale" } else { "pipeline.crop_ratio" };
            Some(CropDistribution::resized(scale, ratio).map_err(at(key))?)
        }
        None => None,
    };
    let Some(crop) = crop else {
        // Without a crop the model sees everything, so operations on the whole image do no harm.
        return Ok(None);
    };
    Pipeline::new(before.to_vec(), crop).map(Some).map_err(at("pipeline.operations"))
}

/// The number of views of a record. There may be none only where synthetic images take their place.
fn views_count(spec: &PlanSpec) -> Result<u32, PlanError> {
    match spec.pipeline.views.unwrap_or(1) {
        0 if spec.mix.synthetic.unwrap_or(0) == 0 => Err(at("pipeline.views")(GeometryError::NoViews)),
        count if count > MAX_VIEWS => Err(PlanError::invalid(
            "pipeline.views",
            format!("{count} views of each record"),
            format!("give at most {MAX_VIEWS}"),
        )),
        count => Ok(count),
    }
}

fn worst(
    regions: &[Region],
    placement: Placement,
    image: Size,
    pipeline: &Pipeline,
) -> Result<Inclusion, PlanError> {
    let mut worst: Option<Inclusion> = None;
    for region in regions {
        let this = inclusion(region, placement, image, pipeline).map_err(|source| locate(source, region))?;
        worst = Some(worst.map_or(this, |worst| worst.worse(this)));
    }
    worst.ok_or_else(|| at("region.mask")(GeometryError::NoMasks))
}

/// Checks that the crop fits, for a plan without a region.
fn fits(pipeline: &Pipeline, image: Size) -> Result<(), PlanError> {
    let reaching = pipeline.size_before_crop(image).map_err(at("pipeline.pad"))?;
    match pipeline.crop_distribution() {
        CropDistribution::Fixed(crop) if !reaching.contains(*crop) => {
            Err(at("pipeline.crop")(GeometryError::CropTooLarge { crop: *crop, image: reaching }))
        }
        _ => Ok(()),
    }
}

/// Checks that the region fits, for a plan without a crop.
fn whole_image(regions: &[Region], placement: Placement, image: Size) -> Result<(), PlanError> {
    let pipeline = Pipeline::crop(CropDistribution::Fixed(image));
    worst(regions, placement, image, &pipeline).map(|_| ())
}

fn at(key: &'static str) -> impl Fn(GeometryError) -> PlanError {
    move |source| PlanError::Geometry { key, source }
}

/// Finds the key that an error of the geometry is about.
fn locate(source: GeometryError, region: &Region) -> PlanError {
    let region_key = match region {
        Region::Circle { .. } => "region.circle",
        Region::Mask(_) => "region.mask",
        Region::Rectangle(_) | Region::Union(_) => "region.patch",
    };
    let key = match &source {
        GeometryError::CropTooLarge { .. } => "pipeline.crop",
        GeometryError::RegionTooLarge { .. }
        | GeometryError::RegionOutside { .. }
        | GeometryError::EmptyMask
        | GeometryError::MaskSize { .. } => region_key,
        GeometryError::BadRadius { .. } => "region.circle",
        GeometryError::NotAnnotated { .. } => "region.placement",
        GeometryError::PaddingTooLarge { .. }
        | GeometryError::TooLarge { what: "side of the padded image", .. } => "pipeline.pad",
        GeometryError::SpreadsOverImage { .. } => "pipeline.operations",
        _ => "pipeline.image",
    };
    PlanError::Geometry { key, source }
}
