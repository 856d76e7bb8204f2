//! Mixtures of what a contribution shows (DP-Mix, section 3.1).

use chacha20::rand_core::Rng;

use dapple_plan::Averaged;

use super::Views;
use crate::uniform::{below, unit};
use crate::{DataError, TargetKind};

/// Both parameters of the beta distribution of a mixture's share (DP-Mix, section 3).
const CONCENTRATION: f64 = 0.2;

/// One mixture: `s v + (1 - s) w` of the views `v` and `w`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ViewMixture {
    /// The number of `v` in the set.
    pub(super) first: usize,
    /// The number of `w`.
    pub(super) second: usize,
    /// The share `s`.
    pub(super) share: f32,
}

impl Views {
    /// The same views, followed by mixtures of two of the set that a contribution shows. Records must have one class each.
    ///
    /// # Guarantee
    /// A mixture is a function of two views or synthetic images of one contribution and of random numbers that depend on no data.
    ///
    /// # Errors
    /// The set never has two views, records have label maps, or there would be more values than memory can hold.
    pub fn with_mixtures(mut self, averaged: Averaged, of: TargetKind) -> Result<Self, DataError> {
        let mixtures = averaged.self_mix;
        let setting = |problem: String| DataError::setting("mix.self_mix", problem);
        if mixtures > 0 && self.of_one_record() < 2 && !averaged.shares_clip() {
            return Err(setting("one view alone has nothing to be mixed with".to_owned()));
        }
        if mixtures > 0 && of == TargetKind::LabelMap {
            return Err(setting("label maps are not mixed".to_owned()));
        }
        self.mixtures = mixtures as usize;
        if self.exceed_memory() {
            return Err(setting(format!("{} views and {mixtures} mixtures of {}", self.views, self.output)));
        }
        Ok(self)
    }

    /// Writes the mixtures behind a set of `set` views, and returns them. Each is of two different views, uniform among all pairs.
    pub(super) fn mix(&self, set: usize, random: &mut impl Rng, output: &mut [f32]) -> Vec<ViewMixture> {
        let length = self.view_length();
        let (views, mixtures) = output.split_at_mut(set * length);
        let mut drawn = Vec::with_capacity(self.mixtures);
        for mixture in mixtures.chunks_exact_mut(length) {
            let first = below(random, set as u64) as usize;
            let second = (first + 1 + below(random, set as u64 - 1) as usize) % set;
            let share = share(random) as f32;
            let view = |number: usize| &views[number * length..(number + 1) * length];
            for ((mixed, &one), &other) in mixture.iter_mut().zip(view(first)).zip(view(second)) {
                *mixed = share * one + (1.0 - share) * other;
            }
            drawn.push(ViewMixture { first, second, share });
        }
        drawn
    }
}

/// A share from the symmetric beta distribution (Jöhnk 1964): draw powers of two uniform numbers until their sum is at most one, and
/// return the first's share of it.
fn share(random: &mut impl Rng) -> f64 {
    loop {
        let [one, other] = [(); 2].map(|()| unit(random).powf(1.0 / CONCENTRATION));
        if one + other <= 1.0 && one + other > 0.0 {
            return one / (one + other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{image, random, views};
    use super::*;
    use crate::statistics::{ALPHA, chi_square_accepts};
    use dapple_geometry::{CropDistribution, Size};

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    /// Three views and four mixtures.
    fn mixing() -> Views {
        let crop = CropDistribution::fixed(3, 2).unwrap();
        let three = Views { views: 3, ..views(Vec::new(), crop, size(3, 2)) };
        three.with_mixtures(mixtures(4), TargetKind::Class).unwrap()
    }

    fn mixtures(self_mix: u32) -> Averaged {
        Averaged { self_mix, synthetic: 0, records_per_clip: 1 }
    }

    /// Every mixture lies between two of the views, with one share for all its pixels. The views are what they would be without mixtures.
    #[test]
    fn mixtures_lie_between_two_views() {
        let (mixing, length) = (mixing(), 6);
        let picture = image(size(40, 30), |x, y| (x * x + 7 * y) as f32);
        let alone = Views { mixtures: 0, ..mixing.clone() };
        for number in 0..50 {
            let mut output = vec![0.0; mixing.count() * length];
            let stream = &mut random(number);
            mixing.draw(&picture, stream, &mut output[..3 * length]).unwrap();
            mixing.mix(3, stream, &mut output);
            let mut plain = vec![0.0; alone.count() * length];
            alone.draw(&picture, &mut random(number), &mut plain).unwrap();
            assert_eq!(output[..3 * length], plain);
            let view = |number: usize| &output[number * length..(number + 1) * length];
            for mixture in (3..7).map(view) {
                let between = |one: &[f32], other: &[f32]| {
                    let (a, b, m) = (one[0], other[0], mixture[0]);
                    let share = (m - b) / (a - b);
                    // Shares are off by the rounding of values of up to 2000, divided by differences of at least 2.
                    (0.0..=1.0).contains(&share)
                        && one
                            .iter()
                            .zip(other)
                            .zip(mixture)
                            .all(|((a, b), m)| (share * a + (1.0 - share) * b - m).abs() < 0.1)
                };
                let pairs = [(0, 1), (0, 2), (1, 2)];
                assert!(pairs.iter().any(|&(a, b)| view(a)[0] != view(b)[0] && between(view(a), view(b))));
            }
        }
    }

    /// Tests shares against the beta distribution with both parameters 0.2, whose quantiles come from scipy.stats.beta.ppf(k / 10, 0.2,
    /// 0.2).
    #[test]
    fn shares_follow_the_beta_distribution() {
        let mut random = random(0);
        let mut counts = [0u64; 10];
        for _ in 0..100_000 {
            let share = share(&mut random);
            counts[QUANTILES.iter().filter(|&&quantile| share >= quantile).count()] += 1;
        }
        assert!(chi_square_accepts(&counts, &[10_000.0; 10], ALPHA), "{counts:?}");
    }

    #[test]
    fn what_cannot_be_mixed_is_refused() {
        let crop = CropDistribution::fixed(3, 2).unwrap();
        assert!(views(Vec::new(), crop, size(3, 2)).with_mixtures(mixtures(1), TargetKind::Class).is_err());
        assert!(mixing().with_mixtures(mixtures(u32::MAX), TargetKind::Class).is_err());
        assert!(mixing().with_mixtures(mixtures(1), TargetKind::LabelMap).is_err());
    }

    const QUANTILES: [f64; 9] = [
        0.00024776469190814675,
        0.007888049626594623,
        0.05788057531549367,
        0.21634185887579316,
        0.5,
        0.7836581411242068,
        0.9421194246845063,
        0.9921119503734054,
        0.9997522353080919,
    ];
}
