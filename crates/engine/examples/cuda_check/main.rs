//! Compares the CUDA executor with the others, operation by operation and model by model: `cuda_check [quick] [PART..]`.
//!
//! Without a card it says so and succeeds. The parts, all of them unless some are named:
//!
//! - `operations`: small graphs that together hold every operation, against the double-precision reference.
//! - `shapes`: convolutions of shapes that are nobody's usual choice, against the same.
//! - `sums`: convolutions and gradients that add up tens of thousands of products.
//! - `memory`: a model that no card can hold.
//! - `models`: the zoo's models against the CPU executor; names of models behind it do those alone.
//! - `certified`: what a sample adds: never more than the bound, the same bits in any company, nothing if it is not finite.
//! - `precision`: how far TF32 and bf16 go from single precision, and that clipping bounds what it sums in each.
//! - `threads`: executors that are opened, used and dropped on several threads at once.
//! - `update`: noise against mpmath, the optimisers' rules against their formulas, and a group of one card.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod certified;
#[path = "../../tests/common/mod.rs"]
mod common;
mod models;
mod operations;
mod precision;
mod report;
mod sums;
mod threads;
mod update;

use std::process::ExitCode;

use dapple_engine::cuda::{CudaError, CudaExecutor, CudaOptions};
use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, Layout, Options, StepStats};
use dapple_graph::{Graph, Parameters, zoo};
use report::Report;

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// The Euclidean length.
fn length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// The length of a difference.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    length(a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)))
}

/// A rule that fits.
fn rule(clipping: &Clipping, layout: &Layout) -> ClippingRule {
    ClippingRule::new(clipping, layout).unwrap()
}

fn run(
    executor: &mut CudaExecutor,
    parameters: &Parameters,
    batch: &Batch<'_>,
    clipping: &Clipping,
) -> Result<(Vec<f32>, StepStats), CudaError> {
    let rule = rule(clipping, executor.layout());
    let mut sum = executor.gradient_sum()?;
    let mut loaded = executor.load(parameters)?;
    let stats = loaded.clipped_sum(batch, &rule, &mut sum)?;
    Ok((loaded.gradient(sum)?, stats))
}

/// The same on the CPU.
fn run_on_cpu(
    executor: &mut CpuExecutor,
    parameters: &Parameters,
    batch: &Batch<'_>,
    clipping: &Clipping,
) -> (Vec<f32>, StepStats) {
    let rule = rule(clipping, executor.layout());
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(parameters).unwrap();
    let stats = loaded.clipped_sum(batch, &rule, &mut sum).unwrap();
    (loaded.gradient(sum).unwrap(), stats)
}

fn cpu(graph: &Graph) -> CpuExecutor {
    CpuExecutor::new(graph, Options::default()).unwrap()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "quick");
    let named: Vec<&String> = arguments.iter().filter(|argument| *argument != "quick").collect();
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    match CudaExecutor::new(&graph, CudaOptions::default()) {
        Ok(executor) => println!("{}", executor.device_name()),
        Err(error) => {
            println!("skipped: {error}\nhint: {}", error.hint().unwrap_or("none"));
            return ExitCode::SUCCESS;
        }
    }
    type Part = fn(&mut Report, bool);
    let parts: [(&str, Part); 9] = [
        ("operations", operations::check),
        ("shapes", operations::check_shapes),
        ("sums", sums::check),
        ("memory", operations::check_memory),
        ("threads", threads::check),
        ("update", update::check),
        ("certified", certified::check),
        ("precision", precision::check),
        ("models", models::check),
    ];
    let mut all = Report::default();
    for (name, check) in parts {
        if !named.is_empty() && !named.iter().any(|wanted| *wanted == name) {
            continue;
        }
        let started = std::time::Instant::now();
        let mut report = Report::default();
        check(&mut report, quick);
        println!(
            "{name}: {} comparisons, largest difference {:.1e}, {} failures, {:.1} s",
            report.count,
            report.worst,
            report.failures.len(),
            started.elapsed().as_secs_f64()
        );
        all.join(report);
    }
    println!("{} comparisons, {} failures", all.count, all.failures.len());
    all.failures.iter().take(60).for_each(|failure| println!("FAILED {failure}"));
    if all.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
