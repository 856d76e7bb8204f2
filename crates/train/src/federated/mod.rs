//! The server's part of federated learning: who is drawn, what becomes of their updates, and what it costs.
//!
//! A [`FederatedRun`] promises a round in its ledger, draws the clients of the round by independent coins, clips what they send, adds
//! it up in whole numbers, adds noise, and divides by the expected number of clients. Whoever carries messages between server and clients
//! never touches a number that the guarantee rests on. A [`LocalTrainer`] is what a client may compute with. `docs/federated.md` states the
//! threat model.

mod certificate;
mod error;
mod local;
mod model;
mod round;
#[cfg(test)]
mod tests;

use std::path::Path;

use dapple_data::rand_core::Rng;
use dapple_data::{MasterKey, Purpose, PurposeKey, Sampler, SamplerKeys, SamplingEvent};
use dapple_plan::spec::keys::{KEYS, Key};
use dapple_plan::{Certificate, Plan, PlanSpec, Relation, Sampling};
use dapple_private::{AddedUpdate, Noise};

use crate::certificate::Status;
use crate::digest;
use crate::error::TrainError;
use crate::files::{self, Access};
use crate::folder::Folder;
use crate::ledger::{History, Ledger, LedgerEntry, LedgerError, Start};
use crate::lines::{Lines, json_line};
use crate::prepare::solve;
use certificate::price;
use round::OpenRound;

pub use certificate::FederatedCertificate;
pub use error::FederatedError;
pub use local::{ClientSteps, LocalTrainer};
pub use model::FederatedModel;

/// The most rounds that one line of the ledger promises. So a crash costs one round at most.
const LARGEST_BLOCK: u64 = 1;

/// A federated run that this process holds.
///
/// # Guarantee
/// All models that the run releases are (epsilon, delta)-private at the level of clients, with the epsilon of
/// [`FederatedRun::certificate`], under what it assumes: whatever one client sends, and whether it takes part, moves the sum of a round by
/// one vector of norm at most the clip norm, in whole numbers; this is drawn in with the plan's rate by a coin of the client's own; and
/// nothing of it is released but with the plan's noise. A round is on disk before a client of it is known.
#[derive(Debug)]
pub struct FederatedRun {
    folder: Folder,
    plan: Plan,
    planned: Certificate,
    ledger: Ledger,
    sampler: Sampler,
    noise_key: PurposeKey,
    noise: Noise,
    model: FederatedModel,
    open: Option<OpenRound>,
    /// Rounds that `certificate.json` covers.
    covered: Option<u64>,
    diagnostics: Lines,
}

impl FederatedRun {
    /// Begins a run in an empty or new folder. A plan without noise has it solved for its target.
    ///
    /// # Errors
    /// A plan that is not at the level of users, or has parts that a server does not carry out; a folder that holds a run.
    pub fn start(spec: &PlanSpec, out: &Path, model: FederatedModel) -> Result<Self, TrainError> {
        let mut spec = spec.clone();
        check_spec(&spec)?;
        solve(&mut spec, &[])?;
        let (plan, planned) = priced(&spec)?;
        if let Some(target) = plan.target_epsilon().filter(|target| planned.epsilon.upper > *target) {
            return Err(TrainError::setting(
                "privacy.epsilon",
                format!("the plan spends {:.4}, more than {target}", planned.epsilon.upper),
                "leave privacy.noise_multiplier out to have it solved for",
            ));
        }
        let folder = Folder::new(out);
        let claim = folder.claim()?;
        folder.write_request(&spec, &[])?;
        let mut own = [0; 32];
        MasterKey::from_os()?.purpose(Purpose::Split).step(0).stream(0).fill_bytes(&mut own);
        let ledger = claim.begin(Start {
            spec: spec.digest(),
            plan: plan.hash().to_owned(),
            // The server has no records; this makes the first line one that no other run has.
            data: digest::of(&[&own]),
            weights: digest::of_values(model.values()),
            pool: None,
            steps: plan.steps(),
            largest_block: LARGEST_BLOCK,
            deterministic: false,
            private: true,
            sampling_key: None,
        })?;
        let mut run = Self::held(folder, (plan, planned), ledger, model)?;
        run.model.write(&run.folder.model(), run.ledger.history())?;
        run.cover(LARGEST_BLOCK)?;
        Ok(run)
    }

