//! Which units of split dropout layers each record keeps.

use dapple_data::StepKey;
use dapple_data::rand_core::Rng;
use dapple_graph::DropoutUnits;

/// Draws the masks of a step: for each record one fair coin for each unit, `[records, units]`.
///
/// # Guarantee
/// The coins of a record follow from the key of the step and the record alone, so that neither the other records nor the place in a batch
/// decide them, and all views of the record share them. Without the key they cannot be told from independent fair coins, and a mask is as
/// likely as its complement.
#[must_use]
pub fn draw_unit_masks(key: &StepKey, records: &[usize], units: &DropoutUnits) -> Vec<bool> {
    let mut kept = Vec::with_capacity(records.len() * units.len());
    for &record in records {
        let mut random = key.stream(record as u64);
        let words = (0..units.len().div_ceil(64)).map(|_| random.next_u64());
        let coins = words.flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
        kept.extend(coins.take(units.len()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_data::{MasterKey, Purpose};
    use dapple_graph::op::Dropout;
    use dapple_graph::{GraphBuilder, Init, Loss};

    /// Units of a layer of this length.
    fn units(count: usize) -> DropoutUnits {
        let mut b = GraphBuilder::new(&[count]);
        let dropped = b.add("drop", Dropout::of_values(0.5), &[b.input()]).unwrap();
        let output = b.linear("head", dropped, 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
        b.finish(output, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap().dropout_units()
    }

    fn key(step: u64) -> StepKey {
        MasterKey::from_seed(5).purpose(Purpose::DropoutUnits).step(step)
    }

    #[test]
    fn a_mask_follows_from_step_and_record() {
        let units = units(100);
        let alone = draw_unit_masks(&key(3), &[700], &units);
        assert_eq!(alone.len(), 100);
        assert_eq!(draw_unit_masks(&key(3), &[8, 700], &units)[100..], alone);
        assert_ne!(draw_unit_masks(&key(3), &[701], &units), alone);
        assert_ne!(draw_unit_masks(&key(4), &[700], &units), alone);
    }

    /// Each count is within five standard deviations of its mean, which fails for fair coins about once in ten thousand keys; the key is fixed.
    #[test]
    fn coins_are_fair_and_neighbours_independent() {
        let (units, records) = (units(67), 4000);
        let masks = draw_unit_masks(&key(0), &(0..records).collect::<Vec<_>>(), &units);
        let within = |count: usize, share: f64| {
            let (mean, trials) = (records as f64 * share, records as f64);
            (count as f64 - mean).abs() < 5.0 * (trials * share * (1.0 - share)).sqrt()
        };
        for unit in 0..67 {
            let kept = masks.chunks_exact(67).filter(|mask| mask[unit]).count();
            let with_next = masks.chunks_exact(67).filter(|mask| mask[unit] && mask[(unit + 1) % 67]).count();
            assert!(within(kept, 0.5) && within(with_next, 0.25), "unit {unit}: {kept}, {with_next}");
        }
    }
}
