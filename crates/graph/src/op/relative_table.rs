//! Tables of relative positions.

use crate::graph::ParameterId;

/// What a query is multiplied by for its distance to a key along one axis: a table with one row for each distance, as wide as a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeTable {
    /// How many rows are stored. If the axis has another number of distances, the table is resampled linearly.
    pub rows: usize,
    /// `[rows, features / heads]`.
    pub values: ParameterId,
}

/// A row of a table that was resampled: `(1 - share) low + share high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeRow {
    /// The number of a stored row.
    pub low: usize,
    /// The number of the next stored row, or the same number if there is none.
    pub high: usize,
    /// The share of the second row.
    pub share: f64,
}

impl RelativeRow {
    /// The stored rows whose share is not zero, each with its share.
    pub fn terms(self) -> impl Iterator<Item = (usize, f64)> {
        let terms = [(self.low, 1.0 - self.share), (self.high, self.share)];
        terms.into_iter().filter(|&(_, factor)| factor != 0.0)
    }
}

impl RelativeTable {
    /// The row for every pair of a query's place and a key's place, `[queries, keys]`.
    ///
    /// The axis with fewer places is stretched to the length of the other. Row 0 stands for the distance from the first query to the last
    /// key, as in MViTv2 (Li et al. 2022).
    pub fn row_of_each_pair(self, queries: usize, keys: usize) -> Vec<RelativeRow> {
        let (q, k) = (queries as f64, keys as f64);
        let (query_step, key_step) = ((k / q).max(1.0), (q / k).max(1.0));
        let distances = 2 * queries.max(keys) - 1;
        let pair = |query: usize, key: usize| {
            let distance = query as f64 * query_step - (key as f64 + 1.0 - k) * key_step;
            self.resampled(distance as usize, distances)
        };
        (0..queries)
            .flat_map(|query| (0..keys).map(move |key| (query, key)))
            .map(|(q, k)| pair(q, k))
            .collect()
    }

    /// One row of this table after it has been resampled to `rows` rows. Rows are taken for cells, which are read at their middles.
    fn resampled(self, row: usize, rows: usize) -> RelativeRow {
        if rows == self.rows {
            return RelativeRow { low: row, high: row, share: 0.0 };
        }
        let place = ((row as f64 + 0.5) * (self.rows as f64 / rows as f64) - 0.5).max(0.0);
        let low = (place as usize).min(self.rows - 1);
        let high = (low + 1).min(self.rows - 1);
        RelativeRow { low, high, share: if high > low { place - low as f64 } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(stored: usize, queries: usize, keys: usize) -> Vec<(usize, usize, f64)> {
        let table = RelativeTable { rows: stored, values: ParameterId(0) };
        let rows = table.row_of_each_pair(queries, keys);
        rows.into_iter().map(|RelativeRow { low, high, share }| (low, high, share)).collect()
    }

    #[test]
    fn a_distance_has_a_row() {
        let plain = |rows: &[usize]| rows.iter().map(|&row| (row, row, 0.0)).collect::<Vec<_>>();
        assert_eq!(rows(5, 3, 3), plain(&[2, 1, 0, 3, 2, 1, 4, 3, 2]));
        assert_eq!(rows(7, 4, 2), plain(&[2, 0, 3, 1, 4, 2, 5, 3]));
        assert_eq!(rows(7, 2, 4), plain(&[3, 2, 1, 0, 5, 4, 3, 2]));
        assert_eq!(rows(1, 1, 1), plain(&[0]));
    }

    /// The expected values are those of `torch.nn.functional.interpolate(mode = "linear")` from `[0, 1, 2]` to five values, and from one.
    #[test]
    fn a_table_of_another_size_is_resampled() {
        let values: Vec<f64> = rows(3, 3, 3)[..]
            .iter()
            .map(|&(low, high, share)| low as f64 + (high - low) as f64 * share)
            .collect();
        for (got, want) in values.iter().zip([1.0, 0.4, 0.0, 1.6, 1.0, 0.4, 2.0, 1.6, 1.0]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
        assert!(rows(1, 3, 2).iter().all(|row| *row == (0, 0, 0.0)));
    }
}
