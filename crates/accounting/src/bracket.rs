//! A bound is a type of its own, with proved ends, so that no estimate can pass for one.

use serde::{Deserialize, Serialize};

/// A certified interval around an epsilon or a delta. Where nothing but a bound from above is proved, there is no lower end.
///
/// # Guarantee
/// `upper` is never below the exact value of the dominating pair's quantity and `lower` never above it; only
/// `upper` may be reported as a privacy guarantee. What is made here has ends in order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// Never above the exact value; `None` where the accountant only bounds from above.
    pub lower: Option<f64>,
    /// Never below the exact value.
    pub upper: f64,
}

impl Bracket {
    /// That of a run which releases nothing.
    pub const ZERO: Self = Self { lower: Some(0.0), upper: 0.0 };

    /// The bracket with these ends. Where rounding crossed them, the lower one gives way, since the upper one is the guarantee.
    ///
    /// # Panics
    /// If an end is no number: nothing is bounded by it, and a stop is better than a certificate that says so.
    #[must_use]
    pub fn between(lower: f64, upper: f64) -> Self {
        assert!(!lower.is_nan() && !upper.is_nan(), "{lower} and {upper} bound nothing");
        Self { lower: Some(lower.min(upper)), upper }
    }

    /// A bound from above alone.
    ///
    /// # Panics
    /// As for [`Bracket::between`].
    #[must_use]
    pub fn above(upper: f64) -> Self {
        assert!(!upper.is_nan(), "{upper} bounds nothing");
        Self { lower: None, upper }
    }

