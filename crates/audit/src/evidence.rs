//! What the released values of one step say about a coin.

use dapple_data::SubmodelLaw;
use dapple_plan::spec::MaskedContent;
use dapple_plan::{Plan, PublicTokens, Relation};

use crate::canaries::{CanarySplit, UNITS};

/// How a step treats a canary, as the plan says.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// The probability that the step's sum contains what the coin decides.
    rate: f64,
    /// Standard deviation of the noise, in clip norms.
    noise: f64,
    /// Whether tails shows the opposite of heads, rather than nothing.
    opposite: bool,
    places: ContributionPlaces,
    public: PublicTrace,
}

/// What the gradient of a canary's public part, which is the same for heads and tails, tells of the steps that drew the canary.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PublicTrace {
    /// Nothing: there is none, or it comes from a batch of its own.
    Nothing,
    /// It is so long, in clip norms, and has noise like the private one.
    Bounded(f64),
    /// Everything: it is far above the noise.
    Told,
}

/// From how many standard deviations on a value is no noise. A value of noise passes it less than once in 10^23 steps, and a mark is thousands
/// of times as long.
const ABOVE_NOISE: f64 = 10.0;

impl PublicTrace {
    fn of(part: &Plan) -> Self {
        match part.masked().map(|tokens| tokens.public) {
            None | Some(PublicTokens::Decoupled) => Self::Nothing,
            Some(PublicTokens::CoupledClipped { clip }) => Self::Bounded(clip),
            Some(PublicTokens::Coupled) => Self::Told,
        }
    }
}

/// Where a canary's contribution lies among its weights: those that every record updates come first, if there are any, and then one for each
/// block that is dealt out to the submodels, or for each node that dropout may drop.
#[derive(Debug, Clone)]
struct ContributionPlaces {
    /// How long it is in the weights that every record updates, in clip norms; 0 if there are none.
    shared: f64,
    /// How long it is in the submodel that the record drew.
    split: f64,
    /// The probability of each submodel, and its blocks or nodes; none if the model is not split.
    submodels: Vec<(f64, Vec<usize>)>,
}

impl ContributionPlaces {
    fn new(part: &Plan) -> Self {
        let Some(split) = part.split() else {
            return Self { shared: 1.0, split: 0.0, submodels: Vec::new() };
        };
        let submodels = match (SubmodelLaw::of(part), CanarySplit::of(part)) {
            (Some(law), CanarySplit::Blocks(blocks)) => dealt(&law, blocks),
            _ => masks(),
        };
        Self { shared: split.nonsplit_norm(), split: split.split_norm(), submodels }
    }
}

/// The submodels to which blocks are dealt out in turn, each with its probability.
fn dealt(law: &SubmodelLaw, blocks: usize) -> Vec<(f64, Vec<usize>)> {
    let ways = law.counts().zip(law.probabilities());
    let submodels = ways.flat_map(|(count, probability)| {
        let own = move |submodel: u64| (0..blocks).filter(move |block| *block as u64 % count == submodel);
        (0..count).map(move |submodel| (probability, own(submodel).collect()))
    });
    submodels.collect()
}

/// The nodes that each mask of dropout keeps. All masks are equally likely, and a mask's number has a binary digit for each node.
fn masks() -> Vec<(f64, Vec<usize>)> {
    let kept = |mask: usize| (0..UNITS).filter(|node| mask >> node & 1 == 1).collect();
    (0..1 << UNITS).map(|mask| (0.5f64.powi(UNITS as i32), kept(mask))).collect()
}

impl Evidence {
    pub(crate) fn new(part: &Plan) -> Self {
        let opposite = match part.relation() {
            Relation::Replace | Relation::Patch => true,
            Relation::Masked => {
                part.masked().is_some_and(|tokens| tokens.content == MaskedContent::Substitute)
            }
            Relation::AddRemove | Relation::User => false,
        };
        // Where noise cancels across steps, the probability of a chance.
        let rate = part.rate_in_group() * part.inclusion_probability();
        let noise = part.gradient_noise();
        Self { rate, noise, opposite, places: ContributionPlaces::new(part), public: PublicTrace::of(part) }
    }

