//! How the processes that share a run share its evaluations.

use std::sync::Arc;

use dapple_data::{Dataset, Subset};
use dapple_private::StepError;

use crate::error::TrainError;
use crate::ranks::RankGroup;

/// The records that this process evaluates: all of them, every one of as many as there are processes, or those of the shards that were dealt to it.
pub(super) fn own_part(
    dataset: &Arc<dyn Dataset>,
    ranks: Option<&RankGroup>,
) -> Result<Arc<dyn Dataset>, TrainError> {
    let Some(ranks) = ranks else { return Ok(Arc::clone(dataset)) };
    let own = (0..dataset.len()).filter(|&record| ranks.evaluator_of(record) == Some(ranks.rank())).collect();
    Ok(Arc::new(Subset::new(Arc::clone(dataset), own)?))
}

/// What all processes found out about the records of their parts, in the order of the whole data set, so that whatever is added up comes to
/// the same bits as in one process. Each item is given as bytes, of which all have equally many.
///
/// # Errors
/// That of this process, or the failure of another.
pub(super) fn dealt<T>(
    ranks: Option<&RankGroup>,
    own: Result<Vec<T>, TrainError>,
    to_bytes: impl Fn(&T) -> Vec<u8>,
    from_bytes: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, TrainError> {
    let Some(ranks) = ranks else { return own };
    let said = own.as_ref().map_err(ToString::to_string).map(|own| {
        let mut bytes = (own.len() as u64).to_le_bytes().to_vec();
        own.iter().for_each(|item| bytes.extend(to_bytes(item)));
        bytes
    });
    let all = ranks.exchange(said);
    own?;
    let parts: Option<Vec<Vec<T>>> = all?
        .iter()
        .map(|bytes| {
            let (count, items) = bytes.split_at_checked(8)?;
            let count = usize::try_from(u64::from_le_bytes(count.try_into().ok()?)).ok()?;
            items.chunks_exact((items.len() / count.max(1)).max(1)).map(&from_bytes).collect()
        })
        .collect();
    let unknown = || StepError::Rank {
        rank: ranks.rank(),
        problem: "what another rank found cannot be read".to_owned(),
    };
    let mut parts: Vec<_> = parts.ok_or_else(unknown)?.into_iter().map(Vec::into_iter).collect();
    let mut items = Vec::new();
    let mut next = |record: usize| parts.get_mut(ranks.evaluator_of(record)?)?.next();
    while let Some(item) = next(items.len()) {
        items.push(item);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_mpi::World;

    #[test]
    fn what_was_dealt_out_comes_together_in_order() {
        for (ranks, records) in [(1, 5), (2, 7), (3, 3), (4, 2), (3, 0)] {
            let found = std::thread::scope(|scope| {
                let threads: Vec<_> = World::of_threads(ranks)
                    .into_iter()
                    .map(|world| {
                        scope.spawn(move || {
                            let group = RankGroup::of(world);
                            let own =
                                (group.rank()..records).step_by(ranks).map(|record| record as u16).collect();
                            let read = |bytes: &[u8]| Some(u16::from_le_bytes(bytes.try_into().ok()?));
                            dealt(Some(&group), Ok(own), |item| item.to_le_bytes().to_vec(), read).unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert!(found.iter().all(|found| *found == (0..records as u16).collect::<Vec<_>>()), "{found:?}");
        }
    }
}
