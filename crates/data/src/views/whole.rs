//! Whole images for evaluation and prediction. The model sees them at once or window by window, and answers come back at the images' own
//! size.

use dapple_geometry::{CropDistribution, Filter, Operation, Size};

use super::crop::CropPlace;
use super::mapping::Mapping;
use super::source::ViewSource;
use super::{Views, follow, size_of};
use crate::{DataError, Image};

/// An uncropped image as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    size: Size,
    // [channels, height, width]
    values: Vec<f32>,
    /// What the model sees beyond the edge, one value for each channel.
    blank: Vec<f32>,
    original: Size,
    turned: Turned,
}

/// How the image that the model sees is turned against the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turned {
    /// Whether columns of the image seen are rows of the original.
    swapped: bool,
    reversed_x: bool,
    reversed_y: bool,
}

impl Views {
    /// The whole image, normalised and at the scale at which the model sees crops. Nothing is drawn at random and nothing is padded. The
    /// image may have any size.
    ///
    /// # Errors
    /// An image with another number of channels, or one too large for memory.
    pub fn whole(&self, image: &Image) -> Result<Whole, DataError> {
        let padded = |operation: &&Operation| matches!(operation, Operation::Pad { .. });
        let resized = |operation: &&Operation| matches!(operation, Operation::Resize { .. });
        let before = self.before.iter().filter(|operation| !padded(operation));
        let after = self.after.iter().filter(|operation| !padded(operation) && !resized(operation));
        let mut operations: Vec<Operation> = before.chain(after.clone()).copied().collect();
        let failed = || DataError::geometry("an image");
        let reaching = follow(&operations, image.size()).map_err(failed())?;
        if let Some(CropDistribution::Fixed(crop)) = self.crop {
            // Crops are brought to the model's size, so the image is enlarged in the same ratio.
            let after: Vec<Operation> = after.copied().collect();
            let crop = follow(&after, crop).map_err(failed())?;
            let along = |length: u32, from: u32, to: u32| {
                let scaled = (u64::from(length) * u64::from(to) + u64::from(from) / 2) / u64::from(from);
                u32::try_from(scaled.max(1)).unwrap_or(u32::MAX)
            };
            let width = along(reaching.width(), crop.width(), self.output.width());
            let height = along(reaching.height(), crop.height(), self.output.height());
            let to = Size::new(width, height).map_err(failed())?;
            operations.push(Operation::Resize { to, filter: Filter::Bilinear, antialias: true });
        } else if self.crop.is_none() {
            operations.push(Operation::Resize { to: self.output, filter: Filter::Bilinear, antialias: true });
        }
        self.check_channels(image)?;
        let size = follow(&operations, image.size()).map_err(failed())?;
        let (source, mapping) =
            self.run(&operations, ViewSource::Image(image), Mapping::identity(image.size()))?;
        let planes = self.normalise.planes();
        let mut values = vec![0.0; planes * size.pixels() as usize];
        source.read(&mapping, CropPlace::whole(size_of(&mapping)?), &self.normalise, &mut values);
        let blank = (0..planes).map(|plane| self.normalise.blank(plane)).collect();
        Ok(Whole { size, values, blank, original: image.size(), turned: Turned::by(&operations)? })
    }
}

impl Turned {
    fn by(operations: &[Operation]) -> Result<Self, DataError> {
        let mut mapping = Mapping::identity(Size::new(2, 2).map_err(DataError::geometry("an image"))?);
        for operation in operations {
            // All other operations leave the image's orientation alone.
            mapping.then(operation);
        }
        let reversed = |axis: &[Option<u32>]| axis.first() != Some(&Some(0));
        let Mapping { x, y, swapped } = &mapping;
        Ok(Self { swapped: *swapped, reversed_x: reversed(x), reversed_y: reversed(y) })
    }
}

impl Whole {
    /// Width and height as the model sees them.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Width and height of the image itself.
    #[must_use]
    pub fn original(&self) -> Size {
        self.original
    }

    /// What the model sees: `[channels, height, width]`.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Origins `[x, y]` of windows that cover the image from edge to edge, row by row and `stride` pixels apart. The last window of a row
    /// or column is moved back inside. A stride of 0 counts as 1.
    #[must_use]
    pub fn windows(&self, window: Size, stride: [u32; 2]) -> Vec<[u32; 2]> {
        let along = |length: u32, window: u32, stride: u32| {
            let last = length.saturating_sub(window);
            (0..last).step_by(stride.max(1) as usize).chain([last]).collect::<Vec<u32>>()
        };
        let columns = along(self.size.width(), window.width(), stride[0]);
        let rows = along(self.size.height(), window.height(), stride[1]);
        rows.iter().flat_map(|&y| columns.iter().map(move |&x| [x, y])).collect()
    }

