//! Where a run computes.

#[cfg(feature = "cuda")]
mod gpu;

use std::sync::Arc;
use std::time::Duration;

use dapple_data::SubmodelLaw;
use dapple_graph::Graph;
use dapple_plan::spec::{DeviceChoice, FactorPrecision};
use dapple_plan::{PerformancePlan, Plan, Sampling, TrainingPlan, UserPlan};
#[cfg(not(feature = "cuda"))]
use dapple_private::StepError;
use dapple_private::{Executor, LocalSteps, LocalTraining, Peers, Processor, UserProcessor};

use crate::error::TrainError;
use crate::prepare::Prepared;
use crate::ranks::RankGroup;

/// Bytes of views that a microbatch may take on each card if the plan does not say.
const MICROBATCH_BYTES: usize = 64 << 20;
/// The least records of a microbatch, because fewer would leave threads idle.
const SMALLEST_MICROBATCH: usize = 64;

/// The machine of a run: what was asked for and, once `auto` is settled, what it is.
#[derive(Debug)]
pub(crate) struct Machine {
    device: DeviceChoice,
    precision: FactorPrecision,
    threads: usize,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU splits batches by it"))]
    microbatch: usize,
    /// How many records a step is planned for. That many are shown at once if memory allows, however many are drawn.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU fills batches up"))]
    planned: Option<Planned>,
    /// Whether the same bits must be computed again, by another process or by a card that has planned anew.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the processor always does"))]
    repeatable: bool,
    /// Number of cards that share every batch; the processor counts as one.
    cards: usize,
    words: String,
    /// The processes that share every step with this one, and how long these wait for each other.
    ranks: Option<Arc<RankGroup>>,
    patience: Duration,
    /// How users train, if what is drawn are users.
    users: Option<LocalTraining>,
}

impl Machine {
    /// The machine that takes a plan's steps.
    ///
    /// # Errors
    /// As [`Machine::device_of`], and users on several ranks.
    pub(crate) fn for_training(prepared: &Prepared) -> Result<Self, TrainError> {
        let (plan, device) = (&prepared.training, Self::device_of(prepared)?);
        let users = plan.users.map(local_training);
        if users.is_some() && prepared.ranks.is_some() {
            return Err(TrainError::setting(
                "privacy.relation",
                "ranks share the records of a step, and a user's are not to be shared",
                "train users in one process, whose threads they share",
            ));
        }
        // A card plans anew for groups of another size, and what a group adds must not depend on which sizes came before.
        let in_groups = prepared.parts().iter().any(|part| part.clip_groups().is_some());
        let repeatable = plan.conduct.seed.is_some() || in_groups;
        let mut machine = Self::new(&plan.performance, Some(Planned::of(prepared)), repeatable);
        machine.device = device;
        machine.patience = Duration::from_secs_f64(plan.performance.patience);
        machine.users = users;
        machine.ranks = prepared.ranks.clone();
        Ok(machine)
    }

    /// The device that a plan asks for, as far as it can take the plan's steps. Private and public parts of images are for the processor alone, and
    /// so are users and gradients that are scaled before they are clipped.
    ///
    /// # Errors
    /// A GPU that was asked for but cannot take such steps.
    pub(crate) fn device_of(prepared: &Prepared) -> Result<DeviceChoice, TrainError> {
        let plan = &prepared.training;
        let device = &plan.performance.device;
        let on_processor = [
            (
                prepared.masked.is_some(),
                "private and public parts of images are trained on the processor alone",
            ),
            (
                plan.optimiser.rule.scales().is_some(),
                "gradients are scaled before they are clipped on the processor alone",
            ),
            (plan.users.is_some(), "users are trained on the processor alone"),
        ];
        match on_processor.into_iter().find_map(|(holds, problem)| holds.then_some(problem)) {
            None => Ok(device.clone()),
            Some(problem) if device.needs_gpu() => {
                let hint = "leave it out, or give \"cpu\"";
                Err(TrainError::setting("performance.device", problem, hint))
            }
            Some(_) => Ok(DeviceChoice::Cpu),
        }
    }

    /// The machine that runs a plan's model on single images. Of several cards it uses one, because cards cannot share an image.
    pub(crate) fn for_inference(plan: &TrainingPlan) -> Self {
        Self::new(&plan.performance.on_one_card(), None, plan.conduct.seed.is_some())
    }

    /// The machine that computes what a frozen trunk makes of a plan's records. Of several cards it uses one, and it computes the same bits
    /// every time, in a run that goes on elsewhere, too.
    pub(crate) fn for_features(plan: &TrainingPlan) -> Self {
        Self::new(&plan.performance.on_one_card(), None, true)
    }

    fn new(performance: &PerformancePlan, planned: Option<Planned>, repeatable: bool) -> Self {
        Self {
            device: performance.device.clone(),
            precision: performance.precision,
            threads: performance.threads,
            microbatch: performance.microbatch.unwrap_or(0),
            planned,
            repeatable,
            cards: 1,
            words: String::new(),
            ranks: None,
            patience: Duration::ZERO,
            users: None,
        }
    }

