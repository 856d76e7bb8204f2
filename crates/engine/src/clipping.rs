//! How a sample's gradient is scaled before it is added to the sum.

use crate::error::EngineError;
use crate::layout::Layout;

/// A clipping rule as it is asked for, before it is checked against a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Clipping {
    /// No clipping: gradients are added as they are, and the sum is not private.
    Off,
    /// Clips the whole gradient to a norm of at most `max_norm`.
    Flat {
        /// The bound on the norm.
        max_norm: f64,
    },
    /// Clips each layer by itself to at most `max_norm / sqrt(layers)`, so that the whole stays within `max_norm`.
    PerLayer {
        /// The bound on the norm of the whole gradient.
        max_norm: f64,
    },
    /// Clips each group of parameters by itself.
    PerGroup {
        /// The group of each trainable parameter, in order.
        groups: Vec<usize>,
        /// The bound of each group.
        max_norms: Vec<f64>,
    },
    /// Multiplies the gradient of each trainable parameter by a scale, and clips the whole of what that gives to at most `max_norm`.
    Scaled {
        /// The bound on the norm of the scaled gradient.
        max_norm: f64,
        /// The scale of each trainable parameter, in order.
        scales: Vec<f64>,
    },
    /// Automatic clipping (Bu et al. 2022): a gradient `g` becomes `g max_norm / (|g| + stability)`, which is never longer than `max_norm`.
    Automatic {
        /// The length that long gradients approach.
        max_norm: f64,
        /// Keeps short gradients short. It must be positive.
        stability: f64,
    },
}

