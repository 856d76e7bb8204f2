//! The library whose names a model's parameters have, for models that several libraries offer.

use serde::{Deserialize, Serialize};

/// The library that a model follows, in the names of its parameters and in small differences, if several libraries offer the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryNames {
    /// timm, with names such as `blocks.0.attn.qkv.weight` for a vision transformer and `stages.0.blocks.0.conv_dw.weight` for a ConvNeXt.
    Timm,
    /// torchvision, with names such as `encoder.layers.encoder_layer_0.self_attention.in_proj_weight` for a vision transformer and
    /// `features.1.0.block.0.weight` for a ConvNeXt.
    Torchvision,
    /// OpenCLIP, whose image tower is a vision transformer with names such as `visual.transformer.resblocks.0.attn.in_proj_weight`. Its
    /// patches have no bias, a norm stands before the blocks, and a projection after them. OpenCLIP has no classifier, so the name `head` is
    /// our own.
    OpenClip {
        /// The number of features that the projection makes.
        projection: usize,
    },
}

impl LibraryNames {
    /// The most features that a projection may have: far more than any has, and few enough that sizes computed from it do not overflow.
    pub const MAX_PROJECTION: usize = 1 << 16;

    /// The library whose names the tensors of a weights file have, which the name of its first layer or its projection tells; `None` if
    /// neither is there. The file of another model may be mistaken for one of these, but then its other names will not fit.
    pub fn of<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> Option<Self> {
        let mut found = None;
        for (name, shape) in tensors {
            match (name, shape) {
                ("patch_embed.proj.weight" | "stem.0.weight", _) => found = Some(Self::Timm),
                ("conv_proj.weight" | "features.0.0.weight", _) => found = Some(Self::Torchvision),
                ("visual.proj", &[_, projection]) if (1..=Self::MAX_PROJECTION).contains(&projection) => {
                    found = Some(Self::OpenClip { projection });
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_whose_names_it_has() {
        let of = |name: &str, shape: &[usize]| LibraryNames::of([("other.weight", &[1][..]), (name, shape)]);
        for name in ["patch_embed.proj.weight", "stem.0.weight"] {
            assert_eq!(of(name, &[96, 3, 4, 4]), Some(LibraryNames::Timm));
        }
        for name in ["conv_proj.weight", "features.0.0.weight"] {
            assert_eq!(of(name, &[96, 3, 4, 4]), Some(LibraryNames::Torchvision));
        }
        assert_eq!(of("visual.proj", &[768, 512]), Some(LibraryNames::OpenClip { projection: 512 }));
        // No image tower has a projection of these sizes.
        for projection in [0, LibraryNames::MAX_PROJECTION + 1] {
            assert_eq!(of("visual.proj", &[768, projection]), None);
        }
        assert_eq!(of("conv1.weight", &[64, 3, 7, 7]), None);
    }
}
