//! P Figure 13: accuracy over epsilon in a task of textures, patch level against record level.

mod show;

use dapple_plan::PlanSpec;

use super::{Flags, Model, Scale, absolute, existing};
use crate::experiment::{self, Level, Place};
use crate::failure::Failure;
use crate::reproduce::outcome::Outcome;
use crate::reproduce::{Arguments, Listed};

pub(super) const LISTED: Listed =
    Listed { id: "patch/fig13", title: "Accuracy on textures over the privacy budget", section: "C.8" };

/// Budgets at which textures are trained.
const EPSILONS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// Epochs of the paper's runs.
const EPOCHS: u64 = 150;

/// P section C.8 for ResNet-18 on the describable textures, brought to 300x300 beforehand. The constants are those of the weights'
/// training on ImageNet.
const TEXTURES: &str = r#"
[privacy]
relation = "patch"
delta = "1/n"
max_grad_norm = 0.5

[region]
patch = [5, 5]

[pipeline]
image = [300, 300]
crop = [100, 100]

[sampling]
scheme = "poisson"
batch = 128

[data]
format = "image-folder"
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]

[model]
name = "resnet-18"
norm = "frozen"

[optimiser]
kind = "sgd"
learning_rate = 0.01
momentum = 0.9
schedule = "cosine"

[train]
evaluation_grid = 3
"#;

/// One run.
struct Measured {
    level: Level,
    /// The budget asked for.
    target: f64,
    seed: u64,
    accuracy: f64,
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    inclusion_probability: f64,
    steps: u64,
}

pub(super) fn outcome(arguments: &Arguments) -> Result<Outcome, Failure> {
    let flags = &arguments.trained;
    let epsilons = match flags.scale() {
        Scale::Tiny => experiment::scenes_epsilons().collect(),
        Scale::Small | Scale::Full => EPSILONS.to_vec(),
    };
    let seeds = flags.seeds.unwrap_or(if flags.scale() == Scale::Tiny { 2 } else { 4 });
    let place = Place::new(flags.out.as_deref())?;
    let mut runs = Vec::new();
    for &epsilon in &epsilons {
        for level in Level::ALL {
            for seed in 1..=seeds {
                let name = format!("{}-epsilon{epsilon}-{seed}", level.name());
                let mut spec = plan(flags, level, epsilon)?;
                spec.model.seed = Some(seed);
                let run = experiment::finish(spec, &place.path().join(&name), &name, arguments.quiet)?;
                let accuracy = run.accuracy()?;
                let Some(spent) = run.certificate.spent else {
                    return Err(Failure::run(format!("{name} spent nothing")));
                };
                runs.push(Measured {
                    level,
                    target: epsilon,
                    seed,
                    accuracy,
                    epsilon: spent.epsilon.upper,
                    delta: spent.delta,
                    noise_multiplier: spent.noise_multiplier,
                    inclusion_probability: spent.inclusion_probability,
                    steps: spent.steps,
                });
            }
        }
    }
    show::shown(&epsilons, &runs, &plan(flags, Level::Patch, EPSILONS[0])?, flags.scale())
}

/// The training at a level and a budget.
fn plan(flags: &Flags, level: Level, epsilon: f64) -> Result<PlanSpec, Failure> {
    let mut spec = match flags.scale() {
        Scale::Tiny => scenes(flags, level, epsilon)?,
        Scale::Small | Scale::Full => level.of(textures(flags, epsilon)?),
    };
    if let Some(steps) = flags.steps {
        (spec.sampling.epochs, spec.sampling.steps) = (None, Some(steps));
    }
    Ok(spec)
}

fn scenes(flags: &Flags, level: Level, epsilon: f64) -> Result<PlanSpec, Failure> {
    let given = [
        ("--data", flags.data.is_some()),
        ("--model", flags.model.is_some()),
        ("--weights", flags.weights.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::request(
            format!(
                "{} at scale tiny trains a small model on the embedded scenes: it has no {flag}",
                LISTED.id
            ),
            format!("leave {flag} away, or add --scale small"),
        ));
    }
    let mut spec = experiment::scenes(level, Some(epsilon))?;
    spec.train.evaluate_every = None;
    Ok(spec)
}

fn textures(flags: &Flags, epsilon: f64) -> Result<PlanSpec, Failure> {
    let missing = |flag: &str, hint: &str| {
        Failure::request(
            format!("{} at this scale fine-tunes on your data: {flag} is missing", LISTED.id),
            hint,
        )
    };
    let data = flags.data.as_deref().ok_or_else(|| {
        missing(
            "--data",
            "give --data a folder with train/CLASS/ and test/CLASS/ of pictures of 300x300, or use --scale tiny",
        )
    })?;
    let weights = flags.weights.as_deref().ok_or_else(|| {
        missing(
            "--weights",
            "give --weights a safetensors file of torchvision's resnet18 or vgg11_bn trained on ImageNet, or use --scale tiny",
        )
    })?;
    let data = existing(data)?;
    let mut spec = PlanSpec::from_toml(TEXTURES)?;
    spec.privacy.epsilon = Some(epsilon);
    spec.data.train = Some(absolute(&data.join("train")));
    spec.data.test = Some(absolute(&data.join("test")));
    spec.model.weights = Some(absolute(weights));
    if flags.model == Some(Model::Vgg11) {
        spec.model.name = Some(Model::Vgg11.key().to_owned());
        spec.sampling.batch = Some(64);
        spec.optimiser.learning_rate = Some(0.002);
        spec.optimiser.weight_decay = Some(1e-4);
    }
    spec.sampling.epochs = Some(if flags.scale() == Scale::Full { EPOCHS } else { EPOCHS / 5 });
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::Plan;

    fn flags(model: Option<Model>) -> Flags {
        Flags {
            scale: Some(Scale::Full),
            data: Some(".".into()),
            model,
            weights: Some("weights.safetensors".into()),
            seeds: None,
            steps: None,
            out: None,
        }
    }

    #[test]
    fn textures_are_trained_as_the_paper_says() {
        let check = |level, model| {
            let mut spec = plan(&flags(model), level, 10.0).unwrap();
            spec.privacy.noise_multiplier = Some(1.0);
            spec.sampling.records = Some(1879);
            Plan::check(&spec).unwrap()
        };
        let resnet = check(Level::Patch, None);
        assert_eq!((resnet.batch(), resnet.steps()), (128, 150 * 15));
        // 104 of 201 places along each side.
        assert!((resnet.inclusion_probability() - (104.0_f64 / 201.0).powi(2)).abs() < 1e-9);
        let vgg = check(Level::Record, Some(Model::Vgg11));
        assert_eq!((vgg.batch(), vgg.steps(), vgg.inclusion_probability()), (64, 150 * 30, 1.0));
    }
}
