//! Tests runs that end before their last step, because they were asked to or for lack of memory.

use dapple_plan::spec::Performance;
use dapple_train::{Status, StepError, TrainError, certify, resume, resume_with, start};

use crate::common::{Recorder, model_bytes, request, write_data};
use crate::{alone, cpu, gpu, losses, plan};

/// A run that is stopped on the card and goes on there ends like an uninterrupted one. It may also go on elsewhere.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_run_that_was_stopped_goes_on() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let optimiser = "kind = 'adam'\nlearning_rate = 0.01\nema = 0.9";
    let request = plan(folder, "small-cnn", optimiser, &gpu());
    losses(folder, "whole", &request);
    let whole = model_bytes(&folder.join("whole"));
    for (name, performance, stays) in [("parts", &gpu(), true), ("elsewhere", &cpu(), false)] {
        let out = folder.join(name);
        let mut recorder = Recorder { stop_after: Some(7), ..Recorder::default() };
        start(&request, &out, &mut recorder).unwrap();
        let mut recorder = Recorder::default();
        let outcome = resume_with(&out, performance, &mut recorder).unwrap();
        assert_eq!((outcome.updates, outcome.certificate.status), (20, Status::Finished), "{name}");
        // Another machine rounds differently, and the run says so.
        assert_eq!(model_bytes(&out) == whole, stays, "{name}");
        assert_eq!(recorder.warnings.is_empty(), stays, "{name}: {:?}", recorder.warnings);
    }
    // A run that was finished is left as it is.
    resume(&folder.join("whole"), &mut Recorder::default()).unwrap();
    assert!(model_bytes(&folder.join("whole")) == whole);
}

/// If a card runs out of memory in the first step, that step is spent, and the run goes on with fewer records at once.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_run_that_is_out_of_memory_goes_on_with_less() {
    let (_card, folder) = alone();
    let folder = folder.path();
    write_data(folder, "large", 1030, 160);
    // A deep network on large images has more activations than a card holds, with the most samples that it is shown at once.
    let text = "[model]\nname = 'wrn-40-4'\n[optimiser]\nlearning_rate = 0.1\n[privacy]\nrelation = 'replace'\nnoise_multiplier = 1.0\n\
        delta = 1e-5\n[sampling]\nscheme = 'without-replacement'\nbatch = 1024\nsteps = 3\n\
        [performance]\ndevice = 'cuda'\nmicrobatch = 1024\n";
    let mut request = request(folder, text);
    request.spec.data.train = Some("large.npy".to_owned());
    request.spec.data.train_labels = Some("large-labels.npy".to_owned());
    let out = folder.join("large-run");
    let error = start(&request, &out, &mut Recorder::default()).unwrap_err();
    let told = matches!(&error, TrainError::Step { step: 1, source } if matches!(**source, TrainError::Private(StepError::Device { .. })));
    assert!(told && error.hint().is_some(), "{error}");
    let certificate = certify(&out).unwrap();
    assert_eq!((certificate.status, certificate.steps_spent), (Status::Stopped, 1));
    let smaller = Performance { microbatch: Some(64), ..Performance::default() };
    let outcome = resume_with(&out, &smaller, &mut Recorder::default()).unwrap();
    assert_eq!((outcome.updates, outcome.certificate.steps_spent), (2, 3));
}
