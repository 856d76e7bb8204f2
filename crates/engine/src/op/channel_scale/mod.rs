//! A trainable factor for each channel: the layer scale of ConvNeXt and CaiT.
//!
//! The input is kept for the backward pass, because a factor's gradient is the sum over its channel of upstream gradients times inputs.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

#[cfg(test)]
mod tests {
    use dapple_graph::{ConvSpec, Graph, GraphBuilder, Loss, Parameters, Window};

    use crate::reference::ReferenceExecutor;
    use crate::{Batch, Targets};

    const SHAPE: [usize; 3] = [5, 4, 3];

    /// An image that goes through a convolution, which sees the data gradient, and is then scaled. Both models have parameters of the same
    /// sizes.
    fn scaled(depthwise: bool) -> Graph {
        let mut b = GraphBuilder::new(&SHAPE);
        let x = b.conv("first", b.input(), ConvSpec::new(5, Window::square(1))).unwrap();
        let x = match depthwise {
            true => b.conv("scale", x, ConvSpec::new(5, Window::square(1)).groups(5)).unwrap(),
            false => b.channel_scale("scale", x, 0, 1.0).unwrap(),
        };
        b.finish(x, Loss::SquaredError).unwrap()
    }

    #[test]
    fn an_image_is_scaled_as_by_filters_of_one_pixel() {
        let models = [scaled(false), scaled(true)];
        let fresh = Parameters::init(&models[1], 7);
        let inputs: Vec<f32> = (0..60).map(|i| (i as f32 * 0.7).sin()).collect();
        let wanted: Vec<f32> = (0..60).map(|i| (i as f32 * 0.3).cos()).collect();
        let batch = Batch::new(&inputs, Targets::Values(&wanted));
        let [(loss, gradient), (filtered_loss, filtered)] = models.each_ref().map(|model| {
            let mut parameters = Parameters::zeros(model);
            parameters.values_mut().copy_from_slice(fresh.values());
            ReferenceExecutor::new(model, &parameters).unwrap().gradient(&batch, 0).unwrap()
        });
        assert!((loss - filtered_loss).abs() < 1e-14, "{loss} {filtered_loss}");
        assert_eq!(gradient.len(), filtered.len());
        for (ours, theirs) in gradient.iter().zip(&filtered) {
            // These are the same sums in the same precision, perhaps in another order.
            assert!((ours - theirs).abs() < 1e-14, "{ours} {theirs}");
        }
    }
}
