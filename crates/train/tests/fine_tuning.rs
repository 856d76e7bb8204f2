//! Tests runs in which a part of the model trains and the rest stays as its weights file says.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Recorder, filled, model_bytes, request, write_data};
use dapple_data::{Image, Values};
use dapple_geometry::Size;
use dapple_graph::zoo::{
    self, ConvNext, ConvNextSize, LibraryNames, TokenPooling, VisionTransformer, VitSize,
};
use dapple_graph::{Parameters, weights};
use dapple_plan::spec::{Performance, PlanSpec};
use dapple_train::{Look, ModelDescription, Prediction, Predictor, Request, Silent, evaluate, resume, start};

/// A tiny transformer for images of 16 x 16 in one value a pixel.
fn transformer(names: LibraryNames, classes: usize) -> dapple_graph::Graph {
    let (size, pooling) = (VitSize::Tiny, TokenPooling::ClassToken);
    zoo::vision_transformer(VisionTransformer { size, patch: 8, pooling, names }, &[1, 16, 16], classes)
        .unwrap()
}

/// Data, and the weights of a transformer for seven classes.
fn setting(folder: &Path, names: LibraryNames) {
    write_data(folder, "train", 16, 16);
    write_data(folder, "test", 6, 16);
    let graph = transformer(names, 7);
    weights::save(&graph, &filled(&graph), &folder.join("given.safetensors")).unwrap();
}

/// The plan of a transformer.
fn plan(folder: &Path, model: &str) -> Request {
    plan_of(folder, "vit-ti-8", model)
}

fn plan_of(folder: &Path, name: &str, model: &str) -> Request {
    request(
        folder,
        &format!(
            "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\nname = '{name}'\nweights = 'given.safetensors'\n\
             {model}\n[optimiser]\nlearning_rate = 0.05\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n\
             [train]\nseed = 1\ncheckpoint_every = 1\n[sampling]\nbatch = 4\nsteps = 3\n[performance]\nthreads = 1\n"
        ),
    )
}

/// The tensors of a file.
fn tensors(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    file.tensors().into_iter().map(|(name, tensor)| (name, tensor.data().to_vec())).collect()
}

/// The names of the tensors that differ between a run's model and the file that it began with.
fn changed(folder: &Path, run: &Path) -> Vec<String> {
    let (ours, given) =
        (tensors(&model_bytes(run)), tensors(&fs::read(folder.join("given.safetensors")).unwrap()));
    let keys = |tensors: &BTreeMap<String, Vec<u8>>| tensors.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&ours), keys(&given));
    ours.into_iter().filter(|(name, value)| given[name] != *value).map(|(name, _)| name).collect()
}

#[test]
fn adapters_are_trained_resumed_merged_and_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    setting(folder.path(), LibraryNames::Timm);
    let plan = plan(folder.path(), "tune = 'lora'\nlora_rank = 2\nlora_targets = ['attn.qkv', '3.mlp.fc1']");
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let mut told = Recorder::default();
    let outcome = start(&plan, &whole, &mut told).unwrap();
    let said = told.warnings.iter().filter(|said| said.starts_with("head is made anew")).count();
    assert_eq!(said, 1, "{:?}", told.warnings);
    // The model file is that of the plain model, so other programs need not know about adapters.
    let layers: Vec<String> = (0..12).map(|block| format!("blocks.{block}.attn.qkv")).collect();
    let mut expected: Vec<String> = layers.iter().map(|layer| format!("{layer}.weight")).collect();
    expected.extend(["blocks.3.mlp.fc1.weight", "head.bias", "head.weight"].map(str::to_owned));
    expected.sort();
    assert_eq!(changed(folder.path(), &whole), expected);
    let apart = tensors(&fs::read(whole.join("adapters.safetensors")).unwrap());
    assert_eq!(apart.len(), 2 * 13 + 2);
    assert!(apart.contains_key("blocks.11.attn.qkv.lora_A.weight") && apart.contains_key("head.bias"));

    // A checkpoint holds the adapted model, so a run that was stopped goes on to the same bits.
    let mut stop = Recorder { stop_after: Some(1), ..Recorder::default() };
    start(&plan, &parts, &mut stop).unwrap();
    assert!(!parts.join("adapters.safetensors").exists());
    let early = predicted(&parts);
    assert_eq!(resume(&parts, &mut Silent).unwrap().updates, 3);
    assert!(model_bytes(&parts) == model_bytes(&whole));
    assert_eq!(
        fs::read(parts.join("adapters.safetensors")).unwrap(),
        fs::read(whole.join("adapters.safetensors")).unwrap()
    );

    assert_eq!(evaluate(&whole, Look::default()).unwrap(), outcome.evaluation.unwrap());
    // Prediction needs neither data nor weights file.
    for file in ["given.safetensors", "train.npy"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    let late = predicted(&whole);
    assert_eq!((early.len(), late.len()), (4, 4));
    assert_ne!(early, late);
    let description = ModelDescription::read(&whole).unwrap();
    let words = "adapters of rank 2 and alpha 16 beside attn.qkv, 3.mlp.fc1, and the last layers";
    assert_eq!(description.trained.as_deref(), Some(words));
}

