//! Fine-tuning as the mixing paper does it, at each scale: a new last layer behind a pretrained model that stays as it is.

mod garments;

use std::path::{Path, PathBuf};

use dapple_plan::PlanSpec;

use super::catalogue::{MixData, PaperAccuracy};
use super::folders::GivenFolders;
use super::plans;
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, PlannedRun, full_path};
use crate::options::{Training, TrainingScale};
use garments::GarmentFolders;

/// Section 4 and appendix C of the paper. The learning rate, which the paper searched for in each case and does not print, is ours.
const TUNED: &str = r#"
[privacy]
relation = "add-remove"
delta = 1e-5
max_grad_norm = 1.0

[sampling]
scheme = "poisson"
batch = 1000
epochs = 10

[model]
tune = "head"

[optimiser]
kind = "sgd"
learning_rate = 1.0
"#;

/// How images of any size are shown: mirrored, and moved by at most an eighth, by the constants that the pretrained models expect.
const IMAGES: &str = r#"
[pipeline]
operations = ["resize 224x224 bilinear"]
pad = 28
pad_mode = "reflect"
crop = [224, 224]

[data]
mean = [0.48145466, 0.4578275, 0.40821073]
std = [0.26862954, 0.26130258, 0.27577711]
flip = true
"#;

/// How garments of 28x28 pixels are shown: in the same way.
const GARMENTS: &str = r#"
[pipeline]
pad = 3
crop = [28, 28]

[data]
format = "image-folder"
mean = [0.29]
std = [0.35]
flip = true
"#;

/// How a small network is pretrained: without privacy.
const PRETRAINING: &str = r#"
[sampling]
scheme = "poisson"
batch = 100
steps = 300

[model]
name = "small-cnn"
seed = 1

[optimiser]
kind = "sgd"
learning_rate = 0.05
momentum = 0.9
schedule = "cosine"

[train]
private = false
"#;

/// The name of the run that pretrains.
const PRETRAINED: &str = "pretrained";

/// The clip norm of the baseline that shows records whole (appendix C).
const WHOLE_CLIP_NORM: f64 = 0.05;

/// Epochs on EuroSAT (section 4).
const EUROSAT_EPOCHS: u64 = 20;

/// Epochs of scale small.
const SMALL_EPOCHS: u64 = 2;

/// Where fine-tuning finds what it reads.
pub(super) enum TuningFiles<'a> {
    /// Embedded garments that were written out, and the weights that were trained on the public ones.
    Garments { folders: GarmentFolders, weights: PathBuf },
    /// What the flags name.
    Given(GivenFolders<'a>),
}

impl<'a> TuningFiles<'a> {
    /// What a scale reads. At scale tiny the embedded garments are written into the folder of the experiment, and a network is pretrained
    /// on the public ones.
    pub(super) fn prepare(flags: &'a Training, experiment: &Experiment<'_>) -> Result<Self> {
        if flags.scale() != TrainingScale::Tiny {
            return Ok(Self::Given(GivenFolders::new(flags, true)?));
        }
        let folders = GarmentFolders::write(&experiment.place.join("garments"))?;
        let mut spec = PlanSpec::from_toml(&[GARMENTS, PRETRAINING].concat())?;
        spec.data.train = Some(full_path(&folders.public()));
        spec.sampling.steps = flags.steps.or(spec.sampling.steps);
        experiment.carry_out(&[PlannedRun::of(PRETRAINED, spec)])?;
        Ok(Self::Garments { folders, weights: experiment.place.join(PRETRAINED).join("model.safetensors") })
    }

    /// The training behind one accuracy.
    pub(super) fn plan(&self, flags: &Training, cell: &PaperAccuracy, seed: u64) -> Result<PlanSpec> {
        let mut spec = match self {
            Self::Garments { folders, weights } => small_network(folders, weights, cell)?,
            Self::Given(folders) => pretrained_model(folders, cell, flags.scale())?,
        };
        if cell.method.whole {
            spec.data.size = spec.pipeline.crop.take();
            (spec.pipeline.pad, spec.pipeline.pad_mode, spec.data.flip) = (None, None, None);
            spec.privacy.max_grad_norm = Some(WHOLE_CLIP_NORM);
            // Steps are as long as with the other clip norm.
            spec.optimiser.learning_rate = spec.optimiser.learning_rate.map(|rate| rate / WHOLE_CLIP_NORM);
        }
        plans::trained_by(&mut spec, flags, cell, seed);
        Ok(spec)
    }
}

