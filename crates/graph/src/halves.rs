//! A model cut where its trainable part begins.

use std::collections::BTreeSet;

use crate::graph::{Graph, Node, NodeId};
use crate::loss::Loss;
use crate::op::{Input, Op};
use crate::tune::Tuning;

/// The two sides of a cut. Both keep all parameters of the whole model, so that the model's values fit either of them as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Halves {
    /// What comes before the cut. Nothing in it trains, and the rest reads its output.
    pub trunk: Graph,
    /// Everything that trains, and what follows it.
    pub rest: Graph,
}

impl Graph {
    /// Cuts a model where its frozen trunk ends, in front of all dropout layers, which stay with the rest and drop there what they dropped in
    /// the whole. The answer is `None` if there is no frozen trunk with parameters, if the rest reads more than one of the trunk's values, or
    /// if the model has an auxiliary output, for which the halves would not do.
    pub fn halves(&self) -> Option<Halves> {
        let mut behind = self.needs_gradient();
        for (index, (node, reached)) in self.nodes.iter().zip(self.reached(true)).enumerate() {
            let drops = matches!(node.op, Op::Dropout(_));
            behind[index] |= reached && (drops || node.inputs.iter().any(|input| behind[input.0]));
        }
        if self.auxiliary.is_empty() { self.cut(&behind) } else { None }
    }

    /// The model up to its last layers, which are those that read what it computes here. The answer is `None` if there is nothing before
    /// them, or if they read more than one value.
    pub fn features(&self) -> Option<Self> {
        let graph = self.clone().tuned(&Tuning::Head).ok()?;
        graph.cut(&graph.needs_gradient()).map(|halves| halves.trunk)
    }

    /// Cuts a model in front of these nodes, and whatever depends on them must be among them.
    fn cut(&self, rest: &[bool]) -> Option<Halves> {
        if !rest[self.output.0] {
            return None;
        }
        // A node that holds the value of a parameter belongs to the side that reads it.
        let is_leaf = |id: &NodeId| id.0 > 0 && self.nodes[id.0].inputs.is_empty();
        let behind = || self.nodes.iter().zip(rest).filter(|(_, rest)| **rest).map(|(node, _)| node);
        let inputs: BTreeSet<NodeId> = behind().flat_map(|node| node.inputs.iter().copied()).collect();
        let before: Vec<NodeId> = inputs.iter().copied().filter(|id| !rest[id.0] && !is_leaf(id)).collect();
        let &[cut] = &before[..] else { return None };
        let of_trunk = Self { output: cut, ..self.clone() }.reached(false);
        let of_rest: Vec<bool> = (0..self.nodes.len())
            .map(|index| rest[index] || (is_leaf(&NodeId(index)) && inputs.contains(&NodeId(index))))
            .collect();
        let has_parameters = self
            .nodes
            .iter()
            .zip(&of_trunk)
            .any(|(node, of_trunk)| *of_trunk && !node.op.parameters().is_empty());
        has_parameters.then(|| Halves {
            trunk: self.part(NodeId(0), &of_trunk, cut, Loss::SquaredError),
            rest: self.part(cut, &of_rest, self.output, self.loss),
        })
    }

