//! The accuracies that the mixing paper prints, and what it says of them.

mod scratch;
mod statements;
mod tuned;

use super::trained::AccuracyTable;

/// The tables that are trained, in the order of the paper.
pub(super) fn tables() -> Vec<AccuracyTable> {
    let [table1, table2, table5, table11] = scratch::tables();
    let [table3, table9, table10] = tuned::tables();
    vec![table1, table2, table3, table5, table9, table10, table11]
}

/// A data set of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MixData {
    Cifar10,
    Cifar100,
    EuroSat,
    Caltech256,
    Sun397,
    OxfordPet,
}

impl MixData {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar100 => "CIFAR-100",
            Self::EuroSat => "EuroSAT",
            Self::Caltech256 => "Caltech256",
            Self::Sun397 => "SUN397",
            Self::OxfordPet => "Oxford-IIIT Pet",
        }
    }

    /// The folder that holds it, below the one behind `--data`.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Cifar10 => "cifar-10",
            Self::Cifar100 => "cifar-100",
            Self::EuroSat => "eurosat",
            Self::Caltech256 => "caltech-256",
            Self::Sun397 => "sun-397",
            Self::OxfordPet => "oxford-pet",
        }
    }
}

/// A model of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MixModel {
    WideResNet,
    VisionTransformer,
    ConvNext,
}

impl MixModel {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WideResNet => "WRN-16-4",
            Self::VisionTransformer => "ViT-B-16",
            Self::ConvNext => "ConvNeXt",
        }
    }

    /// The name in plans, and that of its weights below the folder behind `--weights`.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::WideResNet => "wrn-16-4",
            Self::VisionTransformer => "vit-b-16",
            Self::ConvNext => "convnext-b",
        }
    }
}

/// Where the public images come from that stand beside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MixPool {
    /// From a model that was trained on public images.
    Synthetic,
    /// From the camera, as the private ones (appendix B.1).
    Real,
}

impl MixPool {
    /// The folder that holds them, below the one behind `--pool`.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Real => "real",
        }
    }
}

/// A way to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MixMethod {
    pub(super) name: &'static str,
    /// `K_base`: views of a record.
    pub(super) views: u32,
    /// `K_self`: mixtures of two of what is shown.
    pub(super) self_mix: u32,
    /// `K_diff`: public images beside a record.
    pub(super) synthetic: u32,
    pub(super) pool: MixPool,
    /// Records clipped together.
    pub(super) together: u32,
    /// Whether records are shown as they are, without crops and mirroring, and clipped to the small norm of that baseline (appendix C).
    pub(super) whole: bool,
}

impl MixMethod {
    const fn new(name: &'static str, views: u32, self_mix: u32) -> Self {
        let (synthetic, pool) = (0, MixPool::Synthetic);
        Self { name, views, self_mix, synthetic, pool, together: 1, whole: false }
    }

    /// The same with so many records clipped together.
    const fn together(self, together: u32) -> Self {
        Self { together, ..self }
    }

    /// The same with so many images of a pool beside each record.
    const fn beside(self, synthetic: u32, pool: MixPool) -> Self {
        Self { synthetic, pool, ..self }
    }

    /// A name for the folders of its runs.
    pub(super) fn key(&self) -> String {
        let mut key = format!("views{}-mixed{}-together{}", self.views, self.self_mix, self.together);
        if self.synthetic > 0 {
            key.push_str(&format!("-{}{}", self.pool.folder(), self.synthetic));
        }
        if self.whole {
            key.push_str("-whole");
        }
        key
    }
}

/// An accuracy that the paper prints, in percent.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaperAccuracy {
    pub(super) data: MixData,
    pub(super) model: MixModel,
    pub(super) method: MixMethod,
    pub(super) epsilon: f64,
    pub(super) accuracy: f64,
}

impl PaperAccuracy {
    /// Whether another was trained on the same images, from the same model and for the same budget.
    fn is_beside(&self, other: &Self) -> bool {
        (self.data, self.model, self.epsilon) == (other.data, other.model, other.epsilon)
    }
}

const SELF_AUG: MixMethod = MixMethod::new("Self-Aug", 16, 0);
