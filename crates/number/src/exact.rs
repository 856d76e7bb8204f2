//! Numbers in full, without any rounding.

/// A number in full, with a power of ten where that reads better.
#[must_use]
pub fn exact(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e9).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}

/// A number in full for programs, which reads back as exactly the same number.
#[must_use]
pub fn full(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size.is_finite() && !(1e-5..1e15).contains(&size) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// Bytes in hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!(hexadecimal(&[0, 0x0a, 0xff]), "000aff");
    }

    proptest::proptest! {
        #[test]
        fn exact_numbers_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            for text in [exact(value), full(value)] {
                let back: f64 = text.parse().expect("a number");
                proptest::prop_assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()));
            }
        }
    }
}
