//! The running sum of clipped vectors that no executor made, such as what users send.

use super::pointwise;
use super::sum::{GradientSum, Numbers, Total};
use crate::clipping::ClippingRule;
use crate::error::EngineError;
use crate::layout::Layout;

/// A vector with the factors by which a rule clips it.
#[derive(Debug, Clone)]
pub struct ClippedVector<'v> {
    rule: &'v ClippingRule,
    layout: &'v Layout,
    values: &'v [f32],
    factors: Vec<f32>,
    norm: f64,
    added: bool,
}

impl<'v> ClippedVector<'v> {
    /// Measures a vector in the order of a layout, and takes the factors that bound it from a rule for that layout.
    ///
    /// # Guarantee
    /// The norm is an upper bound on that of the very numbers in the vector, so that [`VectorSum::add`] adds what [`ClippingRule`] promises:
    /// a vector of whole units whose norm is at most [`ClippingRule::sensitivity`], and which depends on this vector alone.
    ///
    /// # Errors
    /// A vector of another length than the layout.
    pub fn new(rule: &'v ClippingRule, layout: &'v Layout, values: &'v [f32]) -> Result<Self, EngineError> {
        if values.len() != layout.len() {
            let (expected, found) = (layout.len(), values.len());
            return Err(EngineError::Length { what: "vector".into(), expected, found });
        }
        let bound =
            |values: &[f32]| pointwise::squared_norm_rounding(values.len(), pointwise::squared_norm(values));
        let squared: Vec<f64> = match rule.unit() {
            Some(_) => layout.entries().iter().map(|entry| bound(&values[entry.range.clone()])).collect(),
            None => vec![0.0; layout.entries().len()],
        };
        let mut factors = vec![0.0; squared.len()];
        let added = rule.factors(&squared, &mut factors);
        Ok(Self { rule, layout, values, factors, norm: squared.iter().sum::<f64>().sqrt(), added })
    }

    /// The norm before clipping, as an upper bound that is only a little too large; zero without clipping.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// Whether the vector is added. With clipping, one that is not finite is not.
    pub fn is_added(&self) -> bool {
        self.added
    }

    /// Whether the vector was within the bound, so that clipping leaves it as it was.
    pub fn is_unclipped(&self) -> bool {
        self.added && self.rule.leaves(&self.factors)
    }
}

/// A running sum of clipped vectors, in the order of a layout.
#[derive(Debug, Clone)]
pub struct VectorSum {
    sum: GradientSum,
    /// Memory for what is carried over.
    spare: Vec<i64>,
}

impl VectorSum {
    /// An empty sum, in this memory if it is large enough.
    pub fn new(layout: &Layout, memory: Vec<f32>) -> Self {
        Self { sum: GradientSum::new(layout, memory), spare: Vec::new() }
    }

    /// Adds a vector.
    ///
    /// # Guarantee
    /// With clipping, a vector adds one of whole units that depends on it and the rule alone, of a norm of at most
    /// [`ClippingRule::sensitivity`], or nothing if it is not finite. These are added without rounding, so that the sum is the same in every
    /// order.
    ///
    /// # Errors
    /// A vector of another layout or rule than those before it, or more vectors than a sum holds. The sum stays as it was.
    pub fn add(&mut self, vector: &ClippedVector<'_>) -> Result<(), EngineError> {
        let ClippedVector { rule, layout, values, factors, added, .. } = vector;
        self.sum.check(layout)?;
        self.sum.reserve(rule, 1)?;
        if !added {
            return Ok(());
        }
        if self.sum.is_full_for(1) {
            self.sum.carry(&mut self.spare, 0);
        }
        self.sum.hold(1);
        let parts = layout.entries().iter().map(|entry| entry.range.clone()).zip(factors);
        match self.sum.numbers() {
            Numbers::Whole(sum) => {
                parts.for_each(|(part, &factor)| {
                    pointwise::count(&values[part.clone()], factor, &mut sum[part]);
                });
            }
            Numbers::Plain(sum) => pointwise::scale(values, 1.0, sum, true),
        }
        Ok(())
    }

