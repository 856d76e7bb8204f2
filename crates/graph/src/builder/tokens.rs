//! Operations over tokens that lie in a grid, behind a token that has no position.

use super::GraphBuilder;
use crate::error::GraphError;
use crate::graph::NodeId;
use crate::init::Init;
use crate::op::{PooledAttention, RelativeTable, TokenConv, Window};

impl GraphBuilder {
    /// Adds a depthwise convolution of the tokens behind the first over their grid, with one bank of filters for all heads, `name.weight`.
    ///
    /// # Errors
    /// If the tokens are not one and this grid, the heads do not divide the features, the window does not fit, or the name is taken.
    pub fn token_conv(
        &mut self,
        name: &str,
        input: NodeId,
        grid: [usize; 3],
        window: Window,
        heads: usize,
    ) -> Result<NodeId, GraphError> {
        let refuse = |reason| GraphError::Shape { node: name.into(), op: "TokenConv", reason };
        let shape =
            TokenConv::weight_shape(&window, heads, self.input_shapes(&[input])?[0]).map_err(refuse)?;
        let weight = self.parameter(&format!("{name}.weight"), &shape, Init::UniformFanIn, false)?;
        self.add(name, TokenConv { grid, window, heads, weight }, &[input])
    }

    /// Adds the attention of query, key and value whose tokens lie in these grids, the queries' first, with tables of so many rows for time,
    /// height and width: `name.rel_pos_t`, `name.rel_pos_h` and `name.rel_pos_w`. Behind the three inputs may stand the numbers of the keys.
    ///
    /// # Errors
    /// If tokens, grids, heads and tables do not suit each other, or the name is taken.
    pub fn pooled_attention(
        &mut self,
        name: &str,
        inputs: &[NodeId],
        heads: usize,
        [queries, keys]: [[usize; 3]; 2],
        rows: [usize; 3],
    ) -> Result<NodeId, GraphError> {
        let query = self.input_shapes(inputs)?.first().copied().unwrap_or_default();
        let features = query.last().copied().unwrap_or(0);
        let width = features.checked_div(heads).unwrap_or(0);
        let mut table = |axis: usize| {
            let name = format!("{name}.rel_pos_{}", ["t", "h", "w"][axis]);
            let values = self.parameter(&name, &[rows[axis], width], Init::Normal(0.02), false)?;
            Ok::<_, GraphError>(RelativeTable { rows: rows[axis], values })
        };
        let tables = [table(0)?, table(1)?, table(2)?];
        self.add(name, PooledAttention { heads, queries, keys, tables }, inputs)
    }
}
