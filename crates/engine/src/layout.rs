//! Where the trainable parameters of a graph lie in a flat gradient.

use std::ops::Range;

use dapple_graph::op::Conv;
use dapple_graph::{Graph, Op, ParameterId};

/// One trainable parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutEntry {
    /// The parameter.
    pub id: ParameterId,
    /// Its name.
    pub name: String,
    /// Where it lies in a flat gradient.
    pub range: Range<usize>,
    /// The layer it belongs to. Neighbouring parameters form a layer if their names are the same up to the last dot.
    pub layer: usize,
    /// The number of weights of each of its filters, if these are standardised before they are used.
    pub filter: Option<usize>,
}

impl LayoutEntry {
    /// Whether it is standardised before it is used.
    pub fn standardised(&self) -> bool {
        self.filter.is_some()
    }
}

/// The trainable parameters of a graph, one after the other in the graph's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<LayoutEntry>,
    positions: Vec<Option<usize>>,
    layers: usize,
    len: usize,
}

impl Layout {
    /// The layout of a graph's gradient.
    pub fn new(graph: &Graph) -> Self {
        let mut layout = Self { entries: Vec::new(), positions: Vec::new(), layers: 0, len: 0 };
        let mut previous: Option<String> = None;
        let standardised = |id: ParameterId| {
            graph.nodes().iter().any(
                |node| matches!(&node.op, Op::Conv(Conv { weight, standardise: Some(_), .. }) if *weight == id),
            )
        };
        for parameter in graph.parameters() {
            if !parameter.trainable {
                layout.positions.push(None);
                continue;
            }
            let prefix = parameter.name.rsplit_once('.').map_or("", |(prefix, _)| prefix).to_owned();
            if previous.as_ref() != Some(&prefix) {
                layout.layers += 1;
            }
            previous = Some(prefix);
            layout.positions.push(Some(layout.entries.len()));
            if let Some(id) = graph.find_parameter(&parameter.name) {
                let range = layout.len..layout.len + parameter.len();
                layout.len = range.end;
                layout.entries.push(LayoutEntry {
                    id,
                    name: parameter.name.clone(),
                    range,
                    layer: layout.layers - 1,
                    filter: standardised(id).then(|| parameter.len() / parameter.shape[0].max(1)),
                });
            }
        }
        layout
    }

    /// The layout of a vector that is one parameter, for vectors of which no graph is known.
    pub fn of_vector(len: usize) -> Self {
        let (id, name) = (ParameterId::at(0), "vector".to_owned());
        let entry = LayoutEntry { id, name, range: 0..len, layer: 0, filter: None };
        Self { entries: vec![entry], positions: vec![Some(0)], layers: 1, len }
    }

    /// The trainable parameters, in order.
    pub fn entries(&self) -> &[LayoutEntry] {
        &self.entries
    }

    /// The position of a parameter among the trainable ones; `None` if it is frozen.
    pub fn position(&self, id: ParameterId) -> Option<usize> {
        self.positions[id.index()]
    }

    /// Whether any parameter is standardised before it is used.
    pub fn standardised(&self) -> bool {
        self.entries.iter().any(LayoutEntry::standardised)
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Number of values in a flat gradient.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing trains.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