impl Clipping {
    /// The largest norm that one sample can add to the sum; infinite without clipping.
    ///
    /// # Guarantee
    /// What any sample adds to a clipped sum has at most this Euclidean norm.
    pub fn sensitivity(&self) -> f64 {
        match self {
            Self::Off => f64::INFINITY,
            Self::Flat { max_norm }
            | Self::PerLayer { max_norm }
            | Self::Scaled { max_norm, .. }
            | Self::Automatic { max_norm, .. } => *max_norm,
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
            Self::Scaled { max_norm, scales } => {
                if scales.len() != layout.entries().len() {
                    let (found, expected) = (scales.len(), layout.entries().len());
                    return Err(EngineError::Clipping(format!(
                        "{found} scales for {expected} trainable parameters"
                    )));
                }
                positive(*max_norm, "max_norm")?;
                scales.iter().try_for_each(|&scale| positive(scale, "a parameter's scale"))
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

/// A clipping rule that has been checked against a model, with the unit in whose whole multiples clipped gradients are added.
///
/// A sample with gradient `g` and clipping factor `f` adds `round(f g / u)` to the sum, coordinate by coordinate. The unit `u` is a power of
/// two that follows from the bound `C` alone. Whole numbers are added without rounding, so a sum is the same in every order, on every
/// machine and however the batch is cut, and what one sample adds to it depends on that sample alone. There is no rounding of the sum to
/// account for.
///
/// # Guarantee
/// Let `N` be an upper bound on the norm of the `d` numbers that an executor holds for a sample. Then `f` is a single-precision number for
/// which `f N + u sqrt(d) / 2 <= C`. Where parameters have scales, `N` bounds the norm of the scaled numbers, and the factor of a parameter
/// is `f` times its scale. Rounding to whole units moves each coordinate by at most half a unit, so what is added has a norm of
/// at most `C`. If weights are standardised, the sum is projected afterwards; what that rounds is taken off `C` as well, see `PROJECTED`.
///
/// No sum overflows. Each coordinate that a sample adds is a whole number of at most `C / u < 2^21`, so at most `2^21 - 1`. `HELD` of them
/// make less than 2^31, and before there are more they are carried over into whole numbers of 64 bits. Those hold `CAPACITY` samples, which
/// with `FRACTION` digits after the point make less than 2^53, so that double precision holds them exactly as well.
#[derive(Debug, Clone, PartialEq)]
pub struct ClippingRule {
    clipping: Clipping,
    /// The unit `u`; `None` if nothing is clipped and plain numbers are added.
    unit: Option<f64>,
    /// The part of the rule that bounds each trainable parameter, in order.
    parts: Vec<usize>,
    /// What rounding leaves of each part's bound for `f N`, in units.
    limits: Vec<f64>,
    /// Whether sums are projected, and so have more digits.
    standardised: bool,
}

/// The unit is chosen so that `2^FINEST <= C / u < 2^(FINEST + 1)`. Executors round a coordinate in single precision by adding `1.5 2^23`,
/// which is right for whole numbers of up to 22 bits.
const FINEST: i32 = 20;
/// How many samples a sum in whole numbers of 32 bits holds.
pub(crate) const HELD: usize = 1 << (30 - FINEST);
/// How many binary digits after the point a sum is given before its filters are projected, so that rounding the result costs next to
/// nothing.
pub(crate) const FRACTION: u32 = 6;
/// How many samples a sum holds, for any model and any rule.
const CAPACITY: usize = 1 << (53 - FRACTION as i32 - FINEST - 1);
/// The share by which every limit is lowered for what is rounded in single precision between a norm and a whole number: the factor of a
/// filter, and a gradient less its mean, 2^-24 each.
const SLACK: f64 = 1.0 / (1u64 << 22) as f64;

/// The largest norm that counts as finite. Even the norm of a gradient that is never written down is at least 2^-24 of all the products it
/// is made of, so up to this norm no sum of those products overflows in single precision.
const LARGEST: f64 = 1e30;

/// How much farther apart two sums may be after they are projected, for each weight of a filter, as a share of the bound of a sample.
///
/// The sum `d` of a filter with `n` weights becomes `d - w (w . d) / n`, where the mean square of `w` is at most one. Computed exactly, this
/// moves no two sums farther apart. In double precision, with a roundoff of `2^-53`, a product, `n` additions and a division err by `n + 2`
/// roundoffs of `|w| |d| / n`, which moves the result by as many roundoffs of `|d|`; the last product and the difference add one each. All
/// filters together err by no more than the longest would if it were the whole sum, whose norm is at most [`CAPACITY`] bounds. And there
/// are two sums that err.
const PROJECTED: f64 = 2.0 * CAPACITY as f64 / (1u64 << 53) as f64;

impl ClippingRule {
    /// Checks that a rule fits a model, and chooses its unit.
    ///
    /// # Errors
    /// A bound that is not positive and finite, groups that do not fit the parameters, or a bound of which rounding to whole units would
    /// leave less than half: that of a group which is tiny beside the others, or of very many parameters.
    pub fn new(clipping: &Clipping, layout: &Layout) -> Result<Self, EngineError> {
        clipping.check(layout)?;
        let entries = layout.entries();
        let parts: Vec<usize> = match clipping {
            Clipping::Off | Clipping::Flat { .. } | Clipping::Scaled { .. } | Clipping::Automatic { .. } => {
                vec![0; entries.len()]
            }
            Clipping::PerLayer { .. } => entries.iter().map(|entry| entry.layer).collect(),
            Clipping::PerGroup { groups, .. } => groups.clone(),
        };
        let clipping = clipping.clone();
        let bounds = match &clipping {
            Clipping::Off => {
                let limits = vec![f64::INFINITY];
                return Ok(Self { clipping, unit: None, parts, limits, standardised: false });
            }
            Clipping::Flat { max_norm }
            | Clipping::Scaled { max_norm, .. }
            | Clipping::Automatic { max_norm, .. } => vec![*max_norm],
            Clipping::PerLayer { max_norm } => {
                vec![max_norm / (layout.layers() as f64).sqrt(); layout.layers()]
            }
            Clipping::PerGroup { max_norms, .. } => max_norms.clone(),
        };
        let unit = 2f64.powi(exponent(clipping.sensitivity()) - FINEST);
        // Rounding moves a coordinate by half a unit; after a projection it is rounded again, in each of two sums, by half of a fraction.
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
        Ok(Self { clipping, unit: Some(unit), parts, limits, standardised: layout.standardised() })
    }

    /// The rule as it was given.
    pub fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// What a one in the sum stands for; `None` if nothing is clipped.
    pub fn unit(&self) -> Option<f64> {
        self.unit
    }

    /// The largest norm that one sample can add to the sum; infinite without clipping.
    pub fn sensitivity(&self) -> f64 {
        self.clipping.sensitivity()
    }

    /// The largest share that is taken off a bound for rounding to whole units. It grows with the number of parameters.
    pub fn taken_off(&self) -> f64 {
        let Some(unit) = self.unit else { return 0.0 };
        let bounds = match &self.clipping {
            Clipping::PerGroup { max_norms, .. } => max_norms.clone(),
            _ => vec![self.clipping.sensitivity() / (self.limits.len() as f64).sqrt(); self.limits.len()],
        };
        let off = self.limits.iter().zip(bounds).map(|(limit, bound)| 1.0 - limit * unit / bound);
        off.fold(0.0, f64::max)
    }

    /// How many samples a sum may hold, which is more than there are in any batch.
    pub fn capacity(&self) -> usize {
        if self.unit.is_some() { CAPACITY } else { usize::MAX }
    }

    /// Whether the sums of this many samples by each of two rules can be joined by [`Total::join`](crate::Total::join), whatever the samples
    /// are.
    pub fn joins(&self, other: &Self, samples: u64) -> bool {
        let (Some(own), Some(others)) = (self.unit, other.unit) else { return false };
        samples as f64 * largest(true) * (own / others).max(others / own) < 2f64.powi(52)
    }

    /// Whether double precision holds whole numbers exactly that are up to `growth` times as large as the sum of this many samples, whatever the
    /// samples are.
    pub fn holds(&self, samples: u64, growth: f64) -> bool {
        samples as f64 * largest(self.standardised) * growth < 2f64.powi(52)
    }

    /// Computes the clipping factor of each trainable parameter, in units, from upper bounds on the squared norms of a sample's gradient.
    /// If the gradient is not finite, or so large that single precision may overflow on the way to it, every factor is zero, the sample must
    /// not be added, and the answer is false.
    ///
    /// # Guarantee
    /// That of [`ClippingRule`], for every sample whose squared norms are at most those given.
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
            let own = || (0..squared.len()).filter(|&index| self.parts[index] == part);
            // The rounding of this sum, and of scales, is far below the slack.
            let norm = own().map(|index| self.scale(index).powi(2) * squared[index]).sum::<f64>().sqrt();
            let factor = match stability {
                Some(stability) => limit / (norm + stability),
                None => (limit / norm).min(1.0 / unit),
            };
            own().for_each(|index| factors[index] = rounded_down(factor * self.scale(index)));
        }
        true
    }

    /// What the gradient of a trainable parameter is multiplied by before it is clipped.
    fn scale(&self, index: usize) -> f64 {
        match &self.clipping {
            Clipping::Scaled { scales, .. } => scales[index],
            _ => 1.0,
        }
    }

    /// The norm of a sample's gradient before it is clipped, of the scaled one if its parameters have scales, from its squared norms.
    pub(crate) fn norm(&self, squared: &[f64]) -> f64 {
        let scaled = squared.iter().enumerate().map(|(index, square)| self.scale(index).powi(2) * square);
        scaled.sum::<f64>().sqrt()
    }

    /// Whether these factors leave a gradient, or the scaled one if its parameters have scales, as it is, except for rounding to whole units,
    /// because it was within the bound. The answer is always false if nothing is clipped.
    pub(crate) fn leaves(&self, factors: &[f32]) -> bool {
        self.unit.is_some_and(|unit| {
            let mut factors = factors.iter().enumerate();
            factors.all(|(index, &factor)| factor == rounded_down(1.0 / unit * self.scale(index)))
        })
    }
}

/// What every whole number of a sample is smaller than; sums of standardised weights have `FRACTION` more digits.
fn largest(standardised: bool) -> f64 {
    2f64.powi(FINEST + 1 + if standardised { FRACTION as i32 } else { 0 })
}

/// The exponent of the largest power of two that is not above a positive number.
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
            // Of all bounds, a power of two has the fewest units.
            for max_norm in [1.0, 0.7, 3.0, 1e-6] {
                for clipping in [
                    Clipping::Flat { max_norm },
                    Clipping::PerLayer { max_norm },
                    Clipping::Automatic { max_norm, stability: 0.01 },
                ] {
                    let rule = ClippingRule::new(&clipping, layout).unwrap();
                    let unit = rule.unit().unwrap();
                    assert_eq!(unit.to_bits() << 12, 0, "a power of two");
                    // Each layer has only a part of the bound, but its coordinates are rounded as coarsely.
                    let most = if matches!(clipping, Clipping::PerLayer { .. }) { 8.0 * most } else { most };
                    assert!(rule.taken_off() > 0.0 && rule.taken_off() < most, "{}", rule.taken_off());
                }
            }
        }
        let off = ClippingRule::new(&Clipping::Off, &small).unwrap();
        assert_eq!((off.taken_off(), off.capacity()), (0.0, usize::MAX));
        // A billionth of the whole bound is less than a unit.
        let groups: Vec<usize> = (0..small.entries().len()).map(|index| usize::from(index > 0)).collect();
        let uneven = Clipping::PerGroup { groups, max_norms: vec![1e-9, 1.0] };
        assert!(matches!(ClippingRule::new(&uneven, &small), Err(EngineError::Clipping(_))));
    }

    /// Checked in wider numbers, for the largest coordinate and the largest sum of each kind.
    #[test]
    fn no_sum_overflows() {
        let layout = Layout::new(&zoo::small_cnn(&[1, 28, 28], 10).unwrap());
        for max_norm in [1.0, 0.7, 1.0f64.next_down(), 1e-20f64.next_up(), 3e7] {
            let rule = ClippingRule::new(&Clipping::Flat { max_norm }, &layout).unwrap();
            let largest = (max_norm / rule.unit().unwrap()).floor() as i128;
            // Up to here, single precision rounds to a whole number by adding 1.5 2^23.
            assert!(largest < 1 << 22, "{largest}");
            assert!(largest * HELD as i128 <= i128::from(i32::MAX), "{largest}");
            assert!((largest * rule.capacity() as i128) << FRACTION <= 1 << 53, "{largest}");
            assert!(rule.capacity() >= (1 << 24) + 40 * (1 << 12) + 100);
        }
    }

    /// A factor never lets a gradient of the given norms exceed its bound, and uses the bound up except for what is taken off.
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
        // What is bounded is the scaled gradient, which all share one factor.
        let scales: Vec<f64> = (0..entries).map(|index| [0.25, 3.0][index % 2]).collect();
        let scaled = Clipping::Scaled { max_norm: 0.7, scales: scales.clone() };
        let scaled = ClippingRule::new(&scaled, &layout).unwrap();
        let unit = scaled.unit().unwrap();
        for (index, norm) in [(0, 2.5), (0, 4.0), (1, 0.22), (1, 0.4)] {
            let mut squared = vec![0.0; entries];
            squared[index] = norm * norm;
            let mut factors = vec![0.0; entries];
            assert!(scaled.factors(&squared, &mut factors));
            let (length, wanted) = (f64::from(factors[index]) * unit * norm, scales[index] * norm);
            assert!(length <= 0.7 && length >= 0.999 * wanted.min(0.7), "{norm}: {length}");
            assert_eq!(scaled.leaves(&factors), wanted < 0.69, "{norm}");
            // Single precision rounds a factor by 2^-23 at most.
            let of = |index: usize| f64::from(factors[index]) / scales[index];
            assert!((0..entries).all(|index| (of(index) / of(0) - 1.0).abs() < 3e-7), "{factors:?}");
            assert!((scaled.norm(&squared) / wanted - 1.0).abs() < 1e-12);
        }
        for scales in [vec![1.0; entries - 1], vec![0.0; entries], vec![f64::NAN; entries]] {
            let refused = ClippingRule::new(&Clipping::Scaled { max_norm: 1.0, scales }, &layout);
            assert!(matches!(refused, Err(EngineError::Clipping(_))));
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
