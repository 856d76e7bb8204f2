//! How the CPU makes the terms of relative positions.

use dapple_graph::op::PooledAttention;

use super::relative::{RelativeAxis, axes};
use crate::cpu::kernel::{Lanes, RowClass};
use crate::cpu::matrix::{Matrix, product, product_scratch};
use crate::cpu::operation::ItemValues;

/// Queries that have the same place along an axis, at even distances in memory.
#[derive(Debug, Clone, Copy)]
struct QueryRun {
    place: usize,
    first: usize,
    step: usize,
    count: usize,
}

/// The terms of all queries of one head.
#[derive(Debug)]
pub(super) struct RelativeTerms {
    axes: [RelativeAxis; 3],
    runs: [Vec<QueryRun>; 3],
    keys: [usize; 3],
    /// The number of features of a head.
    width: usize,
    /// The number of queries that have a position.
    queries: usize,
}

/// What the products of one head read and work in.
pub(super) struct HeadRows<'a> {
    pub(super) lanes: Lanes,
    pub(super) classes: &'a [RowClass],
    /// The head's part of the queries, from the first one that has a position on, and the distance from one query to the next.
    pub(super) queries: &'a [f32],
    pub(super) row: usize,
    /// The rows of the tables, `[pair, width]`.
    pub(super) rows: &'a [f32],
    pub(super) scratch: &'a mut [f32],
}

impl RelativeTerms {
    pub(super) fn new(op: &PooledAttention, width: usize) -> Self {
        let runs = [0, 1, 2].map(|axis| runs(op.queries, axis));
        Self { axes: axes(op), runs, keys: op.keys, width, queries: op.queries.iter().product() }
    }

    /// The number of terms of a query.
    pub(super) fn of_query(&self) -> usize {
        self.keys.iter().sum()
    }

    /// The number of terms of all queries.
    pub(super) fn len(&self) -> usize {
        self.queries * self.of_query()
    }

    /// How many numbers the rows of all pairs of places have.
    pub(super) fn rows_len(&self) -> usize {
        self.axes.iter().map(|axis| axis.rows.len()).sum::<usize>() * self.width
    }

    /// The number of rows of the largest product.
    pub(super) fn most_rows(&self) -> usize {
        let counts = self.runs.iter().flatten().map(|run| run.count);
        counts.chain(self.keys).max().unwrap_or(0)
    }

    /// How much scratch the products need.
    pub(super) fn scratch(&self, lanes: Lanes) -> usize {
        let of_run = |(axis, run): (&RelativeAxis, &QueryRun)| {
            let shapes = [
                (run.count, self.width, axis.keys),
                (run.count, axis.keys, self.width),
                (axis.keys, run.count, self.width),
            ];
            shapes.map(|(m, k, n)| product_scratch(lanes, m, k, n)).into_iter().max().unwrap_or(0)
        };
        self.each_run().map(of_run).max().unwrap_or(0)
    }

    /// Writes the row of the tables for every pair of places.
    pub(super) fn gather(&self, values: ItemValues<'_>, rows: &mut [f32]) {
        let places =
            self.axes.iter().flat_map(|axis| axis.rows.iter().map(move |row| (axis.table.values, row)));
        for ((table, row), to) in places.zip(rows.chunks_exact_mut(self.width)) {
            to.fill(0.0);
            for (stored, factor) in row.terms() {
                let from = &values.parameter(table)[stored * self.width..][..self.width];
                to.iter_mut().zip(from).for_each(|(to, from)| *to += factor as f32 * from);
            }
        }
    }

    /// Adds the gradients of an axis's rows to that of its table.
    pub(super) fn scatter(&self, axis: &RelativeAxis, rows: &[f32], table: &mut [f32]) {
        let of_axis = rows[axis.first_pair * self.width..].chunks_exact(self.width);
        for (row, from) in axis.rows.iter().zip(of_axis) {
            for (stored, factor) in row.terms() {
                let to = &mut table[stored * self.width..][..self.width];
                to.iter_mut().zip(from).for_each(|(to, from)| *to += factor as f32 * from);
            }
        }
    }

    pub(super) fn axes(&self) -> &[RelativeAxis; 3] {
        &self.axes
    }

    /// Every run of queries, with its axis.
    fn each_run(&self) -> impl Iterator<Item = (&RelativeAxis, &QueryRun)> {
        self.axes.iter().zip(&self.runs).flat_map(|(axis, runs)| runs.iter().map(move |run| (axis, run)))
    }

    /// Where the rows of a run's pairs begin.
    fn first_row(&self, axis: &RelativeAxis, run: &QueryRun) -> usize {
        (axis.first_pair + run.place * axis.keys) * self.width
    }

