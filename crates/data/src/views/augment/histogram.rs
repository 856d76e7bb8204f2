//! Changes by statistics of a whole channel. Both follow torchvision's on floating-point images.

use super::ViewPlanes;

/// Stretches each channel so that its darkest pixel becomes 0 and its lightest 1. A channel of one value stays.
pub(super) fn autocontrast(view: &mut ViewPlanes<'_>) {
    for plane in view.planes() {
        let (least, most) = plane.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), &value| {
            (least.min(value), most.max(value))
        });
        let (least, range) = if least == most { (0.0, 1.0) } else { (least, most - least) };
        plane.iter_mut().for_each(|value| *value = ((*value - least) / range).clamp(0.0, 1.0));
    }
}

/// Flattens the histogram of each channel, whose values are taken as bytes: Pillow's table, in which a byte becomes the number of pixels
/// below it in steps of a 255th of all pixels that are not of the lightest byte.
pub(super) fn equalize(view: &mut ViewPlanes<'_>) {
    for plane in view.planes() {
        let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.999) as u8;
        let mut counts = [0u64; 256];
        plane.iter().for_each(|&value| counts[usize::from(byte(value))] += 1);
        let lightest = counts.iter().rev().copied().find(|&count| count > 0).unwrap_or(0);
        let step = (plane.len() as u64 - lightest) / 255;
        let mut table = [0.0; 256];
        let mut below = 0;
        for ((entry, count), byte) in table.iter_mut().zip(counts).zip(0u64..) {
            // With fewer pixels than steps the bytes stay as they are.
            let level = (below + step / 2).checked_div(step).map_or(byte, |level| level.min(255));
            *entry = level as f32 / 255.0;
            below += count;
        }
        plane.iter_mut().for_each(|value| *value = table[usize::from(byte(*value))]);
    }
}
