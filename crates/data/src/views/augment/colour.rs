//! Changes of each pixel by itself, and the contrast. All follow torchvision's on floating-point images.

use super::ViewPlanes;

/// The weights of red, green and blue in a pixel's grey (ITU-R 601-2).
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

pub(super) fn brightness(view: &mut ViewPlanes<'_>, factor: f32) {
    each(view, |value| (value * factor).clamp(0.0, 1.0));
}

/// Blends each frame with its mean grey.
pub(super) fn contrast(view: &mut ViewPlanes<'_>, factor: f32) {
    let (pixels, frames) = (view.pixels(), view.frames);
    let frame = |plane: &[f32], number: usize| plane[number * pixels..][..pixels].to_vec();
    let grey_of = |view: &mut ViewPlanes<'_>, number: usize| -> f64 {
        match colours(view) {
            Some(planes) => {
                let [red, green, blue] = planes.map(|plane| frame(plane, number));
                red.iter().zip(green).zip(blue).map(|((r, g), b)| f64::from(grey(*r, g, b))).sum()
            }
            None => frame(view.values, number).iter().map(|&value| f64::from(value)).sum(),
        }
    };
    for number in 0..frames {
        let share = (grey_of(view, number) / pixels as f64) as f32 * (1.0 - factor);
        for plane in view.planes().skip(number).step_by(frames) {
            plane.iter_mut().for_each(|value| *value = (*value * factor + share).clamp(0.0, 1.0));
        }
    }
}

/// Blends each pixel with its grey; without colours there is nothing to do.
pub(super) fn saturation(view: &mut ViewPlanes<'_>, factor: f32) {
    each_colour(view, |[red, green, blue]| {
        let share = grey(red, green, blue) * (1.0 - factor);
        [red, green, blue].map(|value| (value * factor + share).clamp(0.0, 1.0))
    });
}

/// Turns the hue; without colours there is nothing to do.
pub(super) fn hue(view: &mut ViewPlanes<'_>, turn: f32) {
    each_colour(view, |colour| {
        let [hue, saturation, value] = to_hue(colour);
        from_hue([(hue + turn).rem_euclid(1.0), saturation, value])
    });
}

pub(super) fn invert(view: &mut ViewPlanes<'_>) {
    each(view, |value| 1.0 - value);
}

pub(super) fn posterize(view: &mut ViewPlanes<'_>, bits: u32) {
    let levels = (1u32 << bits) as f32;
    each(view, |value| (value * levels).floor().clamp(0.0, levels - 1.0) / levels);
}

pub(super) fn solarize(view: &mut ViewPlanes<'_>, threshold: f32) {
    each(view, |value| if value >= threshold { 1.0 - value } else { value });
}

fn grey(red: f32, green: f32, blue: f32) -> f32 {
    red * GREY[0] + green * GREY[1] + blue * GREY[2]
}

fn each(view: &mut ViewPlanes<'_>, change: impl Fn(f32) -> f32) {
    view.values.iter_mut().for_each(|value| *value = change(*value));
}

/// The planes of red, green and blue, each with all its frames, if there are three.
fn colours<'a>(view: &'a mut ViewPlanes<'_>) -> Option<[&'a mut [f32]; 3]> {
    let of_colour = view.pixels() * view.frames;
    let mut colours = view.values.chunks_exact_mut(of_colour);
    match [colours.next(), colours.next(), colours.next(), colours.next()] {
        [Some(red), Some(green), Some(blue), None] => Some([red, green, blue]),
        _ => None,
    }
}

fn each_colour(view: &mut ViewPlanes<'_>, change: impl Fn([f32; 3]) -> [f32; 3]) {
    let Some([red, green, blue]) = colours(view) else { return };
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        [*red, *green, *blue] = change([*red, *green, *blue]);
    }
}

/// Hue, saturation and value of a colour.
fn to_hue(colour: [f32; 3]) -> [f32; 3] {
    let [red, green, blue] = colour;
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = most - least;
    if range == 0.0 {
        return [0.0, 0.0, most];
    }
    let [red_less, green_less, blue_less] = colour.map(|value| (most - value) / range);
    let sixth = if most == red {
        blue_less - green_less
    } else if most == green {
        2.0 + red_less - blue_less
    } else {
        4.0 + green_less - red_less
    };
    [(sixth / 6.0 + 1.0) % 1.0, range / most, most]
}

/// The colour of a hue, saturation and value.
fn from_hue([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    let sixth = (hue * 6.0).floor();
    let part = hue * 6.0 - sixth;
    let scaled = |share: f32| (share * value).clamp(0.0, 1.0);
    let falling = scaled(1.0 - saturation * part);
    let rising = scaled(1.0 - saturation + saturation * part);
    let lowest = scaled(1.0 - saturation);
    match sixth as i32 % 6 {
        0 => [value, rising, lowest],
        1 => [falling, value, lowest],
        2 => [lowest, value, rising],
        3 => [lowest, falling, value],
        4 => [rising, lowest, value],
        _ => [value, lowest, falling],
    }
}
