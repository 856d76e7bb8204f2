//! Where the terms of relative positions lie, axis by axis.

use dapple_graph::op::{PooledAttention, RelativeRow, RelativeTable};

/// One axis of the grids.
#[derive(Debug)]
pub(super) struct RelativeAxis {
    pub(super) table: RelativeTable,
    /// The number of places of keys.
    pub(super) keys: usize,
    /// The row that each pair of a query's place and a key's place reads.
    pub(super) rows: Vec<RelativeRow>,
    /// Where its terms begin among all of a query's. There is one for each place of a key.
    pub(super) first_term: usize,
    /// How many pairs of places the axes before it have.
    pub(super) first_pair: usize,
}

/// The axes of time, height and width.
pub(super) fn axes(op: &PooledAttention) -> [RelativeAxis; 3] {
    let (mut first_term, mut first_pair) = (0, 0);
    [0, 1, 2].map(|axis| {
        let (table, queries, keys) = (op.tables[axis], op.queries[axis], op.keys[axis]);
        let rows = table.row_of_each_pair(queries, keys);
        let axis = RelativeAxis { table, keys, rows, first_term, first_pair };
        first_term += keys;
        first_pair += queries * keys;
        axis
    })
}
