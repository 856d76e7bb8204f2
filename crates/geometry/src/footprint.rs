//! Which input pixels each output pixel of a one-dimensional step reads.

use crate::Filter;

/// First and last input pixel that an output pixel reads.
pub(crate) type Range = (u32, u32);

/// Footprints of a resize from `input` to `output` pixels along one axis, in exact integer arithmetic.
///
/// An output pixel `x` is centred at `c = (x + 1/2) input / output` and reads the pixels `i` with
/// `|i + 1/2 - c| <= reach * max(1, input / output)` (antialiased) or `<= reach` (not). The interval is closed and widened
/// by `input * 2^-22` pixels, four units in the last place of a single-precision coordinate at the far end, because
/// implementations compute `c` in single precision and so may give a pixel just outside a tiny weight.
pub(crate) fn resize(input: u32, output: u32, filter: Filter, antialias: bool) -> Vec<Range> {
    let (input, output) = (i128::from(input), i128::from(output));
    // All coordinates in units of 1 / (2 output 2^22) pixels.
    const FINE: i128 = 1 << 22;
    let unit = 2 * output * FINE;
    let slack = 2 * output * input;
    let widen = if antialias { input.max(output) } else { output };
    let twice_reach = match filter {
        Filter::Nearest | Filter::NearestExact => 0,
        Filter::Box => 1,
        Filter::Bilinear => 2,
        Filter::Bicubic => 4,
        Filter::Lanczos => 6,
    };
    let radius = twice_reach * widen * FINE + slack;
    let clamp = |index: i128| index.clamp(0, input - 1) as u32;
    (0..output)
        .map(|x| {
            let corner = 2 * x * input * FINE;
            let centre = (2 * x + 1) * input * FINE;
            match filter {
                Filter::Nearest => {
                    (clamp((corner - slack).div_euclid(unit)), clamp((corner + slack).div_euclid(unit)))
                }
                Filter::NearestExact => {
                    (clamp((centre - slack).div_euclid(unit)), clamp((centre + slack).div_euclid(unit)))
                }
                _ => {
                    // i + 1/2 >= c - radius and i + 1/2 <= c + radius
                    let first = -((radius - centre + unit / 2).div_euclid(unit));
                    let last = (centre + radius - unit / 2).div_euclid(unit);
                    // A box narrower than a pixel may contain no centre; it then reads the pixel around c.
                    let around = centre.div_euclid(unit);
                    (clamp(first.min(around)), clamp(last.max(around)))
                }
            }
        })
        .collect()
}

/// Footprints of a convolution that reaches `radius` pixels on each side.
pub(crate) fn blur(length: u32, radius: u32) -> Vec<Range> {
    (0..length).map(|x| (x.saturating_sub(radius), x.saturating_add(radius).min(length - 1))).collect()
}

/// Footprints of JPEG coding: the 8-pixel block, or with halved colour the 16-pixel block of every pixel within one
/// pixel, because decoders interpolate colour between neighbouring samples, across block borders too.
pub(crate) fn jpeg(length: u32, chroma_subsampling: bool) -> Vec<Range> {
    let (block, spread) = if chroma_subsampling { (16, 1) } else { (8, 0) };
    (0..length)
        .map(|x| {
            let first = x.saturating_sub(spread) / block * block;
            let last = (x.saturating_add(spread).min(length - 1) / block * block).saturating_add(block - 1);
            (first, last.min(length - 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_reads_two_pixels_and_their_neighbours() {
        // c = 2x + 1, reach 2: centres i + 1/2 in [2x - 1, 2x + 3].
        assert_eq!(resize(8, 4, Filter::Bilinear, true), [(0, 2), (1, 4), (3, 6), (5, 7)]);
        // Without antialiasing only the two pixels at the centre.
        assert_eq!(resize(8, 4, Filter::Bilinear, false), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(resize(8, 4, Filter::Box, true), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        // Corners fall exactly on pixel borders, where single precision may take either side.
        assert_eq!(resize(8, 4, Filter::Nearest, false)[1], (1, 2));
    }

    #[test]
    fn jpeg_blocks() {
        assert_eq!(jpeg(20, false)[9], (8, 15));
        assert_eq!(jpeg(20, true)[9], (0, 15));
        assert_eq!(jpeg(20, true)[15], (0, 19));
        assert_eq!(jpeg(20, true)[16], (0, 19));
        assert_eq!(jpeg(20, true)[17], (16, 19));
    }
}
