//! Makes room for a run in a budget before the run begins.

use std::path::Path;

use dapple_data::Dataset;
use dapple_geometry::Mask;
use dapple_plan::number::hexadecimal;
use dapple_plan::{Conduct, Plan, PlanError, PlanSpec, Promise, Release, Repetitions};

use super::Within;
use super::account::{Account, FORMAT};
use super::entry::{BudgetEntry, Open, Reserved};
use super::error::BudgetError;
use super::file::BudgetFile;
use super::link::BudgetLink;
use super::running::Running;
use super::share::Share;
use crate::error::TrainError;
use crate::files::{self, Access};
use crate::prepare::Prepared;
use crate::run::{Completed, fresh_bytes, hidden_fingerprint};

/// What is to be counted.
enum Counting {
    Run(Reserved),
    Choice { candidates: Vec<Reserved>, law: Repetitions },
}

/// A budget that has room for a run, and waits for the run's name.
pub(crate) struct Reservation {
    file: BudgetFile,
    total: Option<BudgetEntry>,
    counting: Counting,
    copy: bool,
}

impl Reservation {
    /// Checks that a budget has room for a run, and writes nothing.
    ///
    /// # Errors
    /// A run that would exceed the total, or cannot be priced beside the others.
    pub(crate) fn check(within: &Within, prepared: &Prepared) -> Result<Self, TrainError> {
        let mut reservation = Self::of_run(within, prepared)?;
        reservation.must_fit(within.total)?;
        Ok(reservation)
    }

    /// As [`Reservation::check`] for a run that is spent already, and is counted whether it fits or not.
    pub(super) fn spent(within: &Within, prepared: &Prepared) -> Result<Self, TrainError> {
        let reservation = Self::of_run(within, prepared)?;
        reservation.priced()?;
        Ok(reservation)
    }

    fn of_run(within: &Within, prepared: &Prepared) -> Result<Self, TrainError> {
        if !prepared.training.is_private() {
            return Err(BudgetError::NotPrivate.at(&within.file));
        }
        let (spec, masks, plan) = (&prepared.spec, prepared.masks.as_slice(), prepared.plan());
        let file = opened(&within.file, &*prepared.data.train, spec, masks, plan)?;
        let counting = Counting::Run(reserved_of(prepared));
        Ok(Self { file, total: None, counting, copy: false })
    }

    /// As [`Reservation::check`] for a private choice among plans. If no budget has begun, the first plan begins it.
    pub(crate) fn check_choice(
        within: &Within,
        records: &dyn Dataset,
        candidates: &[Completed],
        law: Repetitions,
    ) -> Result<Self, TrainError> {
        let Some(Completed { spec, masks, plan, .. }) = candidates.first() else {
            return Err(BudgetError::Missing.at(&within.file));
        };
        let file = opened(&within.file, records, spec, masks, plan)?;
        let of = |one: &Completed| reserved(&one.spec, &one.masks, &one.plan, one.conduct);
        let candidates = candidates.iter().map(of).collect();
        let counting = Counting::Choice { candidates, law };
        let mut reservation = Self { file, total: None, counting, copy: false };
        reservation.must_fit(within.total)?;
        Ok(reservation)
    }

    /// What the entry would release, under the budget's promise.
    fn priced(&self) -> Result<Option<Release>, TrainError> {
        let account = self.file.begun()?;
        let release = match &self.counting {
            Counting::Run(reserved) => account.restate(reserved, None).map(|plan| plan.map(Release::from)),
            Counting::Choice { candidates, law } => account.choice(candidates, *law).map(Some),
        };
        release.map_err(|error| match error {
            TrainError::Plan(source @ PlanError::NoTheorem { .. }) => {
                let relation = account.open.promise.relation.name();
                BudgetError::NotComposed { relation, problem: source.to_string() }.at(self.file.path())
            }
            other => other,
        })
    }

    fn must_fit(&mut self, total: Option<f64>) -> Result<(), TrainError> {
        self.total = stated(&self.file, total)?;
        fits(&self.file, total, self.priced()?)
    }

    /// A reservation for a copy of a run whose entry is in a budget already.
    pub(super) fn of_copy(
        file: BudgetFile,
        total: Option<f64>,
        prepared: &Prepared,
    ) -> Result<Self, TrainError> {
        let counting = Counting::Run(reserved_of(prepared));
        let mut reservation = Self { file, total: None, counting, copy: true };
        reservation.must_fit(total)?;
        Ok(reservation)
    }

