//! What is trained, and how: sections that the trainer reads and that change nothing about the price of a plan.

use serde::{Deserialize, Serialize};

use super::Pixels;

/// `[data]`: where the records come from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSpec {
    /// How the records are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<DataFormat>,
    /// The records to train on: a folder or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<String>,
    /// Their labels, where they have a file of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_labels: Option<String>,
    /// Public records to evaluate on: a folder or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Their labels, where they have a file of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_labels: Option<String>,
    /// The number of classes the data set must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<u32>,
    /// The number that stands for each class in label maps; 0, 1, 2, ... where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ids: Option<Vec<u32>>,
    /// Numbers in label maps that count for nothing; 255 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Vec<u32>>,
    /// Names of the classes of label maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// Colours in which those classes are shown, as `#rrggbb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_colours: Option<Vec<String>>,
    /// The sessions of A2D2 to train on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_sessions: Option<Vec<String>>,
    /// The sessions of A2D2 to evaluate on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_sessions: Option<Vec<String>>,
    /// The share of the records split off for evaluation where no test set is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<f64>,
    /// Seed of that split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_seed: Option<u64>,
    /// Pixels that a picture, or an image of an array, may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pixels: Option<u64>,
    /// Bytes that a file may take in memory, unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Whether every record is read once before a run begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// Subtracted from each channel, of values from 0 to 1: constants, never computed from private records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<Vec<f64>>,
    /// Divides each channel afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<Vec<f64>>,
    /// Whether each view is mirrored with probability one half, after its crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<bool>,
    /// The size that the model sees, to which views of another size are brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Pixels>,
}

/// How records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataFormat {
    /// One folder of pictures a class.
    ImageFolder,
    /// The files of the MNIST family.
    Idx,
    /// The binary files of CIFAR-10 and CIFAR-100.
    Cifar,
    /// Numpy arrays.
    Npy,
    /// The embedded data of the demonstration.
    FashionScenes,
    /// A folder of images and one of label maps.
    ImagePairs,
    /// Cityscapes, with its 19 classes.
    Cityscapes,
    /// A2D2, its colours grouped to 18 classes.
    A2d2,
    /// Streets drawn by the program, with label maps.
    StreetScenes,
}

impl DataFormat {
    /// Every format.
    pub const ALL: [Self; 9] = [
        Self::ImageFolder,
        Self::Idx,
        Self::Cifar,
        Self::Npy,
        Self::FashionScenes,
        Self::ImagePairs,
        Self::Cityscapes,
        Self::A2d2,
        Self::StreetScenes,
    ];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageFolder => "image-folder",
            Self::Idx => "idx",
            Self::Cifar => "cifar",
            Self::Npy => "npy",
            Self::FashionScenes => "fashion-scenes",
            Self::ImagePairs => "image-pairs",
            Self::Cityscapes => "cityscapes",
            Self::A2d2 => "a2d2",
            Self::StreetScenes => "street-scenes",
        }
    }
}

/// `[model]`: what is trained.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSpec {
    /// Name of a model of the zoo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What stands in the place of batch norm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<NormSpec>,
    /// Pixels between neighbouring positions of a backbone's last features: 8 or 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_stride: Option<u32>,
    /// A safetensors file with the initial weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// A safetensors file of a classifier that gives the initial weights of the backbone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backbone_weights: Option<String>,
    /// Prefixes of the parameters that train; all where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainable: Option<Vec<String>>,
    /// Seed of the initial weights that no file gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What stands in the place of batch norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormSpec {
    /// Group norm.
    #[default]
    Group,
    /// Batch norm with stored statistics; nothing of it trains.
    Frozen,
    /// Nothing.
    Removed,
}

/// `[optimiser]`: what happens to the noisy gradient.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimiserSpec {
    /// The rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<OptimiserKind>,
    /// The largest learning rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Momentum of SGD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// Whether the momentum looks ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nesterov: Option<bool>,
    /// Decay of the two moments of Adam.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betas: Option<[f64; 2]>,
    /// What Adam adds to the root of the second moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
    /// Decoupled weight decay: never part of a clipped gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// How the learning rate changes over the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleKind>,
    /// Power of the polynomial schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poly_power: Option<f64>,
    /// Steps in which the learning rate rises to its largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
    /// Decay of the running mean of the weights that is evaluated and kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ema: Option<f64>,
}

