//! The steps of a plan, from the draw of their records to microbatches.

use super::worker::{LoaderWorker, SampleSet, Step};
use super::{LoaderKeys, SampleShare};
use crate::sampler::{Draw, by_submodel, clip_groups};
use crate::{DataError, Dataset, StepKey, Target, TargetKind, Views};

/// Makes and sends the microbatches of this process's share of a step whose records are drawn. Returns `false` once nobody wants them any more.
pub(super) fn train(
    worker: &LoaderWorker,
    dataset: &dyn Dataset,
    views: &Views,
    keys: &LoaderKeys,
    (draw, share): (Draw, &SampleShare),
) -> Result<bool, DataError> {
    let soft = views.mixes_classes(draw.clip_groups.is_some());
    let classes = dataset.classes() as usize;
    let key = keys.views.step(draw.step);
    let step = |label_length: usize| Step {
        step: draw.step,
        phase: draw.phase,
        drawn: draw.indices.len(),
        sets: shared(sample_sets(dataset, &draw, views, keys), share),
        view_length: views.input_length(),
        label_length,
    };
    match dataset.target_kind() {
        TargetKind::LabelMap => worker
            .step(&step(views.positions()), |records, output, labels: &mut [u32]| {
                show_maps(dataset, views, &key, records, output, labels)
            }),
        TargetKind::Class if soft => worker.step(&step(classes), |records, output, labels: &mut [f32]| {
            views.contribute(dataset, records, &key, output)?.write_probabilities(classes, labels);
            Ok(())
        }),
        TargetKind::Class => worker.step(&step(1), |records, output, labels: &mut [u32]| {
            views.contribute(dataset, records, &key, output)?.write_classes(labels);
            Ok(())
        }),
    }
}

/// The samples of a step: the records of each user, each record by itself, the groups that records joined, or the records of each submodel. No plan has both groups
/// and submodels.
fn sample_sets(dataset: &dyn Dataset, draw: &Draw, views: &Views, keys: &LoaderKeys) -> Vec<SampleSet> {
    let set = |together, records, submodel| SampleSet {
        together,
        records,
        views: views.count_together(together),
        submodel,
        user: None,
    };
    let whole = || vec![set(1, draw.indices.clone(), None)];
    if draw.indices.is_empty() {
        return whole();
    }
    if let Some(users) = dataset.users() {
        let (records, submodels) = (keys.user_records.step(draw.step), keys.submodels.step(draw.step));
        let of = |&user: &usize| {
            let submodel = draw.submodels.as_ref().map(|law| law.submodel(&submodels, user));
            SampleSet { user: Some(user), ..set(1, users.shown(user, &records), submodel) }
        };
        return draw.indices.iter().map(of).collect();
    }
    match (draw.clip_groups, &draw.submodels) {
        (Some(groups), _) => clip_groups(&keys.clip_groups.step(draw.step), &draw.indices, groups)
            .into_iter()
            .map(|(together, records)| set(together, records, None))
            .collect(),
        (None, Some(law)) => by_submodel(&keys.submodels.step(draw.step), &draw.indices, law)
            .into_iter()
            .map(|(submodel, records)| set(1, records, Some(submodel)))
            .collect(),
        (None, None) => whole(),
    }
}

/// The part of a step's samples that one process shows. A part without samples is one empty set, because it is part of a step, too.
fn shared(sets: Vec<SampleSet>, share: &SampleShare) -> Vec<SampleSet> {
    if share.processes <= 1 {
        return sets;
    }
    let mut before = 0;
    let mut own = Vec::new();
    let mut empty = None;
    for set in sets {
        let samples = set.records.len() / set.together;
        let mine = |(sample, records): (usize, &[usize])| {
            let owner = match (&share.owners, records.first()) {
                (Some(owners), Some(&first)) => owners[first],
                _ => (before + sample) % share.processes,
            };
            (owner == share.process).then(|| records.to_vec())
        };
        let records: Vec<usize> =
            set.records.chunks_exact(set.together).enumerate().filter_map(mine).flatten().collect();
        before += samples;
        match records.is_empty() {
            // Where every sample is of a submodel, no samples are of the whole model.
            true => empty = empty.or(Some(SampleSet { records, submodel: None, ..set })),
            false => own.push(SampleSet { records, ..set }),
        }
    }
    if own.is_empty() { empty.into_iter().collect() } else { own }
}

