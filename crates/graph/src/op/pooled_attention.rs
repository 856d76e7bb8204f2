//! Attention between tokens that were pooled.

use super::shape::elements;
use super::{GraphOperation, RelativeTable};
use crate::graph::{Parameter, ParameterId};

/// The attention of MViTv2 (Li et al. 2022), in several heads. The queries, `[1 + positions, features]`, lie in one grid, and the keys and
/// values in another. The first token of each has no position.
///
/// The score of a query and a key is their scaled product. If both have positions, the query's product with one row of each axis's table is
/// added, and their distance along the axis chooses the row. A query that has a position is also added to its own output.
///
/// Behind the three inputs there may be another of `[1 + positions]` of the keys: no query attends to a key whose number is zero, which then
/// changes nothing and has no gradient, both to the last bit, as long as its own values are finite. At least one number must not be zero.
/// The numbers themselves have no gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PooledAttention {
    /// The number of heads, which must divide the features.
    pub heads: usize,
    /// Frames, rows and columns of the grid of queries.
    pub queries: [usize; 3],
    /// Frames, rows and columns of the grid of keys and values.
    pub keys: [usize; 3],
    /// The tables of time, height and width.
    pub tables: [RelativeTable; 3],
}

impl GraphOperation for PooledAttention {
    fn name(&self) -> &'static str {
        "PooledAttention"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.tables.iter().map(|table| table.values).collect()
    }

    fn arity(&self) -> Option<usize> {
        None
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let Self { heads, queries, keys, tables } = self;
        let (query, key, value) = match *inputs {
            [query, key, value] => (query, key, value),
            [query, key, value, &[numbers]] if key.first() == Some(&numbers) => (query, key, value),
            _ => {
                return Err(format!(
                    "{inputs:?} are not query, key and value, and a number for each key or none"
                ));
            }
        };
        let of_grid = |tokens: usize, grid: &[usize]| {
            !grid.contains(&0) && elements(grid).is_some_and(|places| tokens == places + 1)
        };
        let features = match (query, key) {
            (&[q, features], &[k, width])
                if width == features && key == value && of_grid(q, queries) && of_grid(k, keys) =>
            {
                features
            }
            _ => {
                return Err(format!(
                    "query {query:?}, key {key:?}, value {value:?} are not one token and grids of {queries:?} and {keys:?}"
                ));
            }
        };
        if *heads == 0 || !features.is_multiple_of(*heads) {
            return Err(format!("{features} features do not divide into {heads} heads"));
        }
        for table in tables {
            let (shape, wanted) = (&parameters[table.values.index()].shape, [table.rows, features / heads]);
            if *shape != wanted || table.rows == 0 {
                return Err(format!("a table of shape {shape:?} is not of {wanted:?}"));
            }
        }
        Ok(query.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Reshape, Slice};
    use crate::{GraphBuilder, Init};

    #[test]
    fn grids_and_tables_suit_the_tokens() {
        let mut builder = GraphBuilder::new(&[13, 8]);
        let query = builder.input();
        let key = builder.add("key", Slice { axis: 0, start: 0, end: 5 }, &[query]).unwrap();
        let tables = [1, 5, 3].map(|rows| {
            let name = format!("table{rows}");
            let values = builder.parameter(&name, &[rows, 4], Init::Constant(0.0), false).unwrap();
            RelativeTable { rows, values }
        });
        let [time, height, width] = tables;
        let other = RelativeTable { rows: 4, ..height };
        for (heads, queries, keys, tables, fits) in [
            (2, [1, 3, 4], [1, 2, 2], tables, true),
            (2, [2, 3, 2], [4, 1, 1], tables, true),
            (2, [1, 3, 4], [1, 2, 2], [time, other, width], false),
            (2, [1, 3, 3], [1, 2, 2], tables, false),
            (2, [1, 3, 4], [1, 2, 3], tables, false),
            (4, [1, 3, 4], [1, 2, 2], tables, false),
            (3, [1, 3, 4], [1, 2, 2], tables, false),
            (0, [1, 3, 4], [1, 2, 2], tables, false),
        ] {
            let name = format!("{heads} {queries:?} {keys:?} {tables:?}");
            let attention = PooledAttention { heads, queries, keys, tables };
            assert_eq!(builder.add(&name, attention, &[query, key, key]).is_ok(), fits, "{name}");
        }
        let attention = PooledAttention { heads: 2, queries: [1, 3, 4], keys: [1, 2, 2], tables };
        assert!(builder.add("values", attention, &[query, key, query]).is_err());
        assert!(builder.add("two", attention, &[query, key]).is_err());
        let numbers = builder.add("flat", Reshape(vec![13 * 8]), &[query]).unwrap();
        let mut first =
            |end| builder.add(&format!("{end}"), Slice { axis: 0, start: 0, end }, &[numbers]).unwrap();
        let (five, four) = (first(5), first(4));
        assert!(builder.add("numbers", attention, &[query, key, key, four]).is_err());
        let tables = tables.map(|table| {
            let name = format!("other{}", table.rows);
            let values = builder.parameter(&name, &[table.rows, 4], Init::Constant(0.0), false).unwrap();
            RelativeTable { values, ..table }
        });
        builder.add("subset", PooledAttention { tables, ..attention }, &[query, key, key, five]).unwrap();
    }
}
