//! Multi-head attention.

use dapple_graph::op::Attention;

use super::OnnxOperation;
use super::tokens::{HeadsApart, attended, heads_together, of_subset};
use crate::file::OnnxFile;
use crate::node::WrittenNode;

impl OnnxOperation for Attention {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let (features, width) = (node.shape[1], node.shape[1] / self.heads);
        let (parts, keys, numbers) = match node.inputs[..] {
            [query, key, value] => ([query, key, value].map(str::to_owned), node.shapes[1][0], None),
            _ => {
                let part = |index: usize| {
                    let range = (index * features, (index + 1) * features);
                    file.slice(&node.part(&format!("part{index}")), node.inputs[0], 2, range)
                };
                ([0, 1, 2].map(part), node.shapes[0][0], node.inputs.get(1))
            }
        };
        let values = [(&*parts[0], node.shape[0]), (&*parts[1], keys), (&*parts[2], keys)];
        let heads = HeadsApart::new(node, file, values, (self.heads, width));
        let mut scores = heads.scores(node, file, width);
        if let Some(numbers) = numbers {
            scores = of_subset(node, file, &scores, (numbers, keys));
        }
        let found = attended(node, file, &scores, &heads.value);
        heads_together(node, file, &found)
    }
}
