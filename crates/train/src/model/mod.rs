//! From the `[model]` section of a plan to a graph and its first weights.

use std::path::Path;

use dapple_graph::zoo::{self, Norm, ResNet, Vgg, WideResNet};
use dapple_graph::{Graph, GraphBuilder, GraphError, Init, Loss, Op, Parameters, weights};
use dapple_plan::spec::{ModelSpec, NormSpec, keys};

use crate::error::TrainError;

/// Groups of a group norm.
const GROUPS: usize = 32;

/// The model of a plan for views of this shape.
pub(crate) fn build(
    spec: &ModelSpec,
    shape: &[usize],
    classes: usize,
    label_smoothing: f64,
) -> Result<Graph, TrainError> {
    let mut graph = architecture(spec, shape, classes)?;
    if label_smoothing != 0.0 {
        graph = graph.with_loss(Loss::CrossEntropy { label_smoothing: label_smoothing as f32 })?;
    }
    if let Some(prefixes) = &spec.trainable {
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
    if graph.trainable_len() == 0 {
        return Err(TrainError::setting("model.trainable", "nothing trains", "name at least one layer"));
    }
    Ok(graph)
}

fn architecture(spec: &ModelSpec, shape: &[usize], classes: usize) -> Result<Graph, TrainError> {
    let choices = keys::find("model.name").map_or(&[][..], |key| key.choices).join(", ");
    let unknown =
        |problem: String| TrainError::setting("model.name", problem, format!("models are {choices}"));
    let name = spec.name.as_deref().ok_or_else(|| unknown("it is missing".to_owned()))?;
    let norm = match spec.norm.unwrap_or_default() {
        NormSpec::Group => Norm::Group(GROUPS),
        NormSpec::Frozen => Norm::Frozen,
        NormSpec::Removed => Norm::Removed,
    };
    let fixed = |graph: Result<Graph, GraphError>| match spec.norm {
        None => Ok(graph?),
        Some(_) => {
            Err(TrainError::setting("model.norm", format!("{name} has no choice of norm"), "leave it out"))
        }
    };
    match name {
        "linear" => fixed(linear(shape, classes)),
        "small-cnn" => fixed(zoo::small_cnn(shape, classes)),
        "wrn-16-4" => fixed(zoo::wide_resnet(WideResNet::W16x4, shape, classes)),
        "wrn-40-4" => fixed(zoo::wide_resnet(WideResNet::W40x4, shape, classes)),
        "resnet-18" => Ok(zoo::resnet(ResNet::R18, shape, classes, norm)?),
        "resnet-34" => Ok(zoo::resnet(ResNet::R34, shape, classes, norm)?),
        "resnet-50" => Ok(zoo::resnet(ResNet::R50, shape, classes, norm)?),
        "resnet-101" => Ok(zoo::resnet(ResNet::R101, shape, classes, norm)?),
        "vgg-11" => Ok(zoo::vgg(Vgg::V11, shape, classes, norm)?),
        "vgg-16" => Ok(zoo::vgg(Vgg::V16, shape, classes, norm)?),
        other => Err(unknown(format!("{other:?} is no model"))),
    }
}

/// Softmax regression: one linear layer on all pixels, from zero. Its loss is convex.
fn linear(shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(shape);
    let pixels = builder.add("flatten", Op::Reshape(vec![shape.iter().product()]), &[builder.input()])?;
    let output = builder.linear("fc", pixels, classes, Init::Constant(0.0), Init::Constant(0.0))?;
    builder.finish(output, Loss::CrossEntropy { label_smoothing: 0.0 })
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

/// The first weights: from the plan's file, or by its seed. A file for another number of classes gives all but the last layer, which
/// the seed fills.
pub(crate) fn first_weights(spec: &ModelSpec, graph: &Graph, base: &Path) -> Result<Parameters, TrainError> {
    let fresh = Parameters::init(graph, spec.seed.unwrap_or(0));
    let Some(path) = &spec.weights else { return Ok(fresh) };
    let path = base.join(path);
    match weights::load(graph, &path) {
        Ok(parameters) if parameters.values().iter().all(|value| value.is_finite()) => Ok(parameters),
        Ok(_) => Err(TrainError::setting(
            "model.weights",
            format!("{}: a weight is not finite", path.display()),
            "give a file of a model that works",
        )),
        Err(GraphError::Weights(mismatch)) => match other_head(&mismatch, graph) {
            Some(classes) => all_but_head(spec, graph, &path, classes, fresh),
            None => Err(GraphError::Weights(mismatch).into()),
        },
        Err(GraphError::Format(problem)) => {
            Err(GraphError::Format(format!("{}: {problem}", path.display())).into())
        }
        Err(other) => Err(other.into()),
    }
}

/// The number of classes of a file whose last layer alone does not fit.
fn other_head(mismatch: &weights::Mismatch, graph: &Graph) -> Option<usize> {
    let head = head(graph)?;
    let others = mismatch.missing.len() + mismatch.unexpected.len() + mismatch.wrong_type.len();
    let (_, _, shape) = mismatch.wrong_shape.first()?;
    let in_head = mismatch.wrong_shape.iter().all(|(name, ..)| name.starts_with(&head));
    if others == 0 && in_head { shape.first().copied() } else { None }
}

/// What the names of the last layer's parameters begin with.
fn head(graph: &Graph) -> Option<String> {
    let last = graph.parameters().last()?;
    Some(format!("{}.", last.name.rsplit_once('.')?.0))
}

fn all_but_head(
    spec: &ModelSpec,
    graph: &Graph,
    path: &Path,
    classes: usize,
    mut fresh: Parameters,
) -> Result<Parameters, TrainError> {
    let other = architecture(spec, graph.input_shape(), classes)?;
    let stored = weights::load(&other, path)?;
    let head = head(graph).unwrap_or_default();
    for parameter in graph.parameters().iter().filter(|parameter| !parameter.name.starts_with(&head)) {
        if let (Some(to), Some(from)) =
            (graph.find_parameter(&parameter.name), other.find_parameter(&parameter.name))
        {
            fresh.get_mut(to).copy_from_slice(stored.get(from));
        }
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> ModelSpec {
        ModelSpec { name: Some(name.to_owned()), ..ModelSpec::default() }
    }

    #[test]
    fn every_name_is_a_model() {
        for name in keys::find("model.name").unwrap().choices {
            assert!(build(&spec(name), &[3, 64, 64], 10, 0.0).is_ok(), "{name}");
        }
        let error = build(&spec("resnet-19"), &[3, 64, 64], 10, 0.0).unwrap_err();
        assert!(error.hint().unwrap().contains("resnet-18"));
    }

    #[test]
    fn prefixes_choose_what_trains() {
        let some = |prefixes: &[&str]| ModelSpec {
            trainable: Some(prefixes.iter().map(|&prefix| prefix.to_owned()).collect()),
            ..spec("small-cnn")
        };
        let graph = build(&some(&["fc2", "conv1.bias"]), &[1, 28, 28], 10, 0.0).unwrap();
        assert_eq!(graph.trainable_len(), 32 * 10 + 10 + 16);
        // A prefix is a whole name or a whole part of one.
        let error = build(&some(&["fc"]), &[1, 28, 28], 10, 0.0).unwrap_err();
        assert!(error.to_string().contains("\"fc\"") && error.hint().unwrap().contains("fc1"), "{error}");
    }

    #[test]
    fn a_file_for_other_classes_gives_all_but_the_head() {
        let folder = tempfile::tempdir().unwrap();
        let stored_graph = build(&spec("small-cnn"), &[1, 28, 28], 7, 0.0).unwrap();
        let stored = Parameters::init(&stored_graph, 5);
        weights::save(&stored_graph, &stored, &folder.path().join("w.safetensors")).unwrap();
        let graph = build(&spec("small-cnn"), &[1, 28, 28], 10, 0.0).unwrap();
        let spec = ModelSpec { weights: Some("w.safetensors".into()), ..spec("small-cnn") };
        let loaded = first_weights(&spec, &graph, folder.path()).unwrap();
        let get = |parameters: &Parameters, graph: &Graph, name| {
            parameters.get(graph.find_parameter(name).unwrap()).to_vec()
        };
        assert_eq!(get(&loaded, &graph, "fc1.weight"), get(&stored, &stored_graph, "fc1.weight"));
        assert_eq!(
            get(&loaded, &graph, "fc2.weight"),
            get(&Parameters::init(&graph, 0), &graph, "fc2.weight")
        );
        std::fs::write(folder.path().join("w.safetensors"), b"rubbish").unwrap();
        let error = first_weights(&spec, &graph, folder.path()).unwrap_err();
        assert!(error.to_string().contains("w.safetensors"), "{error}");
    }
}
