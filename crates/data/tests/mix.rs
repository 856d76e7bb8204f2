//! What is shown beside records, and which records are clipped together (DP-Mix).
//!
//! Every image here is of one colour, so that a view tells which image it shows.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{idx_bytes, plan, spec, view_plan, write};
use dapple_data::{
    DataPlan, Dataset, Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, Microbatch, Opened, Sampler,
    SamplerKeys, Views,
};

const CLASSES: usize = 5;
const RECORDS: u8 = 40;
const PIXELS: usize = 12;
const SAMPLING: &str = "[sampling]\nbatch = 12\nrecords = 40\nsteps = 6\n";

/// Grey picture number `number` of a pool, brighter than all records.
fn paint(root: &Path, number: u8, value: u8) {
    let mut bytes = b"P5\n4 3\n255\n".to_vec();
    bytes.extend([value; PIXELS]);
    write(root, &format!("pool/{}/{number:02}.pgm", usize::from(number) % CLASSES), &bytes);
}

/// Records of brightness 1 to 40, and a pool with pictures of brightness 101 and so on.
fn folder(pictures: u8) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> = (0..RECORDS).flat_map(|record| [record + 1; PIXELS]).collect();
    let labels: Vec<u8> = (0..RECORDS).map(|record| record % CLASSES as u8).collect();
    write(folder.path(), "images", &idx_bytes(&[u32::from(RECORDS), 3, 4], &pixels));
    write(folder.path(), "labels", &idx_bytes(&[u32::from(RECORDS)], &labels));
    (0..pictures).for_each(|number| paint(folder.path(), number, 101 + number));
    folder
}

fn open(root: &Path, mix: &str) -> Opened {
    let text = format!("[data]\nformat = 'idx'\ntrain = 'images'\ntrain_labels = 'labels'\n{mix}");
    dapple_data::open(&DataPlan::check(&spec(&text)).unwrap(), root).unwrap()
}

/// The microbatches of a plan with a pool.
fn run(root: &Path, text: &str, microbatch: usize) -> Vec<Microbatch> {
    let plan = plan(&format!("{text}{SAMPLING}"));
    let Opened { train, pool, .. } = open(root, "[mix]\npool = 'pool'");
    let (averaged, kind) = (plan.averaged(), train.target_kind());
    let views = Views::new(plan.spatial(), &view_plan(""), &*train).unwrap();
    let views = views.with_synthetic(averaged.synthetic, pool.as_ref(), kind).unwrap();
    let views = views.with_mixtures(averaged, kind).unwrap();
    let keys = MasterKey::from_seed(7);
    let sampler = Sampler::new(&plan, train.len(), SamplerKeys::of(&keys)).unwrap();
    let options = LoaderOptions { microbatch, ..LoaderOptions::default() };
    let keys = LoaderKeys::of(&keys);
    Loader::train(train, sampler, vec![views], keys, 0..6, options).unwrap().map(Result::unwrap).collect()
}

/// One view: its brightness in steps of a byte, and the probabilities of its classes.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    brightness: f32,
    classes: Vec<f32>,
}

/// The samples of a microbatch, each with its records and all its views.
fn samples(microbatch: &Microbatch) -> Vec<(Vec<usize>, Vec<Seen>)> {
    let hot = |class: u32| (0..CLASSES as u32).map(|other| if other == class { 1.0 } else { 0.0 }).collect();
    let labels: Vec<Vec<f32>> = match &microbatch.labels {
        Labels::Classes(classes) => classes.iter().map(|&class| hot(class)).collect(),
        Labels::Probabilities(all) => all.chunks_exact(CLASSES).map(<[f32]>::to_vec).collect(),
    };
    let views = microbatch.inputs.chunks_exact(PIXELS).zip(labels).map(|(view, classes)| {
        assert!(view.iter().all(|value| *value == view[0]), "{view:?}");
        Seen { brightness: view[0] * 255.0, classes }
    });
    let views: Vec<Seen> = views.collect();
    let records = microbatch.records.chunks_exact(microbatch.together).map(<[usize]>::to_vec);
    records.zip(views.chunks_exact(microbatch.views).map(<[Seen]>::to_vec)).collect()
}

fn of_record(record: usize) -> Seen {
    let class = record % CLASSES;
    let classes = (0..CLASSES).map(|other| if other == class { 1.0 } else { 0.0 }).collect();
    Seen { brightness: (record + 1) as f32, classes }
}

/// The picture of the pool that a view shows, if it shows one with its own class.
fn picture(seen: &Seen) -> Option<usize> {
    let number = (seen.brightness - 101.0).round();
    let own = number >= 0.0 && (seen.brightness - 101.0 - number).abs() < 1e-3;
    (own && seen.classes[number as usize % CLASSES] == 1.0).then_some(number as usize)
}

fn shows(seen: &Seen, record: usize) -> bool {
    (seen.brightness - of_record(record).brightness).abs() < 1e-3 && seen.classes == of_record(record).classes
}

