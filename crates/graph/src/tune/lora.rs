//! Adapters of low rank (LoRA, Hu et al. 2022): to a frozen layer `W x + b` is added `alpha / rank B A x`, in which `A` and `B` train.

use std::collections::BTreeSet;

use crate::error::GraphError;
use crate::graph::{Graph, Node, NodeId, Parameter, ParameterId};
use crate::init::{Init, Parameters};
use crate::op::{Activation, Add, Linear, Op};

/// Which layers get adapters of low rank, and how large these are.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// The rank of the product of an adapter's two matrices.
    pub rank: usize,
    /// The product is multiplied by this over the rank.
    pub alpha: f32,
    /// Parts of the names of the linear layers that get an adapter, between dots, for example `attn.qkv`. If there are none, all linear
    /// layers but the last ones get an adapter.
    pub targets: Vec<String>,
}

impl Lora {
    fn wants(&self, name: &str) -> bool {
        let (name, dotted) = (format!(".{name}."), |target: &str| format!(".{target}."));
        self.targets.is_empty() || self.targets.iter().any(|target| name.contains(&dotted(target)))
    }

    fn factor(&self) -> f32 {
        self.alpha / self.rank as f32
    }
}

/// The names of an adapter's two parameters.
fn names(layer: &str) -> [String; 2] {
    [format!("{layer}.lora_A.weight"), format!("{layer}.lora_B.weight")]
}

/// Adds adapters to a graph and returns their parameters. These come after all other parameters, so that the others keep their places and
/// their first values.
pub(super) fn add(graph: &mut Graph, lora: &Lora) -> Result<BTreeSet<ParameterId>, GraphError> {
    let heads = graph.heads();
    let adapted = |id: usize, node: &Node| {
        matches!(node.op, Op::Linear(_)) && !heads.contains(&NodeId(id)) && lora.wants(&node.name)
    };
    let chosen: Vec<bool> = graph.nodes.iter().enumerate().map(|(id, node)| adapted(id, node)).collect();
    if lora.rank == 0 || !chosen.contains(&true) {
        let reason = match lora.rank {
            0 => "adapters of rank 0 hold nothing".to_owned(),
            _ if lora.targets.is_empty() => "there is no linear layer before the last".to_owned(),
            _ => format!("no linear layer before the last is called {}", lora.targets.join(" or ")),
        };
        return Err(GraphError::Tuning(reason));
    }
    let mut parameters = BTreeSet::new();
    let mut moved: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let mut nodes: Vec<Node> = Vec::new();
    for (mut node, adapted) in std::mem::take(&mut graph.nodes).into_iter().zip(chosen) {
        node.inputs.iter_mut().for_each(|input| *input = moved[input.0]);
        nodes.push(node);
        if adapted {
            parameters.extend(beside(&mut nodes, &mut graph.parameters, lora)?);
        }
        moved.push(NodeId(nodes.len() - 1));
    }
    graph.nodes = nodes;
    graph.output = moved[graph.output.0];
    graph.auxiliary.iter_mut().for_each(|auxiliary| auxiliary.output = moved[auxiliary.output.0]);
    // A block still begins at the same node, which adapters before it may have pushed back.
    graph.blocks.iter_mut().for_each(|first| *first = first_of(&moved, *first));
    graph.behind_blocks = first_of(&moved, graph.behind_blocks);
    Ok(parameters)
}

/// The new place of a node itself. `moved` does not tell it for a node with an adapter, but the place of their sum.
fn first_of(moved: &[NodeId], id: NodeId) -> NodeId {
    match id.0.checked_sub(1) {
        Some(before) => NodeId(moved[before].0 + 1),
        None => id,
    }
}

/// Adds an adapter beside the last node, which is a linear layer. The sum of the two becomes the last node.
fn beside(
    nodes: &mut Vec<Node>,
    parameters: &mut Vec<Parameter>,
    lora: &Lora,
) -> Result<[ParameterId; 2], GraphError> {
    let id = NodeId(nodes.len() - 1);
    let layer = nodes[id.0].clone();
    let (input, name) = (layer.inputs[0], &layer.name);
    let features = nodes[input.0].shape.last().copied().unwrap_or(1);
    let out = layer.shape.last().copied().unwrap_or(1);
    let [down, up] = names(name);
    let mut add = |name: String, shape: [usize; 2], init: Init| -> Result<ParameterId, GraphError> {
        if parameters.iter().any(|parameter| parameter.name == name) {
            return Err(GraphError::DuplicateName(name));
        }
        let shape = shape.to_vec();
        parameters.push(Parameter { name, shape, init, trainable: true, buffer: false, grid: None });
        Ok(ParameterId(parameters.len() - 1))
    };
    // With one factor zero the product begins at zero, so that the model begins as it was.
    let down = add(down, [lora.rank, features], Init::UniformFanIn)?;
    let up = add(up, [out, lora.rank], Init::Constant(0.0))?;
    let mut narrow = layer.shape.clone();
    *narrow.last_mut().expect("a linear layer's output has a last axis") = lora.rank;
    let mut push = |part: &str, op: Op, inputs: Vec<NodeId>, shape: &[usize]| {
        nodes.push(Node { name: format!("{name}.{part}"), op, inputs, shape: shape.to_vec() });
        NodeId(nodes.len() - 1)
    };
    let x = push("lora_A", Linear { weight: down, bias: None }.into(), vec![input], &narrow);
    let x = push("lora_scale", Activation::Scale(lora.factor()).into(), vec![x], &narrow);
    let x = push("lora_B", Linear { weight: up, bias: None }.into(), vec![x], &layer.shape);
    push("lora_sum", Add.into(), vec![id, x], &layer.shape);
    Ok([down, up])
}

