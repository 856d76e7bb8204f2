//! A budget that has been read and checked.

use dapple_geometry::Mask;
use dapple_plan::{
    BracketPrecision, ComposedRuns, Plan, PlanSpec, PrivateChoice, Release, Repetitions, compose,
};

use super::entry::{BudgetEntry, Open, Reserved, Runs};
use super::error::BudgetError;
use crate::error::TrainError;
use crate::ledger::{LedgerError, chain};

/// The version of the file format that this program writes.
pub(super) const FORMAT: u32 = 1;

/// The entries of a budget, each with what it counts for at present.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Account {
    pub(super) open: Open,
    /// The most that all entries may cost together, if a total was stated.
    pub(super) total: Option<f64>,
    pub(super) counted: Vec<Counted>,
    pub(super) head: String,
}

/// An entry that counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    /// Hash of the line that reserved it.
    pub(super) id: String,
    pub(super) what: What,
    /// Hash of the last line about it. The run folder knows this hash too, unless it is a copy of a folder whose run has gone on
    /// elsewhere.
    pub(super) turn: String,
    /// Steps that are spent, if that is known. Otherwise the whole plan counts.
    pub(super) settled: Option<u64>,
    /// Number of lines and last hash of the ledger when the entry was settled.
    pub(super) seen: Option<(usize, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Run { run: String, copy: bool, reserved: Reserved },
    Choice { candidates: Vec<Reserved>, law: Repetitions },
}

impl Account {
    /// Reads the bytes of a budget; `None` if nothing is written yet. A last line without its end is left out, because nobody acted upon
    /// it: a run begins only when its line is whole.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, BudgetError> {
        let (links, _) = chain::read(bytes)?;
        let mut account: Option<Self> = None;
        for link in links {
            let broken = |_| BudgetError::Broken(LedgerError::Broken { line: link.number });
            let wrong = |problem| BudgetError::Entry { line: link.number, problem };
            let entry: BudgetEntry = serde_json::from_str(link.body).map_err(broken)?;
            match (&mut account, entry) {
                (None, BudgetEntry::Open(open)) if open.format == FORMAT => {
                    let (total, counted, head) = (None, Vec::new(), link.hash.to_owned());
                    account = Some(Self { open, total, counted, head });
                }
                (None, BudgetEntry::Open(_)) => return Err(wrong("the form of another program")),
                (None, _) => return Err(BudgetError::Broken(LedgerError::NoStart)),
                (Some(account), entry) => account.accept(entry, link.hash).map_err(wrong)?,
            }
        }
        Ok(account)
    }

    /// A new account, and its first line.
    pub(super) fn begin(open: Open) -> (Self, String) {
        let (line, head) = BudgetEntry::Open(open.clone()).to_line(chain::ROOT);
        (Self { open, total: None, counted: Vec::new(), head }, line)
    }

    /// Applies the next entry.
    pub(super) fn accept(&mut self, entry: BudgetEntry, hash: &str) -> Result<(), &'static str> {
        let new =
            |what| Counted { id: hash.to_owned(), what, turn: hash.to_owned(), settled: None, seen: None };
        match entry {
            BudgetEntry::Open(_) => return Err("a budget begins once"),
            BudgetEntry::Total { epsilon } => self.total = Some(epsilon),
            BudgetEntry::Run { run, copy, reserved } => {
                self.counted.push(new(What::Run { run, copy, reserved }))
            }
            BudgetEntry::Choice { candidates, law } => {
                self.counted.push(new(What::Choice { candidates, law: law.into() }));
            }
            BudgetEntry::Again { entry } => {
                let counted = self.find_mut(&entry)?;
                (counted.settled, counted.turn) = (None, hash.to_owned());
            }
            BudgetEntry::Settled { entry, steps, lines, head } => {
                let counted = self.find_mut(&entry)?;
                counted.settled = Some(steps);
                (counted.seen, counted.turn) = (Some((lines, head)), hash.to_owned());
            }
        }
        hash.clone_into(&mut self.head);
        Ok(())
    }

    fn find_mut(&mut self, id: &str) -> Result<&mut Counted, &'static str> {
        self.counted
            .iter_mut()
            .find(|counted| counted.id == id)
            .ok_or("an entry that the budget does not have")
    }

    pub(super) fn find(&self, id: &str) -> Option<&Counted> {
        self.counted.iter().find(|counted| counted.id == id)
    }

    /// What an entry has released, priced under the budget's promise; `None` if no step was taken.
    pub(super) fn release(&self, counted: &Counted) -> Result<Option<Release>, TrainError> {
        match &counted.what {
            What::Run { reserved, .. } => Ok(self.restate(reserved, counted.settled)?.map(Release::from)),
            What::Choice { candidates, law } => self.choice(candidates, *law).map(Some),
        }
    }

    /// A choice among plans, priced under the budget's promise.
    pub(super) fn choice(&self, candidates: &[Reserved], law: Repetitions) -> Result<Release, TrainError> {
        let mut plans = Vec::new();
        for reserved in candidates {
            plans.extend(self.restate(reserved, None)?);
        }
        Ok(Release::Choice(PrivateChoice::new(&plans, law)?))
    }

    /// A plan restated under the budget's promise.
    pub(super) fn restate(
        &self,
        reserved: &Reserved,
        steps: Option<u64>,
    ) -> Result<Option<Plan>, TrainError> {
        let spec = PlanSpec::from_toml(&reserved.spec)?;
        let promised = masks(&self.open.masks)?;
        Ok(self.open.promise.restate(&spec, &masks(&reserved.masks)?, &promised, steps)?)
    }

    /// The price of all entries, together with `more`.
    ///
    /// # Guarantee
    /// All entries together are (upper end, delta)-private under the budget's promise, as [`compose`] says. A run counts by the steps in
    /// its ledger if its process ended in order, and by its whole plan otherwise.
    pub(super) fn price(&self, more: &[Release]) -> Result<ComposedRuns, TrainError> {
        let mut releases = Vec::new();
        for counted in &self.counted {
            releases.extend(self.release(counted)?);
        }
        releases.extend(more.iter().cloned());
        Ok(compose(&releases, self.open.delta, BracketPrecision::default())?)
    }
}

fn masks(runs: &[Runs]) -> Result<Vec<Mask>, TrainError> {
    let wrong = || {
        TrainError::setting(
            "region.mask",
            "a mask in the budget is damaged",
            "restore the budget from a backup",
        )
    };
    runs.iter().map(|runs| runs.mask().ok_or_else(wrong)).collect()
}
