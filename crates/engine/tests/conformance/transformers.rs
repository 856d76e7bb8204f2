//! Compares vision transformers, ConvNeXt, MViTv2 and a hybrid with timm, torchvision and OpenCLIP. `goldens/transformers.py` made the
//! figures.

use dapple_graph::Graph;
use dapple_graph::zoo::{
    ConvNext, LibraryNames, MvitSize, TokenPooling, VisionTransformer, convnext, mvit_v2, small_hybrid,
    vision_transformer,
};
use serde_json::Value;

use crate::common::{Data, names, parameters};
use crate::goldens::{equals, first};
use crate::subject::Subject;

const CLASSES: usize = 10;

/// The model that its figures' name stands for. The name holds the library, the model, and the side of the image, or the frames, height and
/// width of the clip.
fn named(name: &str) -> Graph {
    let [library, model, size] = name.split('/').collect::<Vec<_>>()[..] else { panic!("{name}") };
    let sizes: Vec<usize> = size.split('x').map(|size| size.parse().unwrap()).collect();
    if let Some(size) = MvitSize::named(model) {
        return mvit_v2(size, &[&[3], &sizes[..]].concat(), CLASSES).unwrap();
    }
    let [side] = sizes[..] else { panic!("{name}") };
    if (library, model) == ("dapple", "small-hybrid") {
        return small_hybrid(&[3, side, side], CLASSES).unwrap();
    }
    let names = match library {
        "timm" => LibraryNames::Timm,
        "torchvision" => LibraryNames::Torchvision,
        "open-clip" => LibraryNames::OpenClip { projection: 512 },
        other => panic!("{other}"),
    };
    if let Some(model) = ConvNext::named(model) {
        return convnext(ConvNext { names, ..model }, &[3, side, side], CLASSES).unwrap();
    }
    let (model, pooling) = match model.strip_suffix("-mean") {
        Some(model) => (model, TokenPooling::Mean),
        None => (model, TokenPooling::ClassToken),
    };
    let model = VisionTransformer { pooling, names, ..VisionTransformer::named(model).unwrap() };
    vision_transformer(model, &[3, side, side], CLASSES).unwrap()
}

/// Asserts that names, outputs, losses and gradients of the chosen models are equal.
fn equal(subjects: &[Subject], chosen: impl Fn(&str) -> bool) {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/transformers.json")).unwrap();
    for (name, golden) in goldens.as_object().unwrap().iter().filter(|(name, _)| chosen(name)) {
        let graph = named(name);
        let want = (golden["parameters"].as_u64().unwrap(), golden["checksum"].as_str().unwrap().to_owned());
        assert_eq!(names(&graph), want, "names or shapes of {name}");
        let (values, data) = (parameters(&graph), Data::new(&graph, 1, 1));
        for subject in subjects {
            let title = format!("{name}, {subject:?}");
            // Both sides compute in double precision, of which nine digits are stored; other subjects round to single precision in up to 24
            // blocks.
            let share = if matches!(subject, Subject::Reference) { 1e-8 } else { 1e-4 };
            let outputs = subject.planned_for(1).open(&graph).forward(&values, &data.inputs);
            let wanted: Vec<f64> =
                golden["output"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
            let scale = wanted.iter().fold(0.0f64, |max, value| max.max(value.abs()));
            assert_eq!(outputs.len(), wanted.len(), "{title}");
            for (got, want) in outputs.iter().zip(&wanted) {
                assert!((got - want).abs() <= share * scale, "{title}: {got}, not {want}");
            }
            equals(&title, golden, &graph, &first(*subject, &graph, &data), share);
        }
    }
}

fn is_small(name: &str) -> bool {
    let small = ["/vit-ti-", "/small-hybrid/", "/convnext-t/", "/mvit-v2-s/"];
    small.iter().any(|model| name.contains(model))
}

fn is_large(name: &str) -> bool {
    name.contains("/vit-l-") || name.contains("/convnext-l/")
}

pub(crate) fn small_transformers_equal_their_libraries(subjects: &[Subject]) {
    equal(subjects, is_small);
}

pub(crate) fn transformers_equal_their_libraries(subjects: &[Subject]) {
    equal(subjects, |name| !is_small(name) && !is_large(name));
}

/// These have up to three hundred million weights, which take longer to make up than to use.
pub(crate) fn large_transformers_equal_their_libraries_at_one_size(subjects: &[Subject]) {
    equal(subjects, |name| is_large(name) && name.ends_with("/32"));
}

#[cfg(feature = "cuda")]
pub(crate) fn large_transformers_equal_their_libraries(subjects: &[Subject]) {
    equal(subjects, is_large);
}