    /// Copies a window. What lies beyond the image is black, as zero padding is.
    ///
    /// # Shapes
    /// `output` is `[channels, height, width]` of the window.
    pub fn window(&self, [x, y]: [u32; 2], window: Size, output: &mut [f32]) {
        let (wide, high) = (self.size.width() as usize, self.size.height() as usize);
        let (x, y, width) = (x as usize, y as usize, window.width() as usize);
        let inside = width.min(wide.saturating_sub(x));
        let planes = self.values.chunks_exact(wide * high).zip(&self.blank);
        for ((plane, &blank), target) in planes.zip(output.chunks_exact_mut(window.pixels() as usize)) {
            for (row, target) in target.chunks_exact_mut(width).enumerate() {
                let (shown, beyond) = target.split_at_mut(if y + row < high { inside } else { 0 });
                if !shown.is_empty() {
                    shown.copy_from_slice(&plane[(y + row) * wide + x..][..shown.len()]);
                }
                beyond.fill(blank);
            }
        }
    }

    /// Visits every pixel of the original image, row by row, with the scores that the model gives its classes there. Scores are turned
    /// back, and interpolated bilinearly where the model sees another size (pixel centres at half-integers, the edge repeats).
    ///
    /// # Shapes
    /// `scores` is `[classes, height, width]` of the image as seen; each visit gets `[classes]`.
    pub fn restore(&self, scores: &[f32], classes: usize, mut visit: impl FnMut(&[f32])) {
        let (wide, high) = (self.size.width() as usize, self.size.height() as usize);
        if classes == 0 || scores.len() != classes * wide * high {
            return;
        }
        // [height, width, classes], so that the scores of a pixel lie together.
        let mut pixels = vec![0.0; scores.len()];
        for (class, plane) in scores.chunks_exact(wide * high).enumerate() {
            pixels
                .iter_mut()
                .skip(class)
                .step_by(classes)
                .zip(plane)
                .for_each(|(pixel, &score)| *pixel = score);
        }
        let Turned { swapped, reversed_x, reversed_y } = self.turned;
        let (along_x, along_y) = if swapped {
            (self.original.height(), self.original.width())
        } else {
            (self.original.width(), self.original.height())
        };
        let columns = Between::all(along_x, self.size.width(), reversed_x);
        let rows = Between::all(along_y, self.size.height(), reversed_y);
        let mut mixed = vec![0.0; classes];
        for y in 0..self.original.height() as usize {
            for x in 0..self.original.width() as usize {
                let (column, row) = if swapped { (columns[y], rows[x]) } else { (columns[x], rows[y]) };
                let at = |column: usize, row: usize| &pixels[(row * wide + column) * classes..][..classes];
                let corners = [
                    at(column.first, row.first),
                    at(column.second, row.first),
                    at(column.first, row.second),
                    at(column.second, row.second),
                ];
                for (class, mixed) in mixed.iter_mut().enumerate() {
                    let [a, b, c, d] = corners.map(|corner| corner[class]);
                    let (above, below) = (a + (b - a) * column.share, c + (d - c) * column.share);
                    *mixed = above + (below - above) * row.share;
                }
                visit(&mixed);
            }
        }
    }
}

/// A place between two pixels.
#[derive(Debug, Clone, Copy)]
struct Between {
    first: usize,
    second: usize,
    /// Weight of the second.
    share: f32,
}

