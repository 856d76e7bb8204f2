//! Steps that both kinds of attention take.

use crate::file::{Attribute, OnnxFile};
use crate::node::WrittenNode;

/// Query, key and value with their heads apart, `[batch, heads, tokens, width]`, the last two axes of the key swapped.
pub(crate) struct HeadsApart {
    pub(crate) query: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

impl HeadsApart {
    /// Parts the heads of values `[tokens, features]` of these lengths.
    pub(crate) fn new(
        node: &WrittenNode<'_>,
        file: &mut OnnxFile<'_>,
        values: [(&str, usize); 3],
        (heads, width): (usize, usize),
    ) -> Self {
        let parts = [("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])];
        let mut apart = values.into_iter().zip(parts).map(|((value, tokens), (part, axes))| {
            let heads = file.reshape(&node.part(&format!("{part}/heads")), value, &[tokens, heads, width]);
            file.transpose(&node.part(part), &heads, &axes)
        });
        let mut next = || apart.next().expect("there are three parts");
        Self { query: next(), key: next(), value: next() }
    }

    /// The scaled products of queries and keys, `[batch, heads, queries, keys]`.
    pub(crate) fn scores(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>, width: usize) -> String {
        let scaled =
            file.with_number("Mul", &node.part("scaled"), &self.query, (width as f32).sqrt().recip());
        file.add("MatMul", &node.part("scores"), &[&scaled, &self.key], Vec::new())
    }
}

/// Scores by which nobody attends to a key whose number is zero.
pub(crate) fn of_subset(
    node: &WrittenNode<'_>,
    file: &mut OnnxFile<'_>,
    scores: &str,
    (numbers, keys): (&str, usize),
) -> String {
    let excluded = file.with_number("Equal", &node.part("excluded"), numbers, 0.0);
    let excluded = file.reshape(&node.part("excluded_keys"), &excluded, &[1, 1, keys]);
    let least = file.numbers(&node.part("least"), &[], vec![f32::NEG_INFINITY]);
    file.add("Where", &node.part("of_subset"), &[&excluded, &least, scores], Vec::new())
}

/// The values weighted by the softmax of scores, `[batch, heads, queries, width]`.
pub(crate) fn attended(node: &WrittenNode<'_>, file: &mut OnnxFile<'_>, scores: &str, value: &str) -> String {
    let along = vec![("axis", Attribute::Integer(-1))];
    let weights = file.add("Softmax", &node.part("weights"), &[scores], along);
    file.add("MatMul", &node.part("attended"), &[&weights, value], Vec::new())
}

/// The heads side by side again, `[batch, tokens, features]`.
pub(crate) fn heads_together(node: &WrittenNode<'_>, file: &mut OnnxFile<'_>, value: &str) -> String {
    let turned = file.transpose(&node.part("tokens"), value, &[0, 2, 1, 3]);
    file.reshape(node.name, &turned, node.shape)
}
