//! A graph as the steps that run on the card: nodes with their sizes and tables, reshapes and activations folded away.

use dapple_graph::{Graph, Op, Window, op};

use super::geometry::Geometry;
use super::kind::{Conv, GELU, Kind, Move, RELU, RELU6, SCALE, SILU, TANH, Tiled};
use super::resampling;
use super::tile::Tile;

/// A graph's steps, indexed like its nodes.
#[derive(Debug)]
pub(crate) struct Steps {
    /// What each node does; `None` where an earlier node's value is its own.
    pub(crate) kinds: Vec<Option<Kind>>,
    /// The node whose value each node's is.
    pub(crate) roots: Vec<usize>,
    /// Roots of the inputs.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// Values per item.
    pub(crate) lens: Vec<usize>,
    pub(crate) needs_gradient: Vec<bool>,
    pub(crate) output: usize,
    /// All outputs that have a loss, and what it is multiplied by: the output itself first.
    pub(crate) outputs: Vec<(usize, f32)>,
    /// All tables, one after the other.
    pub(crate) tables: Vec<i32>,
    /// Numbers of all standardised weights, of one over their deviations, and of weights arranged for a tiling.
    pub(crate) used_len: usize,
    pub(crate) inverses_len: usize,
    pub(crate) arranged_len: usize,
    /// Where each parameter starts.
    pub(crate) parameters: Vec<usize>,
    pub(crate) parameters_len: usize,
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

impl Steps {
    /// Lowers a graph.
    pub(crate) fn new(graph: &Graph) -> Self {
        let nodes = graph.nodes();
        let mut readers = vec![0usize; nodes.len()];
        nodes.iter().flat_map(|node| &node.inputs).for_each(|id| readers[id.index()] += 1);
        let outputs: Vec<(usize, f32)> = std::iter::once((graph.output().index(), 1.0))
            .chain(graph.auxiliary().iter().map(|auxiliary| (auxiliary.output.index(), auxiliary.weight)))
            .collect();
        outputs.iter().for_each(|(output, _)| readers[*output] += 1);
        let mut steps = Self {
            kinds: Vec::new(),
            roots: Vec::new(),
            inputs: Vec::new(),
            lens: nodes.iter().map(|node| node.len()).collect(),
            needs_gradient: graph.needs_gradient(),
            output: 0,
            outputs: Vec::new(),
            tables: Vec::new(),
            used_len: 0,
            inverses_len: 0,
            arranged_len: 0,
            parameters: Vec::new(),
            parameters_len: 0,
        };
        for parameter in graph.parameters() {
            steps.parameters.push(steps.parameters_len);
            steps.parameters_len += parameter.len();
        }
        for (index, node) in nodes.iter().enumerate() {
            let inputs: Vec<usize> = node.inputs.iter().map(|id| steps.roots[id.index()]).collect();
            let shapes: Vec<&[usize]> =
                node.inputs.iter().map(|id| nodes[id.index()].shape.as_slice()).collect();
            let before: Vec<usize> = node.inputs.iter().map(|id| id.index()).collect();
            let only = |before: usize| readers[before] == 1;
            let folded = match (&node.op, &before[..]) {
                (Op::Reshape(_), [_]) => Some(inputs[0]),
                (Op::Activation(op::Activation::Relu), &[before]) if only(before) => {
                    steps.fold_relu(before, matches!(nodes[before].op, Op::Add(_)))
                }
                (Op::Add(_), &[a, b]) if only(a.max(b)) => steps.fold_sum(index, a.min(b), a.max(b)),
                _ => None,
            };
            let kind =
                folded.is_none().then(|| steps.kind(&node.op, &shapes, &node.shape, inputs.first().copied()));
            steps.roots.push(folded.unwrap_or(index));
            steps.kinds.push(kind);
            steps.inputs.push(inputs);
        }
        steps.output = steps.roots[graph.output().index()];
        steps.outputs = outputs.iter().map(|&(output, weight)| (steps.roots[output], weight)).collect();
        steps
    }

    /// Lets the norm before a ReLU do its work, be it the norm itself that is `before` or a sum that was folded into one.
    fn fold_relu(&mut self, before: usize, sum: bool) -> Option<usize> {
        let root = if sum { self.roots[before] } else { before };
        match &mut self.kinds[root] {
            Some(Kind::Group { relu, residual, .. }) if *residual == sum => {
                *relu = true;
                Some(root)
            }
            _ => None,
        }
    }

    /// Lets the norm that is the later of a sum's two inputs add the other.
    fn fold_sum(&mut self, sum: usize, other: usize, norm: usize) -> Option<usize> {
        let other = self.roots[other];
        match &mut self.kinds[norm] {
            Some(Kind::Group { residual, relu: false, .. }) if !*residual && other < norm => {
                *residual = true;
                self.inputs[norm].push(other);
                self.needs_gradient[norm] |= self.needs_gradient[sum];
                Some(norm)
            }
            _ => None,
        }
    }

