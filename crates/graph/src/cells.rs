//! Models that pool at last over some places of their features alone, which every sample tells.

use crate::error::GraphError;
use crate::graph::{Graph, Node, NodeId};
use crate::op::{AdaptiveAvgPool, MatMul, Op, Reshape, Slice};

impl Graph {
    /// The grid of features over which the model takes one mean at last: rows and columns, and times before them for clips. `None` if it
    /// takes none, or several.
    pub fn pooled_grid(&self) -> Option<&[usize]> {
        let pool = self.mean_over_all()?;
        Some(&self.node(self.nodes[pool.0].inputs[0]).shape[1..])
    }

    /// The same model, with the same parameters, whose last mean is over some places of that grid alone.
    ///
    /// # Shapes
    /// A sample is a vector: the values of the view, then a one, which is not read, then for each place of the grid one over the number of
    /// places that count, or zero.
    ///
    /// # Errors
    /// A model without such a mean.
    pub fn over_cells(&self) -> Result<Self, GraphError> {
        let pool = self.mean_over_all().ok_or_else(|| GraphError::Shape {
            node: self.node(self.output).name.clone(),
            op: "AdaptiveAvgPool",
            reason: "the model does not take one mean over all its features".to_owned(),
        })?;
        let view = self.input_shape().to_vec();
        let features = self.node(self.nodes[pool.0].inputs[0]).shape.clone();
        let (values, places) = (view.iter().product::<usize>(), features[1..].iter().product::<usize>());
        let channels = features[0];
        let mut over = Self { nodes: Vec::new(), ..self.clone() };
        let mut moved: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let first = NodeId(over.nodes.len());
            let of_last = if index == 0 {
                over.nodes.push(Node { shape: vec![values + 1 + places], ..node.clone() });
                let flat =
                    over.put("view.flat", Slice { axis: 0, start: 0, end: values }, &[first], vec![values]);
                over.put("view", Reshape(view.clone()), &[flat], view.clone())
            } else if index == pool.0 {
                let (start, end) = (values + 1, values + 1 + places);
                let shares = over.put("cells", Slice { axis: 0, start, end }, &[NodeId(0)], vec![places]);
                let shares = over.put("cells.column", Reshape(vec![places, 1]), &[shares], vec![places, 1]);
                let x = moved[node.inputs[0].0];
                let x =
                    over.put("cells.features", Reshape(vec![channels, places]), &[x], vec![channels, places]);
                let x = over.put("cells.mean", MatMul { transpose: false }, &[x, shares], vec![channels, 1]);
                over.put(&node.name, Reshape(node.shape.clone()), &[x], node.shape.clone())
            } else {
                let inputs = node.inputs.iter().map(|input| moved[input.0]).collect();
                over.nodes.push(Node { inputs, ..node.clone() });
                first
            };
            moved.push(of_last);
        }
        let begins = |id: NodeId| moved.get(id.0).copied().unwrap_or(NodeId(over.nodes.len()));
        let blocks = self.blocks.iter().map(|&block| begins(block)).collect();
        let (output, behind_blocks) = (moved[self.output.0], begins(self.behind_blocks));
        let auxiliary = self.auxiliary.iter();
        let auxiliary =
            auxiliary.map(|one| crate::Auxiliary { output: moved[one.output.0], ..*one }).collect();
        let over = Self { blocks, output, behind_blocks, auxiliary, ..over };
        crate::validate::check(&over)?;
        Ok(over)
    }

    /// The one node that takes the mean over all places of its input.
    fn mean_over_all(&self) -> Option<NodeId> {
        let all = |node: &Node| matches!(&node.op, Op::AdaptiveAvgPool(AdaptiveAvgPool(size)) if size.iter().all(|&side| side == 1));
        let mut found = (0..self.nodes.len()).filter(|&index| all(&self.nodes[index])).map(NodeId);
        found.next().filter(|_| found.next().is_none())
    }

    /// Puts a node behind all others.
    fn put(&mut self, name: &str, op: impl Into<Op>, inputs: &[NodeId], shape: Vec<usize>) -> NodeId {
        let op = op.into();
        debug_assert_eq!(
            op.operation().shape(&inputs.iter().map(|id| &self.node(*id).shape[..]).collect::<Vec<_>>(), &[]),
            Ok(shape.clone())
        );
        self.nodes.push(Node { name: name.to_owned(), op, inputs: inputs.to_vec(), shape });
        NodeId(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use crate::zoo::{self, Norm, ResNet, Vgg};

    #[test]
    fn the_last_mean_alone_is_another() {
        let clip = zoo::mvit_v2(zoo::MvitSize::Small, &[3, 4, 32, 32], 5).unwrap();
        assert_eq!(clip.pooled_grid(), None);
        let vgg = zoo::vgg(Vgg::V11, &[3, 32, 32], 5, Norm::Removed).unwrap();
        assert!(vgg.pooled_grid().is_none() && vgg.over_cells().is_err());
        let plain = zoo::resnet(ResNet::R18, &[3, 96, 64], 10, Norm::Group(32)).unwrap();
        assert_eq!(plain.pooled_grid(), Some(&[3, 2][..]));
        let graph = plain.over_cells().unwrap();
        assert_eq!(graph.input_shape(), [3 * 96 * 64 + 1 + 6]);
        assert_eq!((graph.parameters(), graph.output_shape()), (plain.parameters(), plain.output_shape()));
        assert_eq!(graph.block_names(), plain.block_names());
        for (index, node) in graph.nodes().iter().enumerate() {
            assert!(node.inputs.iter().all(|input| input.index() < index), "{}", node.name);
        }
        // What was fitted to the view is what it was.
        for node in plain.nodes().iter().skip(1) {
            let own = graph.nodes().iter().find(|own| own.name == node.name).unwrap();
            assert_eq!(own.shape, node.shape, "{}", node.name);
        }
        // A frozen trunk holds the mean, so its features are those of a part.
        let halves = graph.tuned(&crate::tune::Tuning::Head).unwrap().halves().unwrap();
        assert_eq!(halves.rest.input_shape(), [512]);
    }
}
