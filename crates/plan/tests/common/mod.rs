//! Makes plans from settings, compares brackets, and draws random numbers that are the same in every run.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part")]

use dapple_plan::{Bracket, BracketPrecision, Plan, PlanSpec};

/// A plan from keys and values. Later ones replace earlier ones.
pub(crate) fn spec_of<'a, S: AsRef<str> + 'a>(
    settings: impl IntoIterator<Item = &'a (&'a str, S)>,
) -> PlanSpec {
    let mut spec = PlanSpec::default();
    for (key, value) in settings {
        spec.set(key, value.as_ref()).unwrap();
    }
    spec
}

pub(crate) fn bracket(plan: &Plan) -> Bracket {
    plan.epsilon(BracketPrecision::default()).unwrap()
}

/// Asserts that two brackets of one number overlap.
pub(crate) fn assert_overlap(a: Bracket, b: Bracket) {
    assert!(a.overlaps(b), "{a:?} and {b:?} exclude each other");
}

/// The largest probability, over the generator's seeds, that a statement about a mean is wrong.
const ALPHA: f64 = 1e-6;

/// Marsaglia's xorshift64*, so that every run of a test is the same run.
pub(crate) struct Generator(pub(crate) u64);

impl Generator {
    /// A uniform number in (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A normal number, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The margin of Hoeffding's inequality for the mean of `runs` numbers in [0, 1], with half of the error rate for each of two means.
pub(crate) fn margin(runs: u32) -> f64 {
    ((2.0 / ALPHA).ln() / (2.0 * f64::from(runs))).sqrt()
}
