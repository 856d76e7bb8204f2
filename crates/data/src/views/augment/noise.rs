//! Gaussian noise on pixels.

use chacha20::rand_core::Rng;

use super::ViewPlanes;

/// Adds independent Gaussian noise to every value and cuts the sums to the range from 0 to 1.
pub(super) fn add(view: &mut ViewPlanes<'_>, deviation: f64, random: &mut impl Rng) {
    each(view, random, |value, normal| (value + deviation * normal).clamp(0.0, 1.0));
}

/// Cuts every value to the range from 0 to 1 and adds independent Gaussian noise, both rounded to multiples of a step of about a
/// four-thousandth of the deviation or of one.
///
/// # Guarantee
/// Two views that differ in `n` values before differ by at most `sqrt(n)` when the noise is added. Rounded noise on rounded values is what
/// ideal noise on rounded values rounds to, because the steps of the two are one, and the sums are exact in single precision. So their total
/// variation distance is at most `2 Phi(sqrt(n) / (2 deviation)) - 1`, and for each value what a normal number computed in double precision
/// may fall on the wrong side of a step: a share below 2^-36, where `PixelNoise` counts 2^-30.
pub(super) fn add_counted(view: &mut ViewPlanes<'_>, deviation: f64, random: &mut impl Rng) {
    let step = step(deviation);
    let steps = |value: f64| (value / step).round_ties_even();
    each(view, random, |value, normal| step * (steps(value.clamp(0.0, 1.0)) + steps(deviation * normal)));
}

/// The step of counted noise: a power of two, at most one, for every deviation that plans may have.
fn step(deviation: f64) -> f64 {
    (deviation.max(1.0).log2().floor() - 12.0).exp2()
}

fn each(view: &mut ViewPlanes<'_>, random: &mut impl Rng, noisy: impl Fn(f64, f64) -> f64) {
    for pair in view.values.chunks_mut(2) {
        for (value, normal) in pair.iter_mut().zip(two_normals(random)) {
            *value = noisy(f64::from(*value), normal) as f32;
        }
    }
}

/// Two independent standard normal numbers (Box and Muller 1958) from 53 and 64 random bits.
fn two_normals(random: &mut impl Rng) -> [f64; 2] {
    // From (0, 1], where the logarithm is finite.
    let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let angle = random.next_u64() as f64 * (std::f64::consts::TAU / 18_446_744_073_709_551_616.0);
    let radius = (-2.0 * uniform.ln()).sqrt();
    let (sine, cosine) = angle.sin_cos();
    [radius * cosine, radius * sine]
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::random;
    use super::super::ViewPlanes;
    use super::{add_counted, step, two_normals};
    use crate::statistics::{ALPHA, chi_square_accepts};

    /// Deciles of the normal distribution, from scipy.stats.norm.ppf.
    const DECILES: [f64; 9] = [
        -1.2815515655446004,
        -0.8416212335729142,
        -0.5244005127080407,
        -0.2533471031357997,
        0.0,
        0.2533471031357997,
        0.5244005127080407,
        0.8416212335729142,
        1.2815515655446004,
    ];

    /// Both numbers of a pair are normal, and each pair of deciles is equally likely.
    #[test]
    fn pairs_are_normal_and_independent() {
        let mut random = random(3);
        let mut counts = [0u64; 100];
        for _ in 0..200_000 {
            let [one, other] = two_normals(&mut random)
                .map(|normal| DECILES.iter().filter(|&&decile| normal >= decile).count());
            counts[10 * one + other] += 1;
        }
        assert!(chi_square_accepts(&counts, &[2000.0; 100], ALPHA), "{counts:?}");
    }

    /// Nothing of a value is left in the lower bits of its noisy one.
    #[test]
    fn counted_noise_lies_on_the_lattice_of_its_values() {
        for deviation in [0.01, 1.0, 3.0, 4096.0] {
            let step = step(deviation);
            assert!(step <= 1.0 && 1.0 % step == 0.0 && deviation / step <= 8192.0, "{deviation}");
            let mut values: Vec<f32> = (0..1000).map(|i| i as f32 / 999.0).collect();
            let size = dapple_geometry::Size::new(1000, 1).unwrap();
            let mut planes = ViewPlanes { values: &mut values, size, frames: 1 };
            add_counted(&mut planes, deviation, &mut random(8));
            let on = |value: &f32| (f64::from(*value) / step).fract() == 0.0;
            assert!(values.iter().all(on), "{deviation}");
        }
    }
}
