//! Runs that end before their last step, by a wish or for want of memory.

use std::path::Path;

use dapple_plan::spec::Performance;
use dapple_train::{Status, TrainError, certify, resume, resume_with, start};

use crate::common::{Recorder, model_bytes, request, write_data};
use crate::{Fault, cpu, expect, gpu, losses, plan};

/// A run that is stopped on the card and goes on there ends as one that was not; one may also go on elsewhere.
pub(crate) fn check(folder: &Path) -> Result<(), Fault> {
    let optimiser = "kind = 'adam'\nlearning_rate = 0.01\nema = 0.9";
    let request = plan(folder, "small-cnn", optimiser, &gpu());
    losses(folder, "whole", &request)?;
    for (name, performance) in [("parts", &gpu()), ("elsewhere", &cpu())] {
        let out = folder.join(name);
        let mut recorder = Recorder { stop_after: Some(7), ..Recorder::default() };
        start(&request, &out, &mut recorder)?;
        let mut recorder = Recorder::default();
        let outcome = resume_with(&out, performance, &mut recorder)?;
        let same = model_bytes(&out) == model_bytes(&folder.join("whole"));
        let (machines, told) = (&outcome.certificate.machines, &recorder.warnings);
        println!("{name}: same bits {same}, {machines:?}, told {told:?}");
        let finished = (outcome.updates, outcome.certificate.status) == (20, Status::Finished);
        let stayed = name == "parts";
        expect(finished && same == stayed && told.is_empty() == stayed, || format!("{name}: see above"))?;
    }
    // A run that was finished is left as it is.
    let before = model_bytes(&folder.join("whole"));
    resume(&folder.join("whole"), &mut Recorder::default())?;
    expect(model_bytes(&folder.join("whole")) == before, || "a finished run was changed".to_owned())
}

/// A card that runs out of memory in the first step: that step is spent, and the run goes on with less at once.
pub(crate) fn check_memory(folder: &Path) -> Result<(), Fault> {
    let records = 1030;
    write_data(folder, "large", records, 160);
    // A deep network on large images: more activations than a card holds at the most samples that it is shown at once.
    let text = "[model]\nname = 'wrn-40-4'\n[optimiser]\nlearning_rate = 0.1\n[privacy]\nrelation = 'replace'\nnoise_multiplier = 1.0\n\
        delta = 1e-5\n[sampling]\nscheme = 'without-replacement'\nbatch = 1024\nsteps = 3\n\
        [performance]\ndevice = 'cuda'\nmicrobatch = 1024\n";
    let mut request = request(folder, text);
    request.spec.data.train = Some("large.npy".to_owned());
    request.spec.data.train_labels = Some("large-labels.npy".to_owned());
    let out = folder.join("large");
    let Err(error) = start(&request, &out, &mut Recorder::default()) else {
        return Err("the card held more than was thought possible".into());
    };
    println!("{error}; hint: {}", error.hint().unwrap_or_default());
    let told = matches!(&error, TrainError::Step { step: 1, source } if matches!(**source, TrainError::Device { .. }));
    expect(told && error.hint().is_some(), || error.to_string())?;
    let certificate = certify(&out)?;
    expect((certificate.status, certificate.steps_spent) == (Status::Stopped, 1), || {
        format!("{:?} with {} steps spent", certificate.status, certificate.steps_spent)
    })?;
    let smaller = Performance { microbatch: Some(64), ..Performance::default() };
    let outcome = resume_with(&out, &smaller, &mut Recorder::default())?;
    expect((outcome.updates, outcome.certificate.steps_spent) == (2, 3), || {
        format!("{} updates, {} steps spent", outcome.updates, outcome.certificate.steps_spent)
    })
}