    /// Goes on with a run that was stopped or killed. Rounds that were promised stay spent and are not taken again.
    ///
    /// # Errors
    /// A folder without a federated run, files that contradict the ledger, or a run that another process holds.
    pub fn resume(folder: &Path) -> Result<Self, TrainError> {
        let folder = Folder::new(folder);
        if !folder.ledger().exists() {
            return Err(TrainError::NoRun { folder: folder.root().to_owned() });
        }
        let ledger = Ledger::open(&folder.ledger())?;
        let priced = recovered(&folder, ledger.history())?;
        check_stated(&folder, stated(&folder)?, ledger.history())?;
        let (model, round) = FederatedModel::read(&folder.model(), ledger.history())?;
        folder.close_private()?;
        let mut run = Self::held(folder, priced, ledger, model)?;
        let history = run.ledger.history();
        if !history.finished() {
            let entry = LedgerEntry::Resumed { checkpoint: round, step: history.spent() };
            run.ledger.append(&entry)?;
            let covered = (run.ledger.history().spent() + LARGEST_BLOCK).min(run.plan.steps());
            run.cover(covered)?;
        }
        Ok(run)
    }

    fn held(
        folder: Folder,
        (plan, planned): (Plan, Certificate),
        ledger: Ledger,
        model: FederatedModel,
    ) -> Result<Self, TrainError> {
        // Keys are never written: a run that goes on has others, and no stream is read twice.
        let master = MasterKey::from_os()?;
        let sampler = Sampler::new(&plan, plan.records() as usize, SamplerKeys::of(&master))?;
        let noise = Noise::new(plan.noise_multiplier() * plan.clip_norm())?;
        let diagnostics = Lines::open(&folder.root().join("private/rounds.jsonl"), Access::Owner)?;
        let noise_key = master.purpose(Purpose::Noise);
        Ok(Self {
            folder,
            plan,
            planned,
            ledger,
            sampler,
            noise_key,
            noise,
            model,
            open: None,
            covered: None,
            diagnostics,
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model after the last round that was kept.
    #[must_use]
    pub fn model(&self) -> &FederatedModel {
        &self.model
    }

    /// Rounds that count as taken.
    #[must_use]
    pub fn rounds_spent(&self) -> u64 {
        self.ledger.history().spent()
    }

    /// Whether the run is complete.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.ledger.history().finished()
    }

    /// Promises the next round, and then draws its clients: numbers below that of the declared clients, of which `online` are there. A round
    /// that is open is given up; it stays spent.
    ///
    /// # Guarantee
    /// When this returns, the round is on disk as taken, whoever answers, and each client is drawn with exactly the plan's rate, by
    /// a coin of its own that nobody else knows.
    ///
    /// # Errors
    /// More clients than declared, no round left, or a file that cannot be written. No client may be asked then.
    pub fn promise(&mut self, online: u64) -> Result<Vec<usize>, TrainError> {
        let declared = self.plan.records();
        if online > declared {
            return Err(FederatedError::Clients { online, declared }.into());
        }
        let round = self.rounds_spent();
        if round >= self.plan.steps() {
            return Err(FederatedError::Over { rounds: self.plan.steps() }.into());
        }
        self.open = None;
        // A line that is cut off counts as a round, and so may this one and the next.
        self.cover((round + 2 * LARGEST_BLOCK).min(self.plan.steps()))?;
        let event = SamplingEvent::of(&self.plan);
        self.ledger.append(&LedgerEntry::Promise { first: round, steps: 1, event, clip_norm: None })?;
        let drawn = self.sampler.draw(round)?.indices;
        self.open = Some(OpenRound::new(round, &drawn, self.model.values().len(), self.plan.clip_norm())?);
        Ok(drawn)
    }

    /// Adds what a client sends: its whole update of the round, which is clipped here.
    ///
    /// # Guarantee
    /// The sum of the round moves by a vector of whole numbers whose norm is at most the clip norm, and which depends on this update alone. An
    /// update that is not finite or has another length adds zero.
    ///
    /// # Errors
    /// No round is open; a client that was not drawn, or has answered before. The sum stays as it was.
    pub fn add(&mut self, client: usize, update: &[f32]) -> Result<Option<AddedUpdate>, TrainError> {
        self.open.as_mut().ok_or(FederatedError::NoRound)?.add(client, update)
    }

    /// Closes the round, whoever answered, and returns the noisy sum divided by the expected number of clients.
    ///
    /// # Guarantee
    /// What is returned is a function of the exact sum and of noise that hides it as the plan says. Everything computed from it is
    /// post-processing.
    ///
    /// # Errors
    /// No round is open.
    pub fn finish_round(&mut self) -> Result<Vec<f32>, TrainError> {
        let round = self.open.take().ok_or(FederatedError::NoRound)?;
        self.diagnostics.add(&json_line(&round.counts()))?;
        round.release(&self.noise, &self.noise_key, self.plan.batch())
    }

    /// Keeps the model that follows from the rounds so far, so that a run that is killed goes on from it. After the last round the run is
    /// finished.
    ///
    /// # Errors
    /// A model of another size, or a file that cannot be written.
    pub fn keep(&mut self, values: &[f32]) -> Result<(), TrainError> {
        self.model.set(values)?;
        let written = self.model.write(&self.folder.model(), self.ledger.history())?;
        if self.rounds_spent() == self.plan.steps() && !self.finished() {
            let step = self.plan.steps();
            self.ledger.append(&LedgerEntry::Finished { step, model: Some(written) })?;
            self.write_certificate(Status::Finished, self.rounds_spent())?;
        }
        Ok(())
    }

    /// Writes down that the run stops here, with the certificate of what it spent.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn stop(&mut self) -> Result<(), TrainError> {
        if self.finished() {
            return Ok(());
        }
        self.open = None;
        let step = self.rounds_spent();
        self.ledger.append(&LedgerEntry::Stopped { step, reason: "asked to stop".to_owned() })?;
        self.write_certificate(Status::Stopped, step)
    }

    /// The certificate of the rounds that count as taken.
    ///
    /// # Errors
    /// A number beyond the accountant's limits.
    pub fn certificate(&self) -> Result<FederatedCertificate, TrainError> {
        let (history, rounds) = (self.ledger.history(), self.rounds_spent());
        let spent = (rounds, price(&self.plan, rounds)?);
        Ok(FederatedCertificate::new((&self.plan, &self.planned), history, Status::of(history), spent))
    }

    /// Makes sure that the certificate in the folder covers this many rounds.
    fn cover(&mut self, rounds: u64) -> Result<(), TrainError> {
        if self.covered.is_some_and(|covered| covered >= rounds) {
            return Ok(());
        }
        self.write_certificate(Status::Running, rounds)?;
        self.covered = Some(rounds);
        Ok(())
    }

    fn write_certificate(&self, status: Status, rounds: u64) -> Result<(), TrainError> {
        // If another process took over the ledger, the certificate is that process's to write.
        self.ledger.check_own()?;
        let spent = (rounds, price(&self.plan, rounds)?);
        let priced = (&self.plan, &self.planned);
        let certificate = FederatedCertificate::new(priced, self.ledger.history(), status, spent);
        files::write_atomic(&self.folder.certificate(), certificate.to_json().as_bytes())
    }
}

/// The certificate of the federated run in a folder, from its plan and its ledger. A run in progress is not disturbed.
///
/// # Errors
/// A folder without a federated run, or files that contradict the ledger.
pub fn certify_federated(folder: &Path) -> Result<FederatedCertificate, TrainError> {
    let folder = Folder::new(folder);
    let path = folder.ledger();
    if !path.exists() {
        return Err(TrainError::NoRun { folder: folder.root().to_owned() });
    }
    // Read the witness first, because a run in progress writes to its ledger before it writes anything else.
    let stated = stated(&folder)?;
    let history =
        History::read(&files::read(&path)?).map_err(|source| TrainError::Ledger { path, source })?;
    let (plan, planned) = recovered(&folder, &history)?;
    check_stated(&folder, stated, &history)?;
    FederatedModel::read(&folder.model(), &history)?;
    let spent = (history.spent(), price(&plan, history.spent())?);
    Ok(FederatedCertificate::new((&plan, &planned), &history, Status::of(&history), spent))
}

/// How many rounds the certificate in a folder covers; none if a process died before it wrote the first.
fn stated(folder: &Folder) -> Result<u64, TrainError> {
    let path = folder.certificate();
    if !path.exists() {
        return Ok(0);
    }
    let read = FederatedCertificate::from_json(&files::read_text(&path)?);
    let changed = |_| TrainError::Changed { folder: folder.root().to_owned(), what: "certificate" };
    read.map(|certificate| certificate.rounds_spent).map_err(changed)
}

/// Refuses a certificate that covers less than the ledger counts, and a ledger that counts less than it did when the certificate was
/// written, which runs ahead by two rounds at most.
fn check_stated(folder: &Folder, stated: u64, history: &History) -> Result<(), TrainError> {
    let spent = history.spent();
    if stated < spent {
        return Err(TrainError::Changed { folder: folder.root().to_owned(), what: "certificate" });
    }
    match stated.saturating_sub(2 * LARGEST_BLOCK) {
        step if step > spent => {
            let source = LedgerError::Behind { witness: "certificate.json".to_owned(), step, spent };
            Err(TrainError::Ledger { path: folder.ledger(), source })
        }
        _ => Ok(()),
    }
}

/// The plan of a folder and its price, if they are those that the ledger began with.
fn recovered(folder: &Folder, history: &History) -> Result<(Plan, Certificate), TrainError> {
    let (spec, _) = folder.read_request()?;
    let changed = || TrainError::Changed { folder: folder.root().to_owned(), what: "plan" };
    check_spec(&spec)?;
    let (plan, planned) = priced(&spec)?;
    let start = history.start();
    let own = (spec.digest(), plan.hash(), plan.steps(), LARGEST_BLOCK);
    if own != (start.spec.clone(), start.plan.as_str(), start.steps, start.largest_block)
        || start.deterministic
        || !start.private
    {
        return Err(changed());
    }
    let wrong = |source| TrainError::Ledger { path: folder.ledger(), source };
    history.check_events(&plan).map_err(wrong)?;
    Ok((plan, planned))
}

/// A plan of rounds and its price.
fn priced(spec: &PlanSpec) -> Result<(Plan, Certificate), TrainError> {
    let plan = Plan::check(spec)?;
    if plan.sampling() != Sampling::Poisson {
        return Err(FederatedError::Plan {
            key: "sampling.scheme",
            problem: "Poisson coins, one for each client and round",
            hint: "leave sampling.scheme out",
        }
        .into());
    }
    // A plan has at least one step, so there is a price.
    let planned = price(&plan, plan.steps())?.ok_or(FederatedError::Over { rounds: 0 })?;
    Ok((plan, planned))
}

/// The keys that a server carries out.
const CARRIED_OUT: [&str; 11] = [
    "privacy.relation",
    "privacy.epsilon",
    "privacy.delta",
    "privacy.noise_multiplier",
    "privacy.max_grad_norm",
    "privacy.accountant",
    "sampling.scheme",
    "sampling.batch",
    "sampling.records",
    "sampling.steps",
    "sampling.epochs",
];

/// The sections that are the clients' own affair, and change no price.
const OF_CLIENTS: [&str; 5] = ["data", "model", "optimiser", "user", "performance"];

/// Refuses what a server does not carry out. A key that is not known to be carried out, or to be of no consequence, is refused, too: whatever it
/// is, the price would count it.
fn check_spec(spec: &PlanSpec) -> Result<(), FederatedError> {
    let default = PlanSpec::default();
    let refused = [
        (
            spec.relation() != Relation::User,
            "privacy.relation",
            "clients as users: what is protected is everything about one of them",
            "set privacy.relation = \"user\"; sampling.records counts clients, and sampling.batch is how many a round asks on average",
        ),
        (
            spec.privacy.max_grad_norm.is_none(),
            "privacy.max_grad_norm",
            "a norm to which a client's whole update is clipped, and the plan has none",
            "give it, e.g. 1.0: about the norm of a usual update",
        ),
        (!spec.phases.is_empty(), "phases", "rounds that are all the same", "take the phases out"),
        (
            spec.partition != default.partition,
            "partition",
            "clients that train the whole model",
            "take it out",
        ),
        (spec.mix != default.mix, "mix", "clients who choose their own views", "take it out"),
        (
            spec.privacy.clip_quantile.is_some(),
            "privacy.clip_quantile",
            "a clip norm that stays",
            "give privacy.max_grad_norm alone",
        ),
        (spec.noise != default.noise, "noise", "noise of its own for each round", "take the section out"),
        (
            spec.train != default.train,
            "train",
            "no part in how clients train, and evaluates nothing",
            "take it out: evaluate on public data, where the server app does",
        ),
    ];
    if let Some((_, key, problem, hint)) = refused.into_iter().find(|(wrong, ..)| *wrong) {
        return Err(FederatedError::Plan { key, problem, hint });
    }
    let unknown = |key: &&Key| {
        spec.gives(key) && !CARRIED_OUT.contains(&key.path) && !OF_CLIENTS.contains(&key.section())
    };
    match KEYS.iter().find(unknown) {
        None => Ok(()),
        Some(key) => {
            let problem = "nothing of the kind: a server does not carry it out";
            Err(FederatedError::Plan { key: key.path, problem, hint: "take it out of the plan" })
        }
    }
}
