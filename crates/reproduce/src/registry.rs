//! Every figure and table that can be asked for.

use dapple_plan::spec::keys;
use serde::Serialize;

use crate::error::{ReproduceError, Result};
use crate::options::ReproductionOptions;
use crate::reproduction::{CatalogueEntry, Reproduction, ReproductionKind};
use crate::{Outcome, Watch, mask, mix, partition, patch, trained};

type Compute = dyn Fn(&ReproductionOptions, &dyn Watch) -> Result<Outcome>;

/// A figure or table of the registry, whatever it computes.
pub struct RegisteredReproduction {
    entry: CatalogueEntry,
    kind: ReproductionKind,
    outcome: Box<Compute>,
}

/// A figure or table as a line of a list.
#[derive(Debug, Serialize)]
pub struct Listing {
    /// Its name.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where the paper describes it.
    pub section: &'static str,
}

impl RegisteredReproduction {
    pub(crate) fn new(reproduction: impl Reproduction + 'static) -> Self {
        Self {
            entry: reproduction.entry(),
            kind: reproduction.kind(),
            outcome: Box::new(move |options, watch| reproduction.outcome(options, watch)),
        }
    }

    /// What a list says about it.
    #[must_use]
    pub fn listed(&self) -> Listing {
        let CatalogueEntry { id, title, section, .. } = self.entry;
        Listing { id, title, section }
    }

    /// Computes it. Options that it does not have are refused before anything is computed.
    ///
    /// # Errors
    /// Options that it does not have, numbers that cannot be computed, runs that fail.
    pub fn outcome(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<Outcome> {
        self.refuse(options)?;
        (self.outcome)(options, watch)
    }

    fn refuse(&self, options: &ReproductionOptions) -> Result<()> {
        let id = self.entry.id;
        let (kind, flag, hint) = match (self.kind, options.for_training(), options.for_pricing()) {
            (ReproductionKind::Priced { .. }, Some(flag), _) => {
                let trained = names(|kind| matches!(kind, ReproductionKind::Trained { .. }));
                ("priced, not trained", flag, format!("it is for {trained}"))
            }
            (ReproductionKind::Trained { .. }, _, Some(flag)) => (
                "trained, not priced",
                flag,
                "--scale, --seeds and --steps say how much is trained".to_owned(),
            ),
            (ReproductionKind::Priced { records: false }, ..) if options.records.is_some() => {
                return Err(ReproduceError::request(
                    format!("{id} has no number of records to change"),
                    "leave --records away; it is for patch/* and mask/*",
                ));
            }
            (ReproductionKind::Trained { pool: false }, ..) if options.training.pool.is_some() => {
                let shown = names(|kind| kind == ReproductionKind::Trained { pool: true });
                return Err(ReproduceError::request(
                    format!("{id} shows no public images beside records: it has no --pool"),
                    format!("leave --pool away; it is for {shown}"),
                ));
            }
            _ => return Ok(()),
        };
        Err(ReproduceError::request(
            format!("{id} is {kind}: it has no {flag}"),
            format!("leave {flag} away; {hint}"),
        ))
    }
}

/// Every figure and table, paper by paper.
#[must_use]
pub fn registry() -> Vec<RegisteredReproduction> {
    patch::all().chain(trained::all()).chain(mask::all()).chain(partition::all()).chain(mix::all()).collect()
}

/// The names of all of a kind.
fn names(is_one: impl Fn(ReproductionKind) -> bool) -> String {
    let all = registry();
    let named: Vec<&str> = all.iter().filter(|one| is_one(one.kind)).map(|one| one.entry.id).collect();
    named.join(", ")
}

/// The most names that somebody may have meant.
const MEANT: usize = 4;

/// The figure or table with this name, in upper or lower case.
///
/// # Errors
/// A name that no figure or table has.
pub fn find(id: &str) -> Result<RegisteredReproduction> {
    let wanted = id.to_lowercase();
    let mut all = registry();
    if let Some(place) = all.iter().position(|one| one.entry.id == wanted) {
        return Ok(all.swap_remove(place));
    }
    let ids = || all.iter().map(|one| one.entry.id);
    let like: Vec<&str> = ids().filter(|id| !wanted.is_empty() && id.contains(&wanted)).collect();
    let like = if like.is_empty() { keys::near_words(ids(), &wanted) } else { like };
    let hint = keys::meant(&like)
        .filter(|_| like.len() <= MEANT)
        .unwrap_or_else(|| "see `dapple reproduce --list`; figures are written as patch/fig3".to_owned());
    Err(ReproduceError::request(format!("there is no figure `{id}`"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paper;

    #[test]
    fn names_are_unique_and_begin_with_their_paper() {
        let all = registry();
        for (place, one) in all.iter().enumerate() {
            let CatalogueEntry { id, paper, .. } = one.entry;
            assert!(id.starts_with(&format!("{}/", paper.prefix())), "{id}");
            assert!(all[..place].iter().all(|other| other.entry.id != id), "{id} stands there twice");
        }
        for paper in Paper::ALL {
            assert!(all.iter().any(|one| one.entry.paper == paper), "{paper:?} has no figure");
        }
    }
}
