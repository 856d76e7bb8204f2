//! Adapters of low rank (LoRA, Hu et al. 2022): to a frozen layer `W x + b` is added `alpha / rank B A x`, in which `A` and `B` train.
//! Beside a convolution, `A` is a convolution over the same windows and `B` one over single positions.

use std::collections::BTreeSet;

use crate::error::GraphError;
use crate::graph::{Graph, Node, NodeId, Parameter, ParameterId};
use crate::init::{Init, Parameters};
use crate::op::{Activation, Add, Conv, Linear, Op, Window};

/// Which layers get adapters of low rank, and how large these are.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// The rank of the product of an adapter's two matrices.
    pub rank: usize,
    /// The product is multiplied by this over the rank.
    pub alpha: f32,
    /// Parts of the names of the layers that get an adapter, between dots, for example `attn.qkv`. If there are none, all linear layers but
    /// the last ones get an adapter, and in a model without such layers all convolutions.
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

impl Graph {
    /// The layers that an adapter can stand beside, in order: linear layers and convolutions, except the last layers. Not among them are
    /// convolutions in groups, and those that standardise their weights, into which no adapter could be merged.
    pub fn adaptable(&self) -> Vec<NodeId> {
        let heads = self.heads();
        let takes_one = |node: &Node| match &node.op {
            Op::Linear(_) => true,
            Op::Conv(conv) => conv.groups == 1 && conv.standardise.is_none(),
            _ => false,
        };
        let ids = (0..self.nodes.len()).map(NodeId);
        ids.filter(|id| takes_one(self.node(*id)) && !heads.contains(id)).collect()
    }
}

/// The layers of a graph that get an adapter.
fn chosen(graph: &Graph, lora: &Lora) -> Result<BTreeSet<NodeId>, GraphError> {
    let adaptable = graph.adaptable();
    let linear = |id: &NodeId| matches!(graph.node(*id).op, Op::Linear(_));
    let linear_only = lora.targets.is_empty() && adaptable.iter().any(linear);
    let wanted = |id: &NodeId| lora.wants(&graph.node(*id).name) && (linear(id) || !linear_only);
    let chosen: BTreeSet<NodeId> = adaptable.into_iter().filter(wanted).collect();
    let reason = match lora.rank {
        0 => "adapters of rank 0 hold nothing".to_owned(),
        _ if !chosen.is_empty() => return Ok(chosen),
        _ if lora.targets.is_empty() => "no layer before the last can have an adapter".to_owned(),
        _ => format!("no layer that can have an adapter is called {}", lora.targets.join(" or ")),
    };
    Err(GraphError::Tuning(reason))
}