/// The rule of an optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserKind {
    /// Gradient descent, with momentum where one is given.
    #[default]
    Sgd,
    /// Adam.
    Adam,
    /// Adam with its usual weight decay.
    Adamw,
}

/// How the learning rate changes over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Not at all.
    #[default]
    Constant,
    /// Half a cosine down to zero.
    Cosine,
    /// A power of the steps left.
    Poly,
}

/// `[train]`: how the run is carried out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSpec {
    /// How a record's gradient is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clipping: Option<ClippingKind>,
    /// Makes every random number a function of this seed: for tests, since whoever knows the seed is promised nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Steps between two evaluations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u64>,
    /// Crops along each side of an image whose answers are averaged in evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_grid: Option<u32>,
    /// How images with label maps are looked at in evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationKind>,
    /// The step from one window to the next, as a share of the window, for `sliding` evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_stride: Option<f64>,
    /// Steps between two checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Whether to train until `privacy.epsilon` is spent, for at most the plan's steps where those are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_budget: Option<bool>,
    /// Weight of the uniform distribution in the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_smoothing: Option<f64>,
    /// `false` trains by the same steps without clipping and noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
}

/// How images with label maps are looked at in evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationKind {
    /// Each image at once.
    #[default]
    Whole,
    /// Window by window, each of the size of a crop.
    Sliding,
}

/// How a record's gradient is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClippingKind {
    /// The whole gradient at once.
    #[default]
    Flat,
    /// Every gradient to nearly the bound.
    Automatic,
    /// Layer by layer, together within the bound.
    PerLayer,
}

#[cfg(test)]
mod tests {
    use crate::PlanSpec;
    use crate::spec::{ClippingKind, DataFormat, OptimiserKind};

    #[test]
    fn training_sections_are_read_set_and_kept() {
        let mut spec = PlanSpec::from_toml(
            "[data]\nformat = \"image-folder\"\ntrain = \"photos\"\nmean = [0.5]\n\
             [model]\nname = \"small-cnn\"\ntrainable = [\"fc\"]\n\
             [optimiser]\nkind = \"adamw\"\nbetas = [0.9, 0.99]\n\
             [train]\nclipping = \"per-layer\"\n",
        )
        .unwrap();
        assert_eq!(spec.data.format, Some(DataFormat::ImageFolder));
        assert_eq!(spec.optimiser.kind, Some(OptimiserKind::Adamw));
        assert_eq!(spec.train.clipping, Some(ClippingKind::PerLayer));
        for (path, value) in [
            ("optimiser.learning_rate", "0.1"),
            ("optimiser.nesterov", "true"),
            ("data.train", "2024"),
            ("model.trainable", "[\"fc\", \"layer4\"]"),
        ] {
            spec.set(path, value).unwrap();
        }
        assert_eq!(spec.optimiser.learning_rate, Some(0.1));
        assert_eq!(spec.data.train.as_deref(), Some("2024"));
        assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
        let error = spec.set("optimiser.nesterov", "maybe").unwrap_err();
        assert!(error.hint().unwrap().contains("looks ahead"));
    }

    #[test]
    fn every_format_is_written_as_it_is_called() {
        let key = crate::spec::keys::find("data.format").unwrap();
        assert_eq!(key.choices, DataFormat::ALL.map(DataFormat::name));
        for format in DataFormat::ALL {
            let spec = PlanSpec::from_toml(&format!("[data]\nformat = \"{}\"", format.name())).unwrap();
            assert_eq!(spec.data.format, Some(format));
        }
    }

    #[test]
    fn the_digest_covers_everything_but_performance() {
        let plain = PlanSpec::default();
        let change = |path: &str, value: &str| {
            let mut spec = plain.clone();
            spec.set(path, value).unwrap();
            spec.digest()
        };
        assert_eq!(change("performance.threads", "7"), plain.digest());
        for (path, value) in
            [("optimiser.learning_rate", "0.1"), ("data.train", "a"), ("sampling.batch", "3")]
        {
            assert_ne!(change(path, value), plain.digest(), "{path}");
        }
    }
}