/// The noise's part of the second moments, and the rates of the blocks, are the same behind a stop.
#[test]
fn a_corrected_optimiser_with_layer_decay_is_resumed_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    setting(folder.path(), LibraryNames::Timm);
    let plan = |options: &str| {
        let text = format!("[optimiser]\nkind = 'adamw'\nlearning_rate = 0.01\n{options}");
        let Request { mut spec, base, masks } = plan(folder.path(), "tune = 'norms'");
        spec.optimiser = PlanSpec::from_toml(&text).unwrap().optimiser;
        Request { spec, base, masks }
    };
    let both = plan("noise_correction = true\nnoise_floor = 1e-4\nlayer_decay = 0.75");
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    start(&both, &whole, &mut Silent).unwrap();
    start(&both, &parts, &mut Recorder { stop_after: Some(1), ..Recorder::default() }).unwrap();
    assert_eq!(resume(&parts, &mut Silent).unwrap().updates, 3);
    assert!(model_bytes(&parts) == model_bytes(&whole));
    for (name, other) in [
        ("uncorrected", "layer_decay = 0.75"),
        ("even", "noise_correction = true\nnoise_floor = 1e-4"),
        ("higher", "noise_correction = true\nnoise_floor = 1e-2\nlayer_decay = 0.75"),
    ] {
        let run = folder.path().join(name);
        start(&plan(other), &run, &mut Silent).unwrap();
        assert!(model_bytes(&run) != model_bytes(&whole), "{name}");
    }
}

/// What a run's model says about one picture.
fn predicted(run: &Path) -> Vec<f64> {
    predicted_of(run, 16)
}

fn predicted_of(run: &Path, side: u32) -> Vec<f64> {
    let mut predictor = Predictor::open(run, Look::default(), &Performance::default()).unwrap();
    let pixels = (0..side * side).map(|pixel| (pixel * 7 % 251) as u8).collect();
    let image = Image::new(Size::new(side, side).unwrap(), 1, Values::Bytes(pixels)).unwrap();
    match predictor.predict(&image, "picture").unwrap() {
        Prediction::Class(classes) => classes,
        Prediction::Map(_) => Vec::new(),
    }
}

#[test]
fn each_part_changes_no_other() {
    let folder = tempfile::tempdir().unwrap();
    setting(folder.path(), LibraryNames::Torchvision);
    for (tune, belongs) in [
        ("tune = 'head'", (|name| name.starts_with("heads.")) as fn(&str) -> bool),
        ("tune = 'norms'", |name| name.contains("ln") || name.starts_with("heads.")),
        ("tune = 'bias'", |name| name.ends_with("bias") || name.starts_with("heads.")),
        ("last = 1", |name| {
            name.contains("layer_11") || name.contains("encoder.ln") || name.starts_with("heads.")
        }),
    ] {
        let run = folder.path().join(tune.replace(['\'', ' ', '='], ""));
        start(&plan(folder.path(), tune), &run, &mut Silent).unwrap();
        let changed = changed(folder.path(), &run);
        assert!(changed.iter().all(|name| belongs(name)), "{tune}: {changed:?}");
        assert!(changed.len() >= 2 && (tune.contains("head") || changed.len() > 4), "{tune}: {changed:?}");
        assert!(!run.join("adapters.safetensors").exists());
    }
}

