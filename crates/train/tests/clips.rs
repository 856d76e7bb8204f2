//! Runs on clips, from a plan to a certificate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use dapple_plan::{PlanSpec, Relation};
use dapple_train::data::{DataLimits, clips};
use dapple_train::{
    Look, ModelDescription, Prediction, Predictor, Request, RunOutcome, Silent, Status, Verdict, evaluate,
    start, verify,
};

mod common;

use common::{goes_on_alike, write_parted_clips};

/// A plan on clips of five frames, of which four are shown.
fn request(folder: &Path, model: &str, rest: &str) -> Request {
    write_parted_clips(folder, 12, 16, (1, 2));
    let text = format!(
        "[data]\nformat = 'clip-folder'\ntrain = 'train'\nframes = 4\nmean = [0.4]\nstd = [0.25]\nvalidation = 0.2\nDATA\n\
         [model]\n{model}\n[optimiser]\nlearning_rate = 0.01\n[sampling]\nbatch = 3\nsteps = 4\n\
         [privacy]\nmax_grad_norm = 1.0\nnoise_multiplier = 2.0\ndelta = 1e-5\nPRIVACY\n\
         [train]\nseed = 3\ncheckpoint_every = 2\n[performance]\nthreads = 2\nREST\n"
    );
    let [data, privacy, rest] = [0, 1, 2].map(|part| rest.split("----").nth(part).unwrap_or(""));
    let size = if data.contains("size = ") { "" } else { "size = [16, 16]\n" };
    let text =
        text.replace("DATA", &format!("{size}{data}")).replace("PRIVACY", privacy).replace("REST", rest);
    Request { spec: PlanSpec::from_toml(&text).unwrap(), base: folder.to_owned(), masks: Vec::new() }
}

fn finished(request: &Request, run: &Path) -> RunOutcome {
    let outcome = start(request, run, &mut Silent).unwrap();
    assert_eq!(outcome.certificate.status, Status::Finished);
    assert!(outcome.evaluation.is_some());
    assert!(matches!(verify(run, None).unwrap(), Verdict::Valid { .. }));
    outcome
}

const MASKED: &str = "masks = 'masks'----relation = 'masked'----[masked]\npublic_weight = 0.5\n";
const PATCH: &str =
    "----relation = 'patch'----[region]\npatch = [2, 2]\n[pipeline]\nimage = [16, 16]\ncrop = [8, 8]\n";

#[test]
fn clips_are_trained_on_under_every_relation_and_runs_go_on() {
    for (rest, relation) in [("", Relation::AddRemove), (PATCH, Relation::Patch), (MASKED, Relation::Masked)]
    {
        let folder = tempfile::tempdir().unwrap();
        let request = request(folder.path(), "name = 'small-clip'", rest);
        let outcome = finished(&request, &folder.path().join("run"));
        assert_eq!(outcome.certificate.spent.unwrap().relation, relation);
        goes_on_alike(folder.path(), &request);
    }
}

#[test]
fn the_model_is_evaluated_and_asked_about_clips() {
    let folder = tempfile::tempdir().unwrap();
    let request = request(folder.path(), "name = 'small-clip'", "flip = true\naugment = ['cutout 3x3']");
    let run = folder.path().join("run");
    let outcome = finished(&request, &run);
    let description = ModelDescription::read(&run).unwrap();
    assert_eq!((description.channels, description.frames), (3, Some(4)));
    assert_eq!(evaluate(&run, Look::default()).unwrap().accuracy, outcome.evaluation.unwrap().accuracy);
    let mut predictor = Predictor::open(&run, Look::default(), &Default::default()).unwrap();
    let clip = clips::read_clip(&folder.path().join("train/2/002.npy"), 4, &DataLimits::default()).unwrap();
    let Prediction::Class(probabilities) = predictor.predict(&clip, "a clip").unwrap() else {
        panic!("class")
    };
    assert_eq!(probabilities.len(), 4);
    let short = clips::read_clip(&folder.path().join("train/2/002.npy"), 2, &DataLimits::default()).unwrap();
    let error = predictor.predict(&short, "a clip").unwrap_err();
    assert!(error.to_string().starts_with("a clip: a clip of 2 frames where a clip of 4 frames"), "{error}");
}

/// The last layer and the norms of the last two blocks of a video transformer train; nothing else moves.
#[test]
fn a_video_transformer_is_fine_tuned() {
    let norms = |block: u32| {
        let of = ["norm1", "norm2", "attn.pool_q.norm_act", "attn.pool_k.norm_act", "attn.pool_v.norm_act"];
        of.map(|name| format!("'blocks.{block}.{name}'")).join(", ")
    };
    let trained = format!("name = 'mvit-v2-s'\ntrainable = ['head', 'norm', {}, {}]", norms(14), norms(15));
    let folder = tempfile::tempdir().unwrap();
    let rest = format!("size = [32, 32]\n{MASKED}");
    let mut request = request(folder.path(), &trained, &rest);
    for (key, value) in
        [("optimiser.schedule", "cosine"), ("optimiser.warmup", "1"), ("optimiser.kind", "adamw")]
    {
        request.spec.set(key, value).unwrap();
    }
    let outcome = finished(&request, &folder.path().join("run"));
    let trained = ModelDescription::read(&folder.path().join("run")).unwrap().trained.unwrap();
    assert!(
        trained.starts_with("head, norm, blocks.14.norm1") && trained.ends_with("pool_v.norm_act"),
        "{trained}"
    );
    assert_eq!(outcome.updates, 4);
}

#[test]
fn models_of_images_and_plans_without_masks_are_refused_by_name() {
    for (model, rest, message) in [
        ("name = 'small-cnn'", "", "model.name: small-cnn takes images, and the data are clips"),
        ("name = 'small-clip'", "----relation = 'masked'", "data.masks"),
        (
            "name = 'small-clip'",
            "masks = 'masks'----relation = 'masked'----[masked]\npass = 'tokens'",
            "masked.pass",
        ),
        (
            "name = 'small-clip'",
            "----relation = 'patch'----[region]\npatch = [2, 2]\n[pipeline]\nimage = [16, 16]\ncrop = [8, 8]\npixel_noise = 1.0",
            "pipeline.pixel_noise",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let error = start(&request(folder.path(), model, rest), &run, &mut Silent).unwrap_err();
        assert!(error.to_string().contains(message) && error.hint().is_some(), "{error}");
        assert!(!run.exists());
    }
}
