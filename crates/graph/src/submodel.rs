//! Submodels: a model of which some blocks are the identity.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::GraphError;
use crate::graph::{Graph, NodeId, ParameterId};

/// What stands between the first and the last block of a range, as in `layer3.1..layer3.22`.
const TO: &str = "..";

impl Graph {
    /// The names of the blocks of a model that is a sequence of blocks, in order. A block's name is what the names of its nodes begin with,
    /// such as `layer3.1`.
    pub fn block_names(&self) -> Vec<String> {
        let first = |id: &NodeId| self.nodes[id.0].name.as_str();
        let others = |own: NodeId, name: &str| {
            self.blocks.iter().any(|other| *other != own && belongs(first(other), name))
        };
        let name = |&id: &NodeId| {
            let whole = first(&id);
            let ends = whole.match_indices('.').map(|(end, _)| end).chain([whole.len()]);
            ends.map(|end| &whole[..end]).find(|name| !others(id, name)).unwrap_or(whole).to_owned()
        };
        self.blocks.iter().map(name).collect()
    }

    /// The numbers of the blocks that a list names, in the order of the list: blocks by their names, or ranges of them such as
    /// `layer3.1..layer3.22`, which include both ends.
    ///
    /// # Errors
    /// A name that no block has, a range that runs backwards, or a block that is named twice.
    pub fn blocks_named(&self, list: &[String]) -> Result<Vec<usize>, GraphError> {
        let names = self.block_names();
        let number = |name: &str| {
            names.iter().position(|own| own == name).ok_or_else(|| {
                let (first, last) = (names.first(), names.last());
                let known = match (first, last) {
                    (Some(first), Some(last)) => format!("blocks are {first} to {last}"),
                    _ => "the model is no sequence of blocks".to_owned(),
                };
                GraphError::Block {
                    block: name.to_owned(),
                    reason: format!("no block is called so; {known}"),
                }
            })
        };
        let mut chosen: Vec<usize> = Vec::new();
        for entry in list {
            let (first, last) = match entry.split_once(TO) {
                Some((first, last)) => (number(first.trim())?, number(last.trim())?),
                None => (number(entry)?, number(entry)?),
            };
            if first > last {
                let reason = "the range runs backwards".to_owned();
                return Err(GraphError::Block { block: entry.clone(), reason });
            }
            if let Some(twice) = (first..=last).find(|number| chosen.contains(number)) {
                let reason = "it is named twice".to_owned();
                return Err(GraphError::Block { block: names[twice].clone(), reason });
            }
            chosen.extend(first..=last);
        }
        Ok(chosen)
    }

    /// The parameters that the nodes of these blocks read.
    pub fn parameters_of_blocks(&self, blocks: &[usize]) -> BTreeSet<ParameterId> {
        let names = self.block_names();
        let nodes = blocks.iter().flat_map(|&block| self.block_nodes(block, &names[block]));
        nodes.flat_map(|node| self.nodes[node].op.parameters()).collect()
    }

    /// Deals some blocks out to `count` submodels, as cards are dealt: the first block to the first submodel, the second to the second, and
    /// so on in turn. A submodel has its own blocks and all that were not in the list; of the others it is the identity.
    ///
    /// # Guarantee
    /// No block of the list is computed by two submodels, so that their gradients share no parameter of those blocks. All submodels have the
    /// nodes and the parameters of the whole model, and with them its gradients' layout; no output depends on a node of an absent block.
    ///
    /// # Errors
    /// Fewer blocks than submodels, or a block whose output has another shape than its input, so that the identity cannot take its place.
    pub fn submodels(&self, blocks: &[usize], count: usize) -> Result<Vec<Self>, GraphError> {
        if blocks.len() < count {
            let reason = format!("{} blocks cannot be dealt out to {count} submodels", blocks.len());
            return Err(GraphError::Tuning(reason));
        }
        // Even if one submodel has all blocks, each of them must be one that could be left out.
        blocks.iter().try_for_each(|&block| self.without(&[block]).map(|_| ()))?;
        let absent = |own: usize| -> Vec<usize> {
            blocks
                .iter()
                .enumerate()
                .filter(|(turn, _)| turn % count != own)
                .map(|(_, &block)| block)
                .collect()
        };
        (0..count).map(|own| self.without(&absent(own))).collect()
    }

