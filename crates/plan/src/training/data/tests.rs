//! Tests what the data of a plan is checked to be.

use super::{DataPlan, HeldOut, RecordOrigin, SettingError, StoredFormat, TargetKind};
use crate::spec::{DataFormat, PlanSpec};

fn check(text: &str) -> Result<DataPlan, SettingError> {
    DataPlan::check(&PlanSpec::from_toml(&format!("[data]\n{text}")).unwrap())
}

#[test]
fn defaults_are_filled_in() {
    let data = check("format = 'image-pairs'\ntrain = 'a'\nclasses = 2").unwrap();
    assert!(data.check_records && !data.views.flip);
    assert_eq!((data.limits.pixels, data.limits.bytes), (67_108_864, 2_147_483_648));
    let RecordOrigin::Stored { format: StoredFormat::ImagePairs(classes), held_out, .. } = &data.origin
    else {
        panic!("{data:?}");
    };
    assert_eq!((classes.ids.as_slice(), classes.ignored.as_slice()), (&[0, 1][..], &[255][..]));
    assert_eq!(*held_out, HeldOut::Nothing);
    let split = check("format = 'npy'\ntrain = 'a'\nvalidation = 0.1").unwrap();
    assert!(split.origin.splits_records_off());
    let whole = check("format = 'npy'\ntrain = 'a'\nvalidation = 0.0").unwrap();
    assert!(!whole.origin.splits_records_off());
}

/// A plan without data is for the caller's own records, and every format has targets of one kind.
#[test]
fn formats_tell_their_targets() {
    assert_eq!(check("train = 'a'").unwrap().origin, RecordOrigin::Caller);
    assert_eq!(RecordOrigin::Caller.targets(), None);
    for format in DataFormat::ALL {
        let train = match format {
            format if format.is_embedded() => "",
            DataFormat::Ucf101 | DataFormat::Hmdb51 => "train = 'a'\ntrain_labels = 'lists'\n",
            _ => "train = 'a'\nclasses = 3\n",
        };
        let data = check(&format!("format = '{}'\n{train}", format.name())).unwrap();
        let maps = matches!(
            format,
            DataFormat::ImagePairs
                | DataFormat::PairShards
                | DataFormat::Cityscapes
                | DataFormat::A2d2
                | DataFormat::StreetScenes
        );
        let expected = if maps { TargetKind::LabelMap } else { TargetKind::Class };
        assert_eq!(data.origin.targets(), Some(expected), "{}", format.name());
    }
}

#[test]
fn what_excludes_each_other_is_refused() {
    for (text, message) in [
        ("format = 'npy'", "`data.train` is missing: the files to train on"),
        ("format = 'image-pairs'", "`data.train` is missing: the folder to train on"),
        (
            "format = 'image-pairs'\ntrain = 'a'",
            "`data.classes` is missing: how many classes the label maps have",
        ),
        ("format = 'street-scenes'\ntest = 'a'", "`data.train`: street-scenes are drawn by the program"),
        ("format = 'fashion-scenes'\nvalidation = 0.1", "`data.validation`: there is a test set already"),
        ("format = 'npy'\ntest = 'a'\nvalidation = 0.1", "`data.validation`: there is a test set already"),
        (
            "format = 'npy'\ntrain = 'a'\nclasses = 0",
            "`data.classes`: 0 classes, but from 1 to 65536 are told apart",
        ),
        (
            "format = 'npy'\ntrain = 'a'\nstratified = true",
            "`data.stratified`: data.validation splits nothing off",
        ),
        (
            "format = 'npy'\ntrain = 'a'\nvalidation = 0.1\nstratified = true",
            "`data.stratified`: under add-remove a record's class is protected, and the split would tell how many each class has; name the records of both parts by lists (image-list)",
        ),
        (
            "format = 'npy'\ntrain = 'a'\nframes = 8",
            "`data.frames`: npy has images, and only clips have frames",
        ),
        (
            "format = 'clip-folder'\ntrain = 'a'\nframes = 0",
            "`data.frames`: 0 frames, but from 1 to 1024 are shown",
        ),
        (
            "format = 'ucf-101'\ntrain = 'a'",
            "`data.train_labels` is missing: the folder of the lists that say which clips are trained on",
        ),
        (
            "format = 'ucf-101'\ntrain = 'a'\ntrain_labels = 'b'\nsplit = 'cross-view'",
            "`data.split`: \"cross-view\" is none of its splits, which are first, second and third",
        ),
        (
            "format = 'ntu-rgb-d'\ntrain = 'a'\nsplit = 'second'",
            "`data.split`: \"second\" is none of its splits, which are cross-subject, cross-view and cross-setup",
        ),
        (
            "format = 'ntu-rgb-d'\ntrain = 'a'\ntrain_labels = 'b'",
            "`data.train_labels`: the folders or names of clips tell their classes",
        ),
        (
            "format = 'clip-folder'\ntrain = 'a'\nsplit = 'first'",
            "`data.split`: clip-folder has no published splits; give data.test, or data.validation",
        ),
        (
            "format = 'clip-folder'\nprivate = 'object'",
            "`data.private`: it says nothing about clip-folder, only about moving-shapes",
        ),
        ("format = 'moving-shapes'\ntrain = 'a'", "`data.train`: moving-shapes are drawn by the program"),
        (
            "format = 'npy'\nignore = [1]",
            "`data.ignore`: it says nothing about npy, only about image-pairs and pair-shards",
        ),
    ] {
        let error = check(text).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.hint().contains(" in the plan"));
    }
}
