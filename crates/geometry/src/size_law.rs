//! The distribution of the size of a random resized crop.
//!
//! With `X = sqrt(T ratio)` and `Y = sqrt(T / ratio)`, the map (T, log ratio) -> (X, Y) has the constant Jacobian 1/2. As T and
//! log ratio are uniform, **(X, Y) is uniform** on `{ s0 A <= X Y <= s1 A, r0 <= X / Y <= r1 }` with density
//! `2 / ((s1 - s0) A log(r1 / r0))`, and the probability of a size is the area that its unit square shares with that
//! set: the density itself for almost all of them.

use crate::crop::TRIES;
use crate::{ResizedCrop, Size};

/// Widths and heights are grouped so that no axis has more groups than this. Up to this size every group is a single size.
pub(crate) const MAX_GROUPS: u32 = 4096;

/// A group of sizes, `first ..= last` along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeGroup {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Upper and lower bound on a probability.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Probability {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// The law of the size of one try.
#[derive(Debug, Clone)]
pub(crate) struct SizeLaw {
    pub(crate) widths: Vec<SizeGroup>,
    pub(crate) heights: Vec<SizeGroup>,
    area: (f64, f64),
    ratio: (f64, f64),
    /// The density of (X, Y) and its relative rounding error, unless there is a single area or a single ratio.
    density: Option<(f64, f64)>,
}

impl SizeLaw {
    pub(crate) fn new(crop: &ResizedCrop, image: Size, max_groups: u32) -> Self {
        let pixels = image.pixels() as f64;
        let area = (crop.scale().0 * pixels, crop.scale().1 * pixels);
        let ratio = crop.ratio();
        // The limits are widened by one pixel against rounding; sizes that cannot occur get probability zero.
        let groups = |least: f64, most: f64, limit: u32| {
            let first = (least.round() as i64 - 1).clamp(1, i64::from(limit)) as u32;
            let last = (most.round() as i64 + 1).clamp(1, i64::from(limit)) as u32;
            let step = (last - first + 1).div_ceil(max_groups);
            (first..=last)
                .step_by(step as usize)
                .map(|start| SizeGroup { first: start, last: last.min(start.saturating_add(step - 1)) })
                .collect()
        };
        let widths = groups((area.0 * ratio.0).sqrt(), (area.1 * ratio.1).sqrt(), image.width());
        let heights = groups((area.0 / ratio.1).sqrt(), (area.1 / ratio.0).sqrt(), image.height());
        let (spread, log_ratio) = (area.1 - area.0, (ratio.1 / ratio.0).ln());
        let density = (spread > 1e-9 * area.1 && log_ratio > 1e-9).then(|| {
            // Relative rounding of the limits against the narrowness of the intervals they bound.
            let relative = 8.0 * f64::EPSILON * (area.1 / spread + 1.0 / log_ratio);
            (2.0 / (spread * log_ratio), relative)
        });
        Self { widths, heights, area, ratio, density }
    }

    /// Probability that one try draws a size in the group.
    pub(crate) fn of_one_try(&self, width: SizeGroup, height: SizeGroup) -> Probability {
        let (x0, x1) = (f64::from(width.first) - 0.5, f64::from(width.last) + 0.5);
        let (y0, y1) = (f64::from(height.first) - 0.5, f64::from(height.last) + 0.5);
        let ((a0, a1), (r0, r1)) = (self.area, self.ratio);
        // Slightly wider than the truth, so that rounding of the products cannot drop a size that touches the border.
        let wide = 1.0 + 1e-12;
        if x1 * y1 * wide < a0 || x0 * y0 > a1 * wide || x1 * wide < r0 * y0 || x0 > r1 * y1 * wide {
            return Probability::default();
        }
        let Some((density, relative)) = self.density else { return self.degenerate((x0, x1), (y0, y1)) };
        let inside = x0 * y0 > a0 * wide && x1 * y1 * wide < a1 && x0 > r0 * y1 * wide && x1 * wide < r1 * y0;
        let whole = (x1 - x0) * (y1 - y0);
        let (area, error) = if inside {
            (whole, 0.0)
        } else {
            // Each of at most a dozen pieces is a difference of terms no larger than x1 * y1-sized ordinates times
            // the width of the strip.
            (self.shared_area((x0, x1), (y0, y1)), 256.0 * f64::EPSILON * (y1 + x1 / r0.min(1.0)) * (x1 - x0))
        };
        Probability {
            lower: (density * (area - error) * (1.0 - relative)).max(0.0),
            upper: density * (area + error).min(whole) * (1.0 + relative),
        }
    }

    /// Area of `{ a0 <= x y <= a1, r0 <= x / y <= r1 }` inside a rectangle, in closed form piece by piece: on each piece the
    /// lower limit of y is one of `y0, a0 / x, x / r1` and the upper one of `y1, a1 / x, x / r0`.
    fn shared_area(&self, (x0, x1): (f64, f64), (y0, y1): (f64, f64)) -> f64 {
        let ((a0, a1), (r0, r1)) = (self.area, self.ratio);
        let mut cuts = vec![x0, x1];
        for a in [a0, a1] {
            cuts.extend([a / y0, a / y1, (a * r0).sqrt(), (a * r1).sqrt()]);
        }
        for r in [r0, r1] {
            cuts.extend([r * y0, r * y1]);
        }
        cuts.retain(|cut| (x0..=x1).contains(cut));
        cuts.sort_by(f64::total_cmp);
        let mut area = 0.0;
        for piece in cuts.windows(2) {
            let (start, end) = (piece[0], piece[1]);
            let middle = 0.5 * (start + end);
            let width = end - start;
            // Integrals over the piece of a constant, of a / x and of x / r.
            let hyperbola = |a: f64| a * (width / start).ln_1p();
            let line = |r: f64| width * middle / r;
            let bottom = [(y0, y0 * width), (a0 / middle, hyperbola(a0)), (middle / r1, line(r1))];
            let top = [(y1, y1 * width), (a1 / middle, hyperbola(a1)), (middle / r0, line(r0))];
            let bottom = bottom
                .into_iter()
                .fold((f64::MIN, 0.0), |best, next| if next.0 > best.0 { next } else { best });
            let top =
                top.into_iter().fold((f64::MAX, 0.0), |best, next| if next.0 < best.0 { next } else { best });
            if top.0 > bottom.0 {
                area += (top.1 - bottom.1).max(0.0);
            }
        }
        area
    }

