//! Operations that an operator of the file computes as it is, or two.

use dapple_graph::op::{
    Activation, Add, Concat, Dropout, Gather, Input, Linear, MatMul, Mul, ParameterValue, Permute, Reshape,
    Slice, Softmax,
};

use super::OnnxOperation;
use crate::file::{Attribute, INPUT, OnnxFile};
use crate::node::{WrittenNode, axis};

impl OnnxOperation for Input {
    fn write(&self, _: &WrittenNode<'_>, _: &mut OnnxFile<'_>) -> String {
        INPUT.to_owned()
    }
}

impl OnnxOperation for ParameterValue {
    /// A copy for each sample.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let value = file.parameter(self.0);
        let first = vec![("start", Attribute::Integer(0)), ("end", Attribute::Integer(1))];
        let batch = file.add("Shape", &node.part("batch"), &[INPUT], first);
        let ones = file.integers(&node.part("ones"), &vec![1; node.shape.len()]);
        let along = vec![("axis", Attribute::Integer(0))];
        let shape = file.add("Concat", &node.part("shape"), &[&batch, &ones], along);
        file.add("Expand", node.name, &[&value, &shape], Vec::new())
    }
}

impl OnnxOperation for Linear {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let bias = self.bias.map(|bias| file.parameter(bias));
        if let [_] = node.shape {
            let weight = file.parameter(self.weight);
            let inputs: Vec<&str> = [node.inputs[0], &weight].into_iter().chain(bias.as_deref()).collect();
            return file.add("Gemm", node.name, &inputs, vec![("transB", Attribute::Integer(1))]);
        }
        // `MatMul` takes matrices of any rank, but their factor as it stands.
        let (inner, out) = (node.shapes[0][node.shape.len() - 1], node.shape[node.shape.len() - 1]);
        let stored = file.values(self.weight);
        let turned: Vec<f32> =
            (0..inner).flat_map(|column| (0..out).map(move |row| stored[row * inner + column])).collect();
        let weight = file.parameter_as(self.weight, &[inner, out], turned);
        let product = file.add("MatMul", node.name, &[node.inputs[0], &weight], Vec::new());
        match bias {
            Some(bias) => file.add("Add", &node.part("shifted"), &[&product, &bias], Vec::new()),
            None => product,
        }
    }
}

impl OnnxOperation for Activation {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let x = node.inputs[0];
        match *self {
            Self::Relu => file.add("Relu", node.name, &[x], Vec::new()),
            Self::Relu6 => {
                let ends = [("least", 0.0), ("most", 6.0)];
                let [least, most] = ends.map(|(part, end)| file.numbers(&node.part(part), &[], vec![end]));
                file.add("Clip", node.name, &[x, &least, &most], Vec::new())
            }
            Self::Gelu => {
                let scaled =
                    file.with_number("Mul", &node.part("scaled"), x, std::f32::consts::FRAC_1_SQRT_2);
                let erf = file.add("Erf", &node.part("erf"), &[&scaled], Vec::new());
                let above = file.with_number("Add", &node.part("above"), &erf, 1.0);
                let twice = file.add("Mul", &node.part("twice"), &[x, &above], Vec::new());
                file.with_number("Mul", node.name, &twice, 0.5)
            }
            Self::Silu => {
                let sigmoid = file.add("Sigmoid", &node.part("sigmoid"), &[x], Vec::new());
                file.add("Mul", node.name, &[x, &sigmoid], Vec::new())
            }
            Self::Tanh => file.add("Tanh", node.name, &[x], Vec::new()),
            Self::Scale(factor) => file.with_number("Mul", node.name, x, factor),
        }
    }
}

impl OnnxOperation for Add {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.add("Add", node.name, &node.inputs, Vec::new())
    }
}

impl OnnxOperation for Mul {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.add("Mul", node.name, &node.inputs, Vec::new())
    }
}

impl OnnxOperation for Concat {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.add("Concat", node.name, &node.inputs, vec![("axis", Attribute::Integer(axis(self.axis)))])
    }
}

impl OnnxOperation for Slice {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.slice(node.name, node.inputs[0], axis(self.axis), (self.start, self.end))
    }
}

impl OnnxOperation for Permute {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let axes: Vec<i64> = std::iter::once(0).chain(self.0.iter().map(|&from| axis(from))).collect();
        file.transpose(node.name, node.inputs[0], &axes)
    }
}

impl OnnxOperation for Reshape {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.reshape(node.name, node.inputs[0], &self.0)
    }
}

impl OnnxOperation for Gather {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let rows: Vec<i64> = self.0.iter().map(|&row| row as i64).collect();
        let rows = file.integers(&node.part("rows"), &rows);
        file.add("Gather", node.name, &[node.inputs[0], &rows], vec![("axis", Attribute::Integer(1))])
    }
}

impl OnnxOperation for MatMul {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        let mut right = node.inputs[1].to_owned();
        if self.transpose {
            let last = node.shape.len();
            let mut axes: Vec<i64> = (0..=last as i64).collect();
            axes.swap(last - 1, last);
            right = file.transpose(&node.part("transposed"), &right, &axes);
        }
        file.add("MatMul", node.name, &[node.inputs[0], &right], Vec::new())
    }
}

impl OnnxOperation for Softmax {
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String {
        file.add("Softmax", node.name, &node.inputs, vec![("axis", Attribute::Integer(-1))])
    }
}

impl OnnxOperation for Dropout {
    /// Nothing is dropped when a model is asked.
    fn write(&self, node: &WrittenNode<'_>, _: &mut OnnxFile<'_>) -> String {
        node.inputs[0].to_owned()
    }
}
