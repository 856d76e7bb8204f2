//! The other processes that share a run. They do what the first one orders, and write nothing.

use std::path::PathBuf;
use std::sync::Arc;

use dapple_data::Sampler;
use dapple_geometry::{Mask, Size};
use dapple_plan::{Look, PlanSpec};

use super::among::{SharedPlan, compare, digest_of, ready};
use super::keys::Keys;
use super::loaders::StepLoaders;
use super::shown::ShownPasses;
use crate::checkpoint::Checkpoint;
use crate::error::{TrainError, one_line};
use crate::evaluation::Evaluator;
use crate::prepare::{Prepared, Request};
use crate::ranks::{RankGroup, RankOrder};
use crate::step::Trainer;

/// Takes part in a run of the first rank until that rank ends it. `request` is the plan that this rank was given, if it was given one.
///
/// What goes wrong here, the first rank hears, and ends the run with it; so there is nothing to return.
pub fn follow(ranks: &Arc<RankGroup>, request: Option<&Request>) {
    let plan = ranks.tell(Vec::new());
    if plan.is_empty() {
        return;
    }
    let request = request.map(digest_of).unwrap_or_default();
    let understood = understood(&plan);
    let Ok((mut prepared, plan)) = understood else {
        // The first rank names this failure.
        let _ = understood.map_or_else(|error| ranks.compare(Err(error)), |_| Ok(Vec::new()));
        return;
    };
    if ready(ranks, &mut prepared, &request, &plan).is_err() {
        return;
    }
    let state = ranks.tell(Vec::new());
    if state.is_empty() {
        return;
    }
    let mut follower = Follower::new(prepared, &state);
    loop {
        let order = ranks.next_order();
        if order == RankOrder::End {
            return;
        }
        let obeyed = match &mut follower {
            Ok(follower) => follower.obey(ranks, order),
            // Every order begins with what each rank has to say, and that ends it for all.
            Err(error) => ranks.agree(&Err::<(), _>(error)),
        };
        if let (Err(error), Ok(_)) = (obeyed, &follower) {
            follower = Err(error);
        }
    }
}

/// The run that the first rank told of, with the data as this rank finds it.
fn understood(bytes: &[u8]) -> Result<(Prepared, SharedPlan), TrainError> {
    let unknown = |problem: String| {
        TrainError::setting(
            "mpi",
            format!("the plan of rank 0 cannot be read: {problem}"),
            "use one version everywhere",
        )
    };
    let plan: SharedPlan = serde_json::from_slice(bytes).map_err(|error| unknown(one_line(error)))?;
    let mask = |(width, height, pixels): &(u32, u32, Vec<u8>)| {
        let size = Size::named("mask", *width, *height)?;
        Mask::from_bytes(size, pixels.clone())
    };
    let masks = plan.masks.iter().map(mask).collect::<Result<Vec<Mask>, _>>();
    let masks = masks.map_err(|error| unknown(error.to_string()))?;
    Ok((Prepared::again(PlanSpec::from_toml(&plan.spec)?, masks)?, plan))
}

/// A rank that takes part in a run.
struct Follower {
    prepared: Prepared,
    trainer: Trainer,
    keys: Keys,
    evaluator: Evaluator,
    loaders: Option<StepLoaders>,
}

impl Follower {
    /// A rank with the state of the first: its keys, and what was learned if the run goes on.
    fn new(prepared: Prepared, state: &[u8]) -> Result<Self, TrainError> {
        let misfit = || Checkpoint::misfit(PathBuf::from("the state of rank 0"));
        let (keys, checkpoint) = state.split_first_chunk().ok_or_else(misfit)?;
        let mut trainer = Trainer::new(&prepared, &mut Vec::new())?;
        if !checkpoint.is_empty() {
            let checkpoint = Checkpoint::from_bytes(checkpoint).map_err(|_| misfit())?;
            if !trainer.restore(checkpoint) {
                return Err(misfit());
            }
        }
        let evaluator = Evaluator::new(&prepared, Look::default())?;
        Ok(Self { trainer, keys: Keys::from_bytes(keys), evaluator, loaders: None, prepared })
    }

    fn obey(&mut self, ranks: &RankGroup, order: RankOrder) -> Result<(), TrainError> {
        let Self { prepared, trainer, keys, evaluator, loaders } = self;
        match order {
            RankOrder::Prepare(step) => {
                let own = prepare(prepared, keys, step);
                let all = ranks.agree(&own);
                *loaders = Some(own?);
                all
            }
            RankOrder::Step(step) => match loaders {
                Some(loaders) => loaders.step(trainer, &keys.step, step).map(|_| ()),
                None => ranks.agree(&Err::<(), _>("no records were prepared")),
            },
            RankOrder::Compare => compare(ranks, trainer),
            RankOrder::Evaluate => match &prepared.data.test {
                Some(test) => evaluator.evaluate(prepared, trainer, test).map(|_| ()),
                None => ranks.agree(&Err::<(), _>("there is nothing to evaluate on")),
            },
            RankOrder::End => Ok(()),
        }
    }
}

/// This rank's part of the records of all steps from one on. Ranks make no features, so records are shown as they are.
fn prepare(prepared: &Prepared, keys: &Keys, step: u64) -> Result<StepLoaders, TrainError> {
    let sampler = Sampler::new(prepared.plan(), prepared.data.train.units(), keys.sampling.clone())?;
    let shown = ShownPasses::of_records(prepared)?;
    StepLoaders::new((prepared, keys), shown, &sampler, step..prepared.plan().steps(), 1)?.prepared()
}
