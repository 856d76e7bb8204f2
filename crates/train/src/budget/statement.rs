//! What a budget counts, for people and programs.

use std::path::PathBuf;

use dapple_plan::{Bracket, BracketPrecision, Promise, Release, Rule, compose};
use serde::Serialize;

use super::account::{Account, Counted, What};
use super::file::BudgetFile;
use crate::error::TrainError;

/// Everything that a budget counts, priced together.
///
/// # Guarantee
/// Everything that the entries have released, and everything that those still reserved may release, is together (`epsilon.upper`,
/// `delta`)-private under `relation`, provided that every run on these records was counted here and the assumptions of each certificate
/// hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetStatement {
    /// The file.
    pub file: PathBuf,
    /// The price of all entries together.
    pub epsilon: Bracket,
    /// The failure probability.
    pub delta: f64,
    /// The most that all entries may cost together, if a total was stated.
    pub epsilon_total: Option<f64>,
    /// Name of the relation that all entries are priced under.
    pub relation: &'static str,
    /// What is protected, as a sentence; `None` before the first entry.
    pub protects: Option<String>,
    /// Records in the data set.
    pub records: u64,
    /// How the entries were composed.
    pub composition: Rule,
    /// What a reader must know before relying on the statement.
    pub warnings: Vec<&'static str>,
    /// The entries, in order.
    pub entries: Vec<CountedStatement>,
    /// Hash of the last line.
    pub head: String,
}

/// One entry of a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedStatement {
    /// Hash of the line that reserved it.
    pub entry: String,
    /// `run`, `copy` or `choice`.
    pub kind: &'static str,
    /// `reserved` if the whole plan counts, `settled` if the ledger told how much was spent.
    pub status: &'static str,
    /// Steps that count. For a choice, those of its longest candidate.
    pub steps: u64,
    /// Steps of the plan.
    pub planned: u64,
    /// What it costs by itself, at the budget's delta and under its relation.
    pub epsilon: f64,
    /// Hash of the plan, or of the first candidate's.
    pub plan_hash: Option<String>,
}

impl BudgetStatement {
    pub(super) fn of(file: &BudgetFile) -> Result<Self, TrainError> {
        let account = file.begun()?;
        let composed = account.price(&[])?;
        let mut entries = Vec::new();
        for counted in &account.counted {
            entries.push(entry(account, counted)?);
        }
        let mut warnings = Vec::new();
        let seeded = |counted: &Counted| match &counted.what {
            What::Run { reserved, .. } => reserved.seeded,
            What::Choice { candidates, .. } => candidates.iter().any(|reserved| reserved.seeded),
        };
        if account.counted.iter().any(seeded) {
            warnings.push(
                "Every random number of a run follows from the seed in its plan: nothing is private against anyone who knows or guesses it.",
            );
        }
        if account.total.is_some_and(|total| composed.epsilon.upper > total) {
            warnings.push("More is spent or reserved than the total allows.");
        }
        let first = account.counted.first().map(whole).into_iter().flatten().next();
        let protects = match first {
            Some(reserved) => account.restate(reserved, None)?.map(|plan| Promise::words(&plan)),
            None => None,
        };
        Ok(Self {
            file: file.path().to_owned(),
            epsilon: composed.epsilon,
            delta: account.open.delta,
            epsilon_total: account.total,
            relation: account.open.promise.relation.name(),
            protects,
            records: account.open.records,
            composition: composed.rule,
            warnings,
            entries,
            head: account.head.clone(),
        })
    }
}

/// The plans of an entry.
fn whole(counted: &Counted) -> &[super::entry::Reserved] {
    match &counted.what {
        What::Run { reserved, .. } => std::slice::from_ref(reserved),
        What::Choice { candidates, .. } => candidates,
    }
}

fn entry(account: &Account, counted: &Counted) -> Result<CountedStatement, TrainError> {
    let mut planned = 0;
    for reserved in whole(counted) {
        planned = planned.max(account.restate(reserved, None)?.map_or(0, |plan| plan.steps()));
    }
    let release: Vec<Release> = account.release(counted)?.into_iter().collect();
    let epsilon = compose(&release, account.open.delta, BracketPrecision::default())?.epsilon.upper;
    let kind = match &counted.what {
        What::Run { copy: false, .. } => "run",
        What::Run { copy: true, .. } => "copy",
        What::Choice { .. } => "choice",
    };
    Ok(CountedStatement {
        entry: counted.id.clone(),
        kind,
        status: if counted.settled.is_some() { "settled" } else { "reserved" },
        steps: counted.settled.unwrap_or(planned),
        planned,
        epsilon,
        plan_hash: whole(counted).first().map(|reserved| reserved.plan.clone()),
    })
}
