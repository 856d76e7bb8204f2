//! Compares vision transformers and ConvNeXt with timm, torchvision and OpenCLIP. `goldens/transformers.py` made the figures.

use dapple_graph::Graph;
use dapple_graph::zoo::{
    ConvNext, ConvNextDialect, TokenPooling, VisionTransformer, VitDialect, convnext, vision_transformer,
};
use serde_json::Value;

use crate::common::{Data, names, parameters};
use crate::goldens::{equals, first};
use crate::subject::Subject;

const CLASSES: usize = 10;

/// The model with the name that its figures have, which is made of the library, the model and the side of the image.
fn named(name: &str) -> Graph {
    let [library, model, side] = name.split('/').collect::<Vec<_>>()[..] else { panic!("{name}") };
    let side = side.parse().unwrap();
    if let Some(model) = ConvNext::named(model) {
        let dialect = match library {
            "timm" => ConvNextDialect::Timm,
            "torchvision" => ConvNextDialect::Torchvision,
            other => panic!("{other}"),
        };
        return convnext(ConvNext { dialect, ..model }, &[3, side, side], CLASSES).unwrap();
    }
    let (model, pooling) = match model.strip_suffix("-mean") {
        Some(model) => (model, TokenPooling::Mean),
        None => (model, TokenPooling::ClassToken),
    };
    let dialect = match library {
        "timm" => VitDialect::Timm,
        "torchvision" => VitDialect::Torchvision,
        "open-clip" => VitDialect::OpenClip { projection: 512 },
        other => panic!("{other}"),
    };
    let model = VisionTransformer { pooling, dialect, ..VisionTransformer::named(model).unwrap() };
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
    name.contains("vit-ti-") || name.contains("convnext-t/")
}

fn is_large(name: &str) -> bool {
    name.contains("vit-l-") || name.contains("convnext-l/")
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
