//! From Rényi divergences to epsilon.

/// How a Rényi guarantee becomes an epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conversion {
    /// `eps + ln((a-1)/a) - (ln delta + ln a)/(a-1)` (Canonne, Kamath and Steinke 2020).
    #[default]
    Tight,
    /// `eps + ln(1/delta)/(a-1)` (Mironov 2017; partitioning paper, Proposition 2.3), which the figures of that paper use.
    Classic,
}

impl Conversion {
    /// Epsilon at `delta` from a divergence of order `order > 1`.
    ///
    /// # Guarantee
    /// A mechanism whose divergences of this order are at most `divergence` in both directions is `(epsilon, delta)`-private.
    #[must_use]
    pub fn epsilon(self, order: f64, divergence: f64, delta: f64) -> f64 {
        let epsilon = match self {
            Self::Tight => divergence + (-1.0 / order).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0),
            Self::Classic => divergence - delta.ln() / (order - 1.0),
        };
        // A divergence that overflowed tells nothing.
        if epsilon.is_nan() { f64::INFINITY } else { epsilon.max(0.0) }
    }

    /// Delta at `epsilon` from a divergence of order `order > 1`: the inverse of [`Conversion::epsilon`].
    ///
    /// # Guarantee
    /// As for [`Conversion::epsilon`].
    #[must_use]
    pub fn delta(self, order: f64, divergence: f64, epsilon: f64) -> f64 {
        let log_delta = match self {
            Self::Tight => (order - 1.0) * (divergence + (-1.0 / order).ln_1p() - epsilon) - order.ln(),
            Self::Classic => (order - 1.0) * (divergence - epsilon),
        };
        if log_delta.is_nan() { 1.0 } else { log_delta.exp().min(1.0) }
    }

    /// The least epsilon over pairs of an order and its divergence; infinite where there is none.
    pub(crate) fn best(self, divergences: impl Iterator<Item = (f64, f64)>, delta: f64) -> RdpAnswer {
        let mut best = RdpAnswer { epsilon: f64::INFINITY, order: f64::NAN };
        for (order, divergence) in divergences {
            let epsilon = self.epsilon(order, divergence, delta);
            if epsilon < best.epsilon {
                best = RdpAnswer { epsilon, order };
            }
        }
        best
    }
}

/// An upper bound on epsilon and the order that gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RdpAnswer {
    /// Never below the exact epsilon.
    pub epsilon: f64,
    /// The Rényi order of the best conversion.
    pub order: f64,
}
