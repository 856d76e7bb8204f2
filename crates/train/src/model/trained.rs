//! Which parameters of a graph train.

use dapple_graph::tune::{Lora, Tuning};
use dapple_graph::{Graph, GraphError};
use dapple_plan::{AdapterPlan, TrainedPart};

use crate::error::TrainError;

/// The same model, in which only the part that the plan names trains.
pub(super) fn tuned(graph: Graph, part: &TrainedPart) -> Result<Graph, TrainError> {
    let tuning = match part {
        TrainedPart::All => Tuning::All,
        TrainedPart::Head => Tuning::Head,
        TrainedPart::Norms => Tuning::Norms,
        TrainedPart::Bias => Tuning::Bias,
        TrainedPart::Last(blocks) => Tuning::Last(*blocks as usize),
        TrainedPart::Adapters(AdapterPlan { rank, alpha, targets }) => {
            let (rank, alpha, targets) = (*rank as usize, *alpha as f32, targets.clone());
            Tuning::Lora(Lora { rank, alpha, targets })
        }
        TrainedPart::Named(prefixes) => return named(graph, prefixes),
    };
    let adaptable = graph.adaptable().into_iter().map(|id| graph.node(id).name.clone());
    let adaptable: Vec<String> = adaptable.collect();
    graph.tuned(&tuning).map_err(|error| match (error, part) {
        (GraphError::Tuning(problem), TrainedPart::Last(_)) => {
            TrainError::setting("model.last", problem, "give fewer, or name what trains by model.trainable")
        }
        (GraphError::Tuning(problem), _) if adaptable.is_empty() => TrainError::setting(
            "model.tune",
            problem,
            "choose a vision transformer or a convnext, or another part to train",
        ),
        (GraphError::Tuning(problem), _) => TrainError::setting(
            "model.lora_targets",
            problem,
            format!("layers that can have an adapter are {}", adaptable.join(", ")),
        ),
        (other, _) => other.into(),
    })
}

/// The same model, in which only parameters with these prefixes train. What the architecture freezes stays frozen.
fn named(mut graph: Graph, prefixes: &[String]) -> Result<Graph, TrainError> {
    let trains: Vec<String> =
        graph.parameters().iter().filter(|p| p.trainable).map(|p| p.name.clone()).collect();
    let belongs = |name: &str, prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(prefix) = prefixes.iter().find(|prefix| !trains.iter().any(|name| belongs(name, prefix))) {
        return Err(TrainError::setting(
            "model.trainable",
            format!("no parameter that can train begins with {prefix:?}"),
            format!("parameters are {}", layers(&graph).join(", ")),
        ));
    }
    graph.set_trainable(|name| {
        trains.iter().any(|train| train == name) && prefixes.iter().any(|prefix| belongs(name, prefix))
    });
    Ok(graph)
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
    use dapple_plan::{ModelPlan, PlanSpec};

    use super::super::Blueprint;
    use super::*;

    fn build(section: &str) -> Result<Graph, TrainError> {
        let spec = PlanSpec::from_toml(&format!("[model]\n{section}\n")).unwrap();
        Blueprint::unread(&ModelPlan::check(&spec.model).unwrap()).build(&[3, 32, 32], 5, 0.0)
    }

    #[test]
    fn every_part_of_a_transformer_trains_alone() {
        let trained = |tune: &str| build(&format!("name = 'vit-ti-16'\n{tune}")).unwrap().trainable_len();
        let (head, norm) = (192 * 5 + 5, 2 * 192);
        assert_eq!(trained("tune = 'head'"), head);
        assert_eq!(trained("tune = 'norms'"), head + 25 * norm);
        let block = 2 * norm + 192 * 576 + 576 + 192 * 192 + 192 + 2 * 4 * 192 * 192 + 4 * 192 + 192;
        assert_eq!(trained("last = 2"), head + norm + 2 * block);
        let adapters = 12 * 4 * (192 + 576);
        assert_eq!(trained("tune = 'lora'\nlora_rank = 4\nlora_targets = ['attn.qkv']"), head + adapters);
        assert_eq!(trained("tune = 'all'"), trained(""));
        assert!(trained("tune = 'bias'") < trained("last = 1"));
    }

    #[test]
    fn every_part_of_a_convnext_trains_alone() {
        let trained = |tune: &str| build(&format!("name = 'convnext-t'\n{tune}")).unwrap().trainable_len();
        let (head, norm) = (768 * 5 + 5, 2 * 768);
        assert_eq!(trained("tune = 'head'"), head);
        // A depthwise convolution, a norm, two layers, and the scale of each channel.
        let block = 49 * 768 + 768 + norm + 8 * 768 * 768 + 4 * 768 + 768 + 768;
        assert_eq!(trained("last = 2"), head + norm + 2 * block);
        let adapters: usize =
            [(3, 96), (3, 192), (9, 384), (3, 768)].map(|(n, c)| n * 4 * (c + 4 * c)).iter().sum();
        assert_eq!(trained("tune = 'lora'\nlora_rank = 4\nlora_targets = ['block.3']"), head + adapters);
        assert_eq!(trained("tune = 'lora'\nlora_rank = 4"), head + 2 * adapters);
        let error = build("name = 'convnext-t'\nlast = 19").unwrap_err();
        assert!(error.to_string().contains("has 18"), "{error}");
    }

    #[test]
    fn parts_that_a_model_does_not_have_are_refused_by_key() {
        for (section, key, hint) in [
            ("name = 'vit-ti-16'\nlast = 13", "model.last", "fewer"),
            ("name = 'linear'\nlast = 1", "model.last", "model.trainable"),
            ("name = 'linear'\ntune = 'lora'", "model.tune", "vision transformer"),
            (
                "name = 'resnet-18'\ntune = 'lora'\nlora_targets = ['fc']",
                "model.lora_targets",
                "layer4.1.conv2",
            ),
            (
                "name = 'vit-ti-16'\ntune = 'lora'\nlora_targets = ['fc9']",
                "model.lora_targets",
                "blocks.0.attn.qkv",
            ),
            ("name = 'resnet-18'\npooling = 'mean'", "model.pooling", "leave it out"),
            ("name = 'vit-ti-16'\nnorm = 'group'", "model.norm", "leave it out"),
        ] {
            let error = build(section).unwrap_err();
            assert!(error.to_string().starts_with(key), "{section}: {error}");
            assert!(error.hint().unwrap().contains(hint), "{section}: {error}");
        }
    }
}
