//! How the reference computes a transposed convolution: it goes through every input position, every tap and every pair of channels.

use dapple_graph::op::TransposedConv;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor, taps};

impl ReferenceOperation for TransposedConv {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), y.positions());
        let weight = context.parameter(self.weight);
        let channels = x.shape[0];
        let (per_in, per_out, size) = (channels / self.groups, y.shape[0] / self.groups, self.window.taps());
        if let Some(bias) = self.bias {
            for (channel, value) in y.data.chunks_exact_mut(outside).zip(context.parameter(bias)) {
                channel.fill(*value);
            }
        }
        for (position, tap, place) in taps(&self.window, &y.shape[1..], &x.shape[1..]) {
            for c in 0..channels {
                for o in 0..per_out {
                    let out = c / per_in * per_out + o;
                    y.data[out * outside + place] +=
                        weight[(c * per_out + o) * size + tap] * x.data[c * inside + position];
                }
            }
        }
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), g.positions());
        let mut dx = Tensor::zeros(&x.shape);
        let weight = context.parameter(self.weight);
        let mut dw = vec![0.0; weight.len()];
        let channels = x.shape[0];
        let (per_in, per_out, size) = (channels / self.groups, g.shape[0] / self.groups, self.window.taps());
        for (position, tap, place) in taps(&self.window, &g.shape[1..], &x.shape[1..]) {
            for c in 0..channels {
                for o in 0..per_out {
                    let index = (c * per_out + o) * size + tap;
                    let upstream = g.data[(c / per_in * per_out + o) * outside + place];
                    dw[index] += upstream * x.data[c * inside + position];
                    dx.data[c * inside + position] += upstream * weight[index];
                }
            }
        }
        let mut parameters = vec![(self.weight, dw)];
        if let Some(bias) = self.bias {
            parameters.push((bias, g.data.chunks_exact(outside).map(|row| row.iter().sum()).collect()));
        }
        Gradients { inputs: vec![dx], parameters }
    }
}
