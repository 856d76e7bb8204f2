//! The scale and shift of every channel with which a normalisation ends.

use pulp::Arch;

/// Fills `scale` and `shift` so that the normalised value with its affine map is `x scale + shift`. A channel's statistics are its mean and
/// one over its deviation.
pub(crate) fn coefficients(
    affine: Option<(&[f32], Option<&[f32]>)>,
    statistics: impl Fn(usize) -> (f32, f32),
    scale: &mut [f32],
    shift: &mut [f32],
) {
    for (c, (scale, shift)) in scale.iter_mut().zip(shift).enumerate() {
        let (mean, inverse) = statistics(c);
        let of_channel =
            |(weight, bias): (&[f32], Option<&[f32]>)| (weight[c], bias.map_or(0.0, |bias| bias[c]));
        let (weight, bias) = affine.map_or((1.0, 0.0), of_channel);
        *scale = weight * inverse;
        *shift = bias - mean * *scale;
    }
}

/// `y = x scale + shift` for every row of channels, followed by `max(y, 0)` if `relu` is set.
pub(crate) fn scale_rows(x: &[f32], scale: &[f32], shift: &[f32], relu: bool, y: &mut [f32]) {
    let channels = scale.len();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                let terms = x.iter().zip(scale).zip(shift).map(|((x, a), b)| x * a + b);
                if relu {
                    y.iter_mut().zip(terms).for_each(|(y, term)| *y = term.max(0.0));
                } else {
                    y.iter_mut().zip(terms).for_each(|(y, term)| *y = term);
                }
            }
        },
    );
}
