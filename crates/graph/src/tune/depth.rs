//! How deep parameters lie below the head.

use crate::graph::Graph;

impl Graph {
    /// How deep each parameter lies, counted in blocks: zero after the last block, one in the last block, and before the first block one
    /// more than there are blocks. What lies between two blocks counts as part of the earlier one. The answer is `None` if the model is not
    /// a sequence of blocks.
    pub fn depths(&self) -> Option<Vec<usize>> {
        if self.blocks.is_empty() {
            return None;
        }
        // A parameter that no node reads counts as part of the stem.
        let mut depths = vec![self.blocks.len() + 1; self.parameters.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let begun = self.blocks.iter().filter(|first| first.0 <= index).count();
            let depth = if index < self.behind_blocks.0 { self.blocks.len() + 1 - begun } else { 0 };
            for parameter in node.op.parameters() {
                depths[parameter.0] = depth;
            }
        }
        Some(depths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{Lora, Tuning};
    use crate::zoo::{self, LibraryNames, MvitSize, Norm, ResNet, TokenPooling, VisionTransformer, VitSize};

    fn transformer(names: LibraryNames) -> Graph {
        let model =
            VisionTransformer { size: VitSize::Tiny, patch: 16, pooling: TokenPooling::ClassToken, names };
        zoo::vision_transformer(model, &[3, 32, 32], 5).unwrap()
    }

    fn depth(graph: &Graph, name: &str) -> usize {
        graph.depths().unwrap()[graph.find_parameter(name).unwrap().0]
    }

    /// timm gives the embeddings of a transformer of twelve blocks the number 0, its blocks the numbers 1 to 12, and what follows 13. The
    /// depth is 13 less that number.
    #[test]
    fn a_transformers_depths_are_timms() {
        let graph = transformer(LibraryNames::Timm);
        for (parameter, depth) in graph.parameters().iter().zip(graph.depths().unwrap()) {
            let mut parts = parameter.name.split('.');
            let layer = match (parts.next().unwrap(), parts.next()) {
                ("cls_token" | "pos_embed" | "patch_embed", _) => 0,
                ("blocks", Some(block)) => block.parse::<usize>().unwrap() + 1,
                _ => 13,
            };
            assert_eq!(depth, 13 - layer, "{}", parameter.name);
        }
        let open = transformer(LibraryNames::OpenClip { projection: 8 });
        assert_eq!(depth(&open, "visual.ln_pre.weight"), 13);
        assert_eq!(depth(&open, "visual.transformer.resblocks.11.mlp.c_proj.bias"), 1);
        assert_eq!((depth(&open, "visual.ln_post.weight"), depth(&open, "visual.proj")), (0, 0));
    }

    #[test]
    fn adapters_lie_as_deep_as_their_layers() {
        let lora = Tuning::Lora(Lora { rank: 2, alpha: 2.0, targets: Vec::new() });
        let graph = transformer(LibraryNames::Timm).tuned(&lora).unwrap();
        for block in [0, 7, 11] {
            let name = format!("blocks.{block}.mlp.fc2.lora_B.weight");
            assert_eq!(depth(&graph, &name), 12 - block);
        }
        assert_eq!((depth(&graph, "norm.weight"), depth(&graph, "pos_embed")), (0, 13));
    }

    #[test]
    fn stems_are_deepest_and_heads_are_not_deep() {
        let resnet = zoo::resnet(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert_eq!((depth(&resnet, "conv1.weight"), depth(&resnet, "layer1.0.conv1.weight")), (9, 8));
        assert_eq!((depth(&resnet, "layer4.1.bn2.weight"), depth(&resnet, "fc.weight")), (1, 0));
        let psp = zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        assert_eq!(depth(&psp, "auxiliary_head.conv_seg.weight"), 0);
        let mvit = zoo::mvit_v2(MvitSize::Small, &[3, 4, 32, 32], 5).unwrap();
        assert_eq!((depth(&mvit, "conv_proj.weight"), depth(&mvit, "norm.weight")), (17, 0));
        let mobile = zoo::mobilenet_v2(&[3, 32, 32], 5, Norm::Frozen).unwrap();
        let wide = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 5).unwrap();
        let hybrid = zoo::small_hybrid(&[3, 32, 32], 5).unwrap();
        assert_eq!((depth(&hybrid, "blocks.3.mlp.fc2.weight"), depth(&hybrid, "norm.weight")), (1, 0));
        assert_eq!((depth(&mvit, "conv_proj.weight"), depth(&mvit, "blocks.0.norm1.weight")), (17, 16));
        assert_eq!((depth(&mvit, "blocks.15.mlp.3.weight"), depth(&mvit, "head.1.weight")), (1, 0));
        for graph in [resnet, psp, mvit, mobile, wide, hybrid] {
            let depths = graph.depths().unwrap();
            let heads = graph.heads().into_iter().flat_map(|id| graph.node(id).op.parameters());
            assert!(heads.into_iter().all(|id| depths[id.0] == 0), "{graph}");
        }
        assert_eq!(zoo::small_cnn(&[1, 28, 28], 10).unwrap().depths(), None);
    }
}
