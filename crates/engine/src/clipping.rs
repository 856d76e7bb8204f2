//! How a sample's gradient is scaled before it joins the sum.

use crate::error::EngineError;
use crate::layout::Layout;

/// A clipping rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Clipping {
    /// No clipping: the plain sum. Not private.
    Off,
    /// The whole gradient to at most `max_norm`.
    Flat {
        /// Bound on the norm.
        max_norm: f64,
    },
    /// Each layer on its own, to at most `max_norm / sqrt(layers)`, so that the whole stays within `max_norm`.
    PerLayer {
        /// Bound on the norm of the whole.
        max_norm: f64,
    },
    /// Each group of parameters on its own.
    PerGroup {
        /// Group of each trainable parameter, in order.
        groups: Vec<usize>,
        /// Bound of each group.
        max_norms: Vec<f64>,
    },
    /// Automatic clipping (Bu et al. 2022): `g max_norm / (|g| + stability)`, never longer than `max_norm`.
    Automatic {
        /// Length that every gradient approaches.
        max_norm: f64,
        /// Keeps short gradients short; must be positive.
        stability: f64,
    },
}

impl Clipping {
    /// The largest norm one sample can contribute; infinite without clipping.
    ///
    /// # Guarantee
    /// The contribution of any sample to a clipped sum has at most this Euclidean norm.
    pub fn sensitivity(&self) -> f64 {
        match self {
            Self::Off => f64::INFINITY,
            Self::Flat { max_norm } | Self::PerLayer { max_norm } | Self::Automatic { max_norm, .. } => {
                *max_norm
            }
            Self::PerGroup { max_norms, .. } => {
                max_norms.iter().map(|bound| bound * bound).sum::<f64>().sqrt()
            }
        }
    }

    /// Checks that the rule fits a model.
    fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        let positive = |value: f64, what: &str| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(EngineError::Clipping(format!("{what} is {value}; it must be positive and finite"))),
        };
        match self {
            Self::Off => Ok(()),
            Self::Flat { max_norm } | Self::PerLayer { max_norm } => positive(*max_norm, "max_norm"),
            Self::Automatic { max_norm, stability } => {
                positive(*max_norm, "max_norm")?;
                positive(*stability, "stability")
            }
            Self::PerGroup { groups, max_norms } => {
                if groups.len() != layout.entries().len() {
                    let (found, expected) = (groups.len(), layout.entries().len());
                    return Err(EngineError::Clipping(format!(
                        "{found} groups for {expected} trainable parameters"
                    )));
                }
                if let Some(group) = groups.iter().find(|&&group| group >= max_norms.len()) {
                    return Err(EngineError::Clipping(format!("group {group} has no bound")));
                }
                max_norms.iter().try_for_each(|&bound| positive(bound, "a group's bound"))
            }
        }
    }
}

/// A clipping rule checked against a model, with the whole numbers in which its clipped gradients are added up.
///
/// A sample adds `round(f g / u)` to the sum, coordinate by coordinate: whole multiples of a unit `u`, a power of two that follows from the
/// bound alone. Whole numbers add up without rounding, so a sum is the same in every order, on every machine, however the batch is cut,
/// and what one sample adds to it depends on that sample alone. There is no rounding of the sum to account for.
///
/// # Guarantee
/// With `N` an upper bound on the norm of the `d` numbers that an executor holds for a sample, `f` is the largest single-precision number
/// for which `f N + u sqrt(d) / 2 <= C`: rounding to whole units moves each coordinate by half a unit at most, so what is added has a norm
/// of at most `C`. Where weights are standardised, the sum passes a projection afterwards; what that rounds is taken off `C` too, see
/// `PROJECTED`.
///
/// No sum overflows. A coordinate of what a sample adds is a whole number of at most `C / u < 2^21`, so at most `2^21 - 1`; `HELD` of them
/// make less than 2^31, and are carried over into whole numbers of 64 bits before there are more. Those hold `CAPACITY` samples: with
/// `FRACTION` digits behind the point, less than 2^53, which double precision holds exactly as well.
#[derive(Debug, Clone, PartialEq)]
pub struct ClippingRule {
    clipping: Clipping,
    /// `u`; `None` where nothing is clipped and plain numbers are added up.
    unit: Option<f64>,
    /// The part of the rule that bounds each trainable parameter, in order.
    parts: Vec<usize>,
    /// What is left of each part's bound for `f N`, in units.
    limits: Vec<f64>,
}