/// Whether a mixture is one of two members of a set: image and label by the same share.
fn is_mixture(mixture: &Seen, set: &[Seen]) -> bool {
    let pairs = (0..set.len()).flat_map(|one| (0..set.len()).map(move |other| (one, other)));
    pairs.filter(|(one, other)| one != other).any(|(one, other)| {
        let (one, other) = (&set[one], &set[other]);
        // Of two equal images the share cannot be told.
        let share = match one.brightness - other.brightness {
            0.0 => 0.5,
            difference => (mixture.brightness - other.brightness) / difference,
        };
        let by = |one: f32, other: f32| share * one + (1.0 - share) * other;
        let classes = one.classes.iter().zip(&other.classes).map(|(one, other)| by(*one, *other));
        // Brightness is off by a rounding of up to 2e-5, which a difference of at least 1 turns into a share.
        (-1e-4..=1.0 + 1e-4).contains(&share)
            && (mixture.brightness - by(one.brightness, other.brightness)).abs() < 1e-3
            && classes.zip(&mixture.classes).all(|(expected, found)| (expected - found).abs() < 1e-4)
    })
}

#[test]
fn synthetic_images_stand_beside_views_and_are_mixed_with_their_labels() {
    let folder = folder(7);
    let run = run(folder.path(), "[pipeline]\nviews = 3\n[mix]\nsynthetic = 2\nself_mix = 4\n", 0);
    let (mut drawn, mut two_classes) = ([0u32; 7], 0);
    for (records, views) in run.iter().flat_map(samples) {
        assert_eq!((records.len(), views.len()), (1, 9));
        let (set, mixtures) = views.split_at(5);
        assert!(set[..3].iter().all(|seen| shows(seen, records[0])), "{set:?}");
        set[3..].iter().for_each(|seen| drawn[picture(seen).unwrap()] += 1);
        assert!(mixtures.iter().all(|mixture| is_mixture(mixture, set)), "{views:?}");
        two_classes += mixtures.iter().filter(|mixture| !mixture.classes.contains(&1.0)).count();
    }
    assert!(drawn.iter().all(|&count| count > 0) && two_classes > 0, "{drawn:?}");
}

/// Without synthetic images and mixtures the views are those of self-augmentation, to the bit, and synthetic images beside them leave the
/// views of a record as they are.
#[test]
fn views_do_not_depend_on_what_stands_beside_them() {
    let folder = folder(7);
    let crops = "[pipeline]\nviews = 2\ncrop = [2, 2]\n";
    let plain = run(folder.path(), crops, 0);
    assert_eq!(plain, run(folder.path(), &format!("{crops}[mix]\nsynthetic = 0\nself_mix = 0\n"), 0));
    let beside = run(folder.path(), &format!("{crops}[mix]\nsynthetic = 1\n"), 0);
    for (plain, beside) in plain.iter().zip(&beside) {
        let views = beside.inputs.chunks_exact(3 * 4).flat_map(|views| &views[..2 * 4]);
        assert!(plain.inputs.iter().eq(views));
        assert!(matches!(beside.labels, Labels::Classes(_)), "nothing is mixed");
    }
}

/// A picture that changes, comes or goes changes only what took it.
#[test]
fn a_picture_changes_only_the_records_that_drew_it() {
    let text = "[pipeline]\nviews = 1\n[mix]\nsynthetic = 2\nself_mix = 3\n";
    let before = folder(6);
    let old: Vec<_> = run(before.path(), text, 0).iter().flat_map(samples).collect();
    let took = |views: &[Seen], number: usize| views[1..3].iter().any(|seen| picture(seen) == Some(number));

    let changed = folder(6);
    paint(changed.path(), 4, 200);
    let new: Vec<_> = run(changed.path(), text, 0).iter().flat_map(samples).collect();
    let mut touched = 0;
    for ((records, old), (same, new)) in old.iter().zip(&new) {
        assert_eq!(records, same);
        assert_eq!(took(old, 4), old != new);
        touched += u32::from(old != new);
    }
    assert!(touched > 0 && (touched as usize) < old.len());

    let added = folder(7);
    let new: Vec<_> = run(added.path(), text, 0).iter().flat_map(samples).collect();
    for ((_, old), (_, new)) in old.iter().zip(&new) {
        assert!(took(new, 6) || old == new, "{old:?} {new:?}");
    }
    assert!(new.iter().any(|(_, views)| took(views, 6)));
}

#[test]
fn without_views_no_record_is_shown() {
    let folder = folder(5);
    let text = "[pipeline]\nviews = 0\n[mix]\nsynthetic = 3\nself_mix = 2\nallow = 'pure-synthetic'\n";
    for (records, views) in run(folder.path(), text, 0).iter().flat_map(samples) {
        assert_eq!((records.len(), views.len()), (1, 5));
        assert!(views[..3].iter().all(|seen| picture(seen).is_some()));
        assert!(views[3..].iter().all(|mixture| is_mixture(mixture, &views[..3])));
    }
}

