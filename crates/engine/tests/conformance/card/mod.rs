//! What only cards have, and laws that take too long elsewhere.

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

/// The card for one test alone: executors choose by the memory that is free, and some tests take all of it.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    CARD.lock().unwrap_or_else(PoisonError::into_inner)
}
