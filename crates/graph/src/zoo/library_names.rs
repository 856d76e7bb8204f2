//! Whose names the parameters of a model have that several libraries offer.

use serde::{Deserialize, Serialize};

/// Whose names, and whose small differences, the parameters of a model follow that several libraries offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryNames {
    /// timm's: `blocks.0.attn.qkv.weight` of a vision transformer, `stages.0.blocks.0.conv_dw.weight` of a ConvNeXt.
    Timm,
    /// torchvision's: `encoder.layers.encoder_layer_0.self_attention.in_proj_weight` of a vision transformer, `features.1.0.block.0.weight`
    /// of a ConvNeXt.
    Torchvision,
    /// Those of OpenCLIP's image tower, a vision transformer: `visual.transformer.resblocks.0.attn.in_proj_weight`. Its patches have no
    /// bias, a norm stands before the blocks, and a projection to this many features behind them; `head` is ours.
    OpenClip {
        /// Features of the projection.
        projection: usize,
    },
}

impl LibraryNames {
    /// Features that a projection may have: far more than any has, and few enough that sizes can be computed with them.
    pub const MAX_PROJECTION: usize = 1 << 16;

    /// Whose names the tensors of a weights file have, told by its first layer, or by its projection; `None` where the file is of no
    /// model that several libraries offer. A file of another model may be taken for one of these: its other names do not fit.
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
        // Sizes that no tower has are no tower's.
        for projection in [0, LibraryNames::MAX_PROJECTION + 1] {
            assert_eq!(of("visual.proj", &[768, projection]), None);
        }
        assert_eq!(of("conv1.weight", &[64, 3, 7, 7]), None);
    }
}
