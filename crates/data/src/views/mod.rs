//! Carries out the spatial pipeline of a plan.

mod augment;
mod buffer;
#[cfg(test)]
mod clip_tests;
mod contribution;
mod crop;
mod fixed_part;
#[cfg(test)]
mod label_tests;
mod labels;
mod mapping;
mod mixtures;
mod normalise;
mod part;
#[cfg(test)]
mod part_tests;
mod resample;
mod sizes;
mod source;
mod synthetic;
#[cfg(test)]
mod tests;
mod whole;

use chacha20::rand_core::Rng;
use dapple_geometry::{Augmentation, CropDistribution, Filter, Operation, Placement, Size};
use dapple_plan::spec::Pixels;
use dapple_plan::{Spatial, ViewPlan};

use crate::uniform::below;
use crate::{DataError, Dataset, Image, TargetKind};
use buffer::Buffer;
use crop::CropPlace;
use mapping::Mapping;
use normalise::Normalise;
use part::ShownPart;
use resample::Taps;
use sizes::{follow, natural_size, size_of};
use source::ViewSource;
use synthetic::Synthetic;

pub use fixed_part::FixedParts;
pub use part::{PartGrid, RecordPart};
pub use whole::Whole;

/// The most pixels of an image at any point of the pipeline, and the most values of a record's views: a gigabyte in single precision.
pub(crate) const MAX_PIXELS: u64 = 1 << 28;

/// The largest radius of a blur, because its cost grows with the radius.
const MAX_RADIUS: u32 = 1024;

/// Turns an image into what the model sees: the operations before the crop, the crops of the plan's views, resizing to the model's size,
/// mirroring and augmentations where the plan asks for them, and normalisation by fixed constants.
///
/// # Guarantee
/// It carries out the very [`Pipeline`](dapple_geometry::Pipeline) that the geometry priced, and only on images of the size it was priced
/// for. A view depends on the pixels of a region only if its crop meets the region's influence mask
/// ([`influence`](dapple_geometry::Pipeline::influence)). Crops are drawn from the priced distribution, independently for each view. What
/// happens behind the crop reads the crop alone, and constants never come from the data.
#[derive(Debug, Clone)]
pub struct Views {
    /// The size every training image must have.
    image: Option<Size>,
    /// Whether a mask says where in every image the region lies.
    annotated: bool,
    before: Vec<Operation>,
    crop: Option<CropDistribution>,
    after: Vec<Operation>,
    views: usize,
    /// The synthetic images that follow the views.
    synthetic: Option<Synthetic>,
    /// How many mixtures of two of these follow.
    mixtures: usize,
    flip: bool,
    /// The standard deviation of the noise on training views, of values from 0 to 1.
    pixel_noise: Option<f64>,
    augment: Vec<Augmentation>,
    output: Size,
    normalise: Normalise,
    /// The frames of a clip of which a view shows some, one after the other; `None` if it shows all.
    whole_clip: Option<usize>,
    /// The part of each image that is shown; `None` for all of it.
    part: Option<ShownPart>,
}

impl Views {
    /// The views of a plan (or of one phase of it) on the images of a data set.
    ///
    /// # Errors
    /// Images of another size than the plan's, pixel noise for records with label maps, and as [`Views::of_channels`].
    pub fn new(spatial: &Spatial, plan: &ViewPlan, dataset: &dyn Dataset) -> Result<Self, DataError> {
        let image = spatial.image().or(dataset.image_size());
        if let (Some(expected), Some(found)) = (image, dataset.image_size())
            && expected != found
        {
            return Err(DataError::ImageSize { place: dataset.place(0), found, expected });
        }
        if spatial.pixel_noise().is_some() && dataset.target_kind() == TargetKind::LabelMap {
            let problem = "noise hides pixels, but not their labels".to_owned();
            return Err(DataError::setting("pipeline.pixel_noise", problem));
        }
        Self::of_clips(spatial, plan, (dataset.channels(), dataset.frames()), image)
    }

    /// The views of a plan on images with that many values per pixel, without a data set at hand. `image` is the size that all images
    /// share, if they do.
    ///
    /// # Errors
    /// An operation that says too little to be carried out, a missing output size, constants, augmentations or pixel noise that do not
    /// fit the channels or the size.
    pub fn of_channels(
        spatial: &Spatial,
        plan: &ViewPlan,
        channels: usize,
        image: Option<Size>,
    ) -> Result<Self, DataError> {
        Self::of_clips(spatial, plan, (channels, None), image)
    }