/// The embedded garments, told by a small network.
fn small_network(folders: &GarmentFolders, weights: &Path, cell: &PaperAccuracy) -> Result<PlanSpec> {
    let mut spec = PlanSpec::from_toml(&[TUNED, GARMENTS].concat())?;
    (spec.sampling.batch, spec.sampling.epochs, spec.sampling.steps) = (Some(100), None, Some(40));
    spec.data.train = Some(full_path(&folders.private()));
    spec.data.test = Some(full_path(&folders.test()));
    spec.model.name = Some("small-cnn".to_owned());
    spec.model.weights = Some(full_path(weights));
    spec.optimiser.learning_rate = Some(0.5);
    let pool = || full_path(&folders.pool(cell.method.pool));
    spec.mix.pool = (cell.method.synthetic > 0).then(pool);
    Ok(spec)
}

/// One of the paper's data sets, told by one of its models.
fn pretrained_model(
    folders: &GivenFolders<'_>,
    cell: &PaperAccuracy,
    scale: TrainingScale,
) -> Result<PlanSpec> {
    let mut spec = PlanSpec::from_toml(&[TUNED, IMAGES].concat())?;
    plans::read_images(&mut spec, &folders.data(cell.data), cell.data)?;
    spec.sampling.epochs = match (scale, cell.data) {
        (TrainingScale::Tiny | TrainingScale::Small, _) => Some(SMALL_EPOCHS),
        (TrainingScale::Full, MixData::EuroSat) => Some(EUROSAT_EPOCHS),
        (TrainingScale::Full, _) => spec.sampling.epochs,
    };
    let missing = || ReproduceError::failed("a table that is fine-tuned was given no weights or pools");
    spec.model.name = Some(cell.model.key().to_owned());
    spec.model.weights = Some(full_path(&folders.weights(cell.model).ok_or_else(missing)?));
    if cell.method.synthetic > 0 {
        let pool = folders.pool(cell.method.pool, cell.data).ok_or_else(missing)?;
        spec.mix.pool = Some(full_path(&pool));
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tables;
    use super::*;
    use dapple_plan::Plan;

    #[test]
    fn images_are_fine_tuned_as_the_paper_says() {
        let flags = Training {
            scale: Some(TrainingScale::Full),
            data: Some("data".into()),
            weights: Some("weights".into()),
            pool: Some("pools".into()),
            ..Training::default()
        };
        let files = TuningFiles::Given(GivenFolders::new(&flags, true).unwrap());
        for cell in tables().iter().filter(|table| table.is_tuned()).flat_map(|table| &table.cells) {
            let mut spec = files.plan(&flags, cell, 1).unwrap();
            spec.privacy.noise_multiplier = Some(1.0);
            spec.sampling.records = Some(50_000);
            let plan = Plan::check(&spec).unwrap();
            let epochs = if cell.data == MixData::EuroSat { 20 } else { 10 };
            assert_eq!((plan.batch(), plan.steps()), (1000, epochs * 50));
            assert_eq!(plan.max_grad_norm(), Some(if cell.method.whole { 0.05 } else { 1.0 }));
            let averaged = plan.averaged();
            assert_eq!(
                (averaged.self_mix, averaged.synthetic),
                (cell.method.self_mix, cell.method.synthetic)
            );
            assert!(spec.model.weights.unwrap().ends_with(&format!("{}.safetensors", cell.model.key())));
            let pool = format!("{}/{}", cell.method.pool.folder(), cell.data.folder());
            let named = spec.mix.pool.as_deref().is_some_and(|path| path.ends_with(&pool));
            assert_eq!(named, cell.method.synthetic > 0);
        }
    }
}