    /// The same model in which the identity takes the place of some blocks.
    fn without(&self, absent: &[usize]) -> Result<Self, GraphError> {
        let names = self.block_names();
        let mut graph = self.clone();
        let mut absent = absent.to_vec();
        absent.sort_unstable();
        for block in absent {
            graph.pass_by(block, &names[block])?;
        }
        Ok(graph)
    }

    /// Makes everything that reads the output of a block read its input instead.
    fn pass_by(&mut self, block: usize, name: &str) -> Result<(), GraphError> {
        let refuse = |reason: String| GraphError::Block { block: name.to_owned(), reason };
        let own = self.block_nodes(block, name);
        let read: BTreeSet<NodeId> =
            self.nodes[own.clone()].iter().flat_map(|node| node.inputs.iter().copied()).collect();
        let inputs: Vec<NodeId> = read.into_iter().filter(|id| !own.contains(&id.0)).collect();
        let &[input] = &inputs[..] else {
            return Err(refuse(format!("it reads {} values from outside", inputs.len())));
        };
        let outside = |(index, _): &(usize, &crate::Node)| !own.contains(index);
        let mut outputs: BTreeSet<NodeId> = self
            .nodes
            .iter()
            .enumerate()
            .filter(outside)
            .flat_map(|(_, node)| node.inputs.iter().copied())
            .collect();
        outputs.insert(self.output);
        outputs.extend(self.auxiliary.iter().map(|auxiliary| auxiliary.output));
        outputs.retain(|id| own.contains(&id.0));
        let outputs: Vec<NodeId> = outputs.into_iter().collect();
        let &[output] = &outputs[..] else {
            return Err(refuse(format!("{} of its values are read from outside", outputs.len())));
        };
        let (from, to) = (&self.nodes[input.0].shape, &self.nodes[output.0].shape);
        if from != to {
            return Err(refuse(format!(
                "its input is {from:?} and its output {to:?}, so that it cannot be left out"
            )));
        }
        let replace = |id: &mut NodeId| {
            if *id == output {
                *id = input;
            }
        };
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !own.contains(&index) {
                node.inputs.iter_mut().for_each(replace);
            }
        }
        replace(&mut self.output);
        self.auxiliary.iter_mut().for_each(|auxiliary| replace(&mut auxiliary.output));
        Ok(())
    }

    /// The nodes of a block: from its first to the last one that has its name.
    fn block_nodes(&self, block: usize, name: &str) -> Range<usize> {
        let first = self.blocks[block].0;
        let end = self.blocks.get(block + 1).unwrap_or(&self.behind_blocks).0;
        let last = (first..end).rev().find(|&node| belongs(&self.nodes[node].name, name)).unwrap_or(first);
        first..last + 1
    }
}

