//! Decoding numbers as files store them.

use safetensors::tensor::{Dtype, TensorView};

/// Decodes 16-, 32- and 64-bit floating-point numbers; false for any other type.
pub(super) fn decode(tensor: &TensorView<'_>, values: &mut [f32]) -> bool {
    let bytes = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*chunk);
            }
        }
        Dtype::F64 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f64::from_le_bytes(*chunk) as f32;
            }
        }
        Dtype::BF16 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*chunk)) << 16);
            }
        }
        Dtype::F16 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = half_to_single(u16::from_le_bytes(*chunk));
            }
        }
        _ => return false,
    }
    true
}

/// Converts IEEE 754 half precision to single precision, which is exact.
fn half_to_single(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * (-24f32).exp2(),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * ((exponent - 25) as f32).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_decode() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 5.960_464_5e-8), (0x7bff, 65504.0)] {
            assert_eq!(half_to_single(bits), value);
        }
    }
}
