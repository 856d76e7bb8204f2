//! The plans of the partitioning paper's training, at each scale.

use std::path::PathBuf;

use dapple_plan::PlanSpec;

use super::super::price::{ModelSplit, PartitionPricing, PartitionRun, RecordSampling};
use super::super::tables::{DELTA, EPSILON};
use super::catalogue::{PartitionMethod, PrintedAccuracy, TrainingStart};
use super::halves::{HalvedImages, NumpyImages};
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, PlannedRun, full_path};
use crate::options::{Training, TrainingScale};

/// What all private runs share. The paper states neither clip norms nor learning rates nor how it augments images.
const PRIVATE: &str = r#"
[privacy]
relation = "add-remove"
max_grad_norm = 1.0

[data]
flip = true

[optimiser]
kind = "sgd"
"#;

/// How a model is pretrained: without privacy, and evaluated on images that are split off.
const PUBLIC: &str = r#"
[pipeline]
pad = 4

[data]
flip = true
validation = 0.1

[train]
private = false
"#;

/// How a small model is pretrained.
const PUBLIC_SMALL: &str = "[optimiser]\nkind = \"sgd\"\nmomentum = 0.9\nlearning_rate = 0.05\n";

/// How ResNet-101 is pretrained: at the rates of momentum at which others learn, a network so deep with group norms diverges in its first steps.
const PUBLIC_DEEP: &str = "[optimiser]\nkind = \"adam\"\nlearning_rate = 0.0003\n";

/// Both parts of a split model are clipped to the same norm, as the noise of the paper's table tells, and together to the clip norm.
pub(super) const PART_NORM: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Where users are protected, the noise of the paper's second table tells that the norms are as 0.5 to 0.585; together they are the clip norm.
pub(super) const USER_NORMS: [f64; 2] = [0.6496, 0.7602];

/// The steps that a user takes in a round.
const LOCAL_STEPS: u64 = 3;

/// The accuracy at which pretraining ends (section 4.1).
const ENOUGH: f64 = 0.7;

/// Runs of pretraining, each of which goes on with the weights of the one before, until that accuracy is reached.
const MOST_ROUNDS: usize = 20;

/// What a scale trains.
struct ScaleSetting {
    model: &'static str,
    /// The share of the records that a step draws.
    rate: f64,
    steps: u64,
    learning_rate: f64,
    /// That of a user's own steps.
    local_rate: f64,
    ema: Option<f64>,
}

/// How many submodels a scale has in the place of the paper's: the small model has four blocks to deal out.
pub(super) fn at_scale(method: PartitionMethod, scale: TrainingScale) -> PartitionMethod {
    let submodels = match (scale, method.submodels) {
        (TrainingScale::Tiny, 3) => 2,
        (TrainingScale::Tiny, 8) => 4,
        (_, submodels) => submodels,
    };
    PartitionMethod { submodels, ..method }
}

fn setting((start, federated): (TrainingStart, bool), scale: TrainingScale) -> ScaleSetting {
    let ema = (scale != TrainingScale::Tiny && !federated).then_some(0.99);
    let (model, rate, steps, learning_rate) = match (start, scale) {
        (TrainingStart::Pretrained, TrainingScale::Tiny) if federated => ("small-hybrid", 1.0, 5, 1.0),
        (TrainingStart::Pretrained, TrainingScale::Small) if federated => ("resnet-101", 0.02, 40, 1.0),
        (TrainingStart::Pretrained, TrainingScale::Full) if federated => ("resnet-101", 1.0, 250, 1.0),
        (TrainingStart::Pretrained, TrainingScale::Tiny) => ("small-hybrid", 0.1, 40, 0.5),
        (TrainingStart::Pretrained, TrainingScale::Small) => ("resnet-101", 0.02, 200, 0.5),
        (TrainingStart::Pretrained, TrainingScale::Full) => ("resnet-101", 0.1, 1000, 0.1),
        (TrainingStart::Scratch, TrainingScale::Tiny) => ("small-cnn", 0.3275, 40, 2.0),
        (TrainingStart::Scratch, TrainingScale::Small) => ("wrn-16-4", 0.02, 200, 1.0),
        (TrainingStart::Scratch, TrainingScale::Full) => ("wrn-40-4", 0.3275, 2000, 4.0),
    };
    let local_rate = if scale == TrainingScale::Tiny { 0.1 } else { 0.05 };
    ScaleSetting { model, rate, steps, learning_rate, local_rate, ema }
}