    /// Makes an executor for a graph and for submodels of it. The first one settles `auto`: a GPU is used if possible, and if there is one that cannot be used,
    /// the notes say why.
    ///
    /// # Errors
    /// A GPU that was asked for but cannot be used.
    pub(crate) fn executor(
        &mut self,
        graph: &Graph,
        submodels: &[Graph],
        notes: &mut Vec<String>,
    ) -> Result<Box<dyn Executor>, TrainError> {
        if self.device == DeviceChoice::Cpu {
            return self.processor(graph, submodels, notes);
        }
        match self.gpu(graph, submodels) {
            Err(unusable) if self.device == DeviceChoice::Auto => {
                let Unusable { worth_telling, error } = *unusable;
                if worth_telling {
                    let hint = error.hint().map_or(String::new(), |hint| format!(" ({hint})"));
                    notes.push(format!("no GPU is used: {error}{hint}"));
                }
                self.processor(graph, submodels, notes)
            }
            Err(unusable) => Err(unusable.error),
            Ok(executor) => {
                if self.device == DeviceChoice::Auto {
                    self.device = DeviceChoice::Cuda(0);
                }
                Ok(executor)
            }
        }
    }

    /// The machine in words, once there is an executor: the device, and how it rounds.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Number of cards that share every batch, once there is an executor. The processor counts as one.
    pub(crate) fn cards(&self) -> usize {
        self.cards
    }

    fn processor(
        &mut self,
        graph: &Graph,
        submodels: &[Graph],
        notes: &mut Vec<String>,
    ) -> Result<Box<dyn Executor>, TrainError> {
        self.device = DeviceChoice::Cpu;
        self.words = "cpu".to_owned();
        if self.precision != FactorPrecision::F32 {
            let name = self.precision.name();
            notes.push(format!("performance.precision = {name} is for GPUs; the processor computes in f32"));
            self.precision = FactorPrecision::F32;
        }
        if let Some(local) = self.users {
            return Ok(Box::new(UserProcessor::new(graph, submodels, local, self.threads)?));
        }
        let processor = Processor::with_submodels(graph, submodels, self.threads)?;
        Ok(Box::new(match &self.ranks {
            Some(ranks) => processor.among(Arc::clone(ranks) as Arc<dyn Peers>),
            None => processor,
        }))
    }

    #[cfg(not(feature = "cuda"))]
    fn gpu(&mut self, _: &Graph, _: &[Graph]) -> Result<Box<dyn Executor>, Box<Unusable>> {
        let error = StepError::Device {
            device: self.device.to_string(),
            problem: "this program was built without CUDA".to_owned(),
            hint: Some("build it with --features cuda, or compute on the processor: --device cpu"),
        };
        Err(Box::new(Unusable { worth_telling: false, error: error.into() }))
    }
}

/// How users train, as the executor is told.
fn local_training(plan: UserPlan) -> LocalTraining {
    let steps = |rate: f64| LocalSteps { count: plan.local_steps, learning_rate: rate as f32 };
    let batch = plan.local_batch.map(|batch| usize::try_from(batch).unwrap_or(usize::MAX));
    LocalTraining { steps: plan.local_learning_rate.map(steps), batch }
}

/// How many records a step is planned for. These numbers are public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Records of the whole step; of a split model, those that share a submodel.
    pub(crate) records: usize,
    /// The most records that one card is shown at once.
    pub(crate) together: usize,
}

impl Planned {
    /// What the largest phase of a plan needs, in microbatches that follow from its performance settings and the size of its views.
    pub(crate) fn of(prepared: &Prepared) -> Self {
        let record = prepared.views.iter().map(|views| 4 * views.count() * views.view_length()).max();
        let by_memory = (MICROBATCH_BYTES / record.unwrap_or(1).max(1)).max(SMALLEST_MICROBATCH);
        let together = prepared.training.performance.microbatch.unwrap_or(by_memory);
        let of = |part: &Plan| {
            let submodels = SubmodelLaw::of(part).and_then(|law| law.counts().min()).unwrap_or(1);
            // Each record draws its submodel, so that even of a fixed number a random one shares it.
            let by_coins = part.sampling() != Sampling::WithoutReplacement || submodels > 1;
            Self::new(part.batch().div_ceil(submodels), by_coins, together)
        };
        let parts = prepared.parts().iter().map(of);
        parts.max_by_key(|planned| planned.records).unwrap_or(Self::new(1, false, together))
    }

    /// The plan for a step that is expected to draw `batch` records. If every record has its own coin, two and a half standard deviations
    /// more are planned for; what is beyond fills another microbatch. If every step draws the same number, exactly that number is planned
    /// for.
    fn new(batch: u64, by_coins: bool, together: usize) -> Self {
        let more = if by_coins { 2.5 * (batch as f64).sqrt() } else { 0.0 };
        Self { records: (batch as f64 + more).ceil() as usize, together: together.max(1) }
    }

    /// Records that each card is shown at once: an equal part of its share.
    pub(crate) fn each(self, cards: usize) -> usize {
        let share = self.records.div_ceil(cards.max(1)).max(1);
        share.div_ceil(share.div_ceil(self.together))
    }
}

/// Why a GPU cannot be used.
struct Unusable {
    /// Whether there seems to be a GPU, so that a user would want to know.
    worth_telling: bool,
    error: TrainError,
}

#[cfg(test)]
mod tests {
    use super::Planned;

    #[test]
    fn batches_are_planned_in_equal_parts() {
        assert_eq!(Planned::new(100, true, 1000).each(1), 125);
        assert_eq!(Planned::new(100, false, 1000).each(1), 100);
        assert_eq!(Planned::new(100, true, 50).each(1), 42);
        assert_eq!(Planned::new(100, true, 50).each(2), 32);
        assert_eq!(Planned::new(0, true, 0).each(3), 1);
    }
}
