//! What may be asked for beside the name of a figure.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use dapple_plan::spec::{DeviceChoice, FactorPrecision};

use crate::Watch;
use crate::experiment::Experiment;
use crate::patch::setting::{BATCH, MAX_RECORDS, Reading};

/// What may be changed about a figure or table; each has some of it.
#[derive(Debug, Args)]
pub struct ReproductionOptions {
    /// What the paper's σ stands for
    #[arg(long, value_name = "READING", default_value = "std")]
    pub(crate) sigma_is: Reading,
    /// Takes this many records in place of the paper's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(BATCH..=MAX_RECORDS))]
    pub(crate) records: Option<u64>,
    /// Computes at most this many points a line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2000))]
    points: Option<u32>,
    #[command(flatten)]
    pub(crate) training: Training,
}

impl ReproductionOptions {
    /// The most points that a line gets, where a limit is asked for.
    pub(crate) fn points(&self) -> Option<usize> {
        self.points.map(|points| points as usize)
    }

    /// The first option that is given and has to do with pricing only.
    pub(crate) fn for_pricing(&self) -> Option<&'static str> {
        first_given(&[("--records", self.records.is_some()), ("--points", self.points.is_some())])
    }

    /// The first option that is given and has to do with training only.
    pub(crate) fn for_training(&self) -> Option<&'static str> {
        let Training { scale, data, model, weights, pool, seeds, steps, jobs, device, precision, out } =
            &self.training;
        first_given(&[
            ("--scale", scale.is_some()),
            ("--data", data.is_some()),
            ("--model", model.is_some()),
            ("--weights", weights.is_some()),
            ("--pool", pool.is_some()),
            ("--seeds", seeds.is_some()),
            ("--steps", steps.is_some()),
            ("--jobs", jobs.is_some()),
            ("--device", device.is_some()),
            ("--precision", precision.is_some()),
            ("--out", out.is_some()),
        ])
    }
}

/// The first of these flags that is given.
pub(crate) fn first_given(flags: &[(&'static str, bool)]) -> Option<&'static str> {
    flags.iter().find_map(|&(flag, given)| given.then_some(flag))
}

/// What may be changed about what is trained.
#[derive(Debug, Default, Args)]
pub(crate) struct Training {
    /// How much is trained: minutes, hours or days on a few cores [default: tiny]
    #[arg(long, value_name = "SCALE", help_heading = "Training")]
    pub(crate) scale: Option<TrainingScale>,
    /// The data: IDX files of MNIST for patch/table1, train/ and test/ for patch/fig13 and patch/fig5, Cityscapes for patch/fig5 in full, a folder for each data set for mix/* and partition/*
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    pub(crate) data: Option<PathBuf>,
    /// Trains this model of the paper's classifiers only
    #[arg(long, value_name = "MODEL", help_heading = "Training")]
    pub(crate) model: Option<Classifier>,
    /// First weights of patch/fig13, or of the backbone of patch/fig5, under torchvision's names; a folder of weights for mix/table3, mix/table9 and mix/table10
    #[arg(long, value_name = "FILE.safetensors", help_heading = "Training")]
    pub(crate) weights: Option<PathBuf>,
    /// The public images that mix/table3, mix/table9 and mix/table10 show beside records: a folder for each data set, in synthetic/ and real/
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    pub(crate) pool: Option<PathBuf>,
    /// Times that each setting is trained, from other initial weights
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), help_heading = "Training")]
    pub(crate) seeds: Option<u64>,
    /// Steps of each run in place of the scale's
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Training")]
    pub(crate) steps: Option<u64>,
    /// Runs at once [default: as many as cores and memory allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Training")]
    pub(crate) jobs: Option<u16>,
    /// Where to compute: auto, cpu, cuda, cuda:N, several cards cuda:N,M.. or cuda:all [default: auto, a GPU where one can be used]
    #[arg(long, value_name = "DEVICE", help_heading = "Training")]
    pub(crate) device: Option<DeviceChoice>,
    /// How a GPU rounds the factors of products: f32, tf32 or bf16 [default: f32]
    #[arg(long, value_name = "PRECISION", value_parser = precision, help_heading = "Training")]
    pub(crate) precision: Option<FactorPrecision>,
    /// Keeps the runs in this folder; those that are there already are read, or resumed
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    pub(crate) out: Option<PathBuf>,
}

/// How much is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TrainingScale {
    /// Minutes on two cores
    #[default]
    Tiny,
    /// Hours
    Small,
    /// About as much as the paper, which does not always say
    Full,
}

/// The classifiers of the patch-level paper (section C.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Classifier {
    #[value(name = "resnet-18")]
    Resnet18,
    #[value(name = "vgg-11")]
    Vgg11,
}

impl Classifier {
    pub(crate) const ALL: [Self; 2] = [Self::Resnet18, Self::Vgg11];

    /// The name in plans.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Resnet18 => "resnet-18",
            Self::Vgg11 => "vgg-11",
        }
    }

    /// The name in papers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resnet18 => "ResNet-18",
            Self::Vgg11 => "VGG-11",
        }
    }
}

/// The rounding of this name.
fn precision(text: &str) -> Result<FactorPrecision, String> {
    let known = FactorPrecision::ALL.into_iter().find(|precision| precision.name() == text);
    known.ok_or_else(|| format!("one of {}", FactorPrecision::ALL.map(FactorPrecision::name).join(", ")))
}

impl Training {
    /// What is trained goes into this folder, on the machine and with the rounding that was asked for.
    pub(crate) fn experiment<'a>(&self, place: &'a Path, watch: &'a dyn Watch) -> Experiment<'a> {
        Experiment {
            place,
            jobs: self.jobs.map(usize::from),
            device: self.device.clone(),
            precision: self.precision,
            watch,
        }
    }

    pub(crate) fn scale(&self) -> TrainingScale {
        self.scale.unwrap_or_default()
    }
}