    /// Makes a model of its own from some of the nodes, in which the node `input` takes the place of the input.
    fn part(&self, input: NodeId, kept: &[bool], output: NodeId, loss: Loss) -> Self {
        let first = Node {
            name: self.nodes[0].name.clone(),
            op: Input.into(),
            inputs: Vec::new(),
            shape: self.nodes[input.0].shape.clone(),
        };
        let mut nodes = vec![first];
        let mut moved = vec![NodeId(0); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| *index != 0 && kept[*index]) {
            moved[index] = NodeId(nodes.len());
            let inputs = node.inputs.iter().map(|input| moved[input.0]).collect();
            nodes.push(Node { inputs, ..node.clone() });
        }
        let (output, parameters) = (moved[output.0], self.parameters.clone());
        // A half is no longer a sequence of blocks.
        let (blocks, behind_blocks) = (Vec::new(), NodeId(nodes.len()));
        Self { nodes, parameters, output, auxiliary: Vec::new(), loss, blocks, behind_blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Lora;
    use crate::zoo::{self, LibraryNames, Norm, ResNet, TokenPooling, Vgg, VisionTransformer, VitSize};

    fn transformer(tuning: &Tuning) -> Graph {
        let (size, pooling, names) = (VitSize::Tiny, TokenPooling::ClassToken, LibraryNames::Timm);
        let model = VisionTransformer { size, patch: 16, pooling, names };
        zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap().tuned(tuning).unwrap()
    }

    #[test]
    fn a_model_is_cut_where_training_begins() {
        let resnet = zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Group(32)).unwrap();
        let of_head = |graph: Graph| graph.tuned(&Tuning::Head).unwrap();
        for (graph, features) in [
            (transformer(&Tuning::Head), vec![192]),
            (transformer(&Tuning::Last(2)), vec![5, 192]),
            (of_head(resnet), vec![512]),
        ] {
            let Halves { trunk, rest } = graph.halves().unwrap();
            assert_eq!((trunk.output_shape(), rest.input_shape()), (&features[..], &features[..]));
            assert_eq!((trunk.input_shape(), rest.output_shape()), (&[3, 32, 32][..], &[5][..]));
            for half in [&trunk, &rest] {
                crate::validate::check(half).unwrap();
                assert_eq!(half.parameters(), graph.parameters());
                for (index, node) in half.nodes().iter().enumerate() {
                    assert!(node.inputs.iter().all(|input| input.index() < index), "{}", node.name);
                    assert_eq!(
                        node.inputs.is_empty(),
                        index == 0 || matches!(node.op, Op::ParameterValue(_))
                    );
                }
            }
            assert!(!trunk.needs_gradient().contains(&true));
            // The cut is counted twice: as the output of the trunk, and as the input of the rest.
            assert_eq!(trunk.nodes().len() + rest.nodes().len(), graph.nodes().len() + 1);
        }
    }

    #[test]
    fn dropout_stays_behind_the_cut() {
        let cnn = zoo::small_cnn(&[1, 28, 28], 10).unwrap().with_head_dropout(0.5).unwrap();
        let mobilenet = zoo::mobilenet_v2(&[3, 32, 32], 5, Norm::Frozen).unwrap();
        for (graph, features) in [(cnn, 32), (mobilenet, 1280)] {
            let graph = graph.tuned(&Tuning::Head).unwrap();
            let Halves { trunk, rest } = graph.halves().unwrap();
            assert_eq!((trunk.output_shape(), rest.input_shape()), (&[features][..], &[features][..]));
            let drops = |half: &Graph| half.nodes().iter().any(|node| matches!(node.op, Op::Dropout(_)));
            assert!(!drops(&trunk) && drops(&rest));
            crate::validate::check(&rest).unwrap();
        }
    }

    /// A layer drops in the rest what it drops in the whole, because it keeps its number there.
    #[test]
    fn dropout_layers_are_numbered_in_their_order() {
        let numbers = |graph: &Graph| -> Vec<usize> {
            let number = |node: &Node| match node.op {
                Op::Dropout(dropout) => Some(dropout.number),
                _ => None,
            };
            graph.nodes().iter().filter_map(number).collect()
        };
        let vgg = zoo::vgg(Vgg::V11, &[3, 32, 32], 5, Norm::Frozen).unwrap().tuned(&Tuning::Head).unwrap();
        assert_eq!(numbers(&vgg), [0, 1]);
        // Both layers lie before the last one, and only what follows the first is cut off.
        let rest = vgg.halves().unwrap().rest;
        assert_eq!(numbers(&rest), [0, 1]);
        let cnn = zoo::small_cnn(&[1, 28, 28], 10).unwrap().with_head_dropout(0.5).unwrap();
        assert_eq!(numbers(&cnn), [0]);
    }

    #[test]
    fn features_are_what_the_last_layers_read() {
        let mobilenet = zoo::mobilenet_v2(&[3, 32, 32], 5, Norm::Frozen).unwrap();
        let resnet = zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        // Dropout before the last layer trains otherwise, but says the same.
        for (graph, features) in [(mobilenet, 1280), (resnet, 512), (transformer(&Tuning::All), 192)] {
            assert!(graph.features().is_some_and(|trunk| trunk.output_shape() == [features]));
        }
    }

    #[test]
    fn what_has_no_trunk_is_not_cut() {
        // With adapters, the first trainable part lies within a block, which reads its input twice.
        let lora = Tuning::Lora(Lora { rank: 2, alpha: 2.0, targets: Vec::new() });
        for tuning in [Tuning::All, lora] {
            assert!(transformer(&tuning).halves().is_none(), "{tuning:?}");
        }
        let psp = zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert!(psp.tuned(&Tuning::Head).unwrap().halves().is_none());
    }
}
