//! *Masked Differential Privacy* (Schneider et al. 2024; M in what follows): its theorem, and its tables of accuracies.

mod theorem;
mod trained;

use crate::registry::RegisteredReproduction;

pub(crate) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    theorem::all().into_iter().chain(trained::all())
}
