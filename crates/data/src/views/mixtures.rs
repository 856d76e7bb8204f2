//! Mixtures of a record's own views (DP-Mix, section 3.1).

use chacha20::rand_core::Rng;

use super::{MAX_PIXELS, Views};
use crate::uniform::{below, unit};
use crate::{DataError, TargetKind};

/// Both parameters of the beta distribution of a mixture's share (DP-Mix, section 3).
const CONCENTRATION: f64 = 0.2;

impl Views {
    /// The same views, followed by that many mixtures of two of them each. Records must have one class each, which their mixtures share.
    ///
    /// # Guarantee
    /// A mixture is a function of two views of the one record and of random numbers that depend on no data.
    ///
    /// # Errors
    /// There is only one view, records have label maps, or there would be more values than memory can hold.
    pub fn with_mixtures(mut self, mixtures: u32, of: TargetKind) -> Result<Self, DataError> {
        let setting = |problem: String| DataError::setting("mix.self_mix", problem);
        if mixtures > 0 && self.views < 2 {
            return Err(setting("one view alone has nothing to be mixed with".to_owned()));
        }
        if mixtures > 0 && of == TargetKind::LabelMap {
            return Err(setting("label maps are not mixed".to_owned()));
        }
        self.mixtures = mixtures as usize;
        let values = (self.view_length() as u64).checked_mul(self.count() as u64);
        if values.is_none_or(|values| values > MAX_PIXELS) {
            return Err(setting(format!("{} views and {mixtures} mixtures of {}", self.views, self.output)));
        }
        Ok(self)
    }

    /// Writes the mixtures behind the views. Each is `s v + (1 - s) w` of two different views, uniform among all pairs.
    pub(super) fn mix(&self, random: &mut impl Rng, output: &mut [f32]) {
        let length = self.view_length();
        let (views, mixtures) = output.split_at_mut(self.views * length);
        for mixture in mixtures.chunks_exact_mut(length) {
            let first = below(random, self.views as u64) as usize;
            let second = (first + 1 + below(random, self.views as u64 - 1) as usize) % self.views;
            let share = share(random) as f32;
            let view = |number: usize| &views[number * length..(number + 1) * length];
            for ((mixed, &one), &other) in mixture.iter_mut().zip(view(first)).zip(view(second)) {
                *mixed = share * one + (1.0 - share) * other;
            }
        }
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
        three.with_mixtures(4, TargetKind::Class).unwrap()
    }

    /// Every mixture lies between two of the views, with one share for all its pixels. The views are what they would be without mixtures.
    #[test]
    fn mixtures_lie_between_two_views() {
        let (mixing, length) = (mixing(), 6);
        let picture = image(size(40, 30), |x, y| (x * x + 7 * y) as f32);
        let alone = Views { mixtures: 0, ..mixing.clone() };
        for number in 0..50 {
            let mut output = vec![0.0; mixing.count() * length];
            mixing.draw(&picture, &mut random(number), &mut output).unwrap();
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
        assert!(views(Vec::new(), crop, size(3, 2)).with_mixtures(1, TargetKind::Class).is_err());
        assert!(mixing().with_mixtures(u32::MAX, TargetKind::Class).is_err());
        assert!(mixing().with_mixtures(1, TargetKind::LabelMap).is_err());
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
