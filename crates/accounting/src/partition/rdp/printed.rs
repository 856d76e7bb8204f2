//! What the partitioning paper prints for the reverse divergence.

/// The second term of Theorem 3.1 of the partitioning paper (D), from Corollaries 3.17 and 3.19, as printed: **not a bound** on `D_a(Q || P)`.
///
/// D Lemma 3.18 replaces the mixture that is left after its mean by one Gaussian over all `d` dimensions. For two places, noise 1 and order 2 this gives
/// 0.5502, where integration gives 0.5690. Counting the `d - 1` dimensions that the centres span does not repair it: the
/// variance of the ratio grows like `e^{1 / sigma^2} - 1`, of which a Gaussian keeps two terms. It is here so that figures can show it.
#[must_use]
pub fn printed_reverse(places: u64, ones: u64, noise_multiplier: f64, order: u32) -> f64 {
    let (d, k, a) = (places as f64, ones as f64, f64::from(order));
    let squared = noise_multiplier * noise_multiplier;
    let along = 0.5 * a * k * k / (squared * d);
    let v = k * (d - k) / (squared * d);
    // (1 / 2(a-1)) ln(e^{a v} / (a e^{v/d} + 1 - a)^d)
    along + 0.5 * (a * v - d * (a * (v / d).exp_m1()).ln_1p()) / (a - 1.0)
}
