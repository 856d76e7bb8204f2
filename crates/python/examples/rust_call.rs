//! Times the Rust call behind `dapple.account`: reads a plan as TOML, and prints how many seconds each of several calls took.
//!
//! `python/bench` compares these times with those of the same call from Python.

use std::io::{self, Read, Write};
use std::time::Instant;

use dapple_plan::{BracketPrecision, Plan, PlanSpec};

/// Calls that are timed, after as many that only warm up.
const CALLS: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let spec = PlanSpec::from_toml(&text)?;
    let mut output = io::stdout().lock();
    for call in 0..2 * CALLS {
        let start = Instant::now();
        let certificate = Plan::check(&spec)?.price(BracketPrecision::default())?;
        let seconds = start.elapsed().as_secs_f64();
        drop(certificate);
        if call >= CALLS {
            writeln!(output, "{seconds:e}")?;
        }
    }
    Ok(())
}
