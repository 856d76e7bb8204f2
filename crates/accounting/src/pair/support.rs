//! Where the losses of a pair end.

/// The range of a loss, with the masses beyond it.
///
/// # Guarantee
/// No finite loss of the pair lies outside `[low, high]`, and neither mass is below the exact one: a product of pairs is
/// `(high, infinite)`-private without any numerics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Support {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// `P`-mass where `Q` has none.
    pub(crate) infinite: f64,
    /// `Q`-mass where `P` has none.
    pub(crate) vanishing: f64,
}

impl Support {
    /// Losses of any size.
    pub(super) const UNBOUNDED: Self =
        Self { low: f64::NEG_INFINITY, high: f64::INFINITY, infinite: 0.0, vanishing: 0.0 };

    /// Losses of both signs up to `high`.
    pub(super) fn symmetric(high: f64) -> Self {
        Self { low: -high, high, infinite: 0.0, vanishing: 0.0 }
    }

    pub(super) fn reversed(self) -> Self {
        Self { low: -self.high, high: -self.low, infinite: self.vanishing, vanishing: self.infinite }
    }

    /// The support of the two-sided profile, which has the positive losses, their mirror images, and 0.
    pub(super) fn mirrored(self) -> Self {
        let high = self.high.max(0.0);
        Self { low: -high, high, infinite: self.infinite, vanishing: self.infinite }
    }

    /// The support of `((1-q) Q + q P, Q)`, where `map` takes a loss to its new value.
    pub(super) fn subsampled(self, rate: f64, map: impl Fn(f64) -> f64) -> Self {
        let floor = (-rate).ln_1p();
        let low = if self.vanishing > 0.0 { floor } else { map(self.low).max(floor) };
        Self {
            low: low - ROUNDING * low.abs(),
            high: map(self.high).abs() * ROUNDING + map(self.high),
            infinite: rate * self.infinite,
            vanishing: 0.0,
        }
    }

    /// The support of one of two pairs, the second with this probability.
    pub(super) fn either(usual: Self, rare: Self, probability: f64) -> Self {
        let mean =
            |one: f64, other: f64| ((1.0 - probability) * one + probability * other) * (1.0 + ROUNDING);
        Self {
            low: usual.low.min(rare.low),
            high: usual.high.max(rare.high),
            infinite: mean(usual.infinite, rare.infinite),
            vanishing: mean(usual.vanishing, rare.vanishing),
        }
    }

    /// The support of a product of pairs, each taken as often as its count says.
    pub(crate) fn product(parts: impl Iterator<Item = (Self, u64)> + Clone) -> Self {
        let outside = |mass: fn(&Self) -> f64| {
            let inside: f64 = parts.clone().map(|(part, count)| count as f64 * (-mass(&part)).ln_1p()).sum();
            let mass = -inside.exp_m1();
            if mass > 0.0 { mass * (1.0 + ROUNDING) } else { 0.0 }
        };
        Self {
            low: -sum_up(parts.clone().map(|(part, count)| (-part.low, count))),
            high: sum_up(parts.clone().map(|(part, count)| (part.high, count))),
            infinite: outside(|part| part.infinite).min(1.0),
            vanishing: outside(|part| part.vanishing).min(1.0),
        }
    }

    /// A bound on delta at `epsilon`: all mass at the ends.
    pub(crate) fn delta(&self, epsilon: f64) -> f64 {
        let inside = -(epsilon - self.high).min(0.0).exp_m1();
        // 4 roundings.
        (self.infinite + (1.0 - self.infinite) * inside * (1.0 + 4.0 * f64::EPSILON)).min(1.0)
    }
}

/// A few roundings of a logarithm or an exponential.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// `sum count value`, not below the exact sum, and equal to it where that is a number.
fn sum_up(terms: impl Iterator<Item = (f64, u64)>) -> f64 {
    // Error-free products and sums: what they round off is added up on its own.
    let (mut sum, mut rest) = (0.0_f64, 0.0_f64);
    for (value, count) in terms {
        let count = count as f64;
        let product = value * count;
        let total = sum + product;
        if total.is_infinite() {
            return total;
        }
        let shift = total - sum;
        rest += value.mul_add(count, -product) + ((sum - (total - shift)) + (product - shift));
        sum = total;
    }
    if rest == 0.0 { sum } else { (sum + rest).next_up().next_up() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_where_they_can_be() {
        assert_eq!(sum_up([(1.0, 1), (2.0, 1)].into_iter()), 3.0);
        assert_eq!(sum_up([(0.25, 12), (0.5, 3)].into_iter()), 4.5);
        // Three times the number next to 0.1 is above the number next to 0.3.
        assert!(sum_up([(0.1, 3)].into_iter()) > 0.3);
        assert_eq!(sum_up([(f64::INFINITY, 2), (1.0, 1)].into_iter()), f64::INFINITY);
        assert_eq!(sum_up(std::iter::empty()), 0.0);
    }
}
