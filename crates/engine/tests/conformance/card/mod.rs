//! Tests of what only cards have, and of laws that would take too long elsewhere.

mod group;
mod hold;
mod memory;
mod models;
mod noise;
mod precision;
mod rounding;
mod sums;
mod threads;

use std::sync::{Mutex, MutexGuard, PoisonError};

static CARD: Mutex<()> = Mutex::new(());

/// Reserves the card for one test, because executors choose by the memory that is free, and some tests take all of it.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    CARD.lock().unwrap_or_else(PoisonError::into_inner)
}
