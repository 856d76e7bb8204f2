//! Processes that take the same steps together, each on a part of the records.

use std::fmt::Debug;

use dapple_engine::{ClippingRule, GradientSum, JointNumbers, Loaded, StepStats};

use crate::error::StepError;

/// The other processes of a step. What one process asks of them, all ask for, in the same order.
pub trait Peers: Debug + Send + Sync {
    /// Tells all processes how this one's part of a sum went, and returns what they report together. The mark is one of what the processes
    /// must have in common before they add anything up: parameters, and how gradients are bounded.
    ///
    /// # Errors
    /// That of this process; otherwise the failure of one of the others, or a mark that differs. Then no process goes on.
    fn report(&self, own: Result<StepStats, StepError>, mark: u64) -> Result<StepStats, StepError>;

    /// Replaces each number by the sum of those of all processes at its place: whole numbers exactly, plain ones up to rounding.
    fn add(&self, numbers: JointNumbers<'_>);

    /// Tells all processes whether this one could do what all of them did at once by other means, and whether all could.
    ///
    /// # Errors
    /// That of this process; otherwise the failure of one of the others.
    fn confirm(&self, own: Result<(), StepError>) -> Result<(), StepError>;
}

/// Joins this process's part of a sum with those of its peers, or tells them that there is none.
///
/// # Guarantee
/// On every process, sum and report become those of all records of the step, as if one process had added them up; see
/// [`Loaded::joint`]. Nothing is joined unless all processes have their part, and parameters and bounds with the same mark.
pub(crate) fn join(
    peers: &dyn Peers,
    own: Result<(GradientSum, StepStats), StepError>,
    loaded: &mut Loaded<'_, '_>,
    rule: &ClippingRule,
    mark: u64,
) -> Result<(GradientSum, StepStats), StepError> {
    let (sum, stats) = own.map_or_else(|error| (None, Err(error)), |(sum, stats)| (Some(sum), Ok(stats)));
    let samples = stats.as_ref().map_or(0, |stats| stats.losses.len());
    let stats = peers.report(stats, mark)?;
    let mut sum = sum.expect("a process that failed gets its error back");
    peers.add(loaded.joint(&mut sum, rule, stats.losses.len() - samples)?);
    Ok((sum, stats))
}

/// A mark of parameters and of how gradients are bounded, by which processes notice that they came to differ. A clip norm that follows a
/// quantile comes from an exponential function, which machines with other libraries round otherwise; another clip norm bounds otherwise, and
/// may count in another unit. It is no cryptographic digest: it guards against faults of machines and programs, not against a process that
/// lies.
pub(crate) fn mark(values: &[f32], rule: &ClippingRule) -> u64 {
    let bound = [rule.sensitivity(), rule.unit().unwrap_or_default()].map(f64::to_bits);
    bound
        .into_iter()
        .fold(of_values(values), |all, bits| (all ^ bits).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(31))
}

/// A mark of parameters alone.
fn of_values(values: &[f32]) -> u64 {
    // Four lanes, so that one product need not wait for the one before.
    let mut lanes = [0x9e37_79b9_7f4a_7c15u64; 4];
    let fold = |lane: u64, value: f32| {
        (lane ^ u64::from(value.to_bits())).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29)
    };
    let (quads, rest) = values.as_chunks::<4>();
    for quad in quads {
        lanes.iter_mut().zip(quad).for_each(|(lane, &value)| *lane = fold(*lane, value));
    }
    rest.iter().for_each(|&value| lanes[0] = fold(lanes[0], value));
    lanes.into_iter().fold(values.len() as u64, |all, lane| {
        (all ^ lane).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_engine::{Clipping, Layout};
    use dapple_graph::{GraphBuilder, Init, Loss};

    #[test]
    fn every_bit_of_every_value_shows_in_a_mark() {
        let values: Vec<f32> = (0..23).map(|index| index as f32 * 0.37 - 2.0).collect();
        let of_all = of_values(&values);
        assert_eq!(of_values(&values.clone()), of_all);
        for place in 0..values.len() {
            for bit in 0..32 {
                let mut changed = values.clone();
                changed[place] = f32::from_bits(changed[place].to_bits() ^ 1 << bit);
                assert_ne!(of_values(&changed), of_all, "{place} {bit}");
            }
            let mut swapped = values.clone();
            swapped.swap(place, (place + 4) % values.len());
            assert_ne!(of_values(&swapped), of_all);
        }
        assert_ne!(of_values(&values[..22]), of_all);
    }

    #[test]
    fn every_bit_of_a_clip_norm_shows_in_a_mark() {
        let mut builder = GraphBuilder::new(&[3]);
        let head =
            builder.linear("head", builder.input(), 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
        let layout = Layout::new(&builder.finish(head, Loss::SquaredError).unwrap());
        let of = |clipping| mark(&[1.0, 2.0], &ClippingRule::new(&clipping, &layout).unwrap());
        let flat = |max_norm| of(Clipping::Flat { max_norm });
        let next = f64::from(1.0f32.next_up());
        assert_eq!(flat(1.0), flat(1.0));
        assert!(flat(1.0) != flat(next) && flat(1.0) != of(Clipping::Off));
    }
}