/// `2^FINEST <= C / u < 2^(FINEST + 1)`. Executors round a coordinate in single precision, which holds whole numbers of 22 bits beside the
/// digits that rounding takes.
const FINEST: i32 = 20;
/// Samples that a sum in whole numbers of 32 bits holds.
pub(crate) const HELD: usize = 1 << (30 - FINEST);
/// Binary digits behind the point that a sum is given before its filters are projected, so that rounding the result costs next to nothing.
pub(crate) const FRACTION: u32 = 6;
/// Samples that a sum holds, whatever it is for.
const CAPACITY: usize = 1 << (53 - FRACTION as i32 - FINEST - 1);
/// Share by which every limit is lowered for what is rounded in single precision on the way from a norm to a whole number: the factor of a
/// filter, and a gradient less its mean, 2^-24 each.
const SLACK: f64 = 1.0 / (1u64 << 22) as f64;

/// The largest norm that counts as finite. Where a gradient is never written down, its norm is at least 2^-24 of all the products it is made
/// of, so that none of their sums reaches what single precision can hold.
const LARGEST: f64 = 1e30;

/// What a projection of two sums may move them apart by, for each weight of a filter, as a share of the bound of a sample.
///
/// A filter's sum `d` of `n` weights becomes `d - w (w . d) / n` in double precision, of roundoff `2^-53`, where the mean square of `w` is one
/// at the most: exactly computed, no two are farther apart afterwards. A product, `n` additions and a division err by `n + 2` roundoffs of
/// `|w| |d| / n`, which moves the result by as many of `|d|`; the last product and the difference by one each. All filters together err by
/// no more than the longest times the norm of the sum, which is at most [`CAPACITY`] bounds; and two sums err.
const PROJECTED: f64 = 2.0 * CAPACITY as f64 / (1u64 << 53) as f64;

impl ClippingRule {
    /// Checks that a rule fits a model.
    ///
    /// # Errors
    /// A bound that is not positive, groups that do not fit the parameters, or a group whose bound is so small beside the others' that
    /// units of the whole leave less than half of it.
    pub fn new(clipping: &Clipping, layout: &Layout) -> Result<Self, EngineError> {
        clipping.check(layout)?;
        let entries = layout.entries();
        let parts: Vec<usize> = match clipping {
            Clipping::Off | Clipping::Flat { .. } | Clipping::Automatic { .. } => vec![0; entries.len()],
            Clipping::PerLayer { .. } => entries.iter().map(|entry| entry.layer).collect(),
            Clipping::PerGroup { groups, .. } => groups.clone(),
        };
        let clipping = clipping.clone();
        let bounds = match &clipping {
            Clipping::Off => {
                return Ok(Self { clipping, unit: None, parts, limits: vec![f64::INFINITY] });
            }
            Clipping::Flat { max_norm } | Clipping::Automatic { max_norm, .. } => vec![*max_norm],
            Clipping::PerLayer { max_norm } => {
                vec![max_norm / (layout.layers() as f64).sqrt(); layout.layers()]
            }
            Clipping::PerGroup { max_norms, .. } => max_norms.clone(),
        };
        let unit = 2f64.powi(exponent(clipping.sensitivity()) - FINEST);
        // Half a unit a coordinate, and behind a projection twice half of a fraction of one.
        let finest = 1.0 / f64::from(1 << FRACTION);
        let square = |standardised: bool| if standardised { (0.5 + finest).powi(2) } else { 0.25 };
        let mut limits = Vec::with_capacity(bounds.len());
        for (part, bound) in bounds.iter().enumerate() {
            let own = || entries.iter().zip(&parts).filter(|(_, own)| **own == part).map(|(entry, _)| entry);
            let moved =
                own().map(|entry| square(entry.standardised()) * entry.range.len() as f64).sum::<f64>();
            let longest = own().filter_map(|entry| entry.filter).max();
            let projected = longest.map_or(0.0, |weights| PROJECTED * (weights + 8) as f64);
            let limit = bound / unit * (1.0 - SLACK - projected) - moved.sqrt();
            if limit <= 0.5 * bound / unit {
                return Err(EngineError::Clipping(format!(
                    "rounding to {unit:e} in {} parameters leaves too little of a bound of {bound}",
                    own().map(|entry| entry.range.len()).sum::<usize>()
                )));
            }
            limits.push(limit);
        }
        Ok(Self { clipping, unit: Some(unit), parts, limits })
    }

