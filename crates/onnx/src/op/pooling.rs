//! Pooling and resampling.

use dapple_graph::op::{AdaptiveAvgPool, AvgPool, MaxPool, Upsample};

use super::OnnxOperation;
use super::window::{dilated, sliding};
use crate::file::{Attribute, OnnxFile};
use crate::node::WrittenNode;

impl OnnxOperation for MaxPool {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.add("MaxPool", node.name, &node.inputs, dilated(&self.0))
    }
}

impl OnnxOperation for AvgPool {
    /// Windows with holes are means of one channel each by a convolution, because `AveragePool` has no holes in this version of the
    /// operators.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let window = &self.0;
        if window.dilation.iter().all(|&distance| distance == 1) {
            let mut settings = sliding(window);
            settings.push(("count_include_pad", Attribute::Integer(1)));
            return file.add("AveragePool", node.name, &node.inputs, settings);
        }
        let (channels, taps) = (node.shape[0], window.taps());
        let shape: Vec<usize> = [channels, 1].into_iter().chain(window.kernel.iter().copied()).collect();
        let shares = file.numbers(&node.part("shares"), &shape, vec![1.0 / taps as f32; channels * taps]);
        let mut settings = dilated(window);
        settings.push(("group", Attribute::Integer(channels as i64)));
        file.add("Conv", node.name, &[node.inputs[0], &shares], settings)
    }
}

impl OnnxOperation for AdaptiveAvgPool {
    /// The mean over everything, equal windows, or, where windows differ, a product with the share of each place along every axis.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let (from, to) = (&node.shapes[0][1..], &node.shape[1..]);
        if to.iter().all(|&size| size == 1) {
            return file.add("GlobalAveragePool", node.name, &node.inputs, Vec::new());
        }
        if from.iter().zip(to).all(|(from, to)| from.is_multiple_of(*to)) {
            let sides: Vec<usize> = from.iter().zip(to).map(|(from, to)| from / to).collect();
            let settings =
                vec![("kernel_shape", Attribute::sizes(&sides)), ("strides", Attribute::sizes(&sides))];
            return file.add("AveragePool", node.name, &node.inputs, settings);
        }
        let rank = node.shape.len() as i64;
        let mut x = node.inputs[0].to_owned();
        for (index, (&from, &to)) in from.iter().zip(to).enumerate() {
            let at = |part: &str| node.part(&format!("axis{index}/{part}"));
            let shares = file.numbers(&at("shares"), &[from, to], shares(from, to));
            // The axis changes places with the last one, along which a product works.
            let axis = index as i64 + 2;
            let mut swapped: Vec<i64> = (0..=rank).collect();
            swapped.swap(axis as usize, rank as usize);
            let turned = file.transpose(&at("last"), &x, &swapped);
            let pooled = file.add("MatMul", &at("pooled"), &[&turned, &shares], Vec::new());
            x = file.transpose(&at("back"), &pooled, &swapped);
        }
        x
    }
}

/// What share each place along an axis has in each output, `[from, to]`.
fn shares(from: usize, to: usize) -> Vec<f32> {
    let mut shares = vec![0.0; from * to];
    for output in 0..to {
        let (start, end) = (output * from / to, ((output + 1) * from).div_ceil(to));
        for place in start..end {
            shares[place * to + output] = 1.0 / (end - start) as f32;
        }
    }
    shares
}

impl OnnxOperation for Upsample {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let sizes = file.integers(&node.part("sizes"), &self.0.map(|size| size as i64));
        let settings = vec![
            ("mode", Attribute::Text("linear")),
            ("coordinate_transformation_mode", Attribute::Text("half_pixel")),
            ("axes", Attribute::Integers(vec![2, 3])),
        ];
        // An empty name stands for an input that is left out: regions and factors.
        file.add("Resize", node.name, &[node.inputs[0], "", "", &sizes], settings)
    }
}