    fn table(&mut self, values: Vec<i32>) -> usize {
        // Kernels read rows of four at once.
        self.tables.resize(self.tables.len().next_multiple_of(4), 0);
        let start = self.tables.len();
        self.tables.extend(values);
        start
    }

    /// Places a tiling's tables, and weights for this many rows of products.
    fn tiled(&mut self, tile: Tile, rows: usize) -> Tiled {
        let (offsets, taps) = (self.table(tile.offsets.clone()), self.table(tile.taps.clone()));
        let arranged = self.arranged_len;
        // Rows are copied four numbers at a time.
        self.arranged_len += (rows * tile.inner).next_multiple_of(4);
        Tiled { tile, offsets, taps, arranged }
    }

    fn window(&mut self, window: &Window, input: &[usize], output: &[usize]) -> usize {
        let table = Geometry::new(window, 1, input, output).window_table();
        self.table(table)
    }

    fn kind(&mut self, op: &Op, inputs: &[&[usize]], shape: &[usize], before: Option<usize>) -> Kind {
        let x = inputs.first().copied().unwrap_or(&[]);
        let positions = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
        let last = |shape: &[usize]| shape.last().copied().unwrap_or(1);
        let rows = |shape: &[usize]| shape.iter().product::<usize>() / last(shape);
        let free = |size: &[usize]| Window::new(size.len(), 1);
        match op {
            // A reshape is always folded into its input.
            Op::Input(_) | Op::Reshape(_) => Kind::Input,
            Op::ParameterValue(op::ParameterValue(id)) => Kind::Parameter(*id),
            Op::Conv(op::Conv { window, groups, weight, bias, standardise }) => {
                let geometry = Geometry::new(window, *groups, x, shape);
                let gradient_tile = Tile::weight_gradient(&geometry).map(|tile| self.tiled(tile, 0));
                let read = geometry.read();
                let sum_tile = Tile::weight_sum(read.as_ref().unwrap_or(&geometry));
                let sum_tile = sum_tile.map(|tile| self.tiled(tile, 0));
                let tables = match gradient_tile {
                    Some(_) => (0, 0),
                    None => {
                        let (taps, places) = geometry.forward_tables();
                        (self.table(taps), self.table(places))
                    }
                };
                let forward_tile = Tile::forward(&geometry).map(|tile| self.tiled(tile, geometry.out));
                let wanted = before.is_some_and(|before| self.needs_gradient[before]);
                let backward_tiles = Tile::backward(&geometry).filter(|_| wanted);
                let backward_tiles: Option<Vec<Tiled>> = backward_tiles
                    .map(|tiles| tiles.into_iter().map(|tile| self.tiled(tile, geometry.channels)).collect());
                let len = geometry.weight_len();
                let used = standardise.map(|_| {
                    self.used_len += len;
                    self.inverses_len += geometry.out;
                    (self.used_len - len, self.inverses_len - geometry.out)
                });
                let windows = (self.table(geometry.window_table()), self.table(geometry.output_table()));
                let mut conv = Conv {
                    geometry,
                    weight: *weight,
                    bias: *bias,
                    standardise: *standardise,
                    gradient_tile,
                    read,
                    sum_tile,
                    forward_tile,
                    backward_tiles,
                    tables,
                    sources: 0,
                    windows,
                    used,
                };
                if conv.prefers_ghost(1) {
                    conv.sources = self.table(conv.deferred().0.sources());
                }
                Kind::Conv(Box::new(conv))
            }
            Op::Linear(op::Linear { weight, bias }) => {
                let (weight, bias) = (*weight, *bias);
                Kind::Linear { weight, bias, rows: rows(x), features: last(x), out: last(shape) }
            }
            Op::GroupNorm(op::GroupNorm { groups, eps, affine }) => {
                let (groups, eps, affine) = (*groups, *eps, *affine);
                let size = x[0] / groups;
                let inner = positions(x);
                Kind::Group { groups, size, inner, eps, affine, stored: None, residual: false, relu: false }
            }
            Op::BatchNorm(op::BatchNorm { eps, affine, mean, variance, .. }) => Kind::Group {
                groups: x[0],
                size: 1,
                inner: positions(x),
                eps: *eps,
                affine: Some(*affine),
                stored: Some((*mean, *variance)),
                residual: false,
                relu: false,
            },
            Op::ChannelScale(_) => unreachable!("refused before a graph is lowered"),
            Op::LayerNorm(op::LayerNorm { eps, affine }) => {
                Kind::Layer { features: last(x), rows: rows(x), eps: *eps, affine: *affine }
            }
            Op::Activation(op::Activation::Relu) => Kind::Unary { code: RELU, factor: 1.0 },
            Op::Activation(op::Activation::Relu6) => Kind::Unary { code: RELU6, factor: 1.0 },
            Op::Activation(op::Activation::Gelu) => Kind::Unary { code: GELU, factor: 1.0 },
            Op::Activation(op::Activation::Silu) => Kind::Unary { code: SILU, factor: 1.0 },
            Op::Activation(op::Activation::Tanh) => Kind::Unary { code: TANH, factor: 1.0 },
            Op::Activation(op::Activation::Scale(factor)) => Kind::Unary { code: SCALE, factor: *factor },
            Op::MaxPool(op::MaxPool(window)) => Kind::MaxPool(self.window(window, x, shape)),
            Op::AvgPool(op::AvgPool(window)) => Kind::AveragePool(self.window(window, x, shape)),
            Op::AdaptiveAvgPool(op::AdaptiveAvgPool(size)) => {
                Kind::AdaptivePool(self.window(&free(size), x, shape))
            }
            Op::Upsample(op::Upsample(size)) => Kind::Upsample(self.table(resampling::table(&x[1..], size))),
            Op::Add(_) => Kind::Add,
            Op::Mul(_) => Kind::Multiply,
            Op::Dropout(op::Dropout { rate, channels: false }) => Kind::Dropout { rate: *rate, together: 1 },
            Op::Dropout(op::Dropout { rate, channels: true }) => {
                Kind::Dropout { rate: *rate, together: positions(x) }
            }
            Op::Concat(op::Concat { axis }) => {
                let to = strides(shape);
                let mut start = 0;
                let moves = inputs.iter().map(|input| {
                    let len = input.iter().product();
                    let target = (&to[..], shape.iter().product(), start * to[*axis]);
                    let moved = self.moved(input, (&strides(input), len, 0), target);
                    start += input[*axis];
                    moved
                });
                Kind::Move(moves.collect())
            }
            Op::Slice(op::Slice { axis, start, .. }) => {
                let from = strides(x);
                let source = (&from[..], x.iter().product(), start * from[*axis]);
                Kind::Move(vec![self.moved(shape, source, (&strides(shape), shape.iter().product(), 0))])
            }
            Op::Permute(op::Permute(axes)) => {
                let from = strides(x);
                let from: Vec<usize> = axes.iter().map(|&axis| from[axis]).collect();
                let len = shape.iter().product();
                Kind::Move(vec![self.moved(shape, (&from, len, 0), (&strides(shape), len, 0))])
            }
            Op::Gather(op::Gather(indices)) => {
                let table = self.table(indices.iter().map(|&index| index as i32).collect());
                Kind::Gather { table, count: indices.len(), size: positions(x), rows: x[0] }
            }
            Op::MatMul(op::MatMul { transpose }) => {
                let rank = shape.len();
                let batches = shape[..rank - 2].iter().product();
                let (m, k, n) = (shape[rank - 2], x[rank - 1], shape[rank - 1]);
                Kind::MatMul { batches, m, k, n, transpose: *transpose }
            }
            Op::Softmax(_) => Kind::Softmax { features: last(x), rows: rows(x) },
            Op::Attention(op::Attention { heads }) => {
                let keys = inputs.get(1).map_or(x[0], |key| key[0]);
                Kind::Attention { heads: *heads, width: x[1] / heads, queries: x[0], keys }
            }
        }
    }