    /// Turns the sum into a total.
    pub fn into_total(self) -> Total {
        self.sum.into_total(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Clipping;

    fn counts(rule: &ClippingRule, layout: &Layout, vectors: &[Vec<f32>]) -> (Vec<i64>, f64) {
        let mut sum = VectorSum::new(layout, vec![f32::NAN; 3]);
        for values in vectors {
            sum.add(&ClippedVector::new(rule, layout, values).unwrap()).unwrap();
        }
        let total = sum.into_total();
        let (counts, unit) = total.counts().unwrap();
        (counts.collect(), unit)
    }

    proptest! {
        /// What any vector adds is measured in whole numbers, exactly: a vector more moves the sum by no more than the bound, whatever else
        /// is in it.
        #[test]
        fn a_vector_moves_the_sum_by_no_more_than_the_bound(
            vectors in prop::collection::vec(prop::collection::vec(-30.0f32..30.0, 40), 1..5),
            scale in prop::sample::select(vec![1e-20f32, 1e-3, 1.0, 1e6, 1e18]),
            max_norm in prop::sample::select(vec![0.3f64, 1.0, 7.5]),
            stability in prop::sample::select(vec![None, Some(0.01)]),
        ) {
            let layout = Layout::of_vector(40);
            let clipping = match stability {
                Some(stability) => Clipping::Automatic { max_norm, stability },
                None => Clipping::Flat { max_norm },
            };
            let rule = ClippingRule::new(&clipping, &layout).unwrap();
            let vectors: Vec<Vec<f32>> =
                vectors.iter().map(|values| values.iter().map(|value| value * scale).collect()).collect();
            let (with, unit) = counts(&rule, &layout, &vectors);
            let (without, _) = counts(&rule, &layout, &vectors[1..]);
            let moved: i128 = with.iter().zip(&without).map(|(a, b)| i128::from(a - b).pow(2)).sum();
            // The bound in units, rounded down: the square of a whole number is compared with that of a bound.
            let most = (max_norm / unit).powi(2).floor() as i128;
            prop_assert!(moved <= most, "{moved} {most}");
            // Long vectors use the bound up.
            let norm = vectors[0].iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
            if norm > 100.0 * max_norm && norm < 1e18 {
                prop_assert!((moved as f64).sqrt() * unit > 0.99 * max_norm);
            }
        }
    }

    #[test]
    fn what_is_not_finite_adds_nothing_and_still_counts() {
        let layout = Layout::of_vector(3);
        let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &layout).unwrap();
        let good = vec![0.5, 0.25, 0.0];
        let (alone, _) = counts(&rule, &layout, std::slice::from_ref(&good));
        for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
            let values = vec![0.0, bad, 1.0];
            let vector = ClippedVector::new(&rule, &layout, &values).unwrap();
            assert!(!vector.is_added() && !vector.is_unclipped());
            assert_eq!(counts(&rule, &layout, &[values, good.clone()]).0, alone);
        }
        let vector = ClippedVector::new(&rule, &layout, &good).unwrap();
        assert!(vector.is_unclipped() && vector.norm() >= f64::hypot(0.5, 0.25));
        assert!(ClippedVector::new(&rule, &layout, &good[..2]).is_err());
    }

    #[test]
    fn more_vectors_than_the_memory_holds_are_carried_over() {
        let layout = Layout::of_vector(2);
        let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &layout).unwrap();
        let (one, _) = counts(&rule, &layout, &[vec![0.75, -0.5]]);
        let (many, _) = counts(&rule, &layout, &vec![vec![0.75, -0.5]; 5000]);
        assert_eq!(many, one.iter().map(|count| count * 5000).collect::<Vec<_>>());
    }

    #[test]
    fn without_clipping_vectors_are_added_as_they_are() {
        let layout = Layout::of_vector(2);
        let rule = ClippingRule::new(&Clipping::Off, &layout).unwrap();
        let mut sum = VectorSum::new(&layout, Vec::new());
        for values in [[1.5, 2.0], [0.25, -1.0]] {
            sum.add(&ClippedVector::new(&rule, &layout, &values).unwrap()).unwrap();
        }
        assert_eq!(sum.into_total().into_gradient(), [1.75, 1.0]);
    }
}