/// The layers of a graph that have an adapter, each with the adapter's two parameters and the factor of their product.
fn layers(graph: &Graph) -> impl Iterator<Item = (&Node, [ParameterId; 2], f32)> {
    graph.nodes.iter().filter_map(|node| {
        let [down, up] = names(&node.name).map(|name| graph.find_parameter(&name));
        let scale = graph.nodes.iter().find(|other| other.name == format!("{}.lora_scale", node.name))?;
        let Op::Activation(Activation::Scale(factor)) = scale.op else { return None };
        Some((node, [down?, up?], factor))
    })
}

/// The parameters of a model's adapters.
pub fn adapters(graph: &Graph) -> Vec<ParameterId> {
    layers(graph).flat_map(|(_, parameters, _)| parameters).collect()
}

/// The weights with which the plain model gives the same answers as the adapted one: each adapter's product is added to the weight of
/// the layer it stands beside.
///
/// # Errors
/// If the parameters belong to another graph.
pub fn merged(graph: &Graph, parameters: &Parameters, plain: &Graph) -> Result<Parameters, GraphError> {
    if !parameters.fit(graph) {
        return Err(GraphError::Unknown("a set of parameters".into()));
    }
    let mut merged = Parameters::zeros(plain);
    for (index, parameter) in plain.parameters().iter().enumerate() {
        let Some(ours) = graph.find_parameter(&parameter.name) else {
            return Err(GraphError::Unknown(parameter.name.clone()));
        };
        merged.get_mut(ParameterId(index)).copy_from_slice(parameters.get(ours));
    }
    for (node, [down, up], factor) in layers(graph) {
        let Op::Linear(layer) = &node.op else { continue };
        let name = &graph.parameter(layer.weight).name;
        let Some(weight) = plain.find_parameter(name) else { return Err(GraphError::Unknown(name.clone())) };
        let (rank, features) = (graph.parameter(down).shape[0], graph.parameter(down).shape[1]);
        let (down, up) = (parameters.get(down), parameters.get(up));
        for (row, weights) in merged.get_mut(weight).chunks_exact_mut(features).enumerate() {
            for (column, weight) in weights.iter_mut().enumerate() {
                let product =
                    |k: usize| f64::from(up[row * rank + k]) * f64::from(down[k * features + column]);
                let sum: f64 = (0..rank).map(product).sum();
                *weight = (f64::from(*weight) + f64::from(factor) * sum) as f32;
            }
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Tuning;
    use crate::zoo::{self, LibraryNames, TokenPooling, VisionTransformer, VitSize};

    fn transformer() -> Graph {
        let names = LibraryNames::Timm;
        let model =
            VisionTransformer { size: VitSize::Tiny, patch: 16, pooling: TokenPooling::ClassToken, names };
        zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap()
    }

    fn lora(targets: &[&str]) -> Lora {
        Lora { rank: 4, alpha: 8.0, targets: targets.iter().map(|&target| target.to_owned()).collect() }
    }

    #[test]
    fn adapters_stand_beside_the_layers_asked_for() {
        for (targets, layers) in [(&["attn.qkv"][..], 12), (&["qkv", "mlp.fc1"], 24), (&[], 48)] {
            let graph = transformer().tuned(&Tuning::Lora(lora(targets))).unwrap();
            assert_eq!(adapters(&graph).len(), 2 * layers);
            let trained = graph.parameters().iter().filter(|p| p.trainable).count();
            assert_eq!(trained, 2 * layers + 2);
            crate::validate::check(&graph).unwrap();
            for (index, node) in graph.nodes().iter().enumerate() {
                assert!(node.inputs.iter().all(|input| input.index() < index), "{}", node.name);
            }
            let begins: Vec<&str> = graph.blocks().iter().map(|&id| graph.node(id).name.as_str()).collect();
            assert_eq!(begins[..2], ["blocks.0.norm1", "blocks.1.norm1"]);
        }
    }

    #[test]
    fn what_has_no_layer_to_adapt_is_refused() {
        let refused = |lora| transformer().tuned(&Tuning::Lora(lora)).unwrap_err().to_string();
        assert!(refused(lora(&["attention"])).contains("attention"));
        assert!(refused(lora(&["head"])).contains("head"));
        assert!(refused(Lora { rank: 0, ..lora(&[]) }).contains("rank 0"));
    }

    #[test]
    fn adapters_leave_first_values_alone_and_merge_into_the_plain_model() {
        let (plain, graph) =
            (transformer(), transformer().tuned(&Tuning::Lora(lora(&["attn.qkv"]))).unwrap());
        let mut parameters = Parameters::init(&graph, 3);
        assert_eq!(merged(&graph, &parameters, &plain).unwrap(), Parameters::init(&plain, 3));
        let up = graph.find_parameter("blocks.2.attn.qkv.lora_B.weight").unwrap();
        parameters.get_mut(up)[5 * 4 + 1] = 0.5;
        let changed = merged(&graph, &parameters, &plain).unwrap();
        let weight = plain.find_parameter("blocks.2.attn.qkv.weight").unwrap();
        let down = graph.find_parameter("blocks.2.attn.qkv.lora_A.weight").unwrap();
        for (index, (got, first)) in
            changed.get(weight).iter().zip(Parameters::init(&plain, 3).get(weight)).enumerate()
        {
            let (row, column) = (index / 192, index % 192);
            let added = if row == 5 { 2.0 * 0.5 * parameters.get(down)[192 + column] } else { 0.0 };
            assert!((got - (first + added)).abs() <= f32::EPSILON, "{row} {column}");
        }
    }
}
