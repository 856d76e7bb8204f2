//! Attention between tokens that were pooled.

use dapple_graph::op::PooledAttention;

use super::OnnxOperation;
use super::tokens::{HeadsApart, attended, heads_together, of_subset};
use crate::file::OnnxFile;
use crate::node::WrittenNode;

impl OnnxOperation for PooledAttention {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let width = node.shape[1] / self.heads;
        let (queries, keys) = (node.shapes[0][0], node.shapes[1][0]);
        let values = [(node.inputs[0], queries), (node.inputs[1], keys), (node.inputs[2], keys)];
        let heads = HeadsApart::new(node, file, values, (self.heads, width));
        let scores = heads.scores(node, file, width);
        let relative = relative(self, node, file, &heads.query, width);
        let mut scores = file.add("Add", &node.part("all_scores"), &[&scores, &relative], Vec::new());
        if let Some(numbers) = node.inputs.get(3) {
            scores = of_subset(node, file, &scores, (numbers, keys));
        }
        let found = attended(node, file, &scores, &heads.value);
        // Every query but the first is added to its own output.
        let mut own = vec![1.0; queries];
        own[0] = 0.0;
        let own = file.numbers(&node.part("own"), &[queries, 1], own);
        let own = file.add("Mul", &node.part("own_query"), &[&heads.query, &own], Vec::new());
        let found = file.add("Add", &node.part("with_query"), &[&found, &own], Vec::new());
        heads_together(node, file, &found)
    }
}

/// What is added to the scores for the distances along the three axes, with zeros for the first tokens: `[batch, heads, queries, keys]`.
fn relative(
    op: &PooledAttention,
    node: &WrittenNode<'_>,
    file: &mut OnnxFile<'_>,
    query: &str,
    width: usize,
) -> String {
    let PooledAttention { heads, queries, keys, .. } = *op;
    let places: usize = queries.iter().product();
    let placed = file.slice(&node.part("placed"), query, 2, (1, 1 + places));
    let placed = file.reshape(&node.part("grid"), &placed, &[&[heads][..], &queries, &[width]].concat());
    let axes = [0, 1, 2].map(|axis| along_axis(op, node, file, &placed, axis, width));
    let sum = file.add("Add", &node.part("two_axes"), &[&axes[0], &axes[1]], Vec::new());
    let sum = file.add("Add", &node.part("axes"), &[&sum, &axes[2]], Vec::new());
    let sum = file.reshape(&node.part("pairs"), &sum, &[heads, places, keys.iter().product()]);
    let zeros = file.integers(&node.part("first_tokens"), &[0, 0, 1, 1, 0, 0, 0, 0]);
    file.add("Pad", &node.part("relative"), &[&sum, &zeros], Vec::new())
}

/// The products of every placed query with the rows of one axis's table: `[batch, heads, frames, rows, columns, keys..]`, in which the two
/// other axes of the keys have size one.
fn along_axis(
    op: &PooledAttention,
    node: &WrittenNode<'_>,
    file: &mut OnnxFile<'_>,
    placed: &str,
    axis: usize,
    width: usize,
) -> String {
    let at = |part: &str| node.part(&format!("axis{axis}/{part}"));
    let (heads, queries, keys) = (op.heads, op.queries, op.keys[axis]);
    let table = op.tables[axis];
    let stored = file.values(table.values);
    // [queries, width, keys]
    let mut rows = vec![0.0; queries[axis] * width * keys];
    for (pair, row) in table.row_of_each_pair(queries[axis], keys).into_iter().enumerate() {
        let (query, key) = (pair / keys, pair % keys);
        for (stored_row, share) in row.terms() {
            for feature in 0..width {
                rows[(query * width + feature) * keys + key] +=
                    share as f32 * stored[stored_row * width + feature];
            }
        }
    }
    let rows = file.parameter_as(table.values, &[queries[axis], width, keys], rows);
    // The axis comes first, so that one product of matrices belongs to each of its places.
    let own = axis as i64 + 2;
    let first: Vec<i64> = std::iter::once(own).chain((0..=5).filter(|&other| other != own)).collect();
    let turned = file.transpose(&at("first"), placed, &first);
    let flat = file.reshape_to(&at("flat"), &turned, &[queries[axis] as i64, -1, width as i64]);
    let products = file.add("MatMul", &at("products"), &[&flat, &rows], Vec::new());
    let others: Vec<usize> = (0..3).filter(|&other| other != axis).map(|other| queries[other]).collect();
    let apart = [queries[axis] as i64, -1, heads as i64, others[0] as i64, others[1] as i64, keys as i64];
    let apart = file.reshape_to(&at("apart"), &products, &apart);
    let back: Vec<i64> = (0..=5)
        .map(|place: i64| {
            first.iter().position(|&from| from == place).expect("axes are only reordered") as i64
        })
        .collect();
    let back = file.transpose(&at("back"), &apart, &back);
    let mut shape = [&[heads][..], &queries, &[1, 1, 1]].concat();
    shape[4 + axis] = keys;
    file.reshape(&at("scores"), &back, &shape)
}