/// Shows the records of one sample with their label maps.
fn show_maps(
    dataset: &dyn Dataset,
    views: &Views,
    key: &StepKey,
    records: &[usize],
    output: &mut [f32],
    labels: &mut [u32],
) -> Result<(), DataError> {
    let output = output.chunks_exact_mut(views.count() * views.view_length());
    let labels = labels.chunks_exact_mut(views.count() * views.positions());
    for ((&record, output), labels) in records.iter().zip(output).zip(labels) {
        let Target::Map(map) = dataset.target(record)? else {
            let place = dataset.place(record);
            return Err(DataError::TargetKind { place, found: "one class", expected: "a label map" });
        };
        let image = dataset.read(record)?;
        let random = &mut key.stream(record as u64);
        let shown = views.draw_labelled(&image, &map, random, output, labels);
        shown.map_err(|error| error.at(|| dataset.place(record)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn set(together: usize, records: std::ops::Range<usize>, submodel: Option<usize>) -> SampleSet {
        SampleSet { together, records: records.collect(), views: together, submodel, user: None }
    }

    fn dealt(process: usize, processes: usize) -> SampleShare {
        SampleShare { process, processes, owners: None }
    }

    /// Where records have owners, each process shows its own, in order, and one without any still shows an empty set.
    #[test]
    fn samples_go_to_the_owners_of_their_records() {
        let owners: Arc<[usize]> = (0..40).map(|record| [0, 2, 2, 3][record % 4]).collect();
        let mut all = Vec::new();
        for process in 0..4 {
            let share = SampleShare { process, processes: 4, owners: Some(Arc::clone(&owners)) };
            let sets = shared(vec![set(1, 3..20, Some(1)), set(1, 21..38, None)], &share);
            let records: Vec<usize> = sets.iter().flat_map(|set| set.records.clone()).collect();
            assert!(records.iter().all(|&record| owners[record] == process), "{records:?}");
            assert!(records.windows(2).all(|pair| pair[0] < pair[1]) && !sets.is_empty());
            assert_eq!(records.is_empty(), process == 1);
            all.extend(records);
        }
        all.sort_unstable();
        assert_eq!(all, (3..20).chain(21..38).collect::<Vec<_>>());
    }

    /// Every sample is dealt out once, whole and to its own set; shares differ by one sample at the most, and none is nothing at all.
    #[test]
    fn samples_are_dealt_out() {
        let sets = || {
            vec![set(1, 0..7, Some(2)), set(3, 10..22, None), set(2, 30..34, None), set(1, 40..41, Some(0))]
        };
        for processes in 1..=20 {
            let shares: Vec<Vec<SampleSet>> =
                (0..processes).map(|process| shared(sets(), &dealt(process, processes))).collect();
            let samples = |set: &SampleSet| set.records.len() / set.together;
            let counts: Vec<usize> = shares.iter().map(|sets| sets.iter().map(samples).sum()).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1 && counts.iter().sum::<usize>() == 14, "{counts:?}");
            let mut dealt = Vec::new();
            for set in shares.iter().flatten() {
                let of = |records: &[usize]| (set.submodel.filter(|_| !records.is_empty()), records.to_vec());
                dealt.extend(set.records.chunks_exact(set.together).map(of));
            }
            dealt.sort_by_key(|(_, records)| records[0]);
            let all: Vec<_> = sets()
                .iter()
                .flat_map(|set| {
                    set.records
                        .chunks_exact(set.together)
                        .map(|records| (set.submodel, records.to_vec()))
                        .collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(dealt, all, "{processes}");
            // An empty set is the only one of its share.
            assert!(
                shares.iter().all(|sets| sets.len() == 1 || sets.iter().all(|set| !set.records.is_empty()))
            );
            assert!(shares.iter().all(|sets| !sets.is_empty()));
        }
        let nothing = shared(vec![set(1, 0..0, None)], &dealt(1, 2));
        assert_eq!((nothing.len(), nothing[0].records.len()), (1, 0));
    }
}
