//! What a budget says, once it is checked.

use dapple_geometry::Mask;
use dapple_plan::{ComposedRuns, Plan, PlanSpec, Precision, PrivateChoice, Release, Repetitions, compose};

use super::entry::{Entry, Open, Reserved, Runs};
use super::error::BudgetError;
use crate::error::TrainError;
use crate::ledger::{LedgerError, chain};

/// The form of file that this program writes.
pub(super) const FORMAT: u32 = 1;

/// The entries of a budget, each with what it counts for now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Account {
    pub(super) open: Open,
    /// The most that all may cost together, where one was stated.
    pub(super) total: Option<f64>,
    pub(super) counted: Vec<Counted>,
    pub(super) head: String,
}

/// An entry that counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    /// Hash of its line.
    pub(super) id: String,
    pub(super) what: What,
    /// Hash of the last line about it. A run folder knows it, unless it is a copy that others have gone on from.
    pub(super) turn: String,
    /// Steps that are spent, where that is known; otherwise it counts as a whole.
    pub(super) settled: Option<u64>,
    /// Lines and last hash of the ledger when it was settled.
    pub(super) seen: Option<(usize, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Run { run: String, copy: bool, reserved: Reserved },
    Choice { candidates: Vec<Reserved>, law: Repetitions },
}

impl Account {
    /// Reads the bytes of a budget; `None` where nothing was written yet. A last line without its end was never acted upon: a run
    /// begins when its line is whole.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, BudgetError> {
        let (links, _) = chain::read(bytes)?;
        let mut account: Option<Self> = None;
        for link in links {
            let broken = |_| BudgetError::Broken(LedgerError::Broken { line: link.number });
            let wrong = |problem| BudgetError::Entry { line: link.number, problem };
            let entry: Entry = serde_json::from_str(link.body).map_err(broken)?;
            match (&mut account, entry) {
                (None, Entry::Open(open)) if open.format == FORMAT => {
                    let (total, counted, head) = (None, Vec::new(), link.hash.to_owned());
                    account = Some(Self { open, total, counted, head });
                }
                (None, Entry::Open(_)) => return Err(wrong("the form of another program")),
                (None, _) => return Err(BudgetError::Broken(LedgerError::NoStart)),
                (Some(account), entry) => account.accept(entry, link.hash).map_err(wrong)?,
            }
        }
        Ok(account)
    }

    /// An account that begins.
    pub(super) fn begin(open: Open) -> (Self, String) {
        let (line, head) = Entry::Open(open.clone()).to_line(chain::ROOT);
        (Self { open, total: None, counted: Vec::new(), head }, line)
    }

    /// Takes in the next entry.
    pub(super) fn accept(&mut self, entry: Entry, hash: &str) -> Result<(), &'static str> {
        let new =
            |what| Counted { id: hash.to_owned(), what, turn: hash.to_owned(), settled: None, seen: None };
        match entry {
            Entry::Open(_) => return Err("a budget begins once"),
            Entry::Total { epsilon } => self.total = Some(epsilon),
            Entry::Run { run, copy, reserved } => self.counted.push(new(What::Run { run, copy, reserved })),
            Entry::Choice { candidates, law } => {
                self.counted.push(new(What::Choice { candidates, law: law.into() }));
            }
            Entry::Again { entry } => {
                let counted = self.find_mut(&entry)?;
                (counted.settled, counted.turn) = (None, hash.to_owned());
            }
            Entry::Settled { entry, steps, lines, head } => {
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

    /// What an entry released, under the budget's promise; none where no step was taken.
    pub(super) fn release(&self, counted: &Counted) -> Result<Option<Release>, TrainError> {
        match &counted.what {
            What::Run { reserved, .. } => Ok(self.restate(reserved, counted.settled)?.map(Release::from)),
            What::Choice { candidates, law } => self.choice(candidates, *law).map(Some),
        }
    }

    /// A choice among plans under the budget's promise.
    pub(super) fn choice(&self, candidates: &[Reserved], law: Repetitions) -> Result<Release, TrainError> {
        let mut plans = Vec::new();
        for reserved in candidates {
            plans.extend(self.restate(reserved, None)?);
        }
        Ok(Release::Choice(PrivateChoice::new(&plans, law)?))
    }

    /// A plan under the budget's promise.
    pub(super) fn restate(
        &self,
        reserved: &Reserved,
        steps: Option<u64>,
    ) -> Result<Option<Plan>, TrainError> {
        let spec = PlanSpec::from_toml(&reserved.spec)?;
        let promised = masks(&self.open.masks)?;
        Ok(self.open.promise.restate(&spec, &masks(&reserved.masks)?, &promised, steps)?)
    }

    /// The price of everything, and of `more` with it.
    ///
    /// # Guarantee
    /// All entries together are (upper end, delta)-private under the budget's promise, as [`compose`] says: each run by the steps that its
    /// ledger counts where its process ended in order, by its whole plan otherwise.
    pub(super) fn price(&self, more: &[Release]) -> Result<ComposedRuns, TrainError> {
        let mut releases = Vec::new();
        for counted in &self.counted {
            releases.extend(self.release(counted)?);
        }
        releases.extend(more.iter().cloned());
        Ok(compose(&releases, self.open.delta, Precision::default())?)
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
