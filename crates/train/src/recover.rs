//! A run as its plan and its ledger describe it, without its data.

use dapple_geometry::Mask;
use dapple_plan::spec::Performance;
use dapple_plan::{Certificate, PerformancePlan, Plan, PlanSpec, TrainingPlan};

use crate::certificate::{RunCertificate, Status};
use crate::error::TrainError;
use crate::files;
use crate::folder::Folder;
use crate::ledger::{History, LedgerError};
use crate::prepare::checked;
use crate::terms::Terms;
use crate::witness::Witness;

/// What a folder says about its run, after every file that knows of its steps was found to agree with the ledger.
pub(crate) struct Recovered {
    pub(crate) spec: PlanSpec,
    pub(crate) masks: Vec<Mask>,
    pub(crate) training: TrainingPlan,
    pub(crate) planned: Option<Certificate>,
    pub(crate) history: History,
}

impl Recovered {
    /// Reads the plan and the ledger. A run in progress is not disturbed.
    ///
    /// # Guarantee
    /// The plan is the one that the run began with, every promise of the ledger is one of its steps, and no checkpoint, log,
    /// certificate or model in the folder knows of more than the ledger counts.
    pub(crate) fn read(folder: &Folder) -> Result<Self, TrainError> {
        // Read the witnesses first, because a run in progress writes to its ledger before it writes anything else.
        let witnesses = Witness::gather(folder)?;
        let (spec, masks) = folder.read_request()?;
        let path = folder.ledger();
        let wrong = |source| TrainError::Ledger { path: path.clone(), source };
        let history = History::read(&files::read(&path)?).map_err(wrong)?;
        let start = history.start();
        let changed = || TrainError::Changed { folder: folder.root().to_owned(), what: "plan" };
        if spec.digest() != start.spec {
            return Err(changed());
        }
        let (plan, planned) = checked(&spec, &masks)?;
        let training = TrainingPlan::new(plan, &spec)?;
        let (plan, seeded) = (&training.privacy, training.conduct.seed.is_some());
        let same = (plan.hash(), plan.steps(), planned.is_some(), seeded)
            == (start.plan.as_str(), start.steps, start.private, start.deterministic);
        if !same {
            return Err(changed());
        }
        history.check_events(plan).map_err(wrong)?;
        witnesses.iter().try_for_each(|witness| witness.check(&history)).map_err(wrong)?;
        if folder.model().exists() && history.spent() < start.steps {
            let witness = "model.safetensors".to_owned();
            return Err(wrong(LedgerError::Behind { witness, step: start.steps, spent: history.spent() }));
        }
        Ok(Self { spec, masks, training, planned, history })
    }

    /// The same run with other settings of speed and memory, where they are given.
    pub(crate) fn with(mut self, performance: &Performance) -> Result<Self, TrainError> {
        self.spec.performance = self.spec.performance.merge(performance);
        self.training.performance = PerformancePlan::check(&self.spec.performance)?;
        Ok(self)
    }

    /// The part of the plan that is priced.
    pub(crate) fn plan(&self) -> &Plan {
        &self.training.privacy
    }

    pub(crate) fn terms(&self) -> Terms<'_> {
        Terms { training: &self.training, planned: self.planned.as_ref() }
    }

    /// The certificate of what the run has promised and spent, by its ledger.
    pub(crate) fn certificate(&self) -> Result<RunCertificate, TrainError> {
        self.certificate_of(Status::of(&self.history), self.history.spent())
    }

    /// The certificate for a number of steps and a status that the caller gives.
    pub(crate) fn certificate_of(&self, status: Status, steps: u64) -> Result<RunCertificate, TrainError> {
        let terms = self.terms();
        let (spent, whole) = (terms.cost(steps)?, terms.cost(self.plan().steps())?);
        Ok(RunCertificate::new(terms, &self.history, status, &spent, &whole))
    }

    /// Refuses a model that is not the one the run ended with. Ledgers of earlier versions do not tell which that was.
    pub(crate) fn check_model(&self, folder: &Folder) -> Result<(), TrainError> {
        let Some(expected) = self.history.model() else { return Ok(()) };
        if crate::digest::of(&[&files::read(&folder.model())?]) != expected {
            return Err(TrainError::Changed { folder: folder.root().to_owned(), what: "model" });
        }
        Ok(())
    }
}