    /// The logarithm of how much likelier values are under heads than under tails, for an attacker who is told the submodel, or is not. The
    /// values are measured along the canary's direction in each of its weights, in clip norms; the value that its public part moved comes last,
    /// if canaries have one.
    pub(crate) fn of(&self, values: &[f64], told: Option<usize>) -> f64 {
        let heads = self.contained(values, told, 1.0);
        let tails = if self.opposite { self.contained(values, told, -1.0) } else { 0.0 };
        let mark = values.last().copied().unwrap_or(0.0);
        let public = match self.public {
            PublicTrace::Nothing => 0.0,
            PublicTrace::Bounded(clip) => self.along(clip, mark),
            // A step that is known to have drawn the canary, or not to.
            PublicTrace::Told if mark > ABOVE_NOISE * self.noise => return heads - tails,
            PublicTrace::Told => return 0.0,
        };
        self.drawn(heads + public) - self.drawn(tails + public)
    }

    /// The same for values with so many times less noise.
    pub(crate) fn with_less_noise(&self, times: f64) -> Self {
        Self { noise: self.noise / times, ..self.clone() }
    }

    /// `ln(1 - q + q r)`, with `r` the likelihood ratio, by its logarithm, of values that contain a contribution against those that contain none.
    fn drawn(&self, exponent: f64) -> f64 {
        // Where the exponential would overflow, the other term is negligible.
        if exponent > 500.0 { exponent + self.rate.ln() } else { (self.rate * exponent.exp_m1()).ln_1p() }
    }

    /// The logarithm of the likelihood ratio of a contribution of length `a` along a direction in which the values are `v`:
    /// `(2 a v - a^2) / (2 sigma^2)`.
    fn along(&self, length: f64, value: f64) -> f64 {
        (2.0 * length * value - length * length) / (2.0 * self.noise * self.noise)
    }

    /// `ln r` of a private contribution; one that lies in a submodel which was drawn has the mean of the submodels' ratios.
    fn contained(&self, values: &[f64], told: Option<usize>, sign: f64) -> f64 {
        let ContributionPlaces { shared, split, submodels } = &self.places;
        let (rest, own) = values.split_at(usize::from(*shared > 0.0));
        let of_rest: f64 = rest.iter().map(|value| self.along(*shared, sign * value)).sum();
        let of_submodel = |blocks: &[usize]| {
            // Where every node is dropped, there is no contribution.
            if blocks.is_empty() {
                return 0.0;
            }
            let sum: f64 = blocks.iter().map(|&block| own[block]).sum();
            self.along(*split, sign * sum / (blocks.len() as f64).sqrt())
        };
        match told {
            _ if submodels.is_empty() => of_rest,
            Some(submodel) => of_rest + of_submodel(&submodels[submodel].1),
            None => of_rest + mean(submodels.iter().map(|(weight, blocks)| (*weight, of_submodel(blocks)))),
        }
    }
}

