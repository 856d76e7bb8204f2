//! The steps of a plan, from the draw of their records to microbatches.

use super::LoaderKeys;
use super::worker::{LoaderWorker, SampleSet, Step};
use crate::sampler::{Draw, by_submodel, clip_groups};
use crate::{DataError, Dataset, StepKey, Target, TargetKind, Views};

/// Makes and sends the microbatches of a step whose records are drawn. Returns `false` once nobody wants them any more.
pub(super) fn train(
    worker: &LoaderWorker,
    dataset: &dyn Dataset,
    views: &Views,
    keys: &LoaderKeys,
    draw: Draw,
) -> Result<bool, DataError> {
    let soft = views.mixes_classes(draw.clip_groups.is_some());
    let classes = dataset.classes() as usize;
    let key = keys.views.step(draw.step);
    let step = |label_length: usize| Step {
        step: draw.step,
        phase: draw.phase,
        sets: sample_sets(&draw, views, keys),
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

/// The samples of a step: each record by itself, the groups that records joined, or the records of each submodel. No plan has both groups
/// and submodels.
fn sample_sets(draw: &Draw, views: &Views, keys: &LoaderKeys) -> Vec<SampleSet> {
    let set = |together, records, submodel| SampleSet {
        together,
        records,
        views: views.count_together(together),
        submodel,
    };
    let whole = || vec![set(1, draw.indices.clone(), None)];
    if draw.indices.is_empty() {
        return whole();
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