    /// A single scale, a single ratio, or both: the mass lies on a curve or in a point.
    fn degenerate(&self, (x0, x1): (f64, f64), (y0, y1): (f64, f64)) -> Probability {
        let ((a0, a1), (r0, r1)) = (self.area, self.ratio);
        let single_area = a1 - a0 <= 1e-9 * a1;
        let single_ratio = (r1 / r0).ln() <= 1e-9;
        // Room for rounding and for what the nearly single value still varies.
        let room = 16.0 * f64::EPSILON
            + if single_area { (a1 - a0) / a1 } else { 0.0 }
            + if single_ratio { (r1 / r0).ln() } else { 0.0 };
        let share = |low: f64, high: f64, first: f64, last: f64, scale: f64| {
            let within =
                |room: f64| ((last.min(high) - first.max(low) + room) / (high - low)).clamp(0.0, 1.0);
            Probability { lower: within(-room * scale), upper: within(room * scale) }
        };
        match (single_area, single_ratio) {
            (true, true) => {
                let (x, y) = ((a1 * r1).sqrt(), (a1 / r1).sqrt());
                // A single size: a point this close to a half could go either way in single precision, so both count.
                let room = room + 1e-6;
                let inside = |room: f64| {
                    x0 < x * (1.0 + room)
                        && x < x1 * (1.0 + room)
                        && y0 < y * (1.0 + room)
                        && y < y1 * (1.0 + room)
                };
                Probability { lower: f64::from(inside(-room)), upper: f64::from(inside(room)) }
            }
            // x^2 = T r and y^2 = T / r: T lies in [max(x0^2 / r, y0^2 r), min(x1^2 / r, y1^2 r)].
            (false, true) => {
                share(a0, a1, (x0 * x0 / r1).max(y0 * y0 * r1), (x1 * x1 / r1).min(y1 * y1 * r1), a1)
            }
            // log r lies in [max(log(x0^2 / T), log(T / y1^2)), min(log(x1^2 / T), log(T / y0^2))].
            _ => {
                let first = (x0 * x0 / a1).max(a1 / (y1 * y1)).ln();
                let last = (x1 * x1 / a1).min(a1 / (y0 * y0)).ln();
                share(r0.ln(), r1.ln(), first, last, 1.0)
            }
        }
    }
}

/// What the ten tries make of one: bounds on the factor that turns the probability of one try into that of the outcome,
/// `(1 - q^10) / (1 - q)`, and on the probability `q^10` of the centre crop, where `1 - q` is `accepted`.
pub(crate) fn tries(accepted: Probability) -> (Probability, Probability) {
    let lower = accepted.lower.clamp(0.0, 1.0);
    let upper = accepted.upper.clamp(0.0, 1.0);
    // Both fall as acceptance grows. The factor is 1 + q + ... + q^9.
    let factor = |accepted: f64| (0..TRIES).map(|power| (1.0 - accepted).powi(power)).sum::<f64>();
    let fallback = |accepted: f64| (1.0 - accepted).powi(TRIES);
    let rounding = 1e-14;
    (
        Probability { lower: factor(upper) * (1.0 - rounding), upper: factor(lower) * (1.0 + rounding) },
        Probability { lower: fallback(upper) * (1.0 - rounding), upper: fallback(lower) * (1.0 + rounding) },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All sizes together, those that no image could hold included, have probability one.
        #[test]
        fn the_law_sums_to_one(
            width in 1u32..90,
            height in 1u32..90,
            scale in (0.05f64..1.0, 0.0f64..1.0),
            ratio in (0.2f64..3.0, 0.0f64..2.0),
        ) {
            let scale = (scale.0, scale.0 + (1.0 - scale.0) * scale.1);
            let ratio = (ratio.0, ratio.0 + ratio.1);
            let crop = ResizedCrop::new(scale, ratio).unwrap();
            let law = SizeLaw::new(&crop, Size::new(width, height).unwrap(), MAX_GROUPS);
            let mut total = Probability::default();
            for width in 1..600 {
                for height in 1..600 {
                    let drawn =
                        law.of_one_try(SizeGroup { first: width, last: width }, SizeGroup { first: height, last: height });
                    total.lower += drawn.lower;
                    total.upper += drawn.upper;
                }
            }
            // Only draws that round to a side of 0 are missing: two triangles at the origin.
            let density = 2.0 / ((scale.1 - scale.0) * f64::from(width * height) * (ratio.1 / ratio.0).ln());
            let missing = density * 0.125 * (ratio.1 + 1.0 / ratio.0);
            prop_assert!(total.lower <= 1.0 && total.upper >= 1.0 - missing - 1e-9, "{:?} {}", total, missing);
            // A few hundred sizes on the border, each off by 256 roundings of ordinates below a thousand.
            prop_assert!(total.upper - total.lower < 1e-7 * (1.0 + density));
        }
    }
}
