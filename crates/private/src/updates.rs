//! The sum of what users send, for servers whose users train elsewhere.

use dapple_data::StepKey;
use dapple_engine::{ClippedVector, Clipping, ClippingRule, Layout, VectorSum};

use crate::error::StepError;
use crate::noise::Noise;

/// The updates of a round, each clipped as a whole, and what is released of them.
#[derive(Debug)]
pub struct UpdateSum {
    rule: ClippingRule,
    layout: Layout,
    sum: VectorSum,
}

/// What became of an update. It tells something about a user: show it to nobody against whom the guarantee is meant to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddedUpdate {
    /// An upper bound on its norm before clipping, which is only a little too large.
    pub norm: f64,
    /// Whether it was within the bound.
    pub unclipped: bool,
    /// Whether it was finite; if not, it added nothing.
    pub finite: bool,
}

impl UpdateSum {
    /// A sum of nothing, for updates of `len` values that are clipped to a norm of at most `max_norm`.
    ///
    /// # Errors
    /// A bound that is not positive and finite, or one of so many values that rounding would leave too little of it.
    pub fn new(len: usize, max_norm: f64) -> Result<Self, StepError> {
        let layout = Layout::of_vector(len);
        let rule = ClippingRule::new(&Clipping::Flat { max_norm }, &layout)?;
        Ok(Self { rule, sum: VectorSum::new(&layout, Vec::new()), layout })
    }

    /// Clips an update and adds it.
    ///
    /// # Guarantee
    /// It adds a vector that depends on this update alone, whose norm is at most the bound, and which is made of whole numbers, so that the
    /// sum is exact and the same in every order.
    ///
    /// # Errors
    /// An update of another length, or more of them than a sum holds.
    pub fn add(&mut self, update: &[f32]) -> Result<AddedUpdate, StepError> {
        let vector = ClippedVector::new(&self.rule, &self.layout, update)?;
        self.sum.add(&vector)?;
        let (norm, unclipped, finite) = (vector.norm(), vector.is_unclipped(), vector.is_added());
        Ok(AddedUpdate { norm, unclipped, finite })
    }

    /// The noisy sum divided by the expected number of users.
    ///
    /// # Guarantee
    /// It is a function of the sum with the noise of this key, rounded to a lattice. The noise multiplier of the round is the deviation of
    /// the noise divided by the bound. Whoever takes part or not, the divisor is the same.
    ///
    /// # Errors
    /// Those of [`Noise::add`].
    pub fn release(self, noise: &Noise, key: &StepKey, users: u64) -> Result<Vec<f32>, StepError> {
        let mut total = self.sum.into_total();
        let noisy = total.make_plain(|bits, carried, unit| noise.add(bits, carried, unit, key))?;
        let share = 1.0 / users as f32;
        Ok(noisy.iter().map(|value| value * share).collect())
    }
}

#[cfg(test)]
mod tests {
    use dapple_data::{MasterKey, Purpose};

    use super::*;

    #[test]
    fn a_release_is_the_mean_with_noise_on_top() {
        let key = MasterKey::from_seed(3).purpose(Purpose::Noise).step(0);
        let release = |deviation: f64, updates: &[[f32; 2]]| {
            let mut sum = UpdateSum::new(2, 1.0).unwrap();
            updates.iter().for_each(|update| assert!(sum.add(update).unwrap().finite));
            sum.release(&Noise::new(deviation).unwrap(), &key, 4).unwrap()
        };
        let nearly = release(1e-9, &[[0.5, 0.0], [0.25, -0.25]]);
        assert!((nearly[0] - 0.1875).abs() < 1e-6 && (nearly[1] + 0.0625).abs() < 1e-6, "{nearly:?}");
        // An update of length 100 counts as one of length 1, and no update is a round, too.
        let long = release(1e-9, &[[100.0, 0.0]]);
        assert!(long[0] <= 0.25 && long[0] > 0.2499, "{long:?}");
        let nothing = release(2.0, &[]);
        assert!(nothing.iter().all(|value| value.is_finite() && *value != 0.0), "{nothing:?}");
    }
}
