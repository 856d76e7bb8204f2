//! Runs on images with private and public parts, from a plan to a certificate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use dapple_plan::{PlanSpec, Relation};
use dapple_train::{LabelStatus, Request, RunOutcome, Status, Verdict, resume, start, verify};

mod common;

use common::{Recorder, model_bytes};

fn request(folder: &Path, rest: &str) -> Request {
    common::write_parted(folder, 16, 16, (1, 2));
    let text = format!(
        "[data]\nformat = 'image-folder'\ntrain = 'train'\nmasks = 'masks'\nmean = [0.4]\nstd = [0.25]\nsize = [16, 16]\nvalidation = 0.2\n\
         [model]\nname = 'vit-ti-8'\n[optimiser]\nlearning_rate = 0.01\n[sampling]\nbatch = 4\nsteps = 6\n\
         [privacy]\nrelation = 'masked'\nmax_grad_norm = 1.0\nnoise_multiplier = 2.0\ndelta = 1e-5\n[performance]\nthreads = 2\n{rest}"
    );
    Request { spec: PlanSpec::from_toml(&text).unwrap(), base: folder.to_owned(), masks: Vec::new() }
}

const SEEDED: &str = "[train]\nseed = 7\ncheckpoint_every = 2\n";

fn finished(outcome: &RunOutcome) {
    assert_eq!(outcome.certificate.status, Status::Finished);
    assert_eq!(outcome.updates, 6);
    assert!(outcome.evaluation.is_some(), "the whole model is evaluated on whole images");
}

#[test]
fn a_run_ends_in_a_certificate_of_its_relation() {
    for (rest, words, other) in [
        ("", "drawn independently of the private batch", "was there at all"),
        (
            "[masked]\ncontent = 'remove'\npublic_gradient = 'coupled-clipped'\npublic_clip = 1.5\n",
            "is clipped to 1.5 * C",
            "drawn independently of the private batch",
        ),
        (
            "[masked]\npublic_gradient = 'coupled'\npass = 'blank'\n",
            "without clipping",
            "before it is added to the same noisy sum",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (request, run) = (request(folder.path(), rest), folder.path().join("run"));
        let outcome = start(&request, &run, &mut Recorder::default()).unwrap();
        finished(&outcome);
        let certificate = &outcome.certificate;
        let spent = certificate.spent.as_ref().unwrap();
        // The price is that of `dapple account` for the same plan.
        let mut spec = request.spec.clone();
        spec.sampling.records = certificate.public_records;
        let priced = dapple_plan::Plan::check(&spec).unwrap().price(Default::default()).unwrap();
        assert_eq!(spent.epsilon, priced.epsilon);
        assert_eq!(spent.relation, Relation::Masked);
        assert_eq!(certificate.labels, Some(LabelStatus::ClassPublic));
        assert!(certificate.record_level.is_none(), "a whole record has no guarantee");
        let said = spent.assumptions.join("\n");
        assert!(said.contains(words) && !said.contains(other), "{said}");
        assert!(said.contains("Which tokens are private is public"));
        assert!(matches!(verify(&run, None).unwrap(), Verdict::Valid { .. }));
    }
}

#[test]
fn a_run_goes_on_as_if_it_had_never_stopped() {
    for rest in ["", "[masked]\npublic_gradient = 'coupled'\n"] {
        let folder = tempfile::tempdir().unwrap();
        let request = request(folder.path(), &format!("{SEEDED}{rest}"));
        let (whole, stopped) = (folder.path().join("whole"), folder.path().join("stopped"));
        finished(&start(&request, &whole, &mut Recorder::default()).unwrap());
        let mut stop = Recorder { stop_after: Some(2), ..Recorder::default() };
        let outcome = start(&request, &stopped, &mut stop).unwrap();
        assert_eq!(outcome.certificate.status, Status::Stopped);
        finished(&resume(&stopped, &mut Recorder::default()).unwrap());
        assert_eq!(model_bytes(&whole), model_bytes(&stopped));
        // Other masks are other data.
        let finished = std::fs::read(folder.path().join("masks/2/002.json")).unwrap();
        std::fs::write(folder.path().join("masks/2/002.json"), "[]").unwrap();
        let again = folder.path().join("again");
        start(&request, &again, &mut Recorder { stop_after: Some(2), ..Recorder::default() }).unwrap();
        std::fs::write(folder.path().join("masks/2/002.json"), finished).unwrap();
        let error = resume(&again, &mut Recorder::default()).unwrap_err();
        assert!(error.to_string().contains("data"), "{error}");
    }
}

/// A public batch of its own is what the default says, and what makes a difference.
#[test]
fn modes_and_weights_lead_to_other_models() {
    let folder = tempfile::tempdir().unwrap();
    let mut models = Vec::new();
    for (number, rest) in [
        "",
        "[masked]\npublic_gradient = 'coupled'\n",
        "[masked]\npublic_weight = 0.0\n",
        "[masked]\npass = 'blank'\n",
        "[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 1.0\n",
    ]
    .iter()
    .enumerate()
    {
        let run = folder.path().join(number.to_string());
        start(&request(folder.path(), &format!("{SEEDED}{rest}")), &run, &mut Recorder::default()).unwrap();
        models.push(model_bytes(&run));
    }
    for (number, model) in models.iter().enumerate() {
        assert!(models[..number].iter().all(|other| other != model), "{number}");
    }
}

#[test]
fn parts_of_a_model_train_too() {
    for tune in ["tune = 'head'", "tune = 'lora'", "last = 1", "tune = 'norms'"] {
        let folder = tempfile::tempdir().unwrap();
        let mut request = request(folder.path(), "[masked]\npublic_weight = 0.5\n");
        let (key, value) = tune.split_once(" = ").unwrap();
        request.spec.set(&format!("model.{key}"), value.trim_matches('\'')).unwrap();
        finished(&start(&request, &folder.path().join("run"), &mut Recorder::default()).unwrap());
    }
}

/// Whole numbers of two units are joined in 52 bits.
#[test]
fn bounds_too_far_apart_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let far = "[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 1e-9\n";
    let run = folder.path().join("run");
    let error = start(&request(folder.path(), far), &run, &mut Recorder::default()).unwrap_err();
    assert!(error.to_string().starts_with("masked.public_clip"), "{error}");
    assert!(!run.exists());
}

