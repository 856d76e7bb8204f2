//! This crate only computes: it touches no files, clock, randomness, environment or threads.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, unused_imports, reason = "the checker is tested elsewhere")]
#[path = "../../accounting/tests/pure/mod.rs"]
mod pure;

#[test]
fn the_crate_stays_pure() {
    pure::assert_pure("plan");
}
