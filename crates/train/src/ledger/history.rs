//! A ledger that has been read and checked.

use std::ops::Range;

use dapple_data::SamplingEvent;
use dapple_plan::Plan;
use serde::{Deserialize, Serialize};

use super::chain::{self, ROOT};
use super::entry::{LedgerEntry, Start};
use super::error::LedgerError;
use crate::digest;

/// A checked ledger.
///
/// # Guarantee
/// [`History::spent`] is never below the number of steps whose result may have been seen, provided that the file is the run's own and its
/// end was not removed. [`History::has_seen`] finds a removed end from a checkpoint, and [`crate::verify`] from everything that the run
/// left.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    start: Start,
    /// The hash of each line.
    hashes: Vec<String>,
    promises: Vec<Promised>,
    spent: u64,
    /// Steps whose updates are lost, in order.
    lost: Vec<Range<u64>>,
    finished: bool,
    stopped: bool,
    model: Option<String>,
    machines: Vec<UsedMachine>,
    /// Bytes of complete lines; then those of a line that was cut off.
    whole: usize,
    torn: usize,
}

/// A machine that computed a part of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedMachine {
    /// The first step that it computed, from 0.
    pub step: u64,
    /// The machine in words: the device, and how it rounds.
    pub machine: String,
    /// How many such machines shared every step, or processes of one; `None` for a process by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Promised {
    line: usize,
    first: u64,
    steps: u64,
    event: Option<SamplingEvent>,
}

impl History {
    /// Reads the bytes of a ledger.
    ///
    /// # Errors
    /// Anything but a chain of entries that fit each other. A last line without its end is no error, see [`History::torn`].
    pub fn read(bytes: &[u8]) -> Result<Self, LedgerError> {
        let (links, whole) = chain::read(bytes)?;
        let mut history: Option<Self> = None;
        for link in links {
            let entry: LedgerEntry =
                serde_json::from_str(link.body).map_err(|_| LedgerError::Broken { line: link.number })?;
            match (&mut history, entry) {
                (None, LedgerEntry::Start(start)) => history = Some(Self::new(start, link.hash.to_owned())),
                (None, _) => return Err(LedgerError::NoStart),
                (Some(history), entry) => history.accept(&entry, link.hash.to_owned())?,
            }
        }
        let mut history = history.ok_or(LedgerError::NoStart)?;
        history.whole = whole;
        history.torn = bytes.len() - whole;
        Ok(history)
    }

    fn new(start: Start, hash: String) -> Self {
        Self {
            start,
            hashes: vec![hash],
            promises: Vec::new(),
            spent: 0,
            lost: Vec::new(),
            finished: false,
            stopped: false,
            model: None,
            machines: Vec::new(),
            whole: 0,
            torn: 0,
        }
    }

    /// Checks that an entry may come next.
    pub(super) fn check(&self, entry: &LedgerEntry) -> Result<(), LedgerError> {
        let order = |problem| Err(LedgerError::Order { line: self.hashes.len() + 1, problem });
        match entry {
            LedgerEntry::Start(_) => order("a run begins once"),
            LedgerEntry::Promise { .. } if self.finished => order("the run was finished before"),
            LedgerEntry::Promise { first, steps, .. } | LedgerEntry::Torn { first, steps, .. } => {
                if first.checked_add(*steps).is_none_or(|end| end > self.start.steps) {
                    return order("steps beyond the end of the plan");
                }
                if *steps == 0 || *steps > self.start.largest_block {
                    return order("a block larger than the run's largest");
                }
                // A step taken again with fresh noise is another release. With a seed it is the same one.
                if *first != self.spent && !(self.start.repeats_freely() && *first < self.spent) {
                    return order("steps that do not follow those before");
                }
                Ok(())
            }
            LedgerEntry::Finished { .. }
            | LedgerEntry::Machine { .. }
            | LedgerEntry::Resumed { .. }
            | LedgerEntry::Stopped { .. } => Ok(()),
        }
    }

