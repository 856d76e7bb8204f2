//! `patch/*`: the privacy figures of the patch-level paper, *Amplified Patch-Level Differential Privacy for Free via Random Cropping*
//! (P in what follows): its analysis and the one here side by side. Those of its figures that train are in [`crate::trained`].

mod catalogue;
mod claims;
mod compute;
mod draw;
mod rows;
pub(crate) mod setting;

use dapple_report::{Figure, TableRows};

use crate::claim::{Claim, Statement};
use crate::error::Result;
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionKind, ReproductionOptions, Watch};
use catalogue::PatchFigure;
use compute::PatchResults;

/// Every figure of P that is priced.
pub(crate) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    catalogue::all().into_iter().map(RegisteredReproduction::new)
}

impl Reproduction for PatchFigure {
    type Results = PatchResults;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Priced { records: true }
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<PatchResults> {
        compute::compute(self, options, watch)
    }

    fn subtitle(&self, results: &PatchResults) -> String {
        draw::subtitle(results)
    }

    fn digest(&self, results: &PatchResults) -> Result<Digest> {
        Ok(Digest { table: rows::digest(results)?, says: "epsilon at delta 1e-5, rounded up" })
    }

    fn numbers(&self, results: &PatchResults) -> TableRows {
        rows::rows(results)
    }

    fn summary(&self, results: &PatchResults) -> Option<TableRows> {
        results.epsilons.is_some().then(|| rows::summary(results))
    }

    fn claims(&self, _: &PatchResults) -> Vec<Claim<'_, PatchResults>> {
        self.claims.iter().map(Statement::claim).collect()
    }

    fn claims_say(&self) -> &'static str {
        "What the paper says of it, for sampling without replacement"
    }

    fn draw(&self, results: &PatchResults, figure: Figure) -> Figure {
        draw::draw(results, figure.subtitle(draw::subtitle(results)))
    }

    /// How sigma was read, what was left open, and what the numbers are.
    fn notes(&self, results: &PatchResults) -> Vec<String> {
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
