//! What a reader must know before relying on a certificate.

use std::fmt;

use dapple_plan::Certificate;
use serde::{Deserialize, Serialize};

use crate::ledger::History;
use crate::terms::Terms;

/// An epsilon above this allows an adversary to be all but certain, whatever delta is.
const LARGE_EPSILON: f64 = 10.0;

/// Something that a reader must know. In JSON it is written as its sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Warning {
    /// Nothing was clipped or noised.
    NotPrivate,
    /// The noise follows from the plan.
    Seeded,
    /// A power failure cut off a line of the ledger.
    CutLedger,
    /// A crash lost updates of steps that count as taken.
    LostSteps,
    /// Delta is one over the number of records, or more.
    LargeDelta,
    /// Records were split off and evaluated on.
    Validation,
    /// Several processes shared the steps.
    Ranks,
    /// Epsilon promises little.
    LargeEpsilon,
    /// Epsilon is zero because delta is large, not because nothing was released.
    CoveredByDelta,
    /// A warning of another version of the program.
    Other(String),
}

impl Warning {
    const KNOWN: [Self; 9] = [
        Self::NotPrivate,
        Self::Seeded,
        Self::CutLedger,
        Self::LostSteps,
        Self::LargeDelta,
        Self::Validation,
        Self::Ranks,
        Self::LargeEpsilon,
        Self::CoveredByDelta,
    ];

    /// All warnings that hold for a run.
    pub(super) fn all(terms: Terms<'_>, history: &History) -> Vec<Self> {
        let split_off = terms.training.data.origin.splits_records_off();
        Self::KNOWN.into_iter().filter(|warning| warning.holds(terms.planned, history, split_off)).collect()
    }

    /// All warnings that hold for a server of clients, whose plan has this price.
    pub(crate) fn of_server(planned: &Certificate, history: &History) -> Vec<Self> {
        Self::KNOWN.into_iter().filter(|warning| warning.holds(Some(planned), history, false)).collect()
    }

    fn holds(&self, planned: Option<&Certificate>, history: &History, split_off: bool) -> bool {
        match self {
            Self::NotPrivate => planned.is_none(),
            Self::Seeded => history.start().deterministic,
            Self::CutLedger => history.torn(),
            Self::LostSteps => history.lost() > 0,
            Self::LargeDelta => planned.is_some_and(|price| price.delta * price.records as f64 >= 1.0),
            Self::Validation => split_off,
            Self::Ranks => planned.is_some() && history.machines().iter().any(|used| used.ranks.is_some()),
            Self::LargeEpsilon => planned.is_some_and(|price| price.epsilon.upper > LARGE_EPSILON),
            Self::CoveredByDelta => planned.is_some_and(|price| price.epsilon.lower == Some(0.0)),
            Self::Other(_) => false,
        }
    }

    /// The warning as a sentence.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::NotPrivate => "The run was neither clipped nor noised: nothing is guaranteed.",
            Self::Seeded => {
                "Every random number follows from the seed in the plan: nothing is private against anyone who knows or guesses it."
            }
            Self::CutLedger => "The ledger's last line was cut off; it counts as the largest promise.",
            Self::LostSteps => {
                "A crash lost the updates of steps that count as taken: the model has had fewer than the plan says."
            }
            Self::LargeDelta => {
                "Delta is at least one over the number of records: it alone would allow one record to be released in full."
            }
            Self::Validation => {
                "Records were split off for evaluation: the metrics tell about them directly, and the certificate does not protect them."
            }
            Self::Ranks => {
                "Several processes shared the steps: keys and sums without noise went from one to the other, and it is assumed that nobody read them on the way."
            }
            Self::LargeEpsilon => "Epsilon is above 10: the guarantee rules out little.",
            Self::CoveredByDelta => {
                "Epsilon is about zero only because delta is large: all that the run may reveal is allowed by delta."
            }
            Self::Other(words) => words,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.words())
    }
}

impl From<Warning> for String {
    fn from(warning: Warning) -> Self {
        warning.words().to_owned()
    }
}

impl From<String> for Warning {
    fn from(words: String) -> Self {
        Self::KNOWN.into_iter().find(|known| known.words() == words).unwrap_or(Self::Other(words))
    }
}