/// What runs read: images, and the weights that public ones trained.
pub(super) struct PartitionFiles {
    images: HalvedImages,
    /// Whether a user trains on them, which takes so many gradients that small networks are shown small images.
    federated: bool,
    weights: Option<PathBuf>,
    /// The accuracy that pretraining reached.
    pub(super) pretrained: Option<f64>,
}

impl PartitionFiles {
    /// Writes the images into the folder of the experiment, and pretrains where one of these runs begins with such weights.
    pub(super) fn prepare(
        flags: &Training,
        experiment: &Experiment<'_>,
        printed: &[PrintedAccuracy],
    ) -> Result<Self> {
        let has = |is_so: fn(&PartitionMethod) -> bool| printed.iter().any(|row| is_so(&row.method));
        let folder = experiment.place.join("images");
        let images = match (flags.scale(), &flags.data) {
            (TrainingScale::Tiny, _) => HalvedImages::garments(&folder)?,
            (_, Some(data)) => HalvedImages::cifar10(&folder, &data.join("cifar-10"))?,
            (_, None) => {
                return Err(ReproduceError::request(
                    "this scale trains on CIFAR-10: --data is missing",
                    "give --data a folder that holds cifar-10 (`dapple data get cifar-10`), or use --scale tiny",
                ));
            }
        };
        let federated = has(|method| method.federated);
        let mut files = Self { images, federated, weights: None, pretrained: None };
        if has(|method| method.start == TrainingStart::Pretrained) {
            files.pretrain(flags, experiment)?;
        }
        Ok(files)
    }

    /// Trains on the public images until enough of those split off are told right.
    fn pretrain(&mut self, flags: &Training, experiment: &Experiment<'_>) -> Result<()> {
        // With a number of steps that is asked for, there is one run of so many.
        let rounds = if flags.steps.is_some() { 1 } else { MOST_ROUNDS };
        for round in 1..=rounds {
            let name = format!("pretrained-{round}");
            let spec = self.public_plan(flags)?;
            let [finished] = &experiment.carry_out(&[PlannedRun::of(&name, spec)])?[..] else {
                return Err(ReproduceError::failed("one run was carried out, and not one came back"));
            };
            let reached = finished.quality()?;
            self.pretrained = Some(reached);
            self.weights = Some(experiment.place.join(name).join("model.safetensors"));
            if reached >= ENOUGH {
                break;
            }
        }
        Ok(())
    }

    /// The private training behind one accuracy.
    pub(super) fn plan(&self, flags: &Training, method: PartitionMethod, seed: u64) -> Result<PlanSpec> {
        let method = at_scale(method, flags.scale());
        let own = setting((method.start, method.federated), flags.scale());
        let steps = flags.steps.unwrap_or(own.steps);
        let mut spec = PlanSpec::from_toml(PRIVATE)?;
        let images = match method.start {
            TrainingStart::Scratch => &self.images.whole,
            TrainingStart::Pretrained => &self.images.private,
        };
        self.show_images(&mut spec, images, flags.scale())?;
        self.images.test.test(&mut spec);
        let mut units = images.records;
        if method.federated {
            let (users, count) = images.in_pairs()?;
            spec.set("privacy.relation", "user")?;
            (spec.data.users, units) = (Some(full_path(&users)), count);
            spec.user.local_steps = Some(LOCAL_STEPS);
            spec.user.local_learning_rate = Some(own.local_rate);
        }
        spec.privacy.epsilon = Some(EPSILON);
        spec.set("privacy.delta", &DELTA.to_string())?;
        spec.sampling.steps = Some(steps);
        match method.balanced {
            true => {
                spec.set("sampling.scheme", "balanced")?;
                spec.sampling.per_record = Some(((own.rate * steps as f64).round() as u64).max(1));
            }
            false => {
                spec.set("sampling.scheme", "poisson")?;
                spec.sampling.batch = Some(batch(own.rate, units));
            }
        }
        (spec.model.name, spec.model.seed) = (Some(own.model.to_owned()), Some(seed));
        if method.start == TrainingStart::Pretrained {
            spec.model.weights = self.weights.as_deref().map(full_path);
        }
        (spec.optimiser.learning_rate, spec.optimiser.ema) = (Some(own.learning_rate), own.ema);
        if method.submodels > 1 {
            split(&mut spec, method, (units, steps), flags.scale())?;
        }
        Ok(spec)
    }