#[test]
fn every_sampling_that_is_priced_trains() {
    for (scheme, length) in
        [("without-replacement", ("sampling.steps", "3")), ("balanced", ("sampling.epochs", "2"))]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut request = request(folder.path(), "");
        request.spec.sampling.steps = None;
        request.spec.set("sampling.scheme", scheme).unwrap();
        request.spec.set(length.0, length.1).unwrap();
        let run = folder.path().join("run");
        let outcome = start(&request, &run, &mut Recorder::default()).unwrap();
        assert_eq!(outcome.certificate.status, Status::Finished, "{scheme}");
        assert!(matches!(verify(&run, None).unwrap(), Verdict::Valid { .. }));
    }
}

const FEATURES: [&str; 2] = ["private/features-private", "private/features-public"];

/// Steps on the features of parts are steps on parts, to the last bit: with the tokens of a part alone and with the rest blank, from batches
/// of their own and from the same one. Some records are private all over, and some have nothing private.
#[test]
fn steps_on_features_of_parts_are_steps_on_parts() {
    for (model, rest) in [
        ("vit-ti-8", ""),
        ("vit-ti-8", "[masked]\npass = 'blank'\npublic_gradient = 'coupled'\n"),
        (
            "resnet-18",
            "[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 2.0\ncontent = 'remove'\n",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut request = request(folder.path(), &format!("{SEEDED}{rest}"));
        let settings = [("model.name", model), ("model.tune", "head"), ("sampling.steps", "8")];
        settings.iter().for_each(|(key, value)| request.spec.set(key, value).unwrap());
        if model == "resnet-18" {
            request.spec.set("model.norm", "frozen").unwrap();
        }
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let mut told = Recorder::default();
        let outcome = start(&request, &whole, &mut told).unwrap();
        assert!(FEATURES.iter().all(|name| whole.join(name).is_file()), "{model}");
        // After a few steps too few are left for features, so the others see the records themselves.
        let mut first = Recorder { stop_after: Some(4), ..Recorder::default() };
        start(&request, &parts, &mut first).unwrap();
        FEATURES.iter().for_each(|name| std::fs::remove_file(parts.join(name)).unwrap());
        let mut second = Recorder::default();
        let other = resume(&parts, &mut second).unwrap();
        assert!(FEATURES.iter().all(|name| !parts.join(name).exists()), "{model}");
        assert_eq!([first.losses, second.losses].concat(), told.losses, "{model}");
        assert_eq!(other.evaluation, outcome.evaluation, "{model}");
        assert!(model_bytes(&whole) == model_bytes(&parts), "{model}");
    }
}

/// Each part's features are the same whatever the other part shows.
#[test]
fn features_of_a_part_show_nothing_of_the_other() {
    let features = |shown: (usize, usize)| {
        let folder = tempfile::tempdir().unwrap();
        let mut request = request(folder.path(), SEEDED);
        let settings = [("model.tune", "head"), ("sampling.steps", "8")];
        settings.iter().for_each(|(key, value)| request.spec.set(key, value).unwrap());
        common::write_parted(folder.path(), 16, 16, shown);
        let run = folder.path().join("run");
        start(&request, &run, &mut Recorder::default()).unwrap();
        // Behind the first line, which names the run, and the second, a checksum.
        FEATURES.map(|name| std::fs::read(run.join(name)).unwrap()[130..].to_vec())
    };
    let [private, public] = features((1, 2));
    let [other, same] = features((3, 2));
    assert!(private != other && public == same);
    let [same, other] = features((1, 4));
    assert!(private == same && public != other);
}
