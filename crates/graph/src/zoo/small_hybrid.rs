//! A small hybrid, which has convolutions where a vision transformer cuts patches, and then a few transformer blocks. Convolutions at the
//! beginning let a transformer learn from few images (Xiao et al. 2021, Hassani et al. 2021).

use super::{CLASSIFIER_LOSS, LibraryNames, vit};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, Window};

/// The channels and strides of the convolutions. The last one makes the features of a token.
const STEM: [(usize, usize); 3] = [(32, 1), (64, 2), (128, 2)];
/// The number of groups of the norms between them.
const GROUPS: usize = 8;
const BLOCKS: usize = 4;
const HEADS: usize = 4;
const EPS: f32 = 1e-6;

/// Three convolutions, which make one token from every four by four pixels, followed by four transformer blocks with timm's names. For
/// images of 32 x 32 pixels in three colours and for ten classes it has 896 thousand parameters.
///
/// # Errors
/// If the sample is no image.
pub fn small_hybrid(input_shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let mut x = b.input();
    for (index, (channels, stride)) in STEM.into_iter().enumerate() {
        x = active(b, index + 1, x, channels, stride)?;
    }
    let grid = [b.shape(x)[1], b.shape(x)[2]];
    let x = vit::tokens_of_image(b, x)?;
    let stored = [&[1], b.shape(x)].concat();
    let mut x = vit::with_positions(b, "pos_embed", x, &stored, grid)?;
    for index in 0..BLOCKS {
        x = vit::block(b, &format!("blocks.{index}"), (x, None), HEADS, LibraryNames::Timm)?;
    }
    b.end_blocks();
    let x = vit::mean_token(b, x)?;
    let x = b.layer_norm("norm", x, EPS)?;
    let x = b.linear("head", x, classes, Init::Normal(0.02), Init::Constant(0.0))?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// A convolution of three by three pixels, followed by a group norm and an activation.
fn active(
    b: &mut GraphBuilder,
    number: usize,
    input: NodeId,
    channels: usize,
    stride: usize,
) -> Result<NodeId, GraphError> {
    let window = Window::square(3).stride(stride).padding(1);
    let x = b.conv(&format!("stem.conv{number}"), input, ConvSpec::new(channels, window))?;
    let x = b.group_norm(&format!("stem.norm{number}"), x, GROUPS)?;
    b.add(&format!("stem.relu{number}"), Activation::Relu, &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameter;

    #[test]
    fn it_is_small_and_takes_images_alone() {
        let graph = small_hybrid(&[3, 32, 32], 10).unwrap();
        assert_eq!(graph.parameters().iter().map(Parameter::len).sum::<usize>(), 896_298);
        assert_eq!(graph.blocks().len(), BLOCKS);
        for shape in [&[3, 32][..], &[3, 4, 32, 32], &[3, 0, 32]] {
            assert!(small_hybrid(shape, 10).is_err(), "{shape:?}");
        }
        small_hybrid(&[1, 1, 1], 2).unwrap();
    }
}