#[test]
fn groups_hold_every_drawn_record_once_in_microbatches_of_any_size() {
    let folder = folder(5);
    let text = "records_per_clip = 3\n[pipeline]\nviews = 2\n[mix]\nsynthetic = 1\nself_mix = 4\n";
    let alone = run(folder.path(), "[pipeline]\nviews = 2\n", 0);
    let sorted = |run: &[Microbatch], step: u64| {
        let of_step = run.iter().filter(|microbatch| microbatch.step == step);
        let mut all: Vec<(Vec<usize>, Vec<Seen>)> = of_step.flat_map(samples).collect();
        all.sort_by_key(|(records, _)| records.clone());
        all
    };
    let whole = run(folder.path(), text, 0);
    for (step, alone) in (0..).zip(&alone) {
        let groups = sorted(&whole, step);
        let mut records: Vec<usize> = groups.iter().flat_map(|(records, _)| records.clone()).collect();
        records.sort_unstable();
        assert_eq!(records, alone.records);
        assert!(groups.len() <= 4, "12 records in groups of 3");
        for (records, views) in &groups {
            let (set, mixtures) = views.split_at(3 * records.len());
            assert_eq!(mixtures.len(), 4);
            for (&record, views) in records.iter().zip(set.chunks_exact(3)) {
                assert!(views[..2].iter().all(|seen| shows(seen, record)) && picture(&views[2]).is_some());
            }
            assert!(mixtures.iter().all(|mixture| is_mixture(mixture, set)));
        }
        for microbatch in [1, 5, 7] {
            let pieces = run(folder.path(), text, microbatch);
            assert_eq!(sorted(&pieces, step), groups);
            let of_step: Vec<&Microbatch> = pieces.iter().filter(|piece| piece.step == step).collect();
            let (last, rest) = of_step.split_last().unwrap();
            assert!(last.is_last() && rest.iter().all(|piece| !piece.is_last()));
            assert!(of_step.iter().all(|piece| piece.records.len() <= microbatch.max(piece.together)));
        }
    }
    // A record alone in its group, and shown once, has nothing to be mixed with.
    for (records, views) in
        run(folder.path(), "records_per_clip = 2\n[mix]\nself_mix = 1\n", 0).iter().flat_map(samples)
    {
        assert_eq!(views.len(), if records.len() == 1 { 1 } else { records.len() + 1 });
    }
}

#[test]
fn a_pool_is_opened_by_class_or_with_one_for_all() {
    let folder = folder(5);
    let classes = |opened: Opened| -> Vec<u32> {
        let pool = opened.pool.unwrap();
        (0..pool.len()).map(|number| pool.label(number).unwrap()).collect()
    };
    assert_eq!(classes(open(folder.path(), "[mix]\npool = 'pool'")), [0, 1, 2, 3, 4]);
    assert_eq!(classes(open(folder.path(), "[mix]\npool = 'pool'\npool_class = '3'")), [3; 5]);
    assert!(open(folder.path(), "").pool.is_none());
    let message = |mix: &str| {
        let text = format!("[data]\nformat = 'idx'\ntrain = 'images'\ntrain_labels = 'labels'\n[mix]\n{mix}");
        let plan = DataPlan::check(&spec(&text)).map_err(Into::into);
        let opened = plan.and_then(|plan| dapple_data::open(&plan, folder.path()));
        opened
            .map(|_| ())
            .map_err(|error: dapple_data::DataError| (error.to_string(), error.hint()))
            .unwrap_err()
    };
    write(folder.path(), "wrong/9/a.pgm", b"P5\n1 1\n255\n\0");
    write(folder.path(), "flat/a.pgm", b"P5\n1 1\n255\n\0");
    for (mix, says) in [
        ("pool = 'wrong'", "a class that the training data does not have"),
        ("pool = 'flat'", "`mix.pool_class` is missing"),
        ("pool = 'none'", "none"),
        ("pool = 'pool'\npool_class = '5'", "no class \"5\""),
        ("pool_class = '1'", "`mix.pool` is missing"),
    ] {
        let (text, hint) = message(mix);
        assert!(text.contains(says) && hint.is_some(), "{mix}: {text}");
    }
}

/// What is shown beside every record must not be a record.
#[test]
fn a_pool_of_records_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train/cat/a.pgm", "train/dog/b.pgm", "pool/cat/c.pgm"] {
        write(folder.path(), name, b"P5\n1 1\n255\n\0");
    }
    let open = |pool: &str| {
        let text = format!("[data]\nformat = 'image-folder'\ntrain = 'train'\n[mix]\npool = '{pool}'");
        dapple_data::open(&DataPlan::check(&spec(&text)).unwrap(), folder.path()).unwrap()
    };
    assert!(open("pool").check_pool_apart().is_ok());
    let error = open("pool/../train").check_pool_apart().unwrap_err().to_string();
    assert!(error.contains("is a record to train on"), "{error}");
    let dataset: Arc<dyn Dataset> = open("pool").train;
    assert_eq!(dataset.channels(), 3);
}