impl Between {
    /// Where each pixel of an axis of `from` pixels lies on an axis of `to` pixels.
    fn all(from: u32, to: u32, reversed: bool) -> Vec<Self> {
        let last = f64::from(to - 1);
        let one = |x: u32| {
            let place = (f64::from(x) + 0.5) * f64::from(to) / f64::from(from) - 0.5;
            let place = if reversed { last - place } else { place }.clamp(0.0, last);
            let first = place.floor();
            Self {
                first: first as usize,
                second: (first + 1.0).min(last) as usize,
                share: (place - first) as f32,
            }
        };
        (0..from).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{image, views};
    use super::*;
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    fn whole(seen: Size) -> Whole {
        let crop = size(1, 1);
        let views = views(Vec::new(), CropDistribution::Fixed(crop), crop);
        views.whole(&image(seen, |x, y| (10 * y + x) as f32)).unwrap()
    }

    proptest! {
        #[test]
        fn windows_cover_every_pixel_and_stay_inside(
            seen in (1u32..40, 1u32..40), window in (1u32..20, 1u32..20), stride in (0u32..20, 0u32..20),
        ) {
            let whole = whole(size(seen.0, seen.1));
            let window = size(window.0, window.1);
            // A stride longer than the window leaves gaps, as it may, so it is not tested here.
            let stride = [stride.0.min(window.width()), stride.1.min(window.height())];
            let mut covered = vec![false; whole.size().pixels() as usize];
            for [x, y] in whole.windows(window, stride) {
                prop_assert!(x + window.width() <= seen.0.max(window.width()));
                prop_assert!(y + window.height() <= seen.1.max(window.height()));
                for row in y..(y + window.height()).min(seen.1) {
                    for column in x..(x + window.width()).min(seen.0) {
                        covered[(row * seen.0 + column) as usize] = true;
                    }
                }
            }
            prop_assert!(covered.iter().all(|&covered| covered));
        }
    }

    #[test]
    fn a_window_beyond_the_edge_is_black() {
        let whole = whole(size(3, 2));
        let mut window = [0.0; 8];
        whole.window([1, 0], size(2, 4), &mut window);
        let normal = |value: f32| (value - 0.25) / 0.5;
        assert_eq!(window, [1.0, 2.0, 11.0, 12.0, 0.0, 0.0, 0.0, 0.0].map(normal));
        assert_eq!(whole.windows(size(2, 4), [1, 1]), [[0, 0], [1, 0]]);
    }

    /// If the answers are the pixels themselves, they come back where the pixels were, however the image was turned.
    #[test]
    fn answers_lie_where_the_image_does() {
        let turn = |clockwise| Operation::Turn { clockwise };
        for operations in [
            vec![],
            vec![Operation::FlipHorizontal],
            vec![turn(true)],
            vec![turn(false), Operation::FlipVertical],
            vec![turn(true), Operation::FlipHorizontal, turn(true), turn(true)],
        ] {
            let crop = size(1, 1);
            let views = views(operations.clone(), CropDistribution::Fixed(crop), crop);
            let original = image(size(5, 3), |x, y| (10 * y + x) as f32);
            let whole = views.whole(&original).unwrap();
            let mut restored = Vec::new();
            whole.restore(whole.values(), 1, |scores| restored.push(scores[0] * 0.5 + 0.25));
            let expected: Vec<f32> = (0..15).map(|pixel| (pixel / 5 * 10 + pixel % 5) as f32).collect();
            assert_eq!(restored, expected, "{operations:?}");
        }
    }

    /// A ramp stays a ramp under bilinear interpolation, except at the edges, where it repeats.
    #[test]
    fn answers_are_brought_back_to_the_image_size() {
        let resize = Operation::Resize { to: size(8, 4), filter: Filter::Bilinear, antialias: true };
        let crop = size(2, 2);
        let mut views = views(vec![resize], CropDistribution::Fixed(crop), crop);
        let whole = views.whole(&image(size(16, 12), |_, _| 0.0)).unwrap();
        assert_eq!((whole.size(), whole.original()), (size(8, 4), size(16, 12)));
        // The scores of the two classes are where the pixel lies along x and along y.
        let mut scores: Vec<f32> = (0..32).map(|pixel| (pixel % 8) as f32 + 0.5).collect();
        scores.extend((0..32).map(|pixel| (pixel / 8) as f32 + 0.5));
        let mut pixel = 0u16;
        whole.restore(&scores, 2, |scores| {
            let (x, y) = (f32::from(pixel % 16), f32::from(pixel / 16));
            let expected = [((x + 0.5) / 2.0).clamp(0.5, 7.5), ((y + 0.5) / 3.0).clamp(0.5, 3.5)];
            for (score, expected) in scores.iter().zip(expected) {
                // Thirds and halves are rounded in single precision.
                assert!((score - expected).abs() < 1e-5, "{score} {expected}");
            }
            pixel += 1;
        });
        assert_eq!(pixel, 16 * 12);
        // Where crops of 2x2 are shown at 4x6, so is the image.
        views.output = size(4, 6);
        assert_eq!(views.whole(&image(size(16, 12), |_, _| 0.0)).unwrap().size(), size(16, 12));
    }

    #[test]
    fn an_image_is_seen_whole_as_its_crops_are() {
        let operations = vec![Operation::Resize { to: size(9, 7), filter: Filter::Bicubic, antialias: true }];
        let crop = size(9, 7);
        let views = views(operations, CropDistribution::Fixed(crop), crop);
        let image = image(size(20, 11), |x, y| (x * 3 + y * y) as f32 / 50.0);
        let mut view = vec![0.0; views.view_length()];
        views.evaluate(&image, 1, &mut view).unwrap();
        assert_eq!(views.whole(&image).unwrap().values(), view);
    }
}
