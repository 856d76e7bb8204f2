//! Rounds one pair of coordinates with certainty, where the fast path has left the result open.

use dapple_data::rand_core::Rng;

use super::double::Double;

/// The random bits of a pair: 32 for the radius, 32 for the angle, and a stream that has as many more as are needed.
///
/// The ideal noise is a function of two real numbers `U1` and `U2`, uniform on `(0, 1)`, whose endless binary digits are these bits:
/// `sqrt(-2 ln U1) (cos, sin)(theta)` (Box and Muller 1958). The first two digits of `U2` choose the quarter turn, and the others the
/// angle in `(-pi/4, pi/4)` about it, so `theta` is uniform on the circle and the two values are independent and standard normal.
pub(super) struct Bits<R> {
    pub(super) radius: u32,
    pub(super) angle: u32,
    pub(super) more: R,
}

impl<R: Rng> Bits<R> {
    /// Both coordinates of `round(offset + deviation * noise)`.
    ///
    /// # Guarantee
    /// At least 158 digits of each number are used, to a relative precision of 2^-98. So for a deviation of at most 2^11 the result
    /// differs from that of the ideal numbers with probability at most 2^-80 over the bits that the fast path has not seen.
    pub(super) fn round(mut self, offset: [f64; 2], deviation: f64) -> [f64; 2] {
        let uniform = Double::fraction(self.digits(self.radius, 32));
        let radius = (Double::from(-2.0) * uniform.ln()).sqrt() * Double::from(deviation);
        // The first two digits are the quarter; the others, shifted to the front, are the place within it.
        let place = Double::fraction(self.digits(self.angle << 2, 30)) - Double::from(0.5);
        let (cos, sin) = place.cos_sin_quarter_turns();
        let direction = match self.angle >> 30 {
            0 => [cos, sin],
            1 => [-sin, cos],
            2 => [-cos, -sin],
            _ => [sin, -cos],
        };
        [0, 1].map(|i| (Double::from(offset[i]) + radius * direction[i]).round())
    }

    /// The first `known` digits of a word, followed by 128 fresh ones.
    fn digits(&mut self, word: u32, known: u32) -> [u64; 3] {
        let (first, second) = (self.more.next_u64(), self.more.next_u64());
        let head = u64::from(word) << 32;
        [head | first >> known, first << (64 - known) | second >> known, second << (64 - known)]
    }
}