    /// The same for clips of that many frames, if there is a number of them. All frames of a clip are shown at one place.
    ///
    /// # Errors
    /// As [`Views::of_channels`].
    pub fn of_clips(
        spatial: &Spatial,
        plan: &ViewPlan,
        (channels, frames): (usize, Option<usize>),
        image: Option<Size>,
    ) -> Result<Self, DataError> {
        let (before, crop, after) = match spatial.pipeline() {
            Some(pipeline) => {
                (pipeline.before().to_vec(), Some(*pipeline.crop_distribution()), pipeline.after().to_vec())
            }
            None => (spatial.operations().to_vec(), None, Vec::new()),
        };
        for operation in before.iter().chain(&after) {
            refuse(operation)?;
        }
        let asked = match plan.size {
            Some(Pixels { x, y }) => {
                Some(Size::named("data.size", x, y).map_err(DataError::geometry("`data.size`"))?)
            }
            None => None,
        };
        let natural = natural_size(&before, crop.as_ref(), &after, image)?;
        let output = asked.or(natural).ok_or_else(|| {
            let why = "without a crop of fixed size the model needs a size to which images are brought";
            DataError::missing("data.size", why)
        })?;
        let views = spatial.views() as usize;
        let whole_clip = match (spatial.window(), frames) {
            (None, _) => None,
            (Some(window), Some(frames)) if window.frames() as usize == frames => Some(frames),
            (Some(window), frames) => {
                let problem = match frames {
                    None => "records are images, and have no frames".to_owned(),
                    Some(frames) => format!("{}, but data.frames = {frames}", window.frames()),
                };
                return Err(DataError::setting("pipeline.frames", problem));
            }
        };
        let frames = spatial.window().map(|window| window.shown() as usize).or(frames);
        let planes = channels.saturating_mul(frames.unwrap_or(1));
        let values =
            (planes as u64).checked_mul(views as u64).and_then(|each| output.pixels().checked_mul(each));
        if planes == 0 || values.is_none_or(|values| values > MAX_PIXELS) {
            let problem = format!("{views} views of {output} with {planes} values a pixel");
            return Err(DataError::setting("pipeline.views", problem));
        }
        let normalise =
            Normalise::new(channels, plan.mean.as_deref(), plan.std.as_deref())?.of_frames(frames);
        let pixel_noise = match spatial.pixel_noise() {
            Some(noise) => Some(augment::counted(noise, planes, (natural, output))?),
            None => None,
        };
        let flip = plan.flip;
        let views = Self {
            before,
            crop,
            after,
            views,
            flip,
            pixel_noise,
            whole_clip,
            annotated: annotated(spatial),
            ..Self::unchanged(image, output, normalise)
        };
        views.with_augmentations(&plan.augment)
    }

    /// Shows records that are vectors of this length as they are.
    ///
    /// # Errors
    /// Vectors without values, or longer than any image.
    pub fn of_vectors(length: usize) -> Result<Self, DataError> {
        let width = u32::try_from(length).unwrap_or(u32::MAX);
        let output = Size::named("vector", width, 1).map_err(DataError::geometry("a vector"))?;
        Ok(Self::unchanged(Some(output), output, Normalise::new(1, None, None)?))
    }

    /// One view of each record, in which nothing is drawn.
    fn unchanged(image: Option<Size>, output: Size, normalise: Normalise) -> Self {
        Self {
            image,
            annotated: false,
            before: Vec::new(),
            crop: None,
            after: Vec::new(),
            views: 1,
            synthetic: None,
            mixtures: 0,
            flip: false,
            pixel_noise: None,
            augment: Vec::new(),
            output,
            normalise,
            whole_clip: None,
            part: None,
        }
    }

