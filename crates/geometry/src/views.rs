use crate::GeometryError;

/// The probability that at least one of `views` independent views sees the region: `c_K = 1 - (1 - c)^K`.
///
/// The gradient of a record that averages K views (DP-Mix, equation 4) is untouched by the region only if no view sees it.
///
/// # Guarantee
/// Never below the exact value for this `inclusion_probability`, and never above 1.
pub fn views(inclusion_probability: f64, views: u32) -> Result<f64, GeometryError> {
    let c = inclusion_probability;
    if !(0.0..=1.0).contains(&c) {
        return Err(GeometryError::BadProbability { value: c });
    }
    if views == 0 {
        return Err(GeometryError::NoViews);
    }
    if views == 1 || c == 0.0 || c == 1.0 {
        return Ok(c);
    }
    let exponent = f64::from(views) * (-c).ln_1p();
    // ln_1p, the product and exp_m1 round by about an ulp each, and none is amplified: |z e^z / (e^z - 1)| <= 1 for z < 0.
    Ok((-exponent.exp_m1() * (1.0 + 16.0 * f64::EPSILON)).clamp(c, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(views(0.0, 7), Ok(0.0));
        assert_eq!(views(1.0, 7), Ok(1.0));
        assert_eq!(views(0.3, 0), Err(GeometryError::NoViews));
        for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(views(value, 2), Err(GeometryError::BadProbability { .. })));
        }
        // 1 - (1 - 1e-12)^16 = 16e-12 - 120e-24 + ...; the plain formula has four digits left here.
        let tiny = views(1e-12, 16).unwrap();
        assert!((tiny / (16e-12 - 120e-24) - 1.0).abs() < 1e-14);
    }

    proptest! {
        // Dyadic probabilities with few bits: (1 - c)^K is exact in u128.
        #[test]
        fn never_below_the_exact_value(numerator in 1u128..64, count in 1u32..=20) {
            let miss = (64 - numerator).pow(count);
            let total = 64u128.pow(count);
            let exact_from_above = (total - miss) as f64 / total as f64;
            let found = views(numerator as f64 / 64.0, count).unwrap();
            prop_assert!(found >= exact_from_above.next_down());
            prop_assert!(found <= exact_from_above * (1.0 + 32.0 * f64::EPSILON));
        }

        #[test]
        fn grows_with_views_and_probability(c in 0.0f64..=1.0, step in 0.0f64..0.1, count in 1u32..1000) {
            let here = views(c, count).unwrap();
            prop_assert!(views(c, count + 1).unwrap() >= here * (1.0 - 1e-14));
            prop_assert!(views((c + step).min(1.0), count).unwrap() >= here * (1.0 - 1e-14));
        }
    }
}