/// The logarithm of the weighted mean of exponentials.
fn mean(terms: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let largest = terms.clone().fold(f64::NEG_INFINITY, |largest, (_, exponent)| largest.max(exponent));
    largest + terms.map(|(weight, exponent)| weight * (exponent - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(rate: f64, noise: f64, opposite: bool) -> Evidence {
        let places = ContributionPlaces { shared: 1.0, split: 0.0, submodels: Vec::new() };
        Evidence { rate, noise, opposite, places, public: PublicTrace::Nothing }
    }

    /// Compares with the densities written out.
    #[test]
    fn evidence_is_the_log_of_a_ratio_of_densities() {
        let density = |x: f64, mean: f64| (-(x - mean) * (x - mean) / (2.0 * 0.49)).exp();
        let mixed = |x: f64, mean: f64| 0.8 * density(x, 0.0) + 0.2 * density(x, mean);
        for x in [-3.0, -0.4, 0.0, 0.5, 1.0, 2.5] {
            let (one, two) = (whole(0.2, 0.7, false), whole(0.2, 0.7, true));
            // Densities as small as e^-30 are rounded to double precision.
            assert!((one.of(&[x], None) - (mixed(x, 1.0) / density(x, 0.0)).ln()).abs() < 1e-12);
            assert!((two.of(&[x], None) - (mixed(x, 1.0) / mixed(x, -1.0)).ln()).abs() < 1e-12);
        }
    }

    /// The same for a contribution of which a part lies in one of two submodels, the second of which has two blocks.
    #[test]
    fn a_hidden_submodel_mixes_densities() {
        let places = ContributionPlaces {
            shared: 0.6,
            split: 0.8,
            submodels: vec![(0.5, vec![0]), (0.5, vec![1, 2])],
        };
        let one = Evidence { rate: 0.2, noise: 0.7, opposite: false, places, public: PublicTrace::Nothing };
        let density = |x: &[f64; 4], mean: &[f64; 4]| -> f64 {
            let squares = x.iter().zip(mean).map(|(x, mean)| (x - mean) * (x - mean)).sum::<f64>();
            (-squares / (2.0 * 0.49)).exp()
        };
        let half = 0.8 / 2f64.sqrt();
        let (first, second) = ([0.6, 0.8, 0.0, 0.0], [0.6, 0.0, half, half]);
        for x in [[0.0; 4], [0.5, 1.0, -0.2, 0.1], [1.5, 0.0, 0.9, 0.7], [-1.0, -0.4, 0.3, 2.0]] {
            let none = density(&x, &[0.0; 4]);
            let hidden = 0.5 * density(&x, &first) + 0.5 * density(&x, &second);
            assert!((one.of(&x, None) - ((0.8 * none + 0.2 * hidden) / none).ln()).abs() < 1e-12);
            for (submodel, mean) in [first, second].iter().enumerate() {
                let told = 0.8 * none + 0.2 * density(&x, mean);
                assert!((one.of(&x, Some(submodel)) - (told / none).ln()).abs() < 1e-12);
            }
        }
    }

    /// The same with a public part that is clipped, and with one that shows which steps drew the canary.
    #[test]
    fn public_parts_tell_of_draws() {
        let density = |[x, y]: [f64; 2], [private, public]: [f64; 2]| {
            (-((x - private).powi(2) + (y - public).powi(2)) / (2.0 * 0.49)).exp()
        };
        for (opposite, tails) in [(true, -1.0), (false, 0.0)] {
            let clipped = Evidence { public: PublicTrace::Bounded(1.5), ..whole(0.2, 0.7, opposite) };
            let told = Evidence { public: PublicTrace::Told, ..clipped.clone() };
            for values in [[0.0, 0.0], [1.2, 1.4], [-0.8, 2.0], [0.5, -1.0]] {
                let mixed =
                    |private| 0.8 * density(values, [0.0, 0.0]) + 0.2 * density(values, [private, 1.5]);
                assert!((clipped.of(&values, None) - (mixed(1.0) / mixed(tails)).ln()).abs() < 1e-12);
                assert_eq!(told.of(&values, None), 0.0);
                let [x, _] = values;
                let drawn = density([x, 0.0], [1.0, 0.0]) / density([x, 0.0], [tails, 0.0]);
                assert!((told.of(&[x, 1e4], None) - drawn.ln()).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn tiny_noise_does_not_overflow() {
        let evidence = whole(0.5, 1e-3, true);
        let of = |value: f64| evidence.of(&[value], None);
        assert!(of(1.0).is_finite() && of(1.0) > 1e5);
        assert!((of(1.0) + of(-1.0)).abs() < 1e-9 * of(1.0));
    }
}
