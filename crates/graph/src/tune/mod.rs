//! Which parameters of a model train.

mod depth;
mod lora;

pub use lora::{Lora, adapters, merged};

use std::collections::BTreeSet;

use crate::error::GraphError;
use crate::graph::{Graph, NodeId, ParameterId};
use crate::op::{Affine, Op};

/// Which parameters of a model train. The last layers always do, because a model that is fine-tuned gets new ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Tuning {
    /// Every parameter that the architecture does not freeze.
    All,
    /// The last layers alone.
    Head,
    /// The scales and shifts of norms, including those of frozen batch norms.
    Norms,
    /// Every bias and every shift of a norm (BitFit, Zaken et al. 2022; with privacy: Bu et al. 2022).
    Bias,
    /// The last blocks, as many as this says, and whatever comes after them.
    Last(usize),
    /// Adapters of low rank beside linear layers or convolutions, while the layers themselves stay as they are.
    Lora(Lora),
}

impl Graph {
    /// The last layer with parameters before each output. These are the layers whose size follows from the number of classes.
    pub fn heads(&self) -> Vec<NodeId> {
        let outputs =
            std::iter::once(self.output).chain(self.auxiliary.iter().map(|auxiliary| auxiliary.output));
        outputs.filter_map(|output| self.last_layer(output)).collect()
    }

    fn last_layer(&self, mut id: NodeId) -> Option<NodeId> {
        loop {
            let node = self.node(id);
            if !node.op.parameters().is_empty() {
                return Some(id);
            }
            let [before] = node.inputs[..] else { return None };
            id = before;
        }
    }

    /// The first nodes of the blocks of a model that is a sequence of blocks; empty for any other model.
    pub fn blocks(&self) -> &[NodeId] {
        &self.blocks
    }

    /// The same model, in which only what `tuning` and the last layers name trains.
    ///
    /// # Errors
    /// If there are fewer blocks than are to train, or no layer that an adapter could stand beside.
    pub fn tuned(mut self, tuning: &Tuning) -> Result<Self, GraphError> {
        let chosen: BTreeSet<ParameterId> = match tuning {
            Tuning::All => return Ok(self),
            Tuning::Head => BTreeSet::new(),
            Tuning::Norms => self.of_nodes(|_, op| affine(op).map_or(Vec::new(), Affine::parameters)),
            Tuning::Bias => self.of_nodes(|_, op| bias(op).into_iter().collect()),
            Tuning::Last(count) => {
                let first = self.block_from_the_end(*count)?;
                let frozen = |id: &ParameterId| !self.parameters[id.0].trainable;
                let chosen =
                    self.of_nodes(|id, op| if id.0 < first.0 { Vec::new() } else { op.parameters() });
                chosen.into_iter().filter(|id| !frozen(id)).collect()
            }
            Tuning::Lora(lora) => lora::add(&mut self, lora)?,
        };
        let heads = self.heads().into_iter().flat_map(|id| self.node(id).op.parameters());
        let chosen: BTreeSet<ParameterId> = heads.chain(chosen).collect();
        for (index, parameter) in self.parameters.iter_mut().enumerate() {
            parameter.trainable = !parameter.buffer && chosen.contains(&ParameterId(index));
        }
        Ok(self)
    }

    fn of_nodes(&self, chosen: impl Fn(NodeId, &Op) -> Vec<ParameterId>) -> BTreeSet<ParameterId> {
        self.nodes.iter().enumerate().flat_map(|(index, node)| chosen(NodeId(index), &node.op)).collect()
    }

    fn block_from_the_end(&self, count: usize) -> Result<NodeId, GraphError> {
        let blocks = self.blocks.len();
        match blocks.checked_sub(count).and_then(|first| self.blocks.get(first)) {
            Some(first) => Ok(*first),
            None => Err(GraphError::Tuning(format!(
                "the last {count} blocks were asked for, and the model has {blocks}"
            ))),
        }
    }
}

/// Scale and shift of a norm.
fn affine(op: &Op) -> Option<Affine> {
    match op {
        Op::GroupNorm(norm) => norm.affine,
        Op::LayerNorm(norm) => norm.affine,
        Op::BatchNorm(norm) => Some(norm.affine),
        _ => None,
    }
}

/// The parameter that an operation adds after it has multiplied.
fn bias(op: &Op) -> Option<ParameterId> {
    match op {
        Op::Conv(conv) => conv.bias,
        Op::TransposedConv(conv) => conv.bias,
        Op::Linear(linear) => linear.bias,
        other => affine(other).and_then(|affine| affine.bias),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{self, LibraryNames, Norm, ResNet, TokenPooling, VisionTransformer, VitSize};

    fn transformer(names: LibraryNames) -> Graph {
        let model =
            VisionTransformer { size: VitSize::Tiny, patch: 16, pooling: TokenPooling::ClassToken, names };
        zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap()
    }

    fn trained(graph: Graph, tuning: Tuning) -> Vec<String> {
        let graph = graph.tuned(&tuning).unwrap();
        graph.parameters().iter().filter(|p| p.trainable).map(|p| p.name.clone()).collect()
    }

    #[test]
    fn heads_are_the_layers_that_classes_decide() {
        let heads = |graph: Graph| -> Vec<String> {
            graph.heads().iter().map(|&id| graph.node(id).name.clone()).collect()
        };
        assert_eq!(heads(transformer(LibraryNames::Torchvision)), ["heads.head"]);
        assert_eq!(heads(zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap()), ["fc"]);
        let psp = zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert_eq!(heads(psp), ["decode_head.conv_seg", "auxiliary_head.conv_seg"]);
        let stride = zoo::OutputStride::Sixteen;
        let deeplab =
            zoo::deeplab_v3_plus(zoo::Backbone::MobileNetV2, stride, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert_eq!(heads(deeplab), ["classifier.classifier.3"]);
    }

    #[test]
    fn what_trains_is_what_was_asked_for() {
        let head = ["head.weight", "head.bias"];
        assert_eq!(trained(transformer(LibraryNames::Timm), Tuning::Head), head);
        let norms = trained(transformer(LibraryNames::Timm), Tuning::Norms);
        assert_eq!(norms.len(), 12 * 4 + 2 + 2);
        assert!(norms.contains(&"blocks.7.norm2.weight".to_owned()));
        let biases = trained(transformer(LibraryNames::Timm), Tuning::Bias);
        // The patches; in each block two norms, the queries, attention's output and two layers; the last norm; the head's two.
        assert_eq!(biases.len(), 1 + 12 * 6 + 1 + 2);
        assert!(biases.iter().all(|name| name.ends_with("bias") || name == "head.weight"), "{biases:?}");
        let frozen = zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert_eq!(trained(frozen, Tuning::Norms).len(), 20 * 2 + 2);
    }

    #[test]
    fn the_last_blocks_train_with_what_follows() {
        let names = trained(transformer(LibraryNames::OpenClip { projection: 8 }), Tuning::Last(2));
        let of_blocks =
            names.iter().filter(|name| name.starts_with("visual.transformer.resblocks.1")).count();
        assert_eq!((of_blocks, names.len()), (2 * 12, 2 * 12 + 5), "{names:?}");
        let resnet = || zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Group(32)).unwrap();
        let names = trained(resnet(), Tuning::Last(1));
        assert!(
            names.iter().all(|name| name.starts_with("layer4.1.") || name.starts_with("fc.")),
            "{names:?}"
        );
        for count in [0, 9] {
            let error = resnet().tuned(&Tuning::Last(count)).unwrap_err();
            assert!(error.to_string().contains("has 8"), "{error}");
        }
    }
}