#[test]
fn an_image_tower_without_a_head_is_trained_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    setting(folder.path(), LibraryNames::OpenClip { projection: 8 });
    // OpenCLIP's files have no head, and a text tower beside the image tower.
    let graph = transformer(LibraryNames::OpenClip { projection: 8 }, 7);
    let bytes = weights::write(&graph, &Parameters::init(&graph, 2)).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let text = |name: String| if name.starts_with("head.") { format!("transformer.{name}") } else { name };
    let views = file.tensors().into_iter().map(|(name, view)| (text(name), view));
    fs::write(folder.path().join("given.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    let run = folder.path().join("run");
    let mut told = Recorder::default();
    start(&plan(folder.path(), "tune = 'head'"), &run, &mut told).unwrap();
    assert!(told.warnings.iter().any(|said| said.starts_with("head is made anew")), "{:?}", told.warnings);
    let names = tensors(&model_bytes(&run));
    assert!(names.contains_key("visual.proj") && names.contains_key("head.weight"));
    assert!(!names.contains_key("transformer.head.weight"));
    assert_eq!(predicted(&run).len(), 4);
}

/// Data of 32 x 32 pixels, the smallest that a ConvNeXt takes, and its weights for seven classes.
fn convnext_setting(folder: &Path, names: LibraryNames) {
    write_data(folder, "train", 16, 32);
    write_data(folder, "test", 6, 32);
    let model = ConvNext { size: ConvNextSize::Tiny, names };
    let graph = zoo::convnext(model, &[1, 32, 32], 7).unwrap();
    weights::save(&graph, &filled(&graph), &folder.join("given.safetensors")).unwrap();
}

#[test]
fn a_convnext_is_adapted_resumed_and_saved_under_the_names_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    convnext_setting(folder.path(), LibraryNames::Timm);
    let plan = plan_of(folder.path(), "convnext-t", "tune = 'lora'\nlora_rank = 2");
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let mut told = Recorder::default();
    start(&plan, &whole, &mut told).unwrap();
    assert!(told.warnings.iter().any(|said| said.starts_with("head.fc is made anew")), "{:?}", told.warnings);
    // Both layers of all eighteen blocks have an adapter.
    let changed = changed(folder.path(), &whole);
    let is_adapted = |name: &String| name.ends_with(".mlp.fc1.weight") || name.ends_with(".mlp.fc2.weight");
    assert_eq!(changed.iter().filter(|name| is_adapted(name)).count(), 36);
    assert!(changed.iter().all(|name| is_adapted(name) || name.starts_with("head.fc.")), "{changed:?}");
    let mut stop = Recorder { stop_after: Some(1), ..Recorder::default() };
    start(&plan, &parts, &mut stop).unwrap();
    assert_eq!(resume(&parts, &mut Silent).unwrap().updates, 3);
    assert!(model_bytes(&parts) == model_bytes(&whole));
    let description = ModelDescription::read(&whole).unwrap();
    assert_eq!(description.names, Some(LibraryNames::Timm));
    // What was trained is a file like the one that was given: another run begins with it, head and all.
    fs::copy(whole.join("model.safetensors"), folder.path().join("given.safetensors")).unwrap();
    let mut told = Recorder::default();
    let again = folder.path().join("again");
    start(&plan_of(folder.path(), "convnext-t", "tune = 'head'"), &again, &mut told).unwrap();
    assert!(!told.warnings.iter().any(|said| said.contains("made anew")), "{:?}", told.warnings);
    fs::remove_file(folder.path().join("given.safetensors")).unwrap();
    assert_eq!(predicted_of(&again, 32).len(), 4);
}

#[test]
fn each_part_of_a_convnext_changes_no_other() {
    let folder = tempfile::tempdir().unwrap();
    convnext_setting(folder.path(), LibraryNames::Torchvision);
    for (tune, parts) in [
        ("tune = 'head'", &["classifier.2."][..]),
        ("last = 1", &["features.7.2.", "classifier."]),
        ("tune = 'all'", &["features.", "classifier."]),
    ] {
        let run = folder.path().join(tune.replace(['\'', ' ', '='], ""));
        start(&plan_of(folder.path(), "convnext-t", tune), &run, &mut Silent).unwrap();
        let changed = changed(folder.path(), &run);
        for part in parts {
            assert!(changed.iter().any(|name| name.starts_with(part)), "{tune}: nothing of {part}");
        }
        let belongs = |name: &String| parts.iter().any(|part| name.starts_with(part));
        assert!(changed.iter().all(belongs), "{tune}: {changed:?}");
    }
}
