//! The plans of the masked paper's training, at each scale.

use std::path::Path;

use dapple_plan::spec::{Delta, Masked, MaskedContent, PublicGradient};
use dapple_plan::{DataPlan, PlanSpec, Relation};
use dapple_train::TrainError;

use super::catalogue::{MaskMethod, PrintedSet};
use crate::error::{ReproduceError, Result};
use crate::experiment::full_path;
use crate::options::{Training, TrainingScale};

/// Drawn clips of moving shapes, whose background is private: the shape stands for the avatars that the paper puts in the place of people.
const SHAPES: &str = r#"
[privacy]
delta = 1e-5
max_grad_norm = 1.0

[sampling]
batch = 192
steps = 60

[data]
format = "moving-shapes"
private = "background"
frames = 8
mean = [0.5]
std = [0.25]

[model]
name = "small-clip"

[optimiser]
kind = "adam"
learning_rate = 0.003
schedule = "cosine"
"#;

/// M section 5.3 and appendix D: MViTv2-S from public weights, of which the last layer and the norms of the last two blocks train. The paper
/// states no optimiser for its private runs; its open ones take plain gradient descent.
const CLIPS: &str = r#"
[privacy]
max_grad_norm = 1.0

[sampling]
batch = 128

[data]
frames = 16
size = [224, 224]
mean = [0.45]
std = [0.225]

[model]
name = "mvit-v2-s"
trainable = ["head", "norm", "blocks.14.norm1", "blocks.14.norm2", "blocks.14.attn.pool_q.norm_act", "blocks.14.attn.pool_k.norm_act", "blocks.14.attn.pool_v.norm_act", "blocks.15.norm1", "blocks.15.norm2", "blocks.15.attn.pool_q.norm_act", "blocks.15.attn.pool_k.norm_act", "blocks.15.attn.pool_v.norm_act"]

[optimiser]
kind = "sgd"
learning_rate = 0.01
schedule = "cosine"
"#;

/// Epochs of the paper, those of its warm-up, and how many of both scale small has.
const EPOCHS: u64 = 150;
const WARM_UP: u64 = 20;
const SMALL_PART: u64 = 10;

/// How far the public gradient of a clip may reach, in private clip norms, where it is clipped.
const PUBLIC_CLIP: f64 = 1.0;

/// The training of a data set, without budget and method.
pub(super) fn base(flags: &Training, id: &str, set: &PrintedSet) -> Result<PlanSpec> {
    let mut spec = match flags.scale() {
        TrainingScale::Tiny => shapes(flags, id)?,
        scale => clips(flags, set, scale)?,
    };
    spec.train.measure = Some(set.measure);
    if let Some(steps) = flags.steps {
        (spec.sampling.epochs, spec.sampling.steps, spec.optimiser.warmup) = (None, Some(steps), None);
    }
    Ok(spec)
}

fn shapes(flags: &Training, id: &str) -> Result<PlanSpec> {
    if flags.data.is_some() || flags.weights.is_some() {
        return Err(ReproduceError::request(
            format!(
                "{id} at scale tiny trains a small model on clips drawn by the program: it has no --data and no --weights"
            ),
            "leave them away, or add --scale small",
        ));
    }
    Ok(PlanSpec::from_toml(SHAPES)?)
}

fn clips(flags: &Training, set: &PrintedSet, scale: TrainingScale) -> Result<PlanSpec> {
    let missing = |flag, what: &str| {
        let hint = format!("give {flag} {what}, or use --scale tiny");
        ReproduceError::request(format!("this scale trains MViTv2-S on videos: {flag} is missing"), hint)
    };
    let folder = || format!("a folder that holds {0} and its masks in {0}-masks", set.format);
    let data = flags.data.as_deref().ok_or_else(|| missing("--data", &folder()))?;
    let weights = flags.weights.as_deref();
    let weights = weights.ok_or_else(|| missing("--weights", "mvit-v2-s.safetensors"))?;
    let mut spec = PlanSpec::from_toml(CLIPS)?;
    spec.set("data.format", set.format)?;
    let place = |name: String| full_path(Path::new(&data.join(name)));
    spec.data.train = Some(place(set.format.to_owned()));
    spec.data.masks = Some(place(format!("{}-masks", set.format)));
    spec.model.weights = Some(full_path(weights));
    spec.privacy.delta = Some(Delta::Value(set.delta));
    let part = if scale == TrainingScale::Small { SMALL_PART } else { 1 };
    let plan = DataPlan::check(&spec).map_err(TrainError::from)?;
    let records = dapple_data::open(&plan, Path::new("")).map_err(TrainError::from)?.train.len() as u64;
    let steps = EPOCHS / part * records.div_ceil(spec.sampling.batch.unwrap_or(1));
    spec.sampling.steps = Some(steps);
    spec.optimiser.warmup = Some(steps * WARM_UP / EPOCHS);
    Ok(spec)
}

/// The training by a method within a budget; without one it is open.
pub(super) fn plan(mut spec: PlanSpec, method: MaskMethod, epsilon: Option<f64>) -> Result<PlanSpec> {
    spec.privacy.epsilon = epsilon;
    spec.privacy.relation = Some(match method {
        MaskMethod::Open | MaskMethod::Whole(MaskedContent::Remove) => Relation::AddRemove,
        MaskMethod::Whole(MaskedContent::Substitute) => Relation::Replace,
        MaskMethod::Tokens(content, mode) => {
            spec.masked = Masked {
                content: Some(content),
                public_gradient: Some(mode),
                public_clip: (mode == PublicGradient::CoupledClipped).then_some(PUBLIC_CLIP),
                ..Masked::default()
            };
            Relation::Masked
        }
    });
    if spec.privacy.relation != Some(Relation::Masked) {
        spec.data.masks = None;
    }
    if method == MaskMethod::Open {
        spec.train.private = Some(false);
    }
    Ok(spec)
}
