//! One pair of coordinates with certainty: what the fast path leaves open.

use dapple_data::rand_core::Rng;

use super::double::Double;

/// The random bits of a pair: 32 for the radius, 32 for the angle, and a stream with as many more as are wanted.
///
/// The ideal noise is a function of two real numbers `U1`, `U2` uniform on `(0, 1)` whose binary digits are these bits, without end:
/// `sqrt(-2 ln U1) (cos, sin)(theta)` (Box and Muller 1958), where the first two digits of `U2` choose the quarter turn and the others
/// the angle in `(-pi/4, pi/4)` about it. So `theta` is uniform on the circle and both values are independent standard normal.
pub(super) struct Bits<R> {
    pub(super) radius: u32,
    pub(super) angle: u32,
    pub(super) more: R,
}

impl<R: Rng> Bits<R> {
    /// Both coordinates of `round(offset + deviation * noise)`.
    ///
    /// # Guarantee
    /// 158 digits of each number are used and 2^-98 of relative precision is kept, so the result differs from that of the ideal
    /// numbers with probability at most 2^-80 over the bits that are not known before, for a deviation of at most 2^11.
    pub(super) fn round(mut self, offset: [f64; 2], deviation: f64) -> [f64; 2] {
        let uniform = Double::fraction(self.digits(self.radius, 32));
        let radius = (Double::from(-2.0) * uniform.ln()).sqrt() * Double::from(deviation);
        // Two digits are the quarter; the rest, moved up, is the place in it.
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

    /// The first `known` digits of a word, and 128 more.
    fn digits(&mut self, word: u32, known: u32) -> [u64; 3] {
        let (first, second) = (self.more.next_u64(), self.more.next_u64());
        let head = u64::from(word) << 32;
        [head | first >> known, first << (64 - known) | second >> known, second << (64 - known)]
    }
}
