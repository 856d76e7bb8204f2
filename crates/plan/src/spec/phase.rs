//! `[[phases]]`: what parts of a run do differently.

use super::declare::phase;
use super::{Pixels, PlanSpec};

phase! {
    /// The `[[phases]]` sections: what a part of the run does differently. What a phase leaves out is as in the other sections.
    pub struct PhaseSpec {
        sampling.epochs: u64,
        sampling.steps: u64,
        sampling.batch: u64,
        privacy.noise_multiplier: f64,
        pipeline.crop: Pixels,
        pipeline.views: u32,
    }
}

impl PlanSpec {
    /// The plan of one phase by itself.
    #[must_use]
    pub fn in_phase(&self, phase: &PhaseSpec) -> Self {
        let base = Self { phases: Vec::new(), ..self.clone() };
        base.merge(&phase.layer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::keys::KEYS;

    /// Every key that a phase may change is one of its fields and reaches the plan of that phase, and it has no other fields.
    #[test]
    fn phases_take_the_keys_that_say_so() {
        let base = PlanSpec::from_toml("[sampling]\nsteps = 7\n[pipeline]\ncrop_scale = \"0.1:1\"").unwrap();
        for key in KEYS {
            let line = key.toml_example().replace('`', "");
            let read = PlanSpec::from_toml(&format!("[[phases]]\n{line}"));
            assert_eq!(read.is_ok(), key.in_phases(), "{}", key.path);
            let Ok(read) = read else { continue };
            let mut set = PlanSpec::default();
            set.set(key.path, key.example).unwrap();
            assert_eq!(base.in_phase(&read.phases[0]), base.merge(&set), "{}", key.path);
        }
    }
}
