//! Which values of a model dropout at one half splits in two (Algorithm 2 and Corollary 3.7 of the partitioning paper).
//!
//! While a unit is dropped, the weights that lead into it and those that read it have no gradient. So a mask and its complement, which are
//! equally likely, move disjoint sets of these weights, and a record that draws its mask in secret updates one of two disjoint submodels.
//! All else, like a bias behind the unit, moves under both.

mod tags;
mod units;

pub use units::{DropoutUnits, UnitLayer};

use crate::graph::{Graph, Node, ParameterId};
use crate::op::Op;
use tags::{UnitTag, gates, of_channels, of_features, silences};

/// The parameters of a graph that dropout splits, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropoutSplit {
    units: DropoutUnits,
    parameters: Vec<SplitParameter>,
}

/// A weight or bias, and the units that each of its values touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitParameter {
    /// The parameter.
    pub id: ParameterId,
    /// The unit that each row leads into, if it leads nowhere else.
    rows: Vec<UnitTag>,
    /// The unit that each input is zero with; empty for a bias.
    columns: Vec<UnitTag>,
    /// Inputs of each row, which are fewer than all where channels come in groups.
    inputs: usize,
    /// Values for each row and input.
    taps: usize,
    groups: usize,
}

impl Graph {
    /// The values that dropout at one half splits in two.
    ///
    /// # Guarantee
    /// Take any sample whose values and gradients are finite, with one mask for all its views. The gradient of a split value, before or
    /// after the mean over views, is exactly zero unless all of its [units](SplitParameter::units) are kept. So no split value has a gradient
    /// both under a mask and under its complement, where every unit of the graph is turned round at once, however many dropout layers lie
    /// before or behind one another.
    ///
    /// What cannot be shown from the graph alone counts as not split: norms, whatever lies before an operation that mixes units, inputs
    /// with a way around the unit, parameters that are read more than once, and inputs of standardised filters, whose gradient is projected.
    pub fn dropout_split(&self) -> DropoutSplit {
        let units = self.dropout_units();
        if units.is_empty() {
            return DropoutSplit { units, parameters: Vec::new() };
        }
        let (silences, gates) = (silences(self, &units), gates(self, &units));
        let mut readers = vec![0; self.parameters.len()];
        for id in self.nodes.iter().flat_map(|node| node.op.parameters()) {
            readers[id.0] += 1;
        }
        let mut parameters = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let input = node.inputs.first().map(|input| (&self.nodes[input.0], silences[input.0].as_deref()));
            let Some(input) = input else { continue };
            let touched = self.touched(node, gates[index].as_deref(), input);
            parameters.extend(touched.into_iter().filter(|split| readers[split.id.0] == 1));
        }
        parameters.retain(SplitParameter::is_touched);
        DropoutSplit { units, parameters }
    }

    /// The parameters of a layer, with the units that its outputs lead into and its inputs are zero with.
    fn touched(
        &self,
        node: &Node,
        gates: Option<&[UnitTag]>,
        (input, silences): (&Node, Option<&[UnitTag]>),
    ) -> Vec<SplitParameter> {
        type ByAxis = fn(&[UnitTag], &Node) -> Vec<UnitTag>;
        let (weight, bias, groups, standardised, by_axis): (_, _, _, _, ByAxis) = match &node.op {
            Op::Linear(linear) => (linear.weight, linear.bias, 1, false, of_features),
            Op::Conv(conv) => (conv.weight, conv.bias, conv.groups, conv.standardise.is_some(), of_channels),
            _ => return Vec::new(),
        };
        let shape = &self.parameters[weight.0].shape;
        let rows = gates.map_or_else(|| vec![None; shape[0]], |tags| by_axis(tags, node));
        let columns = silences.filter(|_| !standardised).map(|tags| by_axis(tags, input));
        let columns = columns.unwrap_or_else(|| vec![None; shape[1] * groups]);
        let taps = shape[2..].iter().product();
        let bias = bias.map(|id| SplitParameter {
            id,
            rows: rows.clone(),
            columns: Vec::new(),
            inputs: 1,
            taps: 1,
            groups: 1,
        });
        let weight = SplitParameter { id: weight, rows, columns, inputs: shape[1], taps, groups };
        std::iter::once(weight).chain(bias).collect()
    }
}

impl DropoutSplit {
    /// The units whose coins split the model.
    pub fn units(&self) -> &DropoutUnits {
        &self.units
    }

    /// The parameters of which at least one value is split.
    pub fn parameters(&self) -> &[SplitParameter] {
        &self.parameters
    }

    /// The parameters of which every value is split.
    pub fn whole(&self) -> impl Iterator<Item = ParameterId> {
        self.parameters.iter().filter(|split| split.is_whole()).map(|split| split.id)
    }
}

impl SplitParameter {
    /// The units that a value touches, by its place in row-major order: the one that it leads into, and the one that its input is zero
    /// with. The value is split if there is one.
    pub fn units(&self, value: usize) -> [Option<usize>; 2] {
        let row = value / (self.inputs * self.taps);
        let input = value / self.taps % self.inputs;
        let group = row * self.groups / self.rows.len();
        [self.rows[row], self.columns.get(group * self.inputs + input).copied().flatten()]
    }

    /// Whether every value is split.
    pub fn is_whole(&self) -> bool {
        let all = |tags: &[UnitTag]| !tags.is_empty() && tags.iter().all(Option::is_some);
        all(&self.rows) || all(&self.columns)
    }

    fn is_touched(&self) -> bool {
        self.rows.iter().chain(&self.columns).any(Option::is_some)
    }
}

#[cfg(test)]
mod tests;