    /// Applies the next entry, if it may come next.
    pub(super) fn accept(&mut self, entry: &LedgerEntry, hash: String) -> Result<(), LedgerError> {
        self.check(entry)?;
        self.hashes.push(hash);
        self.stopped = matches!(entry, LedgerEntry::Stopped { .. });
        let (line, event) = (self.hashes.len(), entry.event());
        match entry {
            &LedgerEntry::Promise { first, steps, .. } | &LedgerEntry::Torn { first, steps, .. } => {
                self.promises.push(Promised { line, first, steps, event });
                self.spent = self.spent.max(first + steps);
            }
            LedgerEntry::Finished { model, .. } => {
                self.finished = true;
                self.model.clone_from(model);
            }
            LedgerEntry::Machine { step, machine, ranks } => {
                self.machines.push(UsedMachine { step: *step, machine: machine.clone(), ranks: *ranks });
            }
            &LedgerEntry::Resumed { checkpoint, step } => self.lose(checkpoint..step),
            LedgerEntry::Start(_) | LedgerEntry::Stopped { .. } => {}
        }
        Ok(())
    }

    /// Notes that the weights are those of the checkpoint before `steps`, and that these are not taken again.
    fn lose(&mut self, steps: Range<u64>) {
        // What was lost behind the checkpoint before is among these.
        self.lost.retain(|lost| lost.start < steps.start);
        if let Some(last) = self.lost.last_mut() {
            last.end = last.end.min(steps.start);
        }
        self.lost.extend(Some(steps).filter(|steps| !steps.is_empty()));
    }

    /// How many of the steps that count as taken changed nothing, because a crash lost their updates.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.iter().map(|steps| steps.end - steps.start).sum()
    }

    /// What the run began with.
    #[must_use]
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// How many of the plan's steps count as taken, from the first on. A line that was cut off counts as the largest block.
    #[must_use]
    pub fn spent(&self) -> u64 {
        match self.torn {
            0 => self.spent,
            _ => (self.spent + self.start.largest_block).min(self.start.steps),
        }
    }

    /// Whether the run is complete.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether the ledger ends with the run stopping before its last step.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped && !self.finished
    }

    /// SHA-256 of the model that the run ended with, if the ledger tells.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The machines that computed, in order.
    #[must_use]
    pub fn machines(&self) -> &[UsedMachine] {
        &self.machines
    }

    /// The machine that computed last.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machines.last().map(|used| used.machine.as_str())
    }

    /// Whether the last line was cut off.
    #[must_use]
    pub fn torn(&self) -> bool {
        self.torn > 0
    }

    /// Number of lines and hash of the last, for a checkpoint to remember.
    #[must_use]
    pub fn position(&self) -> (usize, &str) {
        (self.hashes.len(), self.head())
    }

    /// Hash of the first line, which no other run has, because a key of the run's own hides the fingerprint of the data.
    #[must_use]
    pub fn id(&self) -> &str {
        self.hashes.first().map_or(ROOT, String::as_str)
    }

    /// Whether the ledger contains a position that a checkpoint remembers.
    #[must_use]
    pub fn has_seen(&self, lines: usize, hash: &str) -> bool {
        lines.checked_sub(1).and_then(|index| self.hashes.get(index)).is_some_and(|found| found == hash)
    }

    /// Whether a line has this hash.
    #[must_use]
    pub fn has_line(&self, hash: &str) -> bool {
        self.hashes.iter().any(|found| found == hash)
    }

    /// Checks that every promise is of the plan's own steps.
    ///
    /// # Errors
    /// The first promise that is not.
    pub fn check_events(&self, plan: &Plan) -> Result<(), LedgerError> {
        let planned = |step: u64| {
            let mut end = 0;
            plan.parts().iter().find_map(|part| {
                end += part.steps();
                (step < end).then(|| SamplingEvent::of(part))
            })
        };
        for promised in &self.promises {
            let ends = [promised.first, promised.first + promised.steps - 1];
            let fits = |event| ends.iter().all(|&step| planned(step) == Some(event));
            if !promised.event.is_none_or(fits) {
                return Err(LedgerError::Plan { line: promised.line });
            }
        }
        Ok(())
    }

    pub(super) fn head(&self) -> &str {
        self.hashes.last().map_or(ROOT, String::as_str)
    }

    /// The entry that replaces a line that was cut off, and where the complete lines end.
    pub(super) fn torn_entry(&self, bytes: &[u8]) -> Option<(LedgerEntry, usize)> {
        let cut = bytes.get(self.whole..).filter(|cut| !cut.is_empty())?;
        let steps = self.spent() - self.spent;
        let sha256 = digest::of(&[cut]);
        let entry = match steps {
            // All steps are spent already, so the cut line cannot add any.
            0 => LedgerEntry::Stopped { step: self.spent, reason: format!("a line was cut off: {sha256}") },
            steps => LedgerEntry::Torn { first: self.spent, steps, sha256 },
        };
        Some((entry, self.whole))
    }
}
