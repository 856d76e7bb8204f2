//! The shares of a batch that the cards of a group take.

use std::ops::Range;

use dapple_graph::Graph;

use crate::batch::{Batch, DropoutSource, Targets, UnitMasks};
use crate::error::EngineError;

/// A card's share of a batch.
#[derive(Debug)]
pub(super) struct BatchShare<'a> {
    /// The index of its first sample in the whole batch.
    pub(super) first: usize,
    pub(super) batch: Batch<'a>,
}

/// Divides `samples` into equal ranges, in order. If they cannot be equal, the first ones are larger by one, so that empty ones come last.
pub(super) fn ranges(samples: usize, cards: usize) -> impl Iterator<Item = Range<usize>> {
    let start = move |card: usize| card * (samples / cards) + card.min(samples % cards);
    (0..cards).map(move |card| start(card)..start(card + 1))
}

/// The shares of a batch, one for each card. Dropout in a share is the same as in the whole batch. Only lengths are checked here, because
/// every card checks the values of its own share.
pub(super) fn shares<'a>(
    batch: &Batch<'a>,
    graph: &Graph,
    cards: usize,
) -> Result<Vec<BatchShare<'a>>, EngineError> {
    let shape = graph.output_shape();
    let (output, positions): (usize, usize) = (shape.iter().product(), shape[1..].iter().product());
    let input: usize = graph.input_shape().iter().product();
    let samples = batch.inputs.len() / (input * batch.views).max(1);
    let views = samples * batch.views;
    let targets_fit = match batch.targets {
        Targets::Classes(classes) => classes.len() == views * positions,
        Targets::Probabilities(values) | Targets::Values(values) => values.len() == views * output,
    };
    let records_fit = batch.dropout.is_none_or(|dropout| dropout.records.len() == samples);
    let masks_fit = batch.masks.is_none_or(|masks| masks.kept.len() == samples * masks.units.len());
    let dropout_fits = records_fit && masks_fit;
    if batch.views == 0 || batch.inputs.len() != views * input || !targets_fit || !dropout_fits {
        // This says what is wrong.
        batch.check(graph)?;
    }
    let share = |range: Range<usize>| {
        let of = |size: usize| range.start * batch.views * size..range.end * batch.views * size;
        let dropout = batch
            .dropout
            .map(|DropoutSource { seed, records }| DropoutSource { seed, records: &records[range.clone()] });
        let masks = batch.masks.map(|UnitMasks { units, kept }| {
            let own = range.start * units.len()..range.end * units.len();
            UnitMasks { units, kept: &kept[own] }
        });
        let targets = match batch.targets {
            Targets::Classes(classes) => Targets::Classes(&classes[of(positions)]),
            Targets::Probabilities(values) => Targets::Probabilities(&values[of(output)]),
            Targets::Values(values) => Targets::Values(&values[of(output)]),
        };
        let batch = Batch { inputs: &batch.inputs[of(input)], targets, dropout, masks, ..*batch };
        BatchShare { first: range.start, batch }
    };
    Ok(ranges(samples, cards).map(share).collect())
}

impl BatchShare<'_> {
    /// Turns an error of this share into one of the whole batch.
    pub(super) fn in_batch(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::NotFinite { place, sample } => {
                EngineError::NotFinite { place, sample: sample + self.first }
            }
            EngineError::Class { sample, class, classes } => {
                EngineError::Class { sample: sample + self.first, class, classes }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_even_and_cover_every_sample(samples in 0usize..200, cards in 1usize..9) {
            let ranges: Vec<_> = ranges(samples, cards).collect();
            prop_assert_eq!(ranges.len(), cards);
            prop_assert_eq!(ranges.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..samples).collect::<Vec<_>>());
            let lens = ranges.iter().map(ExactSizeIterator::len);
            prop_assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_batch_of_a_wrong_length_is_refused_as_a_whole() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        for (inputs, classes) in [(783, 1), (784, 2), (2 * 784, 1), (0, 1)] {
            let (inputs, classes) = (vec![0.0; inputs], vec![0; classes]);
            let batch = Batch::new(&inputs, Targets::Classes(&classes));
            let error = shares(&batch, &graph, 2).unwrap_err();
            assert!(matches!(error, EngineError::Length { .. }), "{error}");
        }
        let (inputs, dropout) = (vec![0.0; 784], Some(DropoutSource { seed: 1, records: &[3, 4] }));
        let records = Batch { dropout, ..Batch::new(&inputs, Targets::Classes(&[1])) };
        assert!(matches!(shares(&records, &graph, 2).unwrap_err(), EngineError::Length { found: 2, .. }));
        let none = Batch { views: 0, ..Batch::new(&[], Targets::Classes(&[])) };
        assert!(shares(&none, &graph, 2).is_err());
    }
}