/// Adds adapters to a graph and returns their parameters. These come after all other parameters, so that the others keep their places and
/// their first values.
pub(super) fn add(graph: &mut Graph, lora: &Lora) -> Result<BTreeSet<ParameterId>, GraphError> {
    let chosen = chosen(graph, lora)?;
    let mut parameters = BTreeSet::new();
    let mut moved: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let mut nodes: Vec<Node> = Vec::new();
    for (id, mut node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        node.inputs.iter_mut().for_each(|input| *input = moved[input.0]);
        nodes.push(node);
        if chosen.contains(&NodeId(id)) {
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

/// Adds an adapter beside the last node, which is a layer that can have one. The sum of the two becomes the last node.
fn beside(
    nodes: &mut Vec<Node>,
    parameters: &mut Vec<Parameter>,
    lora: &Lora,
) -> Result<[ParameterId; 2], GraphError> {
    let id = NodeId(nodes.len() - 1);
    let layer = nodes[id.0].clone();
    let [down, up] = names(&layer.name);
    let (weight, channels) = match &layer.op {
        Op::Linear(linear) => (linear.weight, layer.shape.len() - 1),
        Op::Conv(conv) => (conv.weight, 0),
        _ => unreachable!("only linear layers and convolutions are adaptable"),
    };
    // The first matrix reads what the layer's weight reads. The second is zero, so that the model begins as it was.
    let mut reads = parameters[weight.0].shape.clone();
    let mut makes = reads.clone();
    reads[0] = lora.rank;
    makes[1..].fill(1);
    makes[1] = lora.rank;
    let mut add = |name: String, shape: Vec<usize>, init: Init| -> Result<ParameterId, GraphError> {
        if parameters.iter().any(|parameter| parameter.name == name) {
            return Err(GraphError::DuplicateName(name));
        }
        parameters.push(Parameter { name, shape, init, trainable: true, buffer: false, grid: None });
        Ok(ParameterId(parameters.len() - 1))
    };
    let down = add(down, reads, Init::UniformFanIn)?;
    let up = add(up, makes, Init::Constant(0.0))?;
    let both = match layer.op {
        Op::Conv(conv) => {
            let single = Window::new(conv.window.kernel.len(), 1);
            [(conv.window, down), (single, up)].map(|(window, weight)| {
                Conv { window, groups: 1, weight, bias: None, standardise: None }.into()
            })
        }
        _ => [down, up].map(|weight| Linear { weight, bias: None }.into()),
    };
    let mut narrow = layer.shape.clone();
    narrow[channels] = lora.rank;
    let mut push = |part: &str, op: Op, inputs: Vec<NodeId>, shape: &[usize]| {
        nodes.push(Node { name: format!("{}.{part}", layer.name), op, inputs, shape: shape.to_vec() });
        NodeId(nodes.len() - 1)
    };
    let [reading, making] = both;
    let x = push("lora_A", reading, vec![layer.inputs[0]], &narrow);
    let x = push("lora_scale", Activation::Scale(lora.factor()).into(), vec![x], &narrow);
    let x = push("lora_B", making, vec![x], &layer.shape);
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
        let name = &graph.parameter(node.op.parameters()[0]).name;
        let Some(weight) = plain.find_parameter(name) else { return Err(GraphError::Unknown(name.clone())) };
        let shape = &graph.parameter(down).shape;
        let (rank, features) = (shape[0], shape[1..].iter().product::<usize>());
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
    use crate::zoo::{self, LibraryNames, Norm, ResNet, TokenPooling, VisionTransformer, VitSize};

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
    fn without_linear_layers_convolutions_are_adapted() {
        let plain = zoo::mobilenet_v2(&[3, 32, 32], 5, Norm::Frozen).unwrap();
        let graph = plain.tuned(&Tuning::Lora(lora(&[]))).unwrap();
        // The stem, one layer of the first block, two of each other block and the last layer of features; none over single channels.
        assert_eq!(adapters(&graph).len(), 2 * (1 + 1 + 2 * 16 + 1));
        let shape = |name: &str| &graph.parameter(graph.find_parameter(name).unwrap()).shape;
        assert_eq!(*shape("features.0.0.lora_A.weight"), [4, 3, 3, 3]);
        assert_eq!(*shape("features.0.0.lora_B.weight"), [32, 4, 1, 1]);
        crate::validate::check(&graph).unwrap();

        let plain = zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        let graph = plain.tuned(&Tuning::Lora(lora(&["layer4.0"]))).unwrap();
        assert_eq!(adapters(&graph).len(), 2 * 3);
        crate::validate::check(&graph).unwrap();
    }

    #[test]
    fn what_has_no_layer_to_adapt_is_refused() {
        let refused = |lora| transformer().tuned(&Tuning::Lora(lora)).unwrap_err().to_string();
        assert!(refused(lora(&["attention"])).contains("attention"));
        assert!(refused(lora(&["head"])).contains("head"));
        assert!(refused(Lora { rank: 0, ..lora(&[]) }).contains("rank 0"));
        let standardised = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 5).unwrap();
        let error = standardised.tuned(&Tuning::Lora(lora(&[]))).unwrap_err().to_string();
        assert!(error.contains("no layer before the last"), "{error}");
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