    /// Makes the terms of all queries of a head.
    pub(super) fn make(&self, head: HeadRows<'_>, terms: &mut [f32]) {
        let HeadRows { lanes, classes, queries, row, rows, scratch } = head;
        let of_query = self.of_query();
        terms.fill(0.0);
        for (axis, run) in self.each_run() {
            let queries = Matrix { data: &queries[run.first * row..], row: run.step * row, column: 1 };
            let table = Matrix::rows(&rows[self.first_row(axis, run)..], self.width).transposed();
            let target = &mut terms[run.first * of_query + axis.first_term..];
            let shape = (run.count, self.width, axis.keys);
            product(lanes, shape, queries, table, target, run.step * of_query, classes, scratch);
        }
    }

    /// Makes the gradients of the queries and of the rows from those of the terms, and adds them to what is there.
    pub(super) fn backward(
        &self,
        head: HeadRows<'_>,
        terms: &[f32],
        mut queries_gradient: Option<&mut [f32]>,
        rows_gradient: &mut [f32],
    ) {
        let HeadRows { lanes, classes, queries, row, rows, scratch } = head;
        let of_query = self.of_query();
        for (axis, run) in self.each_run() {
            let first = run.first * of_query + axis.first_term;
            let terms = Matrix { data: &terms[first..], row: run.step * of_query, column: 1 };
            let first_row = self.first_row(axis, run);
            if let Some(gradient) = &mut queries_gradient {
                let table = Matrix::rows(&rows[first_row..], self.width);
                let (shape, target) = ((run.count, axis.keys, self.width), &mut gradient[run.first * row..]);
                product(lanes, shape, terms, table, target, run.step * row, classes, scratch);
            }
            let queries = Matrix { data: &queries[run.first * row..], row: run.step * row, column: 1 };
            let (shape, target) = ((axis.keys, run.count, self.width), &mut rows_gradient[first_row..]);
            product(lanes, shape, terms.transposed(), queries, target, self.width, classes, scratch);
        }
    }

    /// Adds a query's terms to its scaled scores.
    pub(super) fn add_to_scores(&self, terms: &[f32], scores: &mut [f32]) {
        let (frames, rest) = terms.split_at(self.keys[0]);
        let (rows, columns) = rest.split_at(self.keys[1]);
        let lines = frames.iter().flat_map(|frame| rows.iter().map(move |row| frame + row));
        for (line, scores) in lines.zip(scores[1..].chunks_exact_mut(columns.len())) {
            scores.iter_mut().zip(columns).for_each(|(score, column)| *score += line + column);
        }
    }

    /// Makes the gradients of a query's terms from those of its scores.
    pub(super) fn sum_scores(&self, scores: &[f32], terms: &mut [f32]) {
        terms.fill(0.0);
        let (frames, rest) = terms.split_at_mut(self.keys[0]);
        let (rows, columns) = rest.split_at_mut(self.keys[1]);
        let mut lines = scores[1..].chunks_exact(columns.len());
        for frame in frames {
            for (row, line) in rows.iter_mut().zip(&mut lines) {
                let sum: f32 = line.iter().sum();
                *frame += sum;
                *row += sum;
                columns.iter_mut().zip(line).for_each(|(column, score)| *column += score);
            }
        }
    }
}

/// The runs of queries that have the same place along an axis. If only single places follow the axis, one run holds all queries of a place.
/// Otherwise a place has a run for each combination of places along the axes before it.
fn runs(grid: [usize; 3], axis: usize) -> Vec<QueryRun> {
    let (before, places): (usize, usize) = (grid[..axis].iter().product(), grid[axis]);
    let after: usize = grid[axis + 1..].iter().product();
    if after == 1 {
        return (0..places)
            .map(|place| QueryRun { place, first: place, step: places, count: before })
            .collect();
    }
    let run = |index: usize| QueryRun { place: index % places, first: index * after, step: 1, count: after };
    (0..before * places).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_one_run_of_its_place() {
        for grid in [[2, 3, 4], [1, 1, 5], [3, 1, 1], [2, 5, 1], [1, 1, 1]] {
            for axis in 0..3 {
                let after: usize = grid[axis + 1..].iter().product();
                let mut places = vec![None; grid.iter().product()];
                for run in runs(grid, axis) {
                    for index in 0..run.count {
                        assert_eq!(places[run.first + index * run.step].replace(run.place), None);
                    }
                }
                for (query, place) in places.iter().enumerate() {
                    assert_eq!(*place, Some(query / after % grid[axis]), "{grid:?} {axis} {query}");
                }
            }
        }
    }
}
