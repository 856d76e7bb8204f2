//! A bound is a type of its own, with a proved lower and a proved upper end, so that no estimate can pass for one.

/// A certified interval: the exact value lies in `[lower, upper]`.
///
/// # Guarantee
/// `upper` is never below the exact value of the dominating pair's quantity and `lower` never above it; only
/// `upper` may be reported as a privacy guarantee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// Never above the exact value.
    pub lower: f64,
    /// Never below the exact value.
    pub upper: f64,
}

impl Bracket {
    /// The bracket of a value known exactly.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { lower: value, upper: value }
    }

    /// `upper - lower`.
    #[must_use]
    pub fn width(self) -> f64 {
        self.upper - self.lower
    }

    /// `(upper - lower) / upper`; 0 where both ends agree.
    #[must_use]
    pub fn relative_width(self) -> f64 {
        if self.upper == self.lower { 0.0 } else { self.width() / self.upper }
    }

    /// The bracket of the larger of two quantities.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}
