//! The first of several processes that share a run, which has its folder, its ledger and its keys.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dapple_plan::spec::{DeviceChoice, Performance};
use dapple_private::StepError;
use serde::{Deserialize, Serialize};

use super::open::OldRun;
use super::{Run, RunOutcome, fresh_bytes};
use crate::budget::Within;
use crate::device::Machine;
use crate::digest;
use crate::error::TrainError;
use crate::observer::Observer;
use crate::prepare::{Prepared, Request};
use crate::ranks::{RankFacts, RankGroup, RankOrder};
use crate::step::Trainer;

/// As [`start_within`](super::start_within), on the first of several ranks that share every step; the others [`follow`](super::follow).
///
/// # Guarantee
/// As [`start_within`](super::start_within), as long as nobody reads what the ranks send each other. A step is ordered only after it was
/// promised, and what a record adds to the joint sum depends on no other record and on no number of ranks.
///
/// # Errors
/// As [`start_within`](super::start_within), ranks that do not have the same, and the failure of another rank, which is named.
pub fn start_among(
    ranks: &Arc<RankGroup>,
    request: &Request,
    out: &Path,
    budget: Option<&Within>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    let mut prepared = Prepared::new(request);
    share(ranks, prepared.as_mut().ok(), &digest_of(request))?;
    // If there is none, the others know by now.
    lead(ranks, Run::create(prepared?, out, budget), observer)
}

/// As [`resume_within`](super::resume_within), on the first of as many ranks as there are now; the others [`follow`](super::follow).
///
/// # Errors
/// As [`resume_within`](super::resume_within), ranks that do not have the same, and the failure of another rank, which is named.
pub fn resume_among(
    ranks: &Arc<RankGroup>,
    folder: &Path,
    performance: &Performance,
    budget: Option<&Within>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    let mut old = OldRun::open(folder, performance);
    share(ranks, old.as_mut().ok().map(|old| &mut old.prepared), "")?;
    lead(ranks, Run::again(old?, budget), observer)
}

/// The digest of a plan as it was given, by which ranks notice that they were given different ones.
pub(super) fn digest_of(request: &Request) -> String {
    let masks = request.masks.iter().flat_map(|mask| mask.bytes()).copied().collect::<Vec<u8>>();
    digest::of(&[request.spec.to_toml().as_bytes(), &masks])
}

/// What the first rank tells the others before anything is compared.
#[derive(Serialize, Deserialize)]
pub(super) struct SharedPlan {
    /// The plan with everything filled in, and its masks: width, height, and whether each pixel is private.
    pub(super) spec: String,
    pub(super) masks: Vec<(u32, u32, Vec<u8>)>,
    /// What hides fingerprints.
    pub(super) key: [u8; 32],
    /// Whether every record is read once before the first step.
    pub(super) check: bool,
}

/// Tells the other ranks the plan, or that there is none, and compares what all have.
fn share(ranks: &Arc<RankGroup>, prepared: Option<&mut Prepared>, request: &str) -> Result<(), TrainError> {
    let Some(prepared) = prepared else {
        ranks.tell(Vec::new());
        return Ok(());
    };
    let key = fresh_bytes()?;
    let masks = prepared.masks.iter().map(|mask| {
        let size = mask.size();
        (size.width(), size.height(), mask.bytes().to_vec())
    });
    // A run that goes on has read its records before.
    let check = !request.is_empty();
    let plan = SharedPlan { spec: prepared.spec.to_toml(), masks: masks.collect(), key, check };
    ranks.tell(serde_json::to_vec(&plan).expect("words and numbers"));
    ready(ranks, prepared, request, &plan)
}

/// Compares what this rank and the others have, takes this rank's share of its machine, and reads its records once where that is wanted: all that
/// there are, or those of the shards that were dealt to it.
pub(super) fn ready(
    ranks: &Arc<RankGroup>,
    prepared: &mut Prepared,
    request: &str,
    plan: &SharedPlan,
) -> Result<(), TrainError> {
    prepared.ranks = Some(Arc::clone(ranks));
    ranks.set_patience(Duration::from_secs_f64(prepared.training.performance.patience));
    let facts = ranks.compare(RankFacts::of(prepared, request, &plan.key, ranks.is_first()))?;
    let card = ranks.choose_card(&Machine::device_of(prepared)?, &facts)?;
    let own = &mut prepared.training.performance;
    own.device = card.map_or(DeviceChoice::Cpu, |card| DeviceChoice::Cuda(card.number as u32));
    if own.threads == 0 {
        own.threads = ranks.threads(&facts);
    }
    ranks.deal(&prepared.data, &facts)?;
    let checked = match plan.check {
        true => prepared.check_shards().and_then(|()| prepared.check_records()),
        false => prepared.check_shards(),
    };
    ranks.agree(&checked).or_else(|other| checked.and(Err(other)))
}

/// Carries a run through together with the other ranks, or tells them that there is none.
fn lead(
    ranks: &RankGroup,
    run: Result<Run, TrainError>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    let state = run.and_then(|mut run| Ok((run.shared_state()?, run)));
    let Ok((bytes, run)) = state else {
        ranks.tell(Vec::new());
        return state.and_then(|(_, run)| run.carry_through(observer));
    };
    ranks.tell(bytes);
    let outcome = run.carry_through(observer);
    ranks.order(RankOrder::End);
    outcome
}

impl Run {
    /// What the other ranks need to take part: the keys, and what the run has learned if it goes on.
    fn shared_state(&mut self) -> Result<Vec<u8>, TrainError> {
        let mut bytes = self.keys.to_bytes().to_vec();
        if self.trainer.updates() > 0 {
            let checkpoint = self.checkpoint()?.to_bytes();
            let path = self.folder.checkpoints();
            bytes.extend(checkpoint.map_err(|problem| TrainError::Checkpoint { path, problem })?);
        }
        Ok(bytes)
    }
}

/// Compares what all ranks have learned, to the last bit.
///
/// # Errors
/// That of this rank, that of another, or a difference.
pub(super) fn compare(ranks: &RankGroup, trainer: &mut Trainer) -> Result<(), TrainError> {
    let own = trainer.digest();
    let all =
        ranks.exchange(own.as_ref().map(|digest| digest.as_bytes().to_vec()).map_err(ToString::to_string));
    let own = own?;
    match all?.iter().position(|other| other != own.as_bytes()) {
        Some(rank) => {
            let problem = "what was learned differs from what rank 0 has learned".to_owned();
            Err(StepError::Rank { rank, problem }.into())
        }
        None => Ok(()),
    }
}
