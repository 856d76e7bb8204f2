//! How the oracle scales channels: by the channel that each element belongs to.

use dapple_graph::op::ChannelScale;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

/// The channel of every element.
fn channels(op: &ChannelScale, shape: &[usize]) -> impl Iterator<Item = usize> {
    let (size, inner) = (shape[op.axis], shape[op.axis + 1..].iter().product::<usize>());
    (0..shape.iter().product()).map(move |element: usize| element / inner % size)
}

impl ReferenceOperation for ChannelScale {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let weight = context.parameter(self.weight);
        let channels = channels(self, &y.shape);
        y.data = inputs[0].data.iter().zip(channels).map(|(x, channel)| x * weight[channel]).collect();
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let weight = context.parameter(self.weight);
        let (mut dx, mut dw) = (g.clone(), vec![0.0; weight.len()]);
        for (index, channel) in channels(self, &g.shape).enumerate() {
            dw[channel] += g.data[index] * inputs[0].data[index];
            dx.data[index] *= weight[channel];
        }
        Gradients { inputs: vec![dx], parameters: vec![(self.weight, dw)] }
    }
}
