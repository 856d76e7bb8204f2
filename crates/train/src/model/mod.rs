//! Builds a graph from the `[model]` section of a plan.

mod architecture;
mod blueprint;
mod catalogue;
mod small;
mod trained;
mod weights;

use dapple_data::TargetKind;
use dapple_graph::Graph;
use dapple_plan::ModelPlan;

use crate::error::TrainError;
pub(crate) use architecture::{EVEN_DROPOUT_MODELS, ModelTokens};
pub(crate) use blueprint::Blueprint;
pub(crate) use catalogue::usual;
pub use catalogue::{ModelFacts, models};
pub(crate) use weights::{FirstParameters, first_weights};

/// Checks that a model answers as the data set asks: with one class for each image, or with one for each pixel.
pub(crate) fn check_answers(plan: &ModelPlan, graph: &Graph, asked: TargetKind) -> Result<(), TrainError> {
    let answers = match graph.output_shape() {
        [_] => TargetKind::Class,
        _ => TargetKind::LabelMap,
    };
    if answers == asked {
        return Ok(());
    }
    let name = &plan.name;
    let (problem, hint) = match asked {
        TargetKind::LabelMap => (
            format!("{name} gives one class an image, but the data set has one a pixel"),
            "choose small-fcn, a deeplab-v3-plus or a psp-net",
        ),
        TargetKind::Class => (
            format!("{name} gives a class a pixel, but the data set has one an image"),
            "choose a classifier such as resnet-18, or data with label maps",
        ),
    };
    Err(TrainError::setting("model.name", problem, hint))
}

#[cfg(test)]
mod tests {
    use dapple_plan::TrainedPart;
    use dapple_plan::spec::{ModelSpec, keys};

    use super::*;

    fn named(name: &str) -> ModelPlan {
        let spec = ModelSpec { name: Some(name.to_owned()), ..ModelSpec::default() };
        ModelPlan::check(&spec).unwrap()
    }

    fn build(
        plan: &ModelPlan,
        shape: &[usize],
        classes: usize,
        label_smoothing: f64,
    ) -> Result<Graph, TrainError> {
        Blueprint::unread(plan).build(shape, classes, label_smoothing)
    }

    #[test]
    fn every_name_is_a_model() {
        for name in keys::find("model.name").unwrap().choices {
            let of_clips = name.starts_with("mvit-") || ["small-clip", "mc3-18"].contains(name);
            let input: &[usize] = if of_clips { &[3, 2, 64, 64] } else { &[3, 64, 64] };
            assert!(build(&named(name), input, 10, 0.0).is_ok(), "{name}");
        }
        let error = build(&named("resnet-19"), &[3, 64, 64], 10, 0.0).unwrap_err();
        assert!(error.hint().unwrap().contains("resnet-18"));
    }

    #[test]
    fn a_model_larger_than_memory_is_refused_before_it_is_made() {
        let error = build(&named("linear"), &[3, 10_000, 10_000], 1000, 0.0).unwrap_err();
        assert!(error.to_string().contains("300000001000 parameters"), "{error}");
    }

    #[test]
    fn models_answer_as_the_data_asks() {
        let answers = |name: &str, asked| {
            let graph = build(&named(name), &[3, 64, 64], 5, 0.0).unwrap();
            check_answers(&named(name), &graph, asked)
        };
        for (name, own, other) in [
            ("resnet-18", TargetKind::Class, TargetKind::LabelMap),
            ("small-fcn", TargetKind::LabelMap, TargetKind::Class),
            ("psp-net-resnet-18", TargetKind::LabelMap, TargetKind::Class),
        ] {
            answers(name, own).unwrap();
            let error = answers(name, other).unwrap_err();
            assert!(error.to_string().contains(name) && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn strides_are_those_that_the_model_has() {
        let strided = |name: &str, stride| ModelPlan { output_stride: Some(stride), ..named(name) };
        let build = |plan: &ModelPlan| build(plan, &[3, 40, 40], 5, 0.0);
        for stride in [8, 16] {
            build(&strided("deeplab-v3-plus-resnet-18", stride)).unwrap();
        }
        for (name, stride) in [("deeplab-v3-plus-resnet-18", 4), ("resnet-18", 16), ("psp-net-resnet-18", 8)]
        {
            let error = build(&strided(name, stride)).unwrap_err();
            assert!(error.to_string().starts_with("model.output_stride"), "{error}");
        }
    }

    #[test]
    fn prefixes_choose_what_trains() {
        let some = |prefixes: &[&str]| ModelPlan {
            trained: TrainedPart::Named(prefixes.iter().map(|&prefix| prefix.to_owned()).collect()),
            ..named("small-cnn")
        };
        let graph = build(&some(&["fc2", "conv1.bias"]), &[1, 28, 28], 10, 0.0).unwrap();
        assert_eq!(graph.trainable_len(), 32 * 10 + 10 + 16);
        // A prefix must be a whole name or end where a part of a name ends.
        let error = build(&some(&["fc"]), &[1, 28, 28], 10, 0.0).unwrap_err();
        assert!(error.to_string().contains("\"fc\"") && error.hint().unwrap().contains("fc1"), "{error}");
    }
}
