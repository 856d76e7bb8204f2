//! `[[phases]]`: what parts of a run do differently.

use serde::{Deserialize, Serialize};

use super::{Pixels, PlanSpec};

/// `[[phases]]`: what a part of the run does differently. What it leaves out is as in the sections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseSpec {
    /// Passes over the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Records a step, in expectation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Standard deviation of the noise, in clip norms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
    /// A crop of fixed size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<Pixels>,
    /// Views of a record averaged before clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub views: Option<u32>,
}

impl PlanSpec {
    /// The plan of one phase by itself.
    #[must_use]
    pub fn in_phase(&self, phase: &PhaseSpec) -> Self {
        let base = Self { phases: Vec::new(), ..self.clone() };
        base.merge(&phase.layer())
    }
}

impl PhaseSpec {
    /// What it gives, as a layer over the plan.
    fn layer(&self) -> PlanSpec {
        let Self { epochs, steps, batch, noise_multiplier, crop, views } = *self;
        let mut layer = PlanSpec::default();
        (layer.sampling.epochs, layer.sampling.steps, layer.sampling.batch) = (epochs, steps, batch);
        layer.privacy.noise_multiplier = noise_multiplier;
        (layer.pipeline.crop, layer.pipeline.views) = (crop, views);
        layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::keys::KEYS;

    /// Every key that a phase may change is one of its fields, and reaches the plan of that phase; it has no others.
    #[test]
    fn phases_take_the_keys_that_say_so() {
        let base = PlanSpec::from_toml("[sampling]\nsteps = 7\n[pipeline]\ncrop_scale = \"0.1:1\"").unwrap();
        for key in KEYS {
            let line = key.toml_example().replace('`', "");
            let read = PlanSpec::from_toml(&format!("[[phases]]\n{line}"));
            assert_eq!(read.is_ok(), key.in_phases, "{}", key.path);
            let Ok(read) = read else { continue };
            let mut set = PlanSpec::default();
            set.set(key.path, key.example).unwrap();
            assert_eq!(base.in_phase(&read.phases[0]), base.merge(&set), "{}", key.path);
        }
    }
}
