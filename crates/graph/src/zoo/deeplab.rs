//! DeepLabV3+ (Chen et al. 2018) with the names of DeepLabV3Plus-Pytorch, the library that the patch-level paper trained with.

use super::backbone::{Backbone, OutputStride};
use super::{CLASSIFIER_LOSS, Norm};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, AdaptiveAvgPool, Concat, Dropout, Upsample, Window};

/// The channels of every branch of the pyramid, and of the decoder.
const WIDTH: usize = 256;
/// The number of channels to which the decoder reduces the low-level features.
const LOW_LEVEL_WIDTH: usize = 48;

/// DeepLabV3+ for images of this shape. Its output is a score of every class for every pixel, `[classes, height, width]`.
///
/// The last features, `output_stride` pixels apart, go through a pyramid of dilated convolutions (dilations 6, 12, 18 at stride 16, twice
/// that at stride 8) and a mean over the image; the decoder joins them to features of a quarter of the image's size. Any height and
/// width will do. Basic blocks (ResNet-18, ResNet-34) are dilated in their first convolution.
///
/// # Errors
/// If the sample is no image, or the norm does not suit the channels or mixes examples.
pub fn deeplab_v3_plus(
    backbone: Backbone,
    output_stride: OutputStride,
    input_shape: &[usize],
    classes: usize,
    norm: Norm,
) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let features = backbone.features(b, output_stride, norm)?;
    let low = ConvSpec::new(LOW_LEVEL_WIDTH, Window::square(1));
    let low = active(b, "classifier.project", 0, features.low_level, low, norm)?;
    let x = pyramid(b, features.high_level, output_stride, norm)?;
    let x = resize_like(b, "classifier.upsample", x, low)?;
    let x = b.add("classifier.concat", Concat { axis: 0 }, &[low, x])?;
    let decoder = ConvSpec::new(WIDTH, Window::square(3).padding(1));
    let x = active(b, "classifier.classifier", 0, x, decoder, norm)?;
    let x = b.conv("classifier.classifier.3", x, scores(classes))?;
    let x = resize_like(b, "upsample", x, b.input())?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// Atrous spatial pyramid pooling, which looks at the features at five scales and joins the results.
fn pyramid(
    b: &mut GraphBuilder,
    input: NodeId,
    output_stride: OutputStride,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let dilations = match output_stride {
        OutputStride::Sixteen => [6, 12, 18],
        OutputStride::Eight => [12, 24, 36],
    };
    let name = |branch: usize| format!("classifier.aspp.convs.{branch}");
    let pointwise = || ConvSpec::new(WIDTH, Window::square(1));
    let mut branches = vec![active(b, &name(0), 0, input, pointwise(), norm)?];
    for (index, dilation) in dilations.into_iter().enumerate() {
        let window = Window::square(3).padding(dilation).dilation(dilation);
        branches.push(active(b, &name(index + 1), 0, input, ConvSpec::new(WIDTH, window), norm)?);
    }
    let pooled = b.add("classifier.aspp.convs.4.0", AdaptiveAvgPool(vec![1, 1]), &[input])?;
    let pooled = active(b, &name(4), 1, pooled, pointwise(), norm)?;
    branches.push(resize_like(b, "classifier.aspp.convs.4.upsample", pooled, input)?);
    let x = b.add("classifier.aspp.concat", Concat { axis: 0 }, &branches)?;
    let x = active(b, "classifier.aspp.project", 0, x, pointwise(), norm)?;
    b.add("classifier.aspp.project.3", Dropout::of_values(0.1), &[x])
}

/// A convolution with its norm and activation, which are numbered from `first` in the sequence `name`.
fn active(
    b: &mut GraphBuilder,
    name: &str,
    first: usize,
    input: NodeId,
    spec: ConvSpec,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let x = b.conv(&format!("{name}.{first}"), input, spec)?;
    let x = norm.add_fitted(b, &format!("{name}.{}", first + 1), x)?;
    b.add(&format!("{name}.{}", first + 2), Activation::Relu, &[x])
}

/// The layer that scores every class. Its first weights are small, so that the first predictions are nearly even.
pub(super) fn scores(classes: usize) -> ConvSpec {
    let mut spec = ConvSpec::new(classes, Window::square(1)).bias();
    spec.init = Init::Normal(0.01);
    spec
}

/// Resamples an image to the height and width of another.
pub(super) fn resize_like(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    other: NodeId,
) -> Result<NodeId, GraphError> {
    match *b.shape(other) {
        [_, height, width] => b.add(name, Upsample([height, width]), &[input]),
        ref shape => {
            let reason = format!("a sample of shape {shape:?} is no image");
            Err(GraphError::Shape { node: name.into(), op: "Upsample", reason })
        }
    }
}