    /// Pretraining, from weights of an earlier run if there are any.
    fn public_plan(&self, flags: &Training) -> Result<PlanSpec> {
        let scale = flags.scale();
        let (batch, steps, optimiser) = match scale {
            TrainingScale::Tiny => (100, 100, PUBLIC_SMALL),
            TrainingScale::Small | TrainingScale::Full => (256, 400, PUBLIC_DEEP),
        };
        let mut spec = PlanSpec::from_toml(PUBLIC)?.merge(&PlanSpec::from_toml(optimiser)?);
        self.show_images(&mut spec, &self.images.public, scale)?;
        spec.sampling.batch = Some(batch);
        spec.sampling.steps = flags.steps.or(Some(steps));
        spec.model.name = Some(setting((TrainingStart::Pretrained, false), scale).model.to_owned());
        spec.model.seed = Some(1);
        spec.model.weights = self.weights.as_deref().map(full_path);
        Ok(spec)
    }

    /// Names images to train on, with the constants of their kind.
    fn show_images(&self, spec: &mut PlanSpec, images: &NumpyImages, scale: TrainingScale) -> Result<()> {
        images.train(spec)?;
        let (mean, std, side) = match scale {
            TrainingScale::Tiny => (0.29, 0.35, 28),
            TrainingScale::Small | TrainingScale::Full => (0.5, 0.25, 32),
        };
        (spec.data.mean, spec.data.std) = (Some(vec![mean]), Some(vec![std]));
        if scale == TrainingScale::Tiny && self.federated {
            spec.set("data.size", "14x14")?;
        }
        if spec.pipeline.pad.is_some() {
            spec.set("pipeline.crop", &format!("{side}x{side}"))?;
        }
        Ok(())
    }
}

/// So many records or users are drawn in expectation.
fn batch(rate: f64, units: u64) -> u64 {
    (rate * units as f64).round() as u64
}

/// Deals blocks out to submodels, with the noise of the method.
fn split(
    spec: &mut PlanSpec,
    method: PartitionMethod,
    (units, steps): (u64, u64),
    scale: TrainingScale,
) -> Result<()> {
    let blocks = match scale {
        TrainingScale::Tiny => "blocks.0..blocks.3",
        // The paper leaves the first five and the last two blocks whole and deals out 22, which are these.
        TrainingScale::Small | TrainingScale::Full => "layer3.1..layer3.22",
    };
    spec.partition.submodels = Some(method.submodels);
    spec.partition.blocks = Some(vec![blocks.to_owned()]);
    let [split_norm, nonsplit_norm] = if method.federated { USER_NORMS } else { [PART_NORM, PART_NORM] };
    (spec.partition.split_norm, spec.partition.nonsplit_norm) = (Some(split_norm), Some(nonsplit_norm));
    if method.told {
        let rate = spec.sampling.batch.unwrap_or(units) as f64 / units as f64;
        let model = ModelSplit { submodels: 1, split_norm, nonsplit_norm };
        let sampling = RecordSampling::Poisson { rate, model };
        let noise = PartitionRun::noise(sampling, steps, PartitionPricing::Certified, EPSILON, DELTA)?;
        let none =
            || ReproduceError::failed("no noise is needed for so few steps").with_hint("give more --steps");
        spec.privacy.noise_multiplier = Some(noise.ok_or_else(none)?);
        spec.privacy.epsilon = None;
    }
    Ok(())
}