    /// What the model sees of one view: `[channels, height, width]`, or `[channels, frames, height, width]` of a clip.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let sides = [self.output.height() as usize, self.output.width() as usize];
        [self.normalise.channels()].into_iter().chain(self.normalise.frames()).chain(sides).collect()
    }

    /// Width and height of one view.
    #[must_use]
    pub fn view_size(&self) -> Size {
        self.output
    }

    /// Values of one view.
    #[must_use]
    pub fn view_length(&self) -> usize {
        self.normalise.planes() * self.positions()
    }

    /// Labels of one view of an image with a label map: `[height, width]`.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.output.pixels() as usize
    }

    /// Draws the views of a training image, without what is shown beside them.
    ///
    /// # Shapes
    /// `output` is `[views, channels, height, width]`.
    ///
    /// # Errors
    /// An image that is not of the plan's size, or into which the crop does not fit.
    pub fn draw(&self, image: &Image, random: &mut impl Rng, output: &mut [f32]) -> Result<(), DataError> {
        self.check_image(image)?;
        self.show(image, |reaching| self.places(reaching, random), output)?;
        self.change(random, output, |_, _| {});
        Ok(())
    }

    /// Refuses images of another size than the plan's, because inclusion probabilities hold for one size only; and, beside a mask that says
    /// where the region lies, images that are to be turned, which it may lie over either way.
    fn check_image(&self, image: &Image) -> Result<(), DataError> {
        if self.annotated && image.is_turned() {
            return Err(DataError::Turned { place: "an image".to_owned() });
        }
        match self.image {
            Some(expected) if expected != image.size() => {
                let place = "an image".to_owned();
                Err(DataError::ImageSize { place, found: image.size(), expected })
            }
            _ => Ok(()),
        }
    }

    /// Draws where each view lies and whether it is mirrored. Only sizes are known here, neither pixels nor labels.
    fn places(&self, reaching: Size, random: &mut impl Rng) -> Result<Vec<ShownView>, DataError> {
        (0..self.views).map(|_| self.place(reaching, random)).collect()
    }

    /// Draws where one view lies and whether it is mirrored.
    fn place(&self, reaching: Size, random: &mut impl Rng) -> Result<ShownView, DataError> {
        let place = match &self.crop {
            Some(crop) => crop::draw(crop, reaching, random).map_err(DataError::geometry("an image"))?,
            None => CropPlace::whole(reaching),
        };
        let first = match self.spare_frames() {
            0 => 0,
            spare => below(random, spare as u64 + 1) as usize,
        };
        Ok(ShownView { place, first, flip: self.flip && random.next_u32() >> 31 == 1 })
    }

    /// The frames of a clip that a view does not show.
    fn spare_frames(&self) -> usize {
        self.whole_clip.zip(self.normalise.frames()).map_or(0, |(whole, shown)| whole - shown)
    }

    /// Shows an image at the places that `places` chooses once the size before the crop is known, and returns them.
    fn show(
        &self,
        image: &Image,
        places: impl FnOnce(Size) -> Result<Vec<ShownView>, DataError>,
        output: &mut [f32],
    ) -> Result<Vec<ShownView>, DataError> {
        if self.whole_clip.is_some() {
            return self.show_windows(image, places, output);
        }
        let (source, mapping) = self.prepare(image)?;
        let places = places(size_of(&mapping)?)?;
        for (view, shown) in output.chunks_exact_mut(self.view_length()).zip(&places) {
            self.finish(&source, &mapping, shown.place, shown.flip, view)?;
        }
        Ok(places)
    }

    /// The same of a clip of which each view shows a window.
    fn show_windows(
        &self,
        clip: &Image,
        places: impl FnOnce(Size) -> Result<Vec<ShownView>, DataError>,
        output: &mut [f32],
    ) -> Result<Vec<ShownView>, DataError> {
        let other = || {
            let (place, found, expected) = ("an image".to_owned(), clip.frames(), self.whole_clip);
            DataError::Frames { place, found, expected }
        };
        if clip.frames() != self.whole_clip {
            return Err(other());
        }
        let reaching = follow(&self.before, clip.size()).map_err(DataError::geometry("an image"))?;
        let places = places(reaching)?;
        let frames = self.normalise.frames().unwrap_or(1);
        for (view, shown) in output.chunks_exact_mut(self.view_length()).zip(&places) {
            let window = clip.window(shown.first, frames).ok_or_else(other)?;
            let (source, mapping) = self.prepare(&window)?;
            self.finish(&source, &mapping, shown.place, shown.flip, view)?;
        }
        Ok(places)
    }

    /// Views that [`Views::evaluate`] makes of an image.
    #[must_use]
    pub fn evaluation_views(&self, grid: u32) -> usize {
        match self.crop {
            Some(CropDistribution::Fixed(_)) => (grid.max(1) as usize).pow(2),
            _ => 1,
        }
    }

    /// The views of an image for evaluation, where nothing is random: `grid * grid` crops evenly spaced from edge to edge, or the one in
    /// the centre for a grid of 1; the whole image if the plan has no crop of fixed size. The image may have any size.
    ///
    /// # Shapes
    /// `output` is `[evaluation_views(grid), channels, height, width]`.
    ///
    /// # Errors
    /// An image into which the crop does not fit.
    pub fn evaluate(&self, image: &Image, grid: u32, output: &mut [f32]) -> Result<(), DataError> {
        self.show(image, |reaching| self.grid(reaching, grid), output)?;
        Ok(())
    }

    /// Where the views for evaluation lie.
    fn grid(&self, reaching: Size, grid: u32) -> Result<Vec<ShownView>, DataError> {
        let places = match &self.crop {
            Some(crop) => crop::grid(crop, reaching, grid)?,
            None => vec![CropPlace::whole(reaching)],
        };
        // The window in the middle.
        let first = self.spare_frames() / 2;
        Ok(places.into_iter().map(|place| ShownView { place, first, flip: false }).collect())
    }

    /// Carries out the operations before the crop.
    fn prepare<'a>(&self, image: &'a Image) -> Result<(ViewSource<'a>, Mapping), DataError> {
        self.check_channels(image)?;
        follow(&self.before, image.size()).map_err(DataError::geometry("an image"))?;
        let mapping = Mapping::identity(image.size());
        self.run(&self.before, ViewSource::Image(image), mapping)
    }

    fn check_channels(&self, image: &Image) -> Result<(), DataError> {
        let (found, expected) = (image.channels(), self.normalise.channels());
        if found != expected {
            return Err(DataError::Channels { place: "an image".to_owned(), found, expected });
        }
        let (found, expected) = (image.frames(), self.normalise.frames());
        if found != expected {
            return Err(DataError::Frames { place: "an image".to_owned(), found, expected });
        }
        Ok(())
    }

    fn run<'a>(
        &self,
        operations: &[Operation],
        mut source: ViewSource<'a>,
        mut mapping: Mapping,
    ) -> Result<(ViewSource<'a>, Mapping), DataError> {
        for operation in operations {
            if mapping.then(operation) {
                continue;
            }
            let size = size_of(&mapping)?;
            let (along_x, along_y, to) = match operation {
                Operation::Resize { to, filter, antialias } => {
                    let taps = |from: u32, to: u32| {
                        (from != to).then(|| Taps::resize(from, to, *filter, *antialias))
                    };
                    (taps(size.width(), to.width()), taps(size.height(), to.height()), *to)
                }
                Operation::Blur { radius_x, radius_y } => {
                    let taps = |length, radius: u32| (radius > 0).then(|| Taps::blur(length, radius));
                    (taps(size.width(), *radius_x), taps(size.height(), *radius_y), size)
                }
                other => {
                    refuse(other)?;
                    continue;
                }
            };
            let planes = self.planes(&source, &mapping, CropPlace::whole(size));
            let values =
                resample::apply(planes, size, self.normalise.planes(), along_x.as_ref(), along_y.as_ref());
            source = ViewSource::Planes { size: to, values };
            mapping = Mapping::identity(to);
        }
        Ok((source, mapping))
    }

    fn planes(&self, source: &ViewSource<'_>, mapping: &Mapping, place: CropPlace) -> Buffer {
        let mut planes = Buffer::zeros(self.normalise.planes() * place.size.pixels() as usize);
        source.read(mapping, place, &self.normalise, &mut planes);
        planes
    }

    /// Carries out what happens behind the crop.
    fn finish(
        &self,
        source: &ViewSource<'_>,
        mapping: &Mapping,
        place: CropPlace,
        flip: bool,
        view: &mut [f32],
    ) -> Result<(), DataError> {
        let mirror = |view: &mut [f32]| {
            if flip {
                view.chunks_exact_mut(self.output.width() as usize).for_each(<[f32]>::reverse);
            }
        };
        if self.after.is_empty() && place.size == self.output {
            source.read(mapping, place, &self.normalise, view);
            mirror(view);
            return Ok(());
        }
        let values = self.planes(source, mapping, place);
        let crop = ViewSource::Planes { size: place.size, values };
        let resize = Operation::Resize { to: self.output, filter: Filter::Bilinear, antialias: true };
        let (crop, mapping) = self.run(&self.after, crop, Mapping::identity(place.size))?;
        let (crop, mapping) = self.run(&[resize], crop, mapping)?;
        crop.read(&mapping, CropPlace::whole(self.output), &self.normalise, view);
        mirror(view);
        Ok(())
    }
}

/// Where a view lies in the image that reaches the crop, with which frame it begins, and whether it is mirrored afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownView {
    place: CropPlace,
    /// The first frame of a clip that is shown.
    first: usize,
    flip: bool,
}

/// Refuses operations that a plan can price, but that cannot be carried out: it does not say how, or they cost too much.
fn refuse(operation: &Operation) -> Result<(), DataError> {
    let (operation, reason) = match operation {
        Operation::Pointwise => ("pointwise", "the plan does not say what it does to a pixel"),
        Operation::Jpeg { .. } => ("jpeg", "the plan does not say at which quality"),
        Operation::Global(global) => (global.name(), "it looks at the whole image"),
        Operation::Blur { radius_x, radius_y } if (*radius_x).max(*radius_y) > MAX_RADIUS => {
            ("blur", "its radius is above 1024 pixels")
        }
        _ => return Ok(()),
    };
    Err(DataError::Operation { operation, reason })
}

/// Whether masks say where the region lies, rather than which form it has wherever it lies.
fn annotated(spatial: &Spatial) -> bool {
    spatial.protected().is_some_and(|protected| protected.placement() == Placement::Annotated)
}