    /// The rule as it was given.
    pub fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// What one whole number of a sum stands for; `None` where nothing is clipped.
    pub fn unit(&self) -> Option<f64> {
        self.unit
    }

    /// The largest norm one sample can contribute; infinite without clipping.
    pub fn sensitivity(&self) -> f64 {
        self.clipping.sensitivity()
    }

    /// The share of a bound that is taken off it for rounding to whole units: more where there are many parameters.
    pub fn taken_off(&self) -> f64 {
        let Some(unit) = self.unit else { return 0.0 };
        let bounds = match &self.clipping {
            Clipping::PerGroup { max_norms, .. } => max_norms.clone(),
            _ => vec![self.clipping.sensitivity() / (self.limits.len() as f64).sqrt(); self.limits.len()],
        };
        let off = self.limits.iter().zip(bounds).map(|(limit, bound)| 1.0 - limit * unit / bound);
        off.fold(0.0, f64::max)
    }

    /// Samples that a sum may hold: more than there are in any batch.
    pub fn capacity(&self) -> usize {
        if self.unit.is_some() { CAPACITY } else { usize::MAX }
    }

    /// The factor of each trainable parameter, in units, from upper bounds on the squared norms of a sample's gradient. A gradient that is
    /// not finite, or so large that single precision may overflow on the way to it, gets the factor zero everywhere and must not be added;
    /// then this is false.
    ///
    /// # Guarantee
    /// As [`ClippingRule`], for every sample whose squared norms are at most those given.
    pub(crate) fn factors(&self, squared: &[f64], factors: &mut [f32]) -> bool {
        let Some(unit) = self.unit else {
            factors.fill(1.0);
            return true;
        };
        if !squared.iter().all(|&square| square <= LARGEST * LARGEST) {
            factors.fill(0.0);
            return false;
        }
        let stability = match self.clipping {
            Clipping::Automatic { stability, .. } => Some(stability),
            _ => None,
        };
        for (part, limit) in self.limits.iter().enumerate() {
            let own = squared.iter().zip(&self.parts).filter(|(_, own)| **own == part);
            // Adding up rounds by far less than the slack.
            let norm = own.map(|(square, _)| square).sum::<f64>().sqrt();
            let factor = match stability {
                Some(stability) => limit / (norm + stability),
                None => (limit / norm).min(1.0 / unit),
            };
            let factor = rounded_down(factor);
            self.parts
                .iter()
                .zip(&mut *factors)
                .filter(|(own, _)| **own == part)
                .for_each(|(_, to)| *to = factor);
        }
        true
    }

    /// Whether these factors leave a gradient as it is, but for rounding to whole units: it was within the bound. None is where nothing is clipped.
    pub(crate) fn leaves(&self, factors: &[f32]) -> bool {
        self.unit.is_some_and(|unit| factors.iter().all(|&factor| factor == rounded_down(1.0 / unit)))
    }
}

/// The power of two at or below a positive number.
fn exponent(value: f64) -> i32 {
    let guess = value.log2().floor() as i32;
    if 2f64.powi(guess) > value { guess - 1 } else { guess }
}

