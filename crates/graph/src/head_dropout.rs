//! Dropout in front of a classifier's last layer.

use crate::error::GraphError;
use crate::graph::{Graph, Node, NodeId};
use crate::op::{Dropout, Op};

/// The name of the layer.
const NAME: &str = "head_dropout";

impl Graph {
    /// The same model with dropout of the values that its last layer reads.
    ///
    /// # Errors
    /// If the last layer is not linear, reads anything but a vector, or has dropout in front of it already; or if the rate is not in [0, 1).
    pub fn with_head_dropout(mut self, rate: f32) -> Result<Self, GraphError> {
        let head = self.node(self.output);
        let refuse =
            |reason: String| Err(GraphError::Shape { node: head.name.clone(), op: head.op.name(), reason });
        let (Op::Linear(_), &[input]) = (&head.op, &head.inputs[..]) else {
            return refuse("no dropout can stand before it: it is not linear".to_owned());
        };
        let before = self.node(input);
        if matches!(before.op, Op::Dropout(_)) {
            return refuse(format!("{} stands before it already", before.name));
        }
        if before.shape.len() > 1 {
            return refuse(format!("no dropout can stand before it: it reads {:?}", before.shape));
        }
        if !(0.0..1.0).contains(&rate) {
            return refuse(format!("the rate {rate} of the dropout before it is not in [0, 1)"));
        }
        let shape = before.shape.clone();
        let at = self.output;
        // What comes behind the new layer moves on by one.
        let moved = |id: NodeId| if id >= at { NodeId(id.0 + 1) } else { id };
        for node in &mut self.nodes {
            node.inputs.iter_mut().for_each(|input| *input = moved(*input));
        }
        self.nodes[at.0].inputs = vec![at];
        let layer =
            Node { name: NAME.to_owned(), op: Dropout::of_values(rate).into(), inputs: vec![input], shape };
        self.nodes.insert(at.0, layer);
        self.auxiliary.iter_mut().for_each(|auxiliary| auxiliary.output = moved(auxiliary.output));
        self.output = moved(at);
        // A block that begins with the last layer, or what comes behind all blocks, begins with its dropout now.
        let begins = |id: NodeId| if id > at { NodeId(id.0 + 1) } else { id };
        self.blocks.iter_mut().for_each(|block| *block = begins(*block));
        self.behind_blocks = begins(self.behind_blocks);
        self.number_dropout();
        crate::validate::check(&self)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Tuning;
    use crate::zoo::{self, Norm, ResNet, Vgg};

    #[test]
    fn the_last_layer_alone_reads_the_dropout() {
        for plain in [
            zoo::small_cnn(&[1, 28, 28], 10).unwrap(),
            zoo::small_hybrid(&[3, 16, 16], 10).unwrap(),
            zoo::resnet(ResNet::R18, &[3, 32, 32], 10, Norm::Group(32)).unwrap(),
        ] {
            let graph = plain.clone().with_head_dropout(0.5).unwrap();
            assert_eq!(graph.parameters(), plain.parameters());
            assert_eq!(graph.nodes().len(), plain.nodes().len() + 1);
            for (index, node) in graph.nodes().iter().enumerate() {
                assert!(node.inputs.iter().all(|input| input.index() < index), "{}", node.name);
                if node.name == NAME {
                    continue;
                }
                let of = |graph: &Graph, node: &Node| -> Vec<String> {
                    node.inputs.iter().map(|id| graph.node(*id).name.clone()).collect()
                };
                let own = plain.nodes().iter().find(|own| own.name == node.name).unwrap();
                match index == graph.output().index() {
                    true => assert_eq!(of(&graph, node), [NAME]),
                    false => assert_eq!(of(&graph, node), of(&plain, own)),
                }
            }
            assert_eq!(graph.block_names(), plain.block_names());
            assert_eq!(graph.heads(), [graph.output()]);
            // A frozen trunk ends before the dropout, which trains otherwise than it answers.
            let rest = graph.clone().tuned(&Tuning::Head).unwrap().halves().unwrap().rest;
            assert!(rest.nodes().iter().any(|node| node.name == NAME));
            assert!(graph.features().is_some());
        }
    }

    #[test]
    fn what_cannot_have_it_is_named() {
        let with = |graph: Graph| graph.with_head_dropout(0.5).unwrap_err().to_string();
        let vgg = zoo::vgg(Vgg::V11, &[3, 32, 32], 5, Norm::Removed).unwrap();
        assert!(with(vgg).contains("classifier.5 stands before it already"));
        let psp = zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert!(with(psp).contains("it is not linear"));
        let cnn = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        assert!(cnn.with_head_dropout(1.0).unwrap_err().to_string().contains("the rate 1"));
    }
}
