//! The influence mask: which pixels private content can reach after a step.

use std::borrow::Cow;

use crate::axis::AxisStep;
use crate::footprint::Range;
use crate::{GeometryError, Mask, Size};

/// Applies a step along x and a step along y to a mask.
///
/// # Guarantee
/// A pixel of the result is set if the step reads any set pixel for it; a clear pixel does not depend on the set.
pub(crate) fn propagate<'a>(
    mask: Cow<'a, Mask>,
    along_x: Option<&AxisStep>,
    along_y: Option<&AxisStep>,
) -> Result<Cow<'a, Mask>, GeometryError> {
    let mask = match along_x {
        None => mask,
        Some(AxisStep::Ranges(ranges)) => Cow::Owned(gather_columns(&mask, ranges)?),
        Some(step) => Cow::Owned(copy_columns(&mask, step)?),
    };
    Ok(match along_y {
        None => mask,
        Some(AxisStep::Ranges(ranges)) => Cow::Owned(gather_rows(&mask, ranges)?),
        Some(step) => Cow::Owned(copy_rows(&mask, step)?),
    })
}

fn copy_columns(mask: &Mask, step: &AxisStep) -> Result<Mask, GeometryError> {
    let width = mask.size().width();
    let picks = step.picks(width).unwrap_or_default();
    let size = Size::new(picks.len() as u32, mask.size().height())?;
    let mut pixels = Vec::with_capacity(size.buffer_length()?);
    for row in mask.rows() {
        match step {
            // The middle of a padded row is the row itself.
            AxisStep::Pad { pad, .. } => {
                let pad = *pad as usize;
                let pick = |pick: &Option<u32>| pick.map_or(0, |column| row[column as usize]);
                pixels.extend(picks[..pad].iter().map(pick));
                pixels.extend_from_slice(row);
                pixels.extend(picks[pad + row.len()..].iter().map(pick));
            }
            _ => pixels.extend(row.iter().rev()),
        }
    }
    Ok(Mask::from_pixels(size, pixels))
}

fn copy_rows(mask: &Mask, step: &AxisStep) -> Result<Mask, GeometryError> {
    let picks = step.picks(mask.size().height()).unwrap_or_default();
    let width = mask.size().width();
    let size = Size::new(width, picks.len() as u32)?;
    let mut pixels = Vec::with_capacity(size.buffer_length()?);
    for pick in picks {
        match pick {
            Some(row) => pixels.extend_from_slice(mask.row(row)),
            None => pixels.resize(pixels.len() + width as usize, 0),
        }
    }
    Ok(Mask::from_pixels(size, pixels))
}

fn gather_columns(mask: &Mask, ranges: &[Range]) -> Result<Mask, GeometryError> {
    let size = Size::new(ranges.len() as u32, mask.size().height())?;
    let mut pixels = Vec::with_capacity(size.buffer_length()?);
    // Column of the first set pixel at or right of each column.
    let mut next = vec![u32::MAX; mask.size().width() as usize];
    for row in mask.rows() {
        let mut nearest = u32::MAX;
        for (column, (&pixel, slot)) in row.iter().zip(&mut next).enumerate().rev() {
            if pixel != 0 {
                nearest = column as u32;
            }
            *slot = nearest;
        }
        pixels.extend(ranges.iter().map(|&(first, last)| u8::from(next[first as usize] <= last)));
    }
    Ok(Mask::from_pixels(size, pixels))
}

fn gather_rows(mask: &Mask, ranges: &[Range]) -> Result<Mask, GeometryError> {
    let width = mask.size().width() as usize;
    let size = Size::new(mask.size().width(), ranges.len() as u32)?;
    let mut pixels = vec![0; size.buffer_length()?];
    // Row of the first set pixel at or below the current row, for each column; rows enter from the bottom.
    let mut next = vec![u32::MAX; width];
    let mut entered = mask.size().height();
    for (&(first, last), target) in ranges.iter().zip(pixels.chunks_exact_mut(width)).rev() {
        while entered > first {
            entered -= 1;
            for (slot, &pixel) in next.iter_mut().zip(mask.row(entered)) {
                *slot = if pixel != 0 { entered } else { *slot };
            }
        }
        for (pixel, &row) in target.iter_mut().zip(&next) {
            *pixel = u8::from(row <= last);
        }
    }
    Ok(Mask::from_pixels(size, pixels))
}

/// Turns a mask by 90 degrees.
pub(crate) fn turn(mask: &Mask, clockwise: bool) -> Result<Mask, GeometryError> {
    let size = mask.size();
    let (width, height) = (size.width(), size.height());
    let source = mask.bytes();
    let mut pixels = Vec::with_capacity(size.buffer_length()?);
    for y in 0..width {
        let column = if clockwise { y } else { width - 1 - y } as usize;
        let at = |row: u32| source[row as usize * width as usize + column];
        if clockwise {
            pixels.extend((0..height).rev().map(at));
        } else {
            pixels.extend((0..height).map(at));
        }
    }
    Ok(Mask::from_pixels(size.transposed(), pixels))
}