/// Whether a dotted name is another one or lies below it.
fn belongs(name: &str, to: &str) -> bool {
    name.strip_prefix(to).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use crate::tune::{Lora, Tuning};
    use crate::zoo::{self, LibraryNames, Norm, ResNet, TokenPooling, VisionTransformer, VitSize};

    fn resnet(depth: ResNet) -> Graph {
        zoo::resnet(depth, &[3, 64, 64], 5, Norm::Group(32)).unwrap()
    }

    fn named(graph: &Graph, list: &[&str]) -> Result<Vec<usize>, GraphError> {
        graph.blocks_named(&list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    /// The nodes that an output depends on.
    fn computed(graph: &Graph) -> Vec<&str> {
        let reached = graph.reached(true);
        graph
            .nodes()
            .iter()
            .zip(reached)
            .filter(|(_, reached)| *reached)
            .map(|(node, _)| &*node.name)
            .collect()
    }

    #[test]
    fn blocks_have_the_names_of_their_library() {
        let deep = resnet(ResNet::R101);
        assert_eq!(deep.block_names()[7..9], ["layer3.0", "layer3.1"]);
        assert_eq!(named(&deep, &["layer3.1..layer3.22"]).unwrap(), (8..30).collect::<Vec<_>>());
        let vit = |names| {
            let model = VisionTransformer {
                size: VitSize::Tiny,
                patch: 16,
                pooling: TokenPooling::ClassToken,
                names,
            };
            zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap().block_names()
        };
        assert_eq!(vit(LibraryNames::Timm)[11], "blocks.11");
        assert_eq!(vit(LibraryNames::Torchvision)[1], "encoder.layers.encoder_layer_1");
        let wide = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 5).unwrap();
        assert_eq!(wide.block_names()[4..], ["block3.0", "block3.1"]);
        assert!(zoo::small_cnn(&[1, 28, 28], 10).unwrap().block_names().is_empty());
    }

    #[test]
    fn lists_that_name_no_blocks_are_refused_by_name() {
        let graph = resnet(ResNet::R18);
        assert_eq!(named(&graph, &["layer4.1", "layer1.0..layer1.1"]).unwrap(), [7, 0, 1]);
        for (list, reason) in [
            (&["layer5.0"][..], "layer5.0: no block is called so; blocks are layer1.0 to layer4.1"),
            (&["layer2.1..layer1.0"], "layer2.1..layer1.0: the range runs backwards"),
            (&["layer1.0..layer2.0", "layer1.1"], "layer1.1: it is named twice"),
        ] {
            assert_eq!(named(&graph, list).unwrap_err().to_string(), reason);
        }
        let flat = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        assert!(named(&flat, &["fc1"]).unwrap_err().to_string().contains("no sequence of blocks"));
        let error = graph.submodels(&[0, 1], 3).unwrap_err();
        assert!(error.to_string().contains("2 blocks"), "{error}");
        let error = graph.submodels(&[2, 3], 2).unwrap_err();
        assert!(error.to_string().starts_with("layer2.0: its input is [64, 16, 16]"), "{error}");
    }

    #[test]
    fn submodels_compute_their_own_blocks_and_what_is_shared() {
        let lora = Tuning::Lora(Lora { rank: 2, alpha: 2.0, targets: Vec::new() });
        let vit = VisionTransformer::named("vit-ti-16").unwrap();
        let vit = || zoo::vision_transformer(vit, &[3, 32, 32], 5).unwrap();
        for (graph, list, count) in [
            (resnet(ResNet::R50), &["layer3.1..layer3.5"][..], 2),
            (
                zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 16, 16], 5).unwrap(),
                &["block3.1", "block1.1"],
                2,
            ),
            (vit(), &["blocks.0..blocks.11"], 5),
            (vit().tuned(&lora).unwrap(), &["blocks.2..blocks.4"], 3),
            (
                zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap(),
                &["backbone.layer1.0..backbone.layer1.1"],
                2,
            ),
        ] {
            let names = graph.block_names();
            let blocks = named(&graph, list).unwrap_or_else(|error| panic!("{error}: {names:?}"));
            let submodels = graph.submodels(&blocks, count).unwrap();
            let whole = computed(&graph);
            for (own, submodel) in submodels.iter().enumerate() {
                crate::validate::check(submodel).unwrap();
                assert_eq!(submodel.parameters(), graph.parameters());
                let absent = blocks.iter().enumerate().filter(|(turn, _)| turn % count != own);
                let absent: Vec<&String> = absent.map(|(_, &block)| &names[block]).collect();
                let expected: Vec<&str> = whole
                    .iter()
                    .copied()
                    .filter(|node| !absent.iter().any(|block| belongs(node, block)))
                    .collect();
                assert_eq!(computed(submodel), expected);
                for (index, node) in submodel.nodes().iter().enumerate() {
                    assert!(node.inputs.iter().all(|input| input.index() < index), "{}", node.name);
                    assert_eq!(
                        node.inputs.is_empty(),
                        index == 0 || matches!(node.op, Op::ParameterValue(_))
                    );
                }
            }
            // Every block of the list belongs to one submodel, and one submodel of all blocks is the model.
            let own = graph.parameters_of_blocks(&blocks);
            assert!(!own.is_empty() && own.len() < graph.parameters().len());
            assert_eq!(graph.submodels(&blocks, 1).unwrap(), [graph]);
        }
    }
}