    /// Writes the entry of a run and the link in its folder. Once this returns, every later reading of the budget counts the run.
    pub(crate) fn write(mut self, run: &Path, id: &str) -> Result<Share, TrainError> {
        let is_run = matches!(self.counting, Counting::Run(_));
        let entry = match self.counting {
            Counting::Run(reserved) => BudgetEntry::Run { run: id.to_owned(), copy: self.copy, reserved },
            Counting::Choice { candidates, law } => BudgetEntry::Choice { candidates, law: law.into() },
        };
        let draft = self.file.draft(self.total.into_iter().chain([entry]))?;
        let (entry, turn) = (draft.hash.clone(), draft.hash.clone());
        let running = match is_run {
            true => Running::take(self.file.path(), &entry)?,
            false => None,
        };
        let link = BudgetLink { budget: self.file.path().to_owned(), entry, turn, next: None };
        link.write(run)?;
        self.file.write(draft)?;
        Ok(Share { run: run.to_owned(), link, running })
    }
}

/// Opens the budget of some records, or begins one by this plan.
fn opened(
    path: &Path,
    records: &dyn Dataset,
    spec: &PlanSpec,
    masks: &[Mask],
    plan: &Plan,
) -> Result<BudgetFile, TrainError> {
    let mut file = match path.is_dir() {
        true => in_folder(path, records)?,
        false => BudgetFile::lock(path, true)?,
    };
    match file.account() {
        Some(account) if !is_about(account, records)? => Err(BudgetError::OtherRecords.at(path)),
        Some(_) => Ok(file),
        None => {
            let key = fresh_bytes()?;
            let promise = Promise::of(spec, plan)?;
            let region = promise.region != dapple_plan::spec::RegionSpec::default();
            file.begin(Open {
                format: FORMAT,
                key: hexadecimal(&key),
                data: hidden_fingerprint(records, hexadecimal(&key).as_bytes())?,
                records: plan.records(),
                promise,
                masks: masks.iter().filter(|_| region).map(Into::into).collect(),
                delta: plan.delta(),
            });
            Ok(file)
        }
    }
}

/// Opens the budget in a folder that is about some records, or a new one.
fn in_folder(folder: &Path, records: &dyn Dataset) -> Result<BudgetFile, TrainError> {
    // Two runs that begin at once must not begin two budgets.
    let path = folder.join("lock");
    files::refuse_link(&path)?;
    let failed = |source| TrainError::file(&path, source);
    let lock =
        files::options(Access::Owner).create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let files = super::files_in(folder)?;
    for path in &files {
        let file = BudgetFile::lock(path, false)?;
        if let Some(account) = file.account()
            && is_about(account, records)?
        {
            return Ok(file);
        }
    }
    let mut names = (1..).map(|number: u64| folder.join(format!("{number}.budget")));
    let free = names.find(|path| !files.contains(path)).unwrap_or_else(|| folder.join("0.budget"));
    BudgetFile::lock(&free, true)
}

fn is_about(account: &Account, records: &dyn Dataset) -> Result<bool, TrainError> {
    Ok(hidden_fingerprint(records, account.open.key.as_bytes())? == account.open.data)
}

fn reserved(spec: &PlanSpec, masks: &[Mask], plan: &Plan, conduct: Conduct) -> Reserved {
    Reserved {
        spec: spec.to_toml(),
        masks: masks.iter().map(Into::into).collect(),
        plan: plan.hash().to_owned(),
        seeded: conduct.seed.is_some(),
    }
}

pub(super) fn reserved_of(prepared: &Prepared) -> Reserved {
    reserved(&prepared.spec, &prepared.masks, prepared.plan(), prepared.training.conduct)
}

/// A total as an entry.
pub(super) fn total(epsilon: f64) -> Result<BudgetEntry, BudgetError> {
    if epsilon > 0.0 && epsilon.is_finite() {
        Ok(BudgetEntry::Total { epsilon })
    } else {
        Err(BudgetError::NoEpsilon(epsilon))
    }
}

/// The entry of a total that was not stated before. A stated total may not be raised in passing.
pub(super) fn stated(file: &BudgetFile, asked: Option<f64>) -> Result<Option<BudgetEntry>, TrainError> {
    let Some(asked) = asked else { return Ok(None) };
    let wrong = |error: BudgetError| error.at(file.path());
    let entry = total(asked).map_err(wrong)?;
    match file.begun()?.total {
        Some(stated) if asked > stated => Err(wrong(BudgetError::Raised { asked, stated })),
        Some(stated) if asked == stated => Ok(None),
        _ => Ok(Some(entry)),
    }
}

/// Checks that a release fits beside everything that a budget counts.
fn fits(file: &BudgetFile, total: Option<f64>, release: Option<Release>) -> Result<(), TrainError> {
    let account = file.begun()?;
    fits_beside(account, file.path(), total.or(account.total), release)
}

pub(super) fn fits_beside(
    account: &Account,
    path: &Path,
    total: Option<f64>,
    release: Option<Release>,
) -> Result<(), TrainError> {
    let epsilon = account.price(release.as_slice())?.epsilon.upper;
    match total {
        Some(total) if epsilon > total => {
            let before = account.price(&[])?.epsilon.upper;
            Err(BudgetError::Exceeded { epsilon, total, before, delta: account.open.delta }.at(path))
        }
        _ => Ok(()),
    }
}
