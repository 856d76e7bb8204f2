//! What the pipeline shows of a label map: every operation on the image as one that copies labels.

use dapple_geometry::{Filter, Operation, Size};

use super::crop::Place;
use super::mapping::Mapping;
use super::resample::nearest;
use super::{Views, refuse, size_of};
use crate::target::widened;
use crate::{DataError, IGNORED, LabelMap};

impl Views {
    /// Which label of the map each pixel that reaches the crop has.
    ///
    /// # Guarantee
    /// The label of a pixel comes from within the footprint of what the pixel itself shows, so that labels reach no farther than
    /// pixels do and the priced influence mask ([`dapple_geometry::Pipeline::influence`]) covers both: copies are shared,
    /// a blur leaves labels alone, and a resize takes the pixel around its centre (or, where the image itself takes the nearest, the same).
    pub(super) fn labels_before(&self, size: Size) -> Result<Mapping, DataError> {
        let mut mapping = Mapping::identity(size);
        follow(&mut mapping, &self.before)?;
        Ok(mapping)
    }

    /// Writes the labels of one view: those of the same place, mirrored by the same coin.
    ///
    /// # Shapes
    /// `output` is `[height, width]`.
    pub(super) fn view_labels(
        &self,
        map: &LabelMap,
        before: &Mapping,
        place: Place,
        flip: bool,
        output: &mut [u32],
    ) -> Result<(), DataError> {
        let mut mapping = before.at(place);
        follow(&mut mapping, &self.after)?;
        let resize = Operation::Resize { to: self.output, filter: Filter::Bilinear, antialias: true };
        follow(&mut mapping, &[resize])?;
        if flip {
            mapping.then(&Operation::FlipHorizontal);
        }
        let wide = map.size().width() as usize;
        let (step_x, step_y) = if mapping.swapped { (wide, 1) } else { (1, wide) };
        for (target, row) in output.chunks_exact_mut(mapping.x.len()).zip(&mapping.y) {
            for (target, column) in target.iter_mut().zip(&mapping.x) {
                *target = match (column, row) {
                    // Zero padding shows nothing.
                    (None, _) | (_, None) => IGNORED,
                    (Some(x), Some(y)) => widened(map.labels()[*x as usize * step_x + *y as usize * step_y]),
                };
            }
        }
        Ok(())
    }
}

/// More operations on labels.
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
