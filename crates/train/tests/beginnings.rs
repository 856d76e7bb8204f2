//! What a run begins with besides its records: a mask, and weights of another model.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_geometry::{Mask, Size};
use dapple_train::{Look, Request, Silent, TrainError, certify, evaluate, resume, start};

const PRIVATE: &str = "[privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\n[train]\nseed = 1\n";

fn masked(folder: &Path, width: u32) -> Request {
    let plan = format!(
        "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n{PRIVATE}\
         [region]\nmask = 'mask.png'\n[pipeline]\ncrop = '3x3'\n[sampling]\nbatch = 10\nsteps = 9\n"
    );
    let size = Size::new(6, 6).unwrap();
    let mask = Mask::from_fn(size, |x, y| (2..2 + width).contains(&x) && y == 4).unwrap();
    Request { masks: vec![mask], ..request(folder, &plan) }
}

#[test]
fn a_run_keeps_its_mask_and_goes_on_with_no_other() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 6);
    let mut stop = Recorder { stop_after: Some(3), ..Recorder::default() };
    let (narrow, wide) = (folder.path().join("narrow"), folder.path().join("wide"));
    start(&masked(folder.path(), 1), &narrow, &mut stop).unwrap();
    start(&masked(folder.path(), 4), &wide, &mut Silent).unwrap();
    let spent = certify(&narrow).unwrap();
    let epsilon = |certificate: &dapple_train::RunCertificate| certificate.planned.as_ref().unwrap().epsilon;
    assert!(epsilon(&spent).upper < epsilon(&certify(&wide).unwrap()).upper, "a larger region costs more");

    let kept = narrow.join("mask.pgm");
    let own = fs::read(&kept).unwrap();
    fs::copy(wide.join("mask.pgm"), &kept).unwrap();
    let error = resume(&narrow, &mut Silent).unwrap_err();
    assert!(matches!(error, TrainError::Changed { .. }) && error.hint().is_some(), "{error}");
    fs::write(&kept, &own[..own.len() - 1]).unwrap();
    let error = resume(&narrow, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("mask.pgm"), "{error}");
    fs::remove_file(&kept).unwrap();
    assert!(resume(&narrow, &mut Silent).is_err());

    fs::write(&kept, own).unwrap();
    assert_eq!(certify(&narrow).unwrap(), spent);
    assert_eq!(resume(&narrow, &mut Silent).unwrap().updates, 9);
}

#[test]
fn weights_for_other_classes_are_trained_stopped_resumed_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 28);
    write_data(folder.path(), "test", 8, 28);
    // The file is for four classes, and the plan says that the data has seven.
    common::write_small_cnn(folder.path());
    let plan = format!(
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\nclasses = 7\n\
         [model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\ntrainable = ['fc2']\n\
         [optimiser]\nlearning_rate = 0.1\n{PRIVATE}[sampling]\nbatch = 8\nsteps = 6\n"
    );
    let whole = folder.path().join("whole");
    let outcome = start(&request(folder.path(), &plan), &whole, &mut Silent).unwrap();
    let evaluation = outcome.evaluation.unwrap();
    assert_eq!((evaluation.records, evaluation.confusion.len()), (8, 7));
    assert!(evaluation.top5.is_some());
    assert_eq!(evaluate(&whole, Look::default()).unwrap(), evaluation);

    let parts = folder.path().join("parts");
    let mut stop = Recorder { stop_after: Some(2), ..Recorder::default() };
    start(&request(folder.path(), &plan), &parts, &mut stop).unwrap();
    assert_eq!(resume(&parts, &mut Silent).unwrap().updates, 6);
    assert!(model_bytes(&parts) == model_bytes(&whole));

    // All layers but the last are those of the file, because only the last one trains.
    let (ours, given) = (model_bytes(&whole), fs::read(folder.path().join("small-cnn.safetensors")).unwrap());
    let tensor = |bytes: &[u8], name: &str| {
        let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
        let tensor = file.tensor(name).unwrap();
        (tensor.shape().to_vec(), tensor.data().to_vec())
    };
    assert_eq!(tensor(&ours, "conv1.weight"), tensor(&given, "conv1.weight"));
    assert_eq!(tensor(&ours, "fc2.bias").0, [7]);

    // A run resumes only if its weights file still says what it said at the start.
    let mut other = given.clone();
    *other.last_mut().unwrap() ^= 1;
    let stopped = folder.path().join("stopped");
    start(
        &request(folder.path(), &plan),
        &stopped,
        &mut Recorder { stop_after: Some(2), ..Recorder::default() },
    )
    .unwrap();
    for damaged in [&given[..given.len() - 9], &given[..20], b"rubbish"] {
        fs::write(folder.path().join("small-cnn.safetensors"), damaged).unwrap();
        for error in [
            resume(&stopped, &mut Silent).unwrap_err(),
            start(&request(folder.path(), &plan), &folder.path().join("new"), &mut Silent).unwrap_err(),
        ] {
            assert!(error.to_string().contains("small-cnn.safetensors"), "{error}");
        }
        assert!(!folder.path().join("new").exists());
    }
    fs::write(folder.path().join("small-cnn.safetensors"), given).unwrap();
    assert_eq!(resume(&stopped, &mut Silent).unwrap().updates, 6);
}

#[test]
fn data_that_cannot_be_trained_on_are_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let refused = |data: &str, sampling: &str| {
        let plan = format!(
            "{data}\n[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n{PRIVATE}[sampling]\n{sampling}\n"
        );
        let error = start(&request(folder.path(), &plan), &out, &mut Silent).unwrap_err();
        assert!(!out.exists(), "{error}");
        assert!(error.hint().is_some(), "{error}");
        error.to_string()
    };
    let (images, labels) = (folder.path().join("train.npy"), folder.path().join("train-labels.npy"));
    // No record at all.
    write_data(folder.path(), "train", 0, 6);
    let message = refused("", "batch = 1\nsteps = 2");
    assert!(message.contains("train.npy"), "{message}");
    // A label beyond the classes that the plan names.
    write_data(folder.path(), "train", 8, 6);
    let message = refused("classes = 3", "batch = 1\nsteps = 2");
    assert!(message.contains("train-labels.npy") && message.contains('3'), "{message}");
    // A batch of more records than there are.
    for scheme in ["poisson", "without-replacement"] {
        let message = refused("", &format!("scheme = '{scheme}'\nbatch = 9\nsteps = 2"));
        assert!(message.contains("sampling.batch") || message.contains('9'), "{message}");
    }
    // Files that end too soon.
    for path in [&images, &labels] {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
        let message = refused("", "batch = 1\nsteps = 2");
        assert!(message.contains(path.file_name().unwrap().to_str().unwrap()), "{message}");
        fs::write(path, bytes).unwrap();
    }
}
