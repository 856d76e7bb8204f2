//! What every figure and table has, whichever paper it comes from.

use dapple_report::{Figure, TableRows};

use crate::claim::{Claim, Finding};
use crate::error::Result;
use crate::outcome::{self, Digest, Outcome};
use crate::{Paper, ReproductionOptions, Watch};

/// A figure or a table of a paper, computed again.
pub trait Reproduction {
    /// Everything that was computed for it.
    type Results;

    /// Its name, and what it shows.
    fn entry(&self) -> CatalogueEntry;

    /// What it takes to compute it, and so which options it has.
    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Priced { records: false }
    }

    /// Computes it.
    ///
    /// # Errors
    /// Options that it does not have, numbers that cannot be computed, runs that fail.
    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<Self::Results>;

    /// The settings that all of it shares, in one line.
    fn subtitle(&self, results: &Self::Results) -> String;

    /// The numbers that people look for.
    ///
    /// # Errors
    /// A table that cannot be made.
    fn digest(&self, results: &Self::Results) -> Result<Digest>;

    /// Every number, for machines.
    fn numbers(&self, results: &Self::Results) -> TableRows;

    /// What sums the numbers up, where something does.
    fn summary(&self, results: &Self::Results) -> Option<TableRows> {
        let _ = results;
        None
    }

    /// What the paper says about what was computed.
    fn claims(&self, results: &Self::Results) -> Vec<Claim<'_, Self::Results>>;

    /// A heading that says which statements the claims are.
    fn claims_say(&self) -> &'static str {
        "What the paper says of it"
    }

    /// Its charts, in a figure that has a title already and gets its notes afterwards.
    fn draw(&self, results: &Self::Results, figure: Figure) -> Figure;

    /// What the paper leaves open, and how the numbers are to be read.
    fn notes(&self, results: &Self::Results) -> Vec<String>;

    /// Computes it, checks what the paper says, and draws it.
    ///
    /// # Errors
    /// As for the single parts.
    fn outcome(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<Outcome> {
        let results = self.compute(options, watch)?;
        let entry = self.entry();
        let notes = self.notes(&results);
        let figure = self.draw(&results, Figure::new(entry.heading()));
        let claims = self.claims(&results);
        let findings = claims.iter().map(|claim| claim.find(&results)).collect::<Result<Vec<Finding>>>()?;
        Ok(Outcome {
            entry,
            subtitle: self.subtitle(&results),
            digest: self.digest(&results)?,
            numbers: self.numbers(&results),
            summary: self.summary(&results),
            checked: Digest { table: outcome::checked(&findings)?, says: self.claims_say() },
            findings,
            figure: notes.iter().fold(figure, |figure, note| figure.note(note.clone())),
            notes,
        })
    }
}

/// The name of a figure or table, and what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The paper and the place in it, such as `patch/fig3`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The section of the paper that describes it and says what is checked.
    pub section: &'static str,
    /// The paper.
    pub paper: Paper,
}

impl CatalogueEntry {
    pub(crate) const fn new(
        paper: Paper,
        id: &'static str,
        title: &'static str,
        section: &'static str,
    ) -> Self {
        Self { id, title, section, paper }
    }

    /// The title with the place in the paper: `Figure 3: Privacy over the crop size`.
    #[must_use]
    pub fn heading(&self) -> String {
        let place = self.id.rsplit_once('/').map_or(self.id, |(_, place)| place);
        let place = place.split('-').next().unwrap_or(place);
        let (word, number) =
            place.split_at(place.find(|letter: char| letter.is_ascii_digit()).unwrap_or(place.len()));
        let word = match word {
            "fig" => "Figure",
            "table" => "Table",
            "section" => "Section",
            "theorem" => "Theorem",
            other => other,
        };
        format!("{word} {number}: {}", self.title)
    }
}

/// What it takes to compute a figure or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReproductionKind {
    /// An accountant answers.
    Priced {
        /// Whether it can be asked about another number of records.
        records: bool,
    },
    /// Models are trained.
    Trained {
        /// Whether public images are shown beside records.
        pool: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_the_place_in_the_paper() {
        for (id, heading) in [
            ("patch/fig13", "Figure 13: It"),
            ("partition/table1-noise", "Table 1: It"),
            ("partition/section4.2-noise", "Section 4.2: It"),
            ("mask/theorem1", "Theorem 1: It"),
        ] {
            let entry = CatalogueEntry { id, title: "It", section: "1", paper: Paper::PatchLevel };
            assert_eq!(entry.heading(), heading);
        }
    }
}
