//! What classifiers and segmentation models share: strides that turn into dilations, and the names of a backbone's parameters.

use super::resnet::{self, ResNet};
use super::{Norm, mobilenet};
use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::NodeId;

/// A classifier whose features a segmentation model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backbone {
    /// A residual network.
    ResNet(ResNet),
    /// MobileNetV2.
    MobileNetV2,
}

/// How many pixels of the image lie between neighbouring positions of a backbone's last features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStride {
    /// Finer than the usual choice, and four times as costly.
    Eight,
    /// The usual choice.
    Sixteen,
}

impl OutputStride {
    /// The number of pixels.
    pub fn pixels(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

/// How the names of a backbone's parameters begin in a segmentation model, and in torchvision's classifier. The first that fits counts.
pub const BACKBONE_NAMES: [(&str, &str); 3] = [
    ("backbone.low_level_features.", "features."),
    ("backbone.high_level_features.", "features."),
    ("backbone.", ""),
];

/// The name that torchvision's classifier gives to a parameter of a segmentation model's backbone; `None` for the rest of the model.
pub fn backbone_name(name: &str) -> Option<String> {
    let (rest, theirs) =
        BACKBONE_NAMES.iter().find_map(|(ours, theirs)| Some((name.strip_prefix(ours)?, theirs)))?;
    Some(format!("{theirs}{rest}"))
}

/// The features that a segmentation model reads from a backbone: low-level ones at a quarter of the image's size, and the last ones, whose
/// positions are as many pixels apart as the [`OutputStride`] says.
pub(super) struct Features {
    pub(super) low_level: NodeId,
    pub(super) high_level: NodeId,
}

impl Backbone {
    pub(super) fn features(
        self,
        b: &mut GraphBuilder,
        output_stride: OutputStride,
        norm: Norm,
    ) -> Result<Features, GraphError> {
        match self {
            Self::ResNet(depth) => {
                let [low_level, _, _, high_level] =
                    resnet::stages(b, "backbone.", depth, output_stride.pixels(), norm)?;
                Ok(Features { low_level, high_level })
            }
            Self::MobileNetV2 => mobilenet::features(b, output_stride, norm),
        }
    }
}

/// The stride and the dilation of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BackboneStep {
    pub(super) stride: usize,
    pub(super) dilation: usize,
}

/// Keeps positions at most `limit` pixels apart, by turning strides beyond that into dilations.
pub(super) struct Reach {
    stride: usize,
    limit: usize,
    dilation: usize,
}

impl Reach {
    /// Begins after layers whose strides multiply to this.
    pub(super) fn new(stride: usize, limit: usize) -> Self {
        Self { stride, limit, dilation: 1 }
    }

    /// The strides and dilations of a stage's blocks, the first of which would have this stride if there were no limit.
    pub(super) fn stage(&mut self, stride: usize, blocks: usize) -> Vec<BackboneStep> {
        let mut first = BackboneStep { stride, dilation: self.dilation };
        if self.stride * stride > self.limit {
            first.stride = 1;
            self.dilation *= stride;
        } else {
            self.stride *= stride;
        }
        let rest = BackboneStep { stride: 1, dilation: self.dilation };
        std::iter::once(first).chain(std::iter::repeat_n(rest, blocks.saturating_sub(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_beyond_the_limit_become_dilations() {
        let steps = |limit| {
            let mut reach = Reach::new(4, limit);
            [1, 2, 2, 2].map(|stride| {
                reach.stage(stride, 2).iter().map(|s| (s.stride, s.dilation)).collect::<Vec<_>>()
            })
        };
        // The strides and dilations of torchvision's `replace_stride_with_dilation`.
        assert_eq!(steps(32), [[(1, 1), (1, 1)], [(2, 1), (1, 1)], [(2, 1), (1, 1)], [(2, 1), (1, 1)]]);
        assert_eq!(steps(16), [[(1, 1), (1, 1)], [(2, 1), (1, 1)], [(2, 1), (1, 1)], [(1, 1), (1, 2)]]);
        assert_eq!(steps(8), [[(1, 1), (1, 1)], [(2, 1), (1, 1)], [(1, 1), (1, 2)], [(1, 2), (1, 4)]]);
    }

    #[test]
    fn names_map_to_torchvision() {
        assert_eq!(backbone_name("backbone.layer1.0.conv1.weight").as_deref(), Some("layer1.0.conv1.weight"));
        let low = backbone_name("backbone.low_level_features.1.conv.1.weight");
        assert_eq!(low.as_deref(), Some("features.1.conv.1.weight"));
        let high = backbone_name("backbone.high_level_features.4.conv.1.weight");
        assert_eq!(high.as_deref(), Some("features.4.conv.1.weight"));
        assert_eq!(backbone_name("classifier.project.0.weight"), None);
    }
}