    /// The bracket of a value known exactly.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { lower: Some(value), upper: value }
    }

    /// The least that the value can be: the lower end, or zero without one, because no epsilon and no delta is negative.
    #[must_use]
    pub fn least(self) -> f64 {
        self.lower.unwrap_or(0.0)
    }

    /// How far the exact value may be below the upper end.
    #[must_use]
    pub fn width(self) -> f64 {
        self.upper - self.least()
    }

    /// The width as a share of the upper end; 0 where both ends agree.
    #[must_use]
    pub fn relative_width(self) -> f64 {
        if self.upper == self.least() { 0.0 } else { self.width() / self.upper }
    }

    /// The bracket of the larger of two quantities.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let lower = match (self.lower, other.lower) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Self { lower, upper: self.upper.max(other.upper) }
    }

    /// The same value, of which it is also proved that it is not above `bound`.
    #[must_use]
    pub fn at_most(self, bound: f64) -> Self {
        let upper = self.upper.min(bound);
        Self { lower: self.lower.map(|lower| lower.min(upper)), upper }
    }

    /// The same value, of which it is also proved that it is not below `bound`.
    #[must_use]
    pub fn at_least(self, bound: f64) -> Self {
        Self::between(self.least().max(bound), self.upper)
    }

    /// Whether both can be brackets of one value.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.upper >= other.least() && other.upper >= self.least()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BracketPrecision, Pld};

    /// Values that an epsilon can have, with and without a lower end, in either order before they are put into one.
    fn brackets() -> impl Strategy<Value = Bracket> {
        let value = || {
            prop_oneof![Just(0.0_f64), 1e-300..1e-3_f64, 0.0..1e3_f64, Just(f64::MAX), Just(f64::INFINITY)]
        };
        prop_oneof![
            (value(), value()).prop_map(|(lower, upper)| Bracket::between(lower, upper)),
            value().prop_map(Bracket::above),
            value().prop_map(Bracket::exact),
            Just(Bracket::ZERO),
        ]
    }

    fn is_ordered(bracket: Bracket) -> bool {
        bracket.lower.is_none_or(|lower| lower <= bracket.upper) && bracket.least() <= bracket.upper
    }

    fn contains(bracket: Bracket, value: f64) -> bool {
        bracket.least() <= value && value <= bracket.upper
    }

    proptest! {
        #[test]
        fn ends_stay_in_order(one in brackets(), other in brackets(), bound in 0.0..1e3_f64) {
            for made in [one, other, one.max(other), one.at_most(bound), one.at_least(bound)] {
                prop_assert!(is_ordered(made), "{made:?} of {one:?}, {other:?} and {bound}");
            }
            prop_assert_eq!(one.overlaps(other), other.overlaps(one));
            prop_assert!(one.overlaps(one) && one.overlaps(one.at_most(one.upper)));
        }

        #[test]
        fn no_value_is_lost(one in brackets(), other in brackets(), places in (0.0..=1.0_f64, 0.0..=1.0_f64), bound in 0.0..1e3_f64) {
            prop_assume!(one.upper.is_finite() && other.upper.is_finite());
            let value = |bracket: Bracket, place: f64| {
                (bracket.least() + place * bracket.width()).clamp(bracket.least(), bracket.upper)
            };
            let (a, b) = (value(one, places.0), value(other, places.1));
            prop_assert!(contains(one.max(other), a.max(b)));
            prop_assert!(a > bound || contains(one.at_most(bound), a));
            prop_assert!(a < bound || contains(one.at_least(bound), a));
            prop_assert!(!(contains(one, a) && contains(other, a)) || one.overlaps(other));
        }

        #[test]
        fn json_keeps_the_bits(bits in prop::array::uniform2(any::<u64>()), bounded in any::<bool>()) {
            let [lower, upper] = bits.map(f64::from_bits);
            prop_assume!(lower.is_finite() && upper.is_finite());
            let written = if bounded { Bracket::between(lower, upper) } else { Bracket::above(upper) };
            let text = serde_json::to_string(&written).unwrap();
            prop_assert!(text.starts_with("{\"lower\":") && text.contains(",\"upper\":"), "{text}");
            let read: Bracket = serde_json::from_str(&text).unwrap();
            let ends = |bracket: Bracket| (bracket.lower.map(f64::to_bits), bracket.upper.to_bits());
            prop_assert_eq!(ends(read), ends(written));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Epsilons at halves of delta add up to one at delta (Dwork and Roth 2014, Theorem 3.16).
        #[test]
        fn a_composition_has_both_ends_and_lies_below_the_sum(
            sigmas in (0.5..8.0_f64, 0.5..8.0_f64), rate in 1e-3..1.0_f64, steps in 1_u64..50, exponent in 2.0..9.0_f64,
        ) {
            let delta = 10_f64.powf(-exponent);
            let one = Pld::poisson_gaussian(rate, sigmas.0).unwrap().self_compose(steps);
            let other = Pld::gaussian(1.0, sigmas.1).unwrap();
            let epsilon = |pld: &Pld, delta: f64| pld.epsilon(delta, BracketPrecision::default());
            let (Ok(both), Ok(first), Ok(second)) =
                (epsilon(&one.compose(&other), delta), epsilon(&one, delta / 2.0), epsilon(&other, delta / 2.0))
            else {
                return Ok(());
            };
            for bracket in [both, first, second] {
                prop_assert!(bracket.lower.is_some() && is_ordered(bracket), "{bracket:?}");
            }
            prop_assert!(both.least() <= first.upper + second.upper, "{both:?} {first:?} {second:?}");
        }
    }

    #[test]
    fn an_end_that_is_no_number_stops() {
        for make in [
            || Bracket::between(f64::NAN, 1.0),
            || Bracket::between(0.0, f64::NAN),
            || Bracket::above(f64::NAN),
        ] {
            std::panic::catch_unwind(make).unwrap_err();
        }
    }

    #[test]
    fn a_missing_lower_end_is_null_and_counts_as_zero() {
        assert_eq!(serde_json::to_string(&Bracket::above(1.5)).unwrap(), r#"{"lower":null,"upper":1.5}"#);
        assert_eq!(serde_json::to_string(&Bracket::exact(1.5)).unwrap(), r#"{"lower":1.5,"upper":1.5}"#);
        assert_eq!((Bracket::above(1.5).least(), Bracket::above(1.5).width()), (0.0, 1.5));
        assert_eq!(Bracket::above(1.0).max(Bracket::between(2.0, 3.0)), Bracket::between(2.0, 3.0));
    }
}
