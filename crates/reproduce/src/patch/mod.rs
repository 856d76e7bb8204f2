//! `patch/*`: the privacy figures of the patch-level paper, *Amplified Patch-Level Differential Privacy for Free via Random Cropping*
//! (P in what follows): its analysis and the one here side by side. Those of its figures that train are in [`crate::trained`].

mod catalogue;
mod claims;
mod compute;
mod draw;
mod rows;
pub(crate) mod setting;

use dapple_report::{Figure, TableRows};

use crate::claim::Claim;
use crate::error::Result;
use crate::registry::Registered;
use crate::{Digest, Entry, Kind, Options, Reproduction, Watch};
use catalogue::Spec;
use compute::Results;

/// Every figure of P that is priced.
pub(crate) fn all() -> impl Iterator<Item = Registered> {
    catalogue::all().into_iter().map(Registered::new)
}

impl Reproduction for Spec {
    type Results = Results;

    fn entry(&self) -> Entry {
        self.entry
    }

    fn kind(&self) -> Kind {
        Kind::Priced { records: true }
    }

    fn compute(&self, options: &Options, watch: &dyn Watch) -> Result<Results> {
        compute::compute(self, options, watch)
    }

    fn subtitle(&self, results: &Results) -> String {
        draw::subtitle(results)
    }

    fn digest(&self, results: &Results) -> Result<Digest> {
        Ok(Digest { table: rows::digest(results)?, says: "epsilon at delta 1e-5, rounded up" })
    }

    fn numbers(&self, results: &Results) -> TableRows {
        rows::rows(results)
    }

    fn summary(&self, results: &Results) -> Option<TableRows> {
        results.epsilons.is_some().then(|| rows::summary(results))
    }

    fn claims(&self, _: &Results) -> Vec<Claim<'_, Results>> {
        self.claims.iter().map(|claim| claim.checked()).collect()
    }

    fn claims_say(&self) -> &'static str {
        "What the paper says of it, for sampling without replacement"
    }

    fn draw(&self, results: &Results, figure: Figure) -> Figure {
        draw::draw(results, figure.subtitle(draw::subtitle(results)))
    }

    /// How sigma was read, what was left open, and what the numbers are.
    fn notes(&self, results: &Results) -> Vec<String> {
        let mut notes = vec![results.reading.words().to_owned()];
        notes.extend(self.open.iter().map(|open| (*open).to_owned()));
        if let Some(records) = results.records {
            notes.push(format!("Computed for {records} records, as asked for."));
        }
        notes.push(
            "Minibatch is record level under substitution. Every number is the upper end of a certified bracket; its lower end is in the data.".to_owned(),
        );
        notes
    }
}
