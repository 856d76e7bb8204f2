//! Ratios rounded outwards.

/// The smallest double not below `hits / total` (for counts below 2^53; otherwise one a few units above).
///
/// # Guarantee
/// Never below the exact ratio, and never above 1.
pub(crate) fn ratio_up(hits: u64, total: u64) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    if hits >= total {
        return 1.0;
    }
    const EXACT: u64 = 1 << 53;
    let (above, below) = (hits as f64, total as f64);
    let quotient = above / below;
    let up = if total < EXACT {
        // One rounding in the fused product: its sign is exact.
        if quotient.mul_add(below, -above) < 0.0 { quotient.next_up() } else { quotient }
    } else {
        quotient.next_up().next_up().next_up()
    };
    up.min(1.0)
}

/// The largest double not above `hits / total`, or one a few units below.
pub(crate) fn ratio_down(hits: u64, total: u64) -> f64 {
    if hits >= total {
        return 1.0;
    }
    (1.0 - ratio_up(total - hits, total)).min(hits as f64 / total as f64).next_down().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares `quotient` with `hits / total` exactly: quotient = mantissa * 2^-shift.
    fn at_least(quotient: f64, hits: u64, total: u64) -> bool {
        let bits = quotient.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32;
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        let shift = 1075 - exponent;
        // mantissa * total >= hits * 2^shift, where shift may be large only for tiny quotients
        let left = u128::from(mantissa) * u128::from(total);
        if shift >= 64 + 53 {
            return true;
        }
        u128::from(hits)
            .checked_shl(shift as u32)
            .is_some_and(|right| right >> shift == u128::from(hits) && left >= right)
    }

    proptest! {
        #[test]
        fn never_below(total in 1u64..1 << 45, share in 0.0f64..1.0) {
            let hits = ((total as f64 * share) as u64).clamp(1, total);
            let up = ratio_up(hits, total);
            prop_assert!(up == 1.0 || at_least(up, hits, total));
            prop_assert!(up <= (hits as f64 / total as f64).next_up());
            prop_assert!(ratio_down(hits, total) <= up);
        }
    }
}
