//! From the `[model]` section of a plan to a graph.

mod small;
mod weights;

use dapple_data::TargetKind;
use dapple_graph::zoo::{self, Backbone, Norm, OutputStride, ResNet, Vgg, WideResNet};
use dapple_graph::{Graph, GraphError, Loss};
use dapple_plan::ModelPlan;
use dapple_plan::spec::NormSpec;

use crate::error::TrainError;
pub(crate) use weights::first_weights;

/// Parameters that a model may have: eight gigabytes of them.
const MAX_PARAMETERS: usize = 1 << 31;
/// Groups of a group norm.
const GROUPS: usize = 32;

/// The model of a plan for views of this shape.
pub(crate) fn build(
    plan: &ModelPlan,
    shape: &[usize],
    classes: usize,
    label_smoothing: f64,
) -> Result<Graph, TrainError> {
    let mut graph = architecture(plan, shape, classes)?;
    if label_smoothing != 0.0 {
        graph = graph.with_loss(Loss::CrossEntropy { label_smoothing: label_smoothing as f32 })?;
    }
    if let Some(prefixes) = &plan.trainable {
        // What the architecture freezes stays frozen.
        let trains: Vec<String> =
            graph.parameters().iter().filter(|p| p.trainable).map(|p| p.name.clone()).collect();
        let belongs = |name: &str, prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if let Some(prefix) = prefixes.iter().find(|prefix| !trains.iter().any(|name| belongs(name, prefix)))
        {
            return Err(TrainError::setting(
                "model.trainable",
                format!("no parameter that can train begins with {prefix:?}"),
                format!("parameters are {}", layers(&graph).join(", ")),
            ));
        }
        graph.set_trainable(|name| {
            trains.iter().any(|train| train == name) && prefixes.iter().any(|prefix| belongs(name, prefix))
        });
    }
    let parameters: usize = graph.parameters().iter().map(|p| p.shape.iter().product::<usize>()).sum();
    if parameters > MAX_PARAMETERS {
        return Err(TrainError::setting(
            "model.name",
            format!("{parameters} parameters, more than {MAX_PARAMETERS}"),
            "choose smaller crops, fewer classes or another model",
        ));
    }
    if graph.trainable_len() == 0 {
        return Err(TrainError::setting("model.trainable", "nothing trains", "name at least one layer"));
    }
    Ok(graph)
}

/// Whether a model answers as the data set asks: with one class an image, or with one a pixel.
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

fn architecture(plan: &ModelPlan, shape: &[usize], classes: usize) -> Result<Graph, TrainError> {
    let name = plan.name.as_str();
    let norm = match plan.norm.unwrap_or_default() {
        NormSpec::Group => Norm::Group(GROUPS),
        NormSpec::Frozen => Norm::Frozen,
        NormSpec::Removed => Norm::Removed,
    };
    let fixed = |graph: Result<Graph, GraphError>| match plan.norm {
        None => Ok(graph?),
        Some(_) => {
            Err(TrainError::setting("model.norm", format!("{name} has no choice of norm"), "leave it out"))
        }
    };
    if let Some(backbone) = name.strip_prefix("deeplab-v3-plus-").and_then(backbone) {
        return Ok(zoo::deeplab_v3_plus(backbone, output_stride(plan)?, shape, classes, norm)?);
    }
    if plan.output_stride.is_some() {
        let problem = format!("{name} has no choice of output stride");
        return Err(TrainError::setting("model.output_stride", problem, "leave it out"));
    }
    if let Some(Backbone::ResNet(depth)) = name.strip_prefix("psp-net-").and_then(backbone) {
        return Ok(zoo::psp_net(depth, shape, classes, norm)?);
    }
    match name {
        "linear" => fixed(small::linear(shape, classes)),
        "small-cnn" => fixed(zoo::small_cnn(shape, classes)),
        "small-fcn" => fixed(small::fully_convolutional(shape, classes)),
        "wrn-16-4" => fixed(zoo::wide_resnet(WideResNet::W16x4, shape, classes)),
        "wrn-40-4" => fixed(zoo::wide_resnet(WideResNet::W40x4, shape, classes)),
        "vgg-11" => Ok(zoo::vgg(Vgg::V11, shape, classes, norm)?),
        "vgg-16" => Ok(zoo::vgg(Vgg::V16, shape, classes, norm)?),
        other => match backbone(other) {
            Some(Backbone::ResNet(depth)) => Ok(zoo::resnet(depth, shape, classes, norm)?),
            Some(Backbone::MobileNetV2) => Ok(zoo::mobilenet_v2(shape, classes, norm)?),
            None => Err(TrainError::setting(
                "model.name",
                format!("{other:?} is no model"),
                format!("models are {}", ModelPlan::names()),
            )),
        },
    }
}

/// A classifier, or what a segmentation model stands on.
fn backbone(name: &str) -> Option<Backbone> {
    Some(match name {
        "resnet-18" => Backbone::ResNet(ResNet::R18),
        "resnet-34" => Backbone::ResNet(ResNet::R34),
        "resnet-50" => Backbone::ResNet(ResNet::R50),
        "resnet-101" => Backbone::ResNet(ResNet::R101),
        "mobilenet-v2" => Backbone::MobileNetV2,
        _ => return None,
    })
}

fn output_stride(plan: &ModelPlan) -> Result<OutputStride, TrainError> {
    match plan.output_stride {
        Some(8) => Ok(OutputStride::Eight),
        Some(16) | None => Ok(OutputStride::Sixteen),
        Some(other) => {
            let problem = format!("features cannot lie {other} pixels apart");
            Err(TrainError::setting("model.output_stride", problem, "give 8 or 16"))
        }
    }
}

/// Names of the layers that train, in order.
fn layers(graph: &Graph) -> Vec<String> {
    let mut names: Vec<String> = graph
        .parameters()
        .iter()
        .filter(|parameter| parameter.trainable)
        .filter_map(|parameter| Some(parameter.name.rsplit_once('.')?.0.to_owned()))
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use dapple_plan::spec::{ModelSpec, keys};

    use super::*;

    fn named(name: &str) -> ModelPlan {
        let spec = ModelSpec { name: Some(name.to_owned()), ..ModelSpec::default() };
        ModelPlan::check(&spec).unwrap()
    }

    #[test]
    fn every_name_is_a_model() {
        for name in keys::find("model.name").unwrap().choices {
            assert!(build(&named(name), &[3, 64, 64], 10, 0.0).is_ok(), "{name}");
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
            trainable: Some(prefixes.iter().map(|&prefix| prefix.to_owned()).collect()),
            ..named("small-cnn")
        };
        let graph = build(&some(&["fc2", "conv1.bias"]), &[1, 28, 28], 10, 0.0).unwrap();
        assert_eq!(graph.trainable_len(), 32 * 10 + 10 + 16);
        // A prefix is a whole name or a whole part of one.
        let error = build(&some(&["fc"]), &[1, 28, 28], 10, 0.0).unwrap_err();
        assert!(error.to_string().contains("\"fc\"") && error.hint().unwrap().contains("fc1"), "{error}");
    }
}
