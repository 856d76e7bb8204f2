//! Choosing the best of several runs without paying for each: the price, the draw, and the entry in a budget.

use std::path::Path;

use dapple_data::open;
use dapple_data::rand_core::Rng;
use dapple_data::{MasterKey, Purpose};
use dapple_plan::{PrivateChoice, Promise, Repetitions};
use serde::Serialize;

use crate::budget::{Reservation, Within};
use crate::error::TrainError;
use crate::run::Completed;

/// What releasing the best of several runs costs.
///
/// # Guarantee
/// The released run is (`epsilon`, `delta`)-private under `relation`, provided that all `assumptions` hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoiceCertificate {
    /// An upper bound on epsilon.
    pub epsilon: f64,
    /// The failure probability.
    pub delta: f64,
    /// Name of the relation.
    pub relation: &'static str,
    /// What is protected, as a sentence.
    pub protects: String,
    /// The largest epsilon of a single candidate if it were trained and released alone.
    pub epsilon_of_one: f64,
    /// How many plans there are, of which each repetition draws one.
    pub candidates: usize,
    /// The law of the number of repetitions: `negative-binomial` or `poisson`.
    pub law: &'static str,
    /// The shape of the law, `eta`; `None` for a Poisson law.
    pub shape: Option<f64>,
    /// The mean of the law.
    pub mean: f64,
    /// What must hold outside this program.
    pub assumptions: Vec<String>,
    /// The theorem behind the number.
    pub theorem: &'static str,
}

const TNB: &str = "the best of a number of repetitions with a truncated negative binomial law (Papernot and Steinke 2022, Theorem 2), from the Rényi divergences of one repetition";
const POISSON: &str = "the best of a number of repetitions with a Poisson law (Papernot and Steinke 2022, Theorem 6, with the case of no repetition counted), from the Rényi divergences and the privacy profile of one repetition";

/// Prices the choice among plans, all under the relation of the first.
///
/// # Errors
/// No plan at all, plans that cannot be priced under the first's relation, an epsilon too large to report.
pub fn choose_price(candidates: &[Completed], law: Repetitions) -> Result<ChoiceCertificate, TrainError> {
    let nothing =
        || TrainError::setting("candidates", "there is nothing to choose from", "give at least one plan");
    let first = candidates.first().ok_or_else(nothing)?;
    let promise = Promise::of(&first.spec, &first.plan)?;
    let mut plans = Vec::new();
    for Completed { spec, masks, .. } in candidates {
        plans.extend(promise.restate(spec, masks, &first.masks, None)?);
    }
    let delta = first.plan.delta();
    let epsilon = PrivateChoice::new(&plans, law)?.epsilon(delta)?;
    let mut assumptions: Vec<String> = Vec::new();
    for sentence in candidates.iter().flat_map(|candidate| &candidate.certificate.assumptions) {
        if !assumptions.contains(sentence) {
            assumptions.push(sentence.clone());
        }
    }
    assumptions.extend([
        "The score of a run does not depend on the private records: it is measured on public records.".to_owned(),
        "Nothing but the chosen run is released: not the others, their scores, nor how many there were. The number of repetitions is drawn within 1e-12 of its law in total variation.".to_owned(),
    ]);
    let one = candidates.iter().map(|candidate| candidate.certificate.epsilon.upper).fold(0.0, f64::max);
    let (name, shape, theorem) = match law {
        Repetitions::NegativeBinomial { shape, .. } => ("negative-binomial", Some(shape), TNB),
        Repetitions::Poisson { .. } => ("poisson", None, POISSON),
    };
    Ok(ChoiceCertificate {
        epsilon,
        delta,
        relation: promise.relation.name(),
        protects: plans.first().map_or_else(String::new, Promise::words),
        epsilon_of_one: one,
        candidates: candidates.len(),
        law: name,
        shape,
        mean: law.mean(),
        assumptions,
        theorem,
    })
}

/// Draws how many repetitions there are and the candidate of each, with randomness from the operating system that is used for nothing
/// else.
///
/// # Errors
/// The operating system gives no random bytes.
pub fn draw(law: Repetitions, candidates: usize) -> Result<Vec<usize>, TrainError> {
    let mut random = MasterKey::from_os()?.purpose(Purpose::Split).step(0).stream(0);
    // A number in [0, 1) with 53 random bits.
    let uniform = (random.next_u64() >> 11) as f64 * 2f64.powi(-53);
    let many = candidates.max(1) as u64;
    // Draws at or beyond the largest multiple of `many` are repeated, so that every candidate is equally likely.
    let limit = u64::MAX - u64::MAX % many;
    let mut one = || loop {
        let drawn = random.next_u64();
        if drawn < limit {
            return usize::try_from(drawn % many).expect("a remainder by the length of a list");
        }
    };
    Ok((0..law.quantile(uniform)).map(|_| one()).collect())
}

/// Counts a choice in a budget before anything is trained, and links the folder of the choice to the budget.
///
/// # Guarantee
/// Once this returns, every later reading of the budget counts the choice.
///
/// # Errors
/// Candidates on different records, a choice that would exceed the total or cannot be priced beside the rest.
pub fn reserve_choice(
    within: &Within,
    candidates: &[Completed],
    law: Repetitions,
    folder: &Path,
) -> Result<(), TrainError> {
    let mut opened = Vec::new();
    for candidate in candidates {
        if !opened.iter().any(|(data, _)| *data == &candidate.data) {
            opened.push((&candidate.data, open(&candidate.data, Path::new(""))?.train));
        }
    }
    let Some((_, records)) = opened.first() else {
        return Err(TrainError::setting(
            "candidates",
            "there is nothing to choose from",
            "give at least one plan",
        ));
    };
    let own = records.fingerprint()?;
    for (_, other) in &opened {
        if other.fingerprint()? != own {
            return Err(TrainError::setting(
                "data",
                "the candidates have different records",
                "choose among plans for the same records",
            ));
        }
    }
    Reservation::check_choice(within, &**records, candidates, law)?.write(folder, "").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_law() {
        let law = Repetitions::negative_binomial(1.0, 4.0).unwrap();
        let draws: Vec<Vec<usize>> = (0..20_000).map(|_| draw(law, 3).unwrap()).collect();
        let ones = draws.iter().filter(|drawn| drawn.len() == 1).count() as f64 / 20_000.0;
        // A geometric law with mean 4 gives 1 with probability 1/4. Six standard deviations are exceeded once in 5e8 tests.
        assert!((ones - 0.25).abs() < 6.0 * (0.25 * 0.75 / 20_000.0_f64).sqrt(), "{ones}");
        let all: Vec<usize> = draws.concat();
        for candidate in 0..3 {
            let share = all.iter().filter(|drawn| **drawn == candidate).count() as f64 / all.len() as f64;
            assert!((share - 1.0 / 3.0).abs() < 6.0 * (2.0 / 9.0 / all.len() as f64).sqrt(), "{share}");
        }
    }
}
