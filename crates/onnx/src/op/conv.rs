//! Convolutions, also of tokens.

use dapple_graph::op::{Conv, TokenConv, TransposedConv};

use super::OnnxOperation;
use super::window::dilated;
use crate::file::{Attribute, OnnxFile};
use crate::node::WrittenNode;

impl OnnxOperation for Conv {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let weight = match self.standardise {
            None => file.parameter(self.weight),
            Some(eps) => {
                let out = node.shape[0];
                let values = standardised(file.values(self.weight), out, eps);
                let inner = node.shapes[0][0] / self.groups;
                let shape: Vec<usize> =
                    [out, inner].into_iter().chain(self.window.kernel.iter().copied()).collect();
                file.parameter_as(self.weight, &shape, values)
            }
        };
        let bias = self.bias.map(|bias| file.parameter(bias));
        let inputs: Vec<&str> = [node.inputs[0], &weight].into_iter().chain(bias.as_deref()).collect();
        let mut settings = dilated(&self.window);
        settings.push(("group", Attribute::Integer(self.groups as i64)));
        file.add("Conv", node.name, &inputs, settings)
    }
}

/// The weight with every filter shifted to mean zero and divided by its standard deviation.
fn standardised(weight: &[f32], out: usize, eps: f32) -> Vec<f32> {
    let of_filter = |filter: &[f32]| {
        let n = filter.len() as f64;
        let mean = filter.iter().map(|&w| f64::from(w)).sum::<f64>() / n;
        let variance = filter.iter().map(|&w| (f64::from(w) - mean).powi(2)).sum::<f64>() / n;
        let deviation = (variance + f64::from(eps)).sqrt();
        filter.iter().map(|&w| ((f64::from(w) - mean) / deviation) as f32).collect::<Vec<f32>>()
    };
    weight.chunks_exact(weight.len() / out).flat_map(of_filter).collect()
}

impl OnnxOperation for TransposedConv {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let weight = file.parameter(self.weight);
        let bias = self.bias.map(|bias| file.parameter(bias));
        let inputs: Vec<&str> = [node.inputs[0], &weight].into_iter().chain(bias.as_deref()).collect();
        let mut settings = dilated(&self.window);
        settings.push(("group", Attribute::Integer(self.groups as i64)));
        settings.push(("output_padding", Attribute::sizes(&self.output_padding)));
        file.add("ConvTranspose", node.name, &inputs, settings)
    }
}

impl OnnxOperation for TokenConv {
    /// The tokens are laid out as their grid, every feature is a channel with the filter of its place in a head, and the first token is put
    /// in front again.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let (tokens, features) = (node.shapes[0][0], node.shapes[0][1]);
        let first = file.slice(&node.part("first"), node.inputs[0], 1, (0, 1));
        let rest = file.slice(&node.part("rest"), node.inputs[0], 1, (1, tokens));
        let rest = file.transpose(&node.part("channels"), &rest, &[0, 2, 1]);
        let rest = file.reshape(&node.part("grid"), &rest, &[&[features][..], &self.grid].concat());
        let shape: Vec<usize> = [features, 1].into_iter().chain(self.window.kernel.iter().copied()).collect();
        let filters = file.values(self.weight).repeat(self.heads);
        let weight = file.parameter_as(self.weight, &shape, filters);
        let mut settings = dilated(&self.window);
        settings.push(("group", Attribute::Integer(features as i64)));
        let rest = file.add("Conv", &node.part("conv"), &[&rest, &weight], settings);
        let rest = file.reshape(&node.part("flat"), &rest, &[features, node.shape[0] - 1]);
        let rest = file.transpose(&node.part("tokens"), &rest, &[0, 2, 1]);
        file.add("Concat", node.name, &[&first, &rest], vec![("axis", Attribute::Integer(1))])
    }
}
