//! The plans of the mixing paper's training from scratch, at each scale, and what they share with those of fine-tuning.

use std::path::Path;

use dapple_plan::{PlanSpec, Relation};

use super::catalogue::{MixData, MixMethod, PaperAccuracy};
use super::folders::GivenFolders;
use crate::error::Result;
use crate::experiment::{Level, full_path, scenes};
use crate::options::{Training, TrainingScale};

/// What the paper says (section 4), with what its baseline says where it refers to that: a learning rate of 2 and a running mean of the weights (*Unlocking
/// High-Accuracy Differentially Private Image Classification through Scale*, De et al. 2022, whose crops reflect the image's edge).
const FROM_SCRATCH: &str = r#"
[privacy]
relation = "add-remove"
delta = 1e-5
max_grad_norm = 1.0

[pipeline]
pad = 4
pad_mode = "reflect"
crop = [32, 32]

[sampling]
scheme = "poisson"
batch = 4096
epochs = 200

[data]
mean = [0.5]
std = [0.25]
flip = true

[model]
name = "wrn-16-4"

[optimiser]
kind = "sgd"
learning_rate = 2.0
ema = 0.999
"#;

/// Of the views and mixtures of a method, the share that is shown at a smaller scale is one in so many.
const FEWER_VIEWS: u32 = 4;

/// The same of public images, of which there are few.
const FEWER_SYNTHETIC: u32 = 2;

/// How many steps the embedded scenes are trained for, in batches of 256.
const TINY_STEPS: u64 = 150;

/// The numbers of views and mixtures at a scale.
pub(super) fn at_scale(method: MixMethod, scale: TrainingScale) -> MixMethod {
    match scale {
        TrainingScale::Full => method,
        TrainingScale::Tiny | TrainingScale::Small => MixMethod {
            views: method.views.div_ceil(FEWER_VIEWS),
            self_mix: method.self_mix.div_ceil(FEWER_VIEWS),
            synthetic: method.synthetic.div_ceil(FEWER_SYNTHETIC),
            ..method
        },
    }
}

/// The training from scratch behind one accuracy.
pub(super) fn plan(flags: &Training, cell: &PaperAccuracy, seed: u64) -> Result<PlanSpec> {
    let mut spec = match flags.scale() {
        TrainingScale::Tiny => {
            let mut spec = scenes::plan(Level::Record, Some(cell.epsilon))?;
            spec.train.evaluate_every = None;
            spec.sampling.steps = Some(TINY_STEPS);
            spec
        }
        TrainingScale::Small | TrainingScale::Full => images(flags, cell.data)?,
    };
    trained_by(&mut spec, flags, cell, seed);
    Ok(spec)
}

/// Fills in the method and the budget of an accuracy, and the steps that flags ask for.
pub(super) fn trained_by(spec: &mut PlanSpec, flags: &Training, cell: &PaperAccuracy, seed: u64) {
    let method = at_scale(cell.method, flags.scale());
    spec.privacy.relation = Some(Relation::AddRemove);
    spec.privacy.epsilon = Some(cell.epsilon);
    spec.privacy.records_per_clip = (method.together > 1).then_some(method.together.into());
    spec.pipeline.views = Some(method.views);
    spec.mix.self_mix = Some(method.self_mix);
    spec.mix.synthetic = (method.synthetic > 0).then_some(method.synthetic);
    spec.model.seed = Some(seed);
    if let Some(steps) = flags.steps {
        (spec.sampling.epochs, spec.sampling.steps) = (None, Some(steps));
    }
}

/// The training of a wide residual network on one of the paper's data sets.
fn images(flags: &Training, data: MixData) -> Result<PlanSpec> {
    let mut spec = PlanSpec::from_toml(FROM_SCRATCH)?;
    read_images(&mut spec, &GivenFolders::new(flags, false)?.data(data), data)?;
    if flags.scale() == TrainingScale::Small {
        (spec.sampling.batch, spec.sampling.epochs) = (Some(1024), Some(20));
        spec.optimiser.learning_rate = Some(1.0);
    }
    if data == MixData::EuroSat {
        // Pictures of 64 x 64 pixels, as the paper has them, are brought to half of that for the same network.
        spec.pipeline.operations = Some(vec!["resize 32x32 bilinear".to_owned()]);
    }
    Ok(spec)
}

/// Names the files of a data set that lies in a folder.
pub(super) fn read_images(spec: &mut PlanSpec, folder: &Path, data: MixData) -> Result<()> {
    let (format, train, test) = match data {
        MixData::Cifar10 | MixData::Cifar100 => ("cifar", folder.to_owned(), folder.to_owned()),
        MixData::EuroSat | MixData::Caltech256 | MixData::Sun397 | MixData::OxfordPet => {
            ("image-folder", folder.join("train"), folder.join("test"))
        }
    };
    spec.set("data.format", format)?;
    (spec.data.train, spec.data.test) = (Some(full_path(&train)), Some(full_path(&test)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tables;
    use super::*;
    use dapple_plan::Plan;

    fn flags(scale: TrainingScale) -> Training {
        Training { scale: Some(scale), data: Some(".".into()), ..Training::default() }
    }

    #[test]
    fn images_are_trained_as_the_paper_says() {
        for table in tables().iter().filter(|table| !table.is_tuned()) {
            for cell in &table.cells {
                let mut spec = plan(&flags(TrainingScale::Full), cell, 1).unwrap();
                spec.privacy.noise_multiplier = Some(1.0);
                spec.sampling.records = Some(50_000);
                let plan = Plan::check(&spec).unwrap();
                assert_eq!((plan.batch(), plan.steps()), (4096, 200 * 13));
                let averaged = plan.averaged();
                assert_eq!((averaged.self_mix, averaged.synthetic), (cell.method.self_mix, 0));
                assert_eq!(averaged.records_per_clip, u64::from(cell.method.together));
            }
        }
    }

    #[test]
    fn smaller_scales_keep_methods_apart() {
        for table in &tables() {
            for scale in [TrainingScale::Tiny, TrainingScale::Small] {
                let keys = table.cells.iter().map(|cell| table.run_name(cell, scale, 1));
                let all: std::collections::BTreeSet<_> = keys.collect();
                assert_eq!(all.len(), table.cells.len(), "{}", table.entry.id);
            }
        }
    }
}