/// The largest single-precision number that is not above a positive number.
fn rounded_down(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) > value { near.next_down() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;

    #[test]
    fn little_is_taken_off_a_bound() {
        let small = Layout::new(&zoo::small_cnn(&[1, 28, 28], 10).unwrap());
        let wide = Layout::new(&zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap());
        for (layout, most) in [(&small, 1e-4), (&wide, 1e-3)] {
            // A power of two has the fewest units.
            for max_norm in [1.0, 0.7, 3.0, 1e-6] {
                for clipping in [
                    Clipping::Flat { max_norm },
                    Clipping::PerLayer { max_norm },
                    Clipping::Automatic { max_norm, stability: 0.01 },
                ] {
                    let rule = ClippingRule::new(&clipping, layout).unwrap();
                    let unit = rule.unit().unwrap();
                    assert_eq!(unit.to_bits() << 12, 0, "a power of two");
                    // Layers have less of the bound each, and as much to round.
                    let most = if matches!(clipping, Clipping::PerLayer { .. }) { 8.0 * most } else { most };
                    assert!(rule.taken_off() > 0.0 && rule.taken_off() < most, "{}", rule.taken_off());
                }
            }
        }
        let off = ClippingRule::new(&Clipping::Off, &small).unwrap();
        assert_eq!((off.taken_off(), off.capacity()), (0.0, usize::MAX));
        // A group with a billionth of the whole has less than a unit.
        let groups: Vec<usize> = (0..small.entries().len()).map(|index| usize::from(index > 0)).collect();
        let uneven = Clipping::PerGroup { groups, max_norms: vec![1e-9, 1.0] };
        assert!(matches!(ClippingRule::new(&uneven, &small), Err(EngineError::Clipping(_))));
    }

    /// Counted in wider numbers, for the largest count of a coordinate and the largest of every sum.
    #[test]
    fn no_sum_overflows() {
        let layout = Layout::new(&zoo::small_cnn(&[1, 28, 28], 10).unwrap());
        for max_norm in [1.0, 0.7, 1.0f64.next_down(), 1e-20f64.next_up(), 3e7] {
            let rule = ClippingRule::new(&Clipping::Flat { max_norm }, &layout).unwrap();
            let largest = (max_norm / rule.unit().unwrap()).floor() as i128;
            // What single precision rounds to a whole number by adding 1.5 2^23.
            assert!(largest < 1 << 22, "{largest}");
            assert!(largest * HELD as i128 <= i128::from(i32::MAX), "{largest}");
            assert!((largest * rule.capacity() as i128) << FRACTION <= 1 << 53, "{largest}");
            assert!(rule.capacity() >= (1 << 24) + 40 * (1 << 12) + 100);
        }
    }

    /// A factor never lets a gradient of the given norms exceed its bound, and uses it up to what is taken off.
    #[test]
    fn factors_fill_the_bound() {
        let layout = Layout::new(&zoo::small_cnn(&[1, 28, 28], 10).unwrap());
        let entries = layout.entries().len();
        let rule = ClippingRule::new(&Clipping::Flat { max_norm: 0.7 }, &layout).unwrap();
        let unit = rule.unit().unwrap();
        for norm in [1e-30, 1e-3, 0.69, 0.7, 1.0, 1e10, 9e29] {
            let mut squared = vec![0.0; entries];
            squared[1] = norm * norm;
            let mut factors = vec![0.0; entries];
            assert!(rule.factors(&squared, &mut factors));
            assert_eq!(rule.leaves(&factors), norm <= 0.69, "{norm}");
            let length = f64::from(factors[1]) * unit * norm;
            assert!(length <= 0.7 && length >= 0.999 * norm.min(0.7), "{norm}: {length}");
        }
        for bad in [f64::NAN, f64::INFINITY, 2e60] {
            let mut factors = vec![1.0; entries];
            let mut squared = vec![1.0; entries];
            squared[0] = bad;
            assert!(!rule.factors(&squared, &mut factors));
            assert!(factors.iter().all(|&factor| factor == 0.0));
            assert!(!rule.leaves(&factors));
        }
    }
}
