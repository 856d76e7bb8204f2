//! What the pipeline shows of a label map. Every operation on the image has a counterpart that copies labels.

use chacha20::rand_core::Rng;
use dapple_geometry::{Filter, Operation};

use super::mapping::Mapping;
use super::resample::nearest;
use super::{ShownView, Views, refuse, size_of};
use crate::target::widened;
use crate::{DataError, IGNORED, Image, LabelMap};

impl Views {
    /// Draws the views of a training image together with the labels of its pixels.
    ///
    /// # Shapes
    /// `output` is `[views, channels, height, width]`, `labels` `[views, height, width]`.
    ///
    /// # Guarantee
    /// The image is shown as [`Views::draw`] shows it with the same stream: labels are never looked at to choose a crop. The labels of a
    /// view are those of the pixels that it shows, by the same origin, coin and warps. Zero padding has no label. A region of the label
    /// map changes a view's labels only if its crop meets the influence mask of that region of the image.
    ///
    /// # Errors
    /// As [`Views::draw`]; a label map of another size than the image.
    pub fn draw_labelled(
        &self,
        image: &Image,
        map: &LabelMap,
        random: &mut impl Rng,
        output: &mut [f32],
        labels: &mut [u32],
    ) -> Result<(), DataError> {
        self.check_image(image)?;
        let shown = self.show(image, |reaching| self.places(reaching, random), output)?;
        self.label(image, map, &shown, labels)?;
        self.change(random, output, |view, warp| {
            warp.apply_to_labels(self.output, &mut labels[view * self.positions()..][..self.positions()]);
        });
        Ok(())
    }

    /// The views of an image for evaluation ([`Views::evaluate`]) with the labels of each.
    ///
    /// # Shapes
    /// `output` is `[evaluation_views(grid), channels, height, width]`, `labels` `[evaluation_views(grid), height, width]`.
    ///
    /// # Errors
    /// As [`Views::evaluate`]; a label map of another size than the image.
    pub fn evaluate_labelled(
        &self,
        image: &Image,
        map: &LabelMap,
        grid: u32,
        output: &mut [f32],
        labels: &mut [u32],
    ) -> Result<(), DataError> {
        let shown = self.show(image, |reaching| self.grid(reaching, grid), output)?;
        self.label(image, map, &shown, labels)
    }

    /// Writes the labels of views that were shown, from the same places and mirrored by the same coins.
    ///
    /// # Guarantee
    /// The label of a pixel comes from within the footprint of what the pixel itself shows, so labels reach no farther than pixels do and
    /// the priced influence mask ([`dapple_geometry::Pipeline::influence`]) covers both: copies are shared, a blur leaves labels alone,
    /// and a resize takes the label at the pixel's centre, or the label of the nearest pixel if the image takes that pixel too.
    fn label(
        &self,
        image: &Image,
        map: &LabelMap,
        shown: &[ShownView],
        labels: &mut [u32],
    ) -> Result<(), DataError> {
        if map.size() != image.size() {
            let place = "an image".to_owned();
            return Err(DataError::LabelSize { place, found: map.size(), expected: image.size() });
        }
        let mut before = Mapping::identity(map.size());
        follow(&mut before, &self.before)?;
        let resize = Operation::Resize { to: self.output, filter: Filter::Bilinear, antialias: true };
        for (labels, shown) in labels.chunks_exact_mut(self.positions()).zip(shown) {
            let mut mapping = before.at(shown.place);
            follow(&mut mapping, &self.after)?;
            follow(&mut mapping, &[resize])?;
            if shown.flip {
                mapping.then(&Operation::FlipHorizontal);
            }
            copy(map, &mapping, labels);
        }
        Ok(())
    }
}

/// Writes the labels that a mapping shows, `[height, width]`. Zero padding shows none.
fn copy(map: &LabelMap, mapping: &Mapping, labels: &mut [u32]) {
    let wide = map.size().width() as usize;
    let (step_x, step_y) = if mapping.swapped { (wide, 1) } else { (1, wide) };
    for (target, row) in labels.chunks_exact_mut(mapping.x.len()).zip(&mapping.y) {
        for (target, column) in target.iter_mut().zip(&mapping.x) {
            *target = match (column, row) {
                (Some(x), Some(y)) => widened(map.labels()[*x as usize * step_x + *y as usize * step_y]),
                _ => IGNORED,
            };
        }
    }
}

/// Carries out further operations on labels.
fn follow(mapping: &mut Mapping, operations: &[Operation]) -> Result<(), DataError> {
    for operation in operations {
        if mapping.then(operation) {
            continue;
        }
        match operation {
            Operation::Resize { to, filter, .. } => {
                let size = size_of(mapping)?;
                mapping.x = resized(&mapping.x, size.width(), to.width(), *filter);
                mapping.y = resized(&mapping.y, size.height(), to.height(), *filter);
            }
            Operation::Blur { .. } => {}
            other => refuse(other)?,
        }
    }
    Ok(())
}

fn resized(axis: &[Option<u32>], from: u32, to: u32, filter: Filter) -> Vec<Option<u32>> {
    let filter = if filter == Filter::Nearest { filter } else { Filter::NearestExact };
    (0..to).map(|x| axis.get(nearest(x, from, to, filter)).copied().flatten()).collect()
}
