//! The first weights of a model.

use std::path::Path;

use dapple_graph::weights::{self, Fitted};
use dapple_graph::{Graph, GraphError, Parameters};
use dapple_plan::{ModelPlan, WeightSource};

use crate::error::TrainError;

/// The first weights of a model, and what a user should know about them.
#[derive(Debug)]
pub(crate) struct FirstParameters {
    pub(crate) parameters: Parameters,
    pub(crate) notes: Vec<String>,
}

/// The first weights, from the plan's file or by its seed. A file for another number of classes, or without any, gives everything but the
/// last layers, which the seed fills. The file of a classifier gives only the backbone.
pub(crate) fn first_weights(
    plan: &ModelPlan,
    graph: &Graph,
    base: &Path,
) -> Result<FirstParameters, TrainError> {
    let fresh = Parameters::init(graph, plan.seed);
    let (key, path, loaded) = match &plan.first_weights {
        WeightSource::Seed => return Ok(FirstParameters { parameters: fresh, notes: Vec::new() }),
        WeightSource::File(path) => {
            let path = base.join(path);
            let loaded = weights::load_fitting(graph, &path, fresh).map_err(TrainError::from);
            ("model.weights", path, loaded)
        }
        WeightSource::Backbone(path) => {
            let path = base.join(path);
            let loaded = backbone(plan, graph, &path, fresh);
            ("model.backbone_weights", path, loaded)
        }
    };
    match loaded {
        Ok(Fitted { parameters, fresh }) if parameters.values().iter().all(|value| value.is_finite()) => {
            let notes = fresh.iter().map(|head| {
                format!(
                    "{head} is made anew: {} has none for {} classes",
                    path.display(),
                    graph.output_shape()[0]
                )
            });
            Ok(FirstParameters { notes: notes.collect(), parameters })
        }
        Ok(_) => Err(TrainError::setting(
            key,
            format!("{}: a weight is not finite", path.display()),
            "give a file of a model that works",
        )),
        Err(TrainError::Model(GraphError::Format(problem))) => {
            Err(GraphError::Format(format!("{}: {problem}", path.display())).into())
        }
        Err(other) => Err(other),
    }
}

