//! `mix/*`: tables of *DP-Mix: Mixup-based Data Augmentation for Differentially Private Learning*.

mod catalogue;
mod noise;
mod plans;
mod show;
mod trained;

use crate::registry::RegisteredReproduction;

/// The tables that are priced, and those that are trained.
pub(crate) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    noise::all().chain(trained::all())
}
