//! Normalisations, and the scale of channels.

use dapple_graph::op::{BatchNorm, ChannelScale, GroupNorm, LayerNorm, NormAxes};

use super::OnnxOperation;
use crate::file::{Attribute, OnnxFile};
use crate::node::WrittenNode;

impl OnnxOperation for GroupNorm {
    /// The groups take the place of the channels of an instance norm, because `GroupNormalization` scales groups, not channels, in this
    /// version of the operators.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let per_group = node.shape.iter().product::<usize>() / self.groups;
        let x = file.reshape(&node.part("groups"), node.inputs[0], &[self.groups, per_group]);
        let ones = file.numbers(&node.part("ones"), &[self.groups], vec![1.0; self.groups]);
        let zeros = file.numbers(&node.part("zeros"), &[self.groups], vec![0.0; self.groups]);
        let eps = vec![("epsilon", Attribute::Float(self.eps))];
        let x = file.add("InstanceNormalization", &node.part("normalised"), &[&x, &ones, &zeros], eps);
        let x = file.reshape(node.name, &x, node.shape);
        let affine = self.affine.map_or((None, None), |affine| (Some(affine.weight), affine.bias));
        file.affine(node, x, 0, affine)
    }
}

impl OnnxOperation for LayerNorm {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let rank = node.shape.len();
        let (axes, features) = match self.over {
            NormAxes::Last(count) => (count, &node.shape[rank - count..]),
            NormAxes::Channels => (1, &node.shape[..1]),
        };
        let moved = self.over == NormAxes::Channels && rank > 1;
        let mut x = node.inputs[0].to_owned();
        if moved {
            let last: Vec<i64> = [0].into_iter().chain(2..=rank as i64).chain([1]).collect();
            x = file.transpose(&node.part("channels_last"), &x, &last);
        }
        let (scale, shift) = match self.affine {
            Some(affine) => (file.parameter(affine.weight), affine.bias.map(|bias| file.parameter(bias))),
            None => {
                let ones = vec![1.0; features.iter().product()];
                (file.numbers(&node.part("ones"), features, ones), None)
            }
        };
        x = match self.centred {
            true => {
                let inputs: Vec<&str> = [x.as_str(), &scale].into_iter().chain(shift.as_deref()).collect();
                let settings = vec![
                    ("axis", Attribute::Integer(-(axes as i64))),
                    ("epsilon", Attribute::Float(self.eps)),
                ];
                file.add("LayerNormalization", node.name, &inputs, settings)
            }
            false => by_root_mean_square(self, node, file, (&x, axes), (&scale, shift.as_deref())),
        };
        if moved {
            let first: Vec<i64> = [0, rank as i64].into_iter().chain(1..rank as i64).collect();
            x = file.transpose(&node.part("channels_first"), &x, &first);
        }
        x
    }
}

/// Divides by the root of the mean square, for which these operators have no name.
fn by_root_mean_square(
    norm: &LayerNorm,
    node: &WrittenNode<'_>,
    file: &mut OnnxFile<'_>,
    (x, axes): (&str, usize),
    (scale, shift): (&str, Option<&str>),
) -> String {
    let square = file.add("Mul", &node.part("square"), &[x, x], Vec::new());
    let axes = file.integers(&node.part("axes"), &(-(axes as i64)..0).collect::<Vec<_>>());
    let mean = file.add("ReduceMean", &node.part("mean"), &[&square, &axes], Vec::new());
    let mean = file.with_number("Add", &node.part("mean_eps"), &mean, norm.eps);
    let root = file.add("Sqrt", &node.part("root"), &[&mean], Vec::new());
    let x = file.add("Div", &node.part("normalised"), &[x, &root], Vec::new());
    let x = file.add("Mul", node.name, &[&x, scale], Vec::new());
    match shift {
        Some(shift) => file.add("Add", &node.part("shifted"), &[&x, shift], Vec::new()),
        None => x,
    }
}

impl OnnxOperation for BatchNorm {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let scale = file.parameter(self.affine.weight);
        let shift = match self.affine.bias {
            Some(bias) => file.parameter(bias),
            None => file.numbers(&node.part("zeros"), &node.shape[..1], vec![0.0; node.shape[0]]),
        };
        let (mean, variance) = (file.parameter(self.mean), file.parameter(self.variance));
        let inputs = [node.inputs[0], &scale, &shift, &mean, &variance];
        file.add("BatchNormalization", node.name, &inputs, vec![("epsilon", Attribute::Float(self.eps))])
    }
}

impl OnnxOperation for ChannelScale {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.affine(node, node.inputs[0].to_owned(), self.axis, (Some(self.weight), None))
    }
}