/// Loads the backbone from the file of a classifier. The plan asked for a new rest, so no note is needed.
fn backbone(
    plan: &ModelPlan,
    graph: &Graph,
    path: &Path,
    mut parameters: Parameters,
) -> Result<Fitted, TrainError> {
    match weights::load_backbone(graph, path, &mut parameters) {
        Ok(_unused) => Ok(Fitted { parameters, fresh: Vec::new() }),
        Err(GraphError::Unknown(_)) => Err(TrainError::setting(
            "model.backbone_weights",
            format!("{} stands on no backbone", plan.name),
            "give model.weights instead",
        )),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use dapple_graph::zoo::{
        self, ConvNext, ConvNextSize, LibraryNames, TokenPooling, VisionTransformer, VitSize,
    };
    use dapple_plan::spec::ModelSpec;

    use super::*;
    use crate::model::Blueprint;

    fn build(plan: &ModelPlan, shape: &[usize], classes: usize) -> Result<Graph, TrainError> {
        Blueprint::unread(plan).build(shape, classes, 0.0)
    }

    fn named(name: &str) -> ModelPlan {
        let spec = ModelSpec { name: Some(name.to_owned()), ..ModelSpec::default() };
        ModelPlan::check(&spec).unwrap()
    }

    fn from_file(plan: ModelPlan) -> ModelPlan {
        ModelPlan { first_weights: WeightSource::File("w.safetensors".into()), ..plan }
    }

    fn get(parameters: &Parameters, graph: &Graph, name: &str) -> Vec<f32> {
        parameters.get(graph.find_parameter(name).unwrap()).to_vec()
    }

    #[test]
    fn a_file_for_other_classes_gives_all_but_the_head() {
        let folder = tempfile::tempdir().unwrap();
        let stored_graph = build(&named("small-cnn"), &[1, 28, 28], 7).unwrap();
        let stored = Parameters::init(&stored_graph, 5);
        weights::save(&stored_graph, &stored, &folder.path().join("w.safetensors")).unwrap();
        let graph = build(&named("small-cnn"), &[1, 28, 28], 10).unwrap();
        let plan = from_file(named("small-cnn"));
        let loaded = first_weights(&plan, &graph, folder.path()).unwrap().parameters;
        assert_eq!(get(&loaded, &graph, "fc1.weight"), get(&stored, &stored_graph, "fc1.weight"));
        assert_eq!(
            get(&loaded, &graph, "fc2.weight"),
            get(&Parameters::init(&graph, 0), &graph, "fc2.weight")
        );
        std::fs::write(folder.path().join("w.safetensors"), b"rubbish").unwrap();
        let error = first_weights(&plan, &graph, folder.path()).unwrap_err();
        assert!(error.to_string().contains("w.safetensors"), "{error}");
    }

    #[test]
    fn a_transformer_takes_the_names_of_its_file_and_says_which_head_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let (size, pooling) = (VitSize::Tiny, TokenPooling::ClassToken);
        let plan = from_file(named("vit-ti-16"));
        for (names, head) in [
            (LibraryNames::Timm, "head"),
            (LibraryNames::Torchvision, "heads.head"),
            (LibraryNames::OpenClip { projection: 8 }, "head"),
        ] {
            let model = VisionTransformer { size, patch: 16, pooling, names };
            let stored = zoo::vision_transformer(model, &[3, 48, 48], 7).unwrap();
            weights::save(&stored, &Parameters::init(&stored, 5), &path).unwrap();
            let blueprint = Blueprint::read(&plan, folder.path()).unwrap();
            let notes = |classes| {
                let graph = blueprint.build(&[3, 32, 32], classes, 0.0).unwrap();
                first_weights(&plan, &graph, folder.path()).unwrap().notes
            };
            assert_eq!(notes(7), Vec::<String>::new());
            let expected = format!("{head} is made anew: {} has none for 5 classes", path.display());
            assert_eq!(notes(5), [expected]);
        }
        std::fs::write(&path, b"rubbish").unwrap();
        let error = Blueprint::read(&plan, folder.path()).unwrap_err();
        assert!(error.to_string().contains("w.safetensors") && error.hint().is_some(), "{error}");
    }

    #[test]
    fn a_convnext_takes_the_names_of_its_file_and_refuses_that_of_another_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let save = |graph: &Graph| weights::save(graph, &Parameters::zeros(graph), &path).unwrap();
        let plan = from_file(named("convnext-t"));
        let read = || {
            let graph = Blueprint::read(&plan, folder.path())?.build(&[3, 32, 32], 5, 0.0)?;
            first_weights(&plan, &graph, folder.path())
        };
        for (names, head) in [(LibraryNames::Timm, "head.fc"), (LibraryNames::Torchvision, "classifier.2")] {
            let model = ConvNext { size: ConvNextSize::Tiny, names };
            save(&zoo::convnext(model, &[3, 64, 64], 7).unwrap());
            let expected = format!("{head} is made anew: {} has none for 5 classes", path.display());
            assert_eq!(read().unwrap().notes, [expected]);
            // Another size has more blocks.
            let model = ConvNext { size: ConvNextSize::Small, names };
            save(&zoo::convnext(model, &[3, 32, 32], 5).unwrap());
            let error = read().unwrap_err();
            assert!(matches!(error, TrainError::Model(GraphError::Weights(_))), "{error}");
        }
        for (names, said) in [
            (LibraryNames::Timm, "the weights do not match the model: missing: "),
            (LibraryNames::Torchvision, "the weights do not match the model: missing: "),
            (LibraryNames::OpenClip { projection: 8 }, "OpenCLIP has no ConvNeXt"),
        ] {
            let model = VisionTransformer { names, ..VisionTransformer::named("vit-ti-16").unwrap() };
            save(&zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap());
            let error = read().unwrap_err();
            assert!(error.to_string().starts_with(said) && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn a_file_cannot_claim_more_classes_than_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let graph = build(&named("small-cnn"), &[1, 28, 28], 10).unwrap();
        let path = folder.path().join("w.safetensors");
        weights::save(&graph, &Parameters::init(&graph, 5), &path).unwrap();
        // The last bias gets a shape without values whose first side is huge.
        let bytes = std::fs::read(&path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let weight = &mut header["fc2.weight"];
        let (begin, end) =
            (weight["data_offsets"][0].as_u64().unwrap(), weight["data_offsets"][1].as_u64().unwrap());
        let bias = &header["fc2.bias"]["data_offsets"];
        let order = (bias[0].as_u64().unwrap(), bias[1].as_u64().unwrap());
        let at = order.0.min(begin).min(end);
        header["fc2.bias"] =
            serde_json::json!({"dtype": "F32", "shape": [1u64 << 40, 0], "data_offsets": [at, at]});
        let text = header.to_string();
        let kept = &bytes[8 + length..];
        let kept = [&kept[..order.0 as usize], &kept[order.1 as usize..]].concat();
        let shifted = |value: u64| if value >= order.1 { value - (order.1 - order.0) } else { value };
        let mut header: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (name, entry) in header.as_object_mut().unwrap() {
            if name != "fc2.bias" && name != "__metadata__" {
                for side in 0..2 {
                    let value = entry["data_offsets"][side].as_u64().unwrap();
                    entry["data_offsets"][side] = shifted(value).into();
                }
            }
        }
        let text = header.to_string();
        let file = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &kept].concat();
        std::fs::write(&path, file).unwrap();
        let plan = from_file(named("small-cnn"));
        let error = first_weights(&plan, &graph, folder.path()).unwrap_err();
        assert!(matches!(error, TrainError::Model(GraphError::Weights(_))), "{error}");
    }

    #[test]
    fn both_heads_of_a_segmentation_model_are_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let plain = named("psp-net-resnet-18");
        let stored_graph = build(&plain, &[3, 32, 32], 7).unwrap();
        let stored = Parameters::init(&stored_graph, 5);
        weights::save(&stored_graph, &stored, &folder.path().join("w.safetensors")).unwrap();
        let graph = build(&plain, &[3, 40, 48], 4).unwrap();
        let plan = from_file(plain);
        let loaded = first_weights(&plan, &graph, folder.path()).unwrap().parameters;
        let fresh = Parameters::init(&graph, 0);
        for parameter in graph.parameters() {
            let expected = match parameter.name.contains("conv_seg") {
                true => get(&fresh, &graph, &parameter.name),
                false => get(&stored, &stored_graph, &parameter.name),
            };
            assert_eq!(get(&loaded, &graph, &parameter.name), expected, "{}", parameter.name);
        }
    }

    #[test]
    fn a_classifier_gives_the_backbone() {
        let folder = tempfile::tempdir().unwrap();
        let classifier = build(&named("resnet-18"), &[3, 32, 32], 1000).unwrap();
        let stored = Parameters::init(&classifier, 5);
        weights::save(&classifier, &stored, &folder.path().join("resnet18.safetensors")).unwrap();
        let with = |name: &str, path: &str| ModelPlan {
            first_weights: WeightSource::Backbone(path.to_owned()),
            ..named(name)
        };
        let model = with("deeplab-v3-plus-resnet-18", "resnet18.safetensors");
        let graph = build(&model, &[3, 32, 32], 5).unwrap();
        let loaded = first_weights(&model, &graph, folder.path()).unwrap().parameters;
        let name = "layer4.1.conv2.weight";
        assert_eq!(get(&loaded, &graph, &format!("backbone.{name}")), get(&stored, &classifier, name));
        let fresh = Parameters::init(&graph, 0);
        let head = "classifier.classifier.3.weight";
        assert_eq!(get(&loaded, &graph, head), get(&fresh, &graph, head));
        let wrong = with("small-fcn", "resnet18.safetensors");
        let graph = build(&wrong, &[3, 32, 32], 5).unwrap();
        let error = first_weights(&wrong, &graph, folder.path()).unwrap_err();
        assert!(error.to_string().contains("stands on no backbone") && error.hint().is_some(), "{error}");
        let both = ModelSpec {
            name: Some("small-fcn".into()),
            weights: Some("w".into()),
            backbone_weights: Some("b".into()),
            ..ModelSpec::default()
        };
        let error = ModelPlan::check(&both).unwrap_err();
        assert!(error.to_string().contains("has a file already") && error.hint().is_some(), "{error}");
    }
}
