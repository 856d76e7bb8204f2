//! PSPNet (Zhao et al. 2017) with the names of mmsegmentation and torchvision's backbones.

use super::deeplab::{resize_like, scores};
use super::resnet::{ResNet, stages};
use super::{CLASSIFIER_LOSS, Norm};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::op::{Activation, AdaptiveAvgPool, Concat, Dropout, Window};

/// The sides of the grids over whose cells the last features are averaged.
const PYRAMID: [usize; 4] = [1, 2, 3, 6];
/// The factor by which the loss of the auxiliary head is multiplied.
const AUXILIARY_WEIGHT: f32 = 0.4;
/// The share of the channels that is dropped before a layer of scores.
const DROPOUT: f32 = 0.1;

/// PSPNet for images of this shape. Its output is a score of every class for every pixel, `[classes, height, width]`.
///
/// The last features, eight pixels apart, are joined to their means over grids of 1, 2, 3 and 6 cells a side. In training, the loss of an
/// auxiliary head on the third stage is added with weight 0.4. Any height and width will do.
///
/// # Errors
/// If the sample is no image, or the norm does not suit the channels or mixes examples.
pub fn psp_net(
    backbone: ResNet,
    input_shape: &[usize],
    classes: usize,
    norm: Norm,
) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let [_, _, third, last] = stages(b, "backbone.", backbone, 8, norm)?;
    let wide = |width| ConvSpec::new(width, Window::square(3).padding(1));

    let width = b.shape(third)[0] / 4;
    let x = active(b, "auxiliary_head.convs.0", third, wide(width), norm)?;
    let auxiliary = head(b, "auxiliary_head", x, classes)?;

    let width = b.shape(last)[0] / 4;
    let mut levels = vec![last];
    for (index, side) in PYRAMID.into_iter().enumerate() {
        let name = format!("decode_head.psp_modules.{index}");
        let x = b.add(&format!("{name}.0"), AdaptiveAvgPool(vec![side, side]), &[last])?;
        let x = active(b, &format!("{name}.1"), x, ConvSpec::new(width, Window::square(1)), norm)?;
        levels.push(resize_like(b, &format!("{name}.upsample"), x, last)?);
    }
    let x = b.add("decode_head.concat", Concat { axis: 0 }, &levels)?;
    let x = active(b, "decode_head.bottleneck", x, wide(width), norm)?;
    let output = head(b, "decode_head", x, classes)?;
    b.auxiliary(auxiliary, AUXILIARY_WEIGHT);
    builder.finish(output, CLASSIFIER_LOSS)
}

/// A convolution with its norm and activation.
fn active(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    spec: ConvSpec,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let x = b.conv(&format!("{name}.conv"), input, spec)?;
    let x = norm.add_fitted(b, &format!("{name}.bn"), x)?;
    b.add(&format!("{name}.activate"), Activation::Relu, &[x])
}

/// A head: dropout of whole channels, then the layer of scores, then resampling to the image's size.
fn head(b: &mut GraphBuilder, name: &str, input: NodeId, classes: usize) -> Result<NodeId, GraphError> {
    let x = b.add(&format!("{name}.dropout"), Dropout::of_channels(DROPOUT), &[input])?;
    let x = b.conv(&format!("{name}.conv_seg"), x, scores(classes))?;
    resize_like(b, &format!("{name}.upsample"), x, b.input())
}