    /// A box of this size on its way between tensors with these strides and lengths, and from and to these places.
    fn moved(
        &mut self,
        size: &[usize],
        from: (&[usize], usize, usize),
        to: (&[usize], usize, usize),
    ) -> Move {
        let ((from, from_len, from_start), (to, to_len, to_start)) = (from, to);
        // Axes that are one run in both tensors count as one.
        let mut axes: Vec<[usize; 3]> = Vec::new();
        for (&size, (&from, &to)) in size.iter().zip(from.iter().zip(to)).filter(|(size, _)| **size != 1) {
            match axes.last_mut() {
                Some(last) if last[1] == size * from && last[2] == size * to => {
                    *last = [last[0] * size, from, to]
                }
                _ => axes.push([size, from, to]),
            }
        }
        let four = |value: &usize| value.is_multiple_of(4);
        let fours = match axes.split_last() {
            Some(([size, 1, 1], rest)) => {
                four(size)
                    && rest.iter().all(|[_, from, to]| four(from) && four(to))
                    && [from_len, from_start, to_len, to_start].iter().all(four)
            }
            _ => false,
        };
        if fours {
            let last = axes.len() - 1;
            axes[last][0] /= 4;
            axes[..last].iter_mut().for_each(|[_, from, to]| (*from, *to) = (*from / 4, *to / 4));
        }
        let table = |target: usize, source: usize| -> Vec<i32> {
            let rows = axes.iter().flat_map(|axis| [axis[0], axis[target], axis[source]]);
            std::iter::once(axes.len()).chain(rows).map(|value| value as i32).collect()
        };
        let (there, back) = (table(2, 1), table(1, 2));
        let (table, back) = (self.table(there), self.table(back));
        Move { table, back, len: size.iter().product(), fours, from: from_start, to: to_start }
    }
}
