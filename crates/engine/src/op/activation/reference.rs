//! How the oracle applies a function to every value, with the derivative of each function.

use dapple_graph::op::Activation;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

/// The value and the derivative of a function.
fn evaluate(function: Activation, x: f64) -> (f64, f64) {
    match function {
        Activation::Relu => (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 }),
        Activation::Relu6 => (x.clamp(0.0, 6.0), if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 }),
        Activation::Tanh => (x.tanh(), 1.0 - x.tanh().powi(2)),
        Activation::Silu => {
            let sigmoid = 1.0 / (1.0 + (-x).exp());
            (x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid)))
        }
        Activation::Gelu => {
            let below = 0.5 * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            (x * below, below + x * density)
        }
        Activation::Scale(factor) => (x * f64::from(factor), f64::from(factor)),
    }
}

impl ReferenceOperation for Activation {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data = inputs[0].data.iter().map(|&x| evaluate(*self, x).0).collect();
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let x = inputs[0];
        let data = x.data.iter().zip(&g.data).map(|(&x, g)| g * evaluate(*self, x).1).collect();
        Gradients::of_inputs([Tensor { shape: x.shape.clone(), data }])
    }
}
