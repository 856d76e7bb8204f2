//! How private and public parts of images are trained on.

use crate::error::PlanError;
use crate::spec::{DataFormat, MaskedPass, PlanSpec, PublicGradient};
use crate::{Plan, Relation, TargetKind};

/// The largest weight of public gradients. Beyond it, private ones no longer count.
const MOST_WEIGHT: f64 = 1e6;

/// How a plan of the `masked` relation is trained; a checked value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskedPlan {
    /// How a model sees a part of an image alone; `None` if the model decides.
    pub pass: Option<MaskedPass>,
    /// What public gradients are multiplied by before they are added to private ones.
    pub public_weight: f64,
}

impl MaskedPlan {
    /// Checks what training needs of a plan of the `masked` relation; `None` under other relations.
    ///
    /// # Errors
    /// A key that has no meaning for the relation or the mode, masks that are missing, and what is trained in one pass only: split models,
    /// mixtures, label maps.
    pub fn check(privacy: &Plan, spec: &PlanSpec, targets: TargetKind) -> Result<Option<Self>, PlanError> {
        let masked = &spec.masked;
        if privacy.relation() != Relation::Masked {
            return match &spec.data.masks {
                Some(_) => {
                    let problem = format!("has no meaning for the {} relation", privacy.relation());
                    Err(PlanError::invalid("data.masks", problem, "leave it out, or use --relation masked"))
                }
                None => Ok(None),
            };
        }
        let refuse = |key, problem: &str, hint: &str| Err(PlanError::invalid(key, problem, hint));
        let has_masks = spec.data.format == Some(DataFormat::MovingShapes);
        if has_masks && spec.data.masks.is_some() {
            return refuse("data.masks", "moving-shapes have masks of their own", "leave it out");
        }
        if spec.data.masks.is_none() && spec.data.format.is_some() && !has_masks {
            let why = "the masked relation needs a mask for each training image or clip";
            return Err(PlanError::Missing { key: "data.masks", why });
        }
        if targets == TargetKind::LabelMap {
            let problem = "private and public parts of images are trained on for one class an image, not for label maps";
            return refuse("data.format", problem, "use images with classes");
        }
        for part in privacy.parts() {
            let averaged = part.averaged();
            if part.split().is_some() {
                let problem = "a split model has no public pass";
                return refuse("partition.submodels", problem, "leave the [partition] section out");
            }
            if averaged.self_mix > 0 || averaged.synthetic > 0 {
                let problem = "private and public parts of an image are neither mixed nor accompanied";
                return refuse("mix.self_mix", problem, "leave the [mix] section out");
            }
        }
        let clipped = masked.public_gradient == Some(PublicGradient::CoupledClipped);
        match masked.public_weight {
            Some(_) if clipped => refuse(
                "masked.public_weight",
                "what is added of public gradients is bounded by masked.public_clip already",
                "leave it out, and choose masked.public_clip",
            ),
            Some(weight) if !(0.0..=MOST_WEIGHT).contains(&weight) => refuse(
                "masked.public_weight",
                &format!("{weight} is outside [0, 1e6]"),
                "give the weight of public gradients beside private ones, e.g. 1",
            ),
            weight => Ok(Some(Self { pass: masked.pass, public_weight: weight.unwrap_or(1.0) })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingPlan;

    const PLAN: &str = "[privacy]\nrelation = 'masked'\nnoise_multiplier = 1.0\ndelta = 1e-5\nmax_grad_norm = 1.0\n\
        [sampling]\nbatch = 10\nrecords = 100\nsteps = 20\n\
        [data]\nformat = 'image-folder'\ntrain = 'photos'\nmasks = 'masks'\n\
        [model]\nname = 'vit-ti-16'\n[optimiser]\nlearning_rate = 0.1\n";

    /// The plan with some keys changed, or what is wrong with it.
    fn checked(changes: &[(&str, &str)]) -> Result<Option<MaskedPlan>, PlanError> {
        let mut spec = PlanSpec::from_toml(PLAN).unwrap();
        for (key, value) in changes {
            spec.set(key, value).unwrap();
        }
        Ok(TrainingPlan::new(Plan::check(&spec)?, &spec)?.masked)
    }

    #[test]
    fn defaults_are_filled_in() {
        let plan = checked(&[]).unwrap().unwrap();
        assert_eq!(plan, MaskedPlan { pass: None, public_weight: 1.0 });
        let plan = checked(&[("masked.pass", "blank"), ("masked.public_weight", "0.5")]).unwrap().unwrap();
        assert_eq!(plan, MaskedPlan { pass: Some(MaskedPass::Blank), public_weight: 0.5 });
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let replace = ("privacy.relation", "replace");
        let clipped = [("masked.public_gradient", "coupled-clipped"), ("masked.public_clip", "1")];
        for (changes, key) in [
            (&[replace][..], "data.masks"),
            (&[replace, ("masked.pass", "blank")], "masked.pass"),
            (&[("masked.public_weight", "-1")], "masked.public_weight"),
            (&[("masked.public_weight", "nan")], "masked.public_weight"),
            (&[clipped[0], clipped[1], ("masked.public_weight", "1")], "masked.public_weight"),
            (&[("mix.self_mix", "2"), ("pipeline.views", "2")], "mix.self_mix"),
        ] {
            let error = checked(changes).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{changes:?}: {error}");
        }
    }
}
