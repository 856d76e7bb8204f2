//! `mix/*`: tables of *DP-Mix: Mixup-based Data Augmentation for Differentially Private Learning*.

mod catalogue;
mod folders;
mod noise;
mod plans;
mod show;
mod trained;
mod tuned;

use crate::registry::RegisteredReproduction;

/// The tables that are priced, and those that are trained.
pub(crate) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    noise::all().chain(trained::all())
}
