//! Measures the CUDA executor and prints one line of JSON for each batch size: `cuda_bench MODEL SECONDS BATCH[:MICROBATCH]..`.
//!
//! A step sends the samples, computes the clipped sum, adds noise and takes a step of Adam, all on the card. With `--gradient` it sends the
//! parameters and fetches the sum instead. `around_seconds` is the part of a step outside of the sum itself.
//!
//! Options come before the model: `--tf32`, `--bf16`, `--gradient`, `--shares` (prints the time of each kind of
//! operation), `--choices` (prints how each convolution runs), `--own`, `--cudnn`.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic)]

#[path = "models/mod.rs"]
mod models;

use std::time::Instant;

use dapple_engine::cuda::{
    Convolutions, CudaExecutor, CudaOptions, CudaUpdate, LatticeNoise, Precision, StateValues,
};
use dapple_engine::{Batch, Clipping, ClippingRule, Targets, UpdateNumbers, UpdateRule};
use dapple_graph::{Graph, Parameters, zoo};

/// How many steps do not count, the first of which measures algorithms, and how few and how many are measured after them.
const WARM_UPS: usize = 2;
const LEAST: usize = 5;
const MOST: usize = 300;

fn model(name: &str) -> Graph {
    let backbone = zoo::Backbone::ResNet(zoo::ResNet::R50);
    let built = match name {
        "deeplab-v3-plus" => {
            let (stride, norm) = (zoo::OutputStride::Sixteen, zoo::Norm::Group(32));
            zoo::deeplab_v3_plus(backbone, stride, &[3, 505, 505], 21, norm)
        }
        other => models::named(other).unwrap_or_else(|| panic!("unknown model {other}")),
    };
    built.expect("the zoo's models fit their inputs")
}

const RULE: UpdateRule = UpdateRule::Adam { betas: [0.9, 0.999], eps: 1e-8 };

/// An update with noise and Adam, so small that nothing diverges.
fn update(numbers: &[UpdateNumbers], step: usize) -> CudaUpdate<'_> {
    static KEYS: [[u8; 32]; 2] = [[3; 32], [5; 32]];
    let noise = LatticeNoise { key: &KEYS[step % 2], lattice: (-10f64).exp2(), deviation: 1100.0 };
    CudaUpdate { noise: Some(noise), rule: RULE, numbers, mean_rest: 0.0 }
}

fn main() {
    let mut options = CudaOptions::default();
    let (mut shares, mut choices, mut fetches) = (false, false, false);
    let mut arguments = std::env::args().skip(1).peekable();
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with("--")) {
        match flag.as_str() {
            "--tf32" => options.precision = Precision::Tf32,
            "--bf16" => options.precision = Precision::Bf16,
            "--own" => options.convolutions = Convolutions::Own,
            "--cudnn" => options.convolutions = Convolutions::Cudnn,
            "--gradient" => fetches = true,
            "--shares" => shares = true,
            "--choices" => choices = true,
            other => panic!("unknown option {other}"),
        }
    }
    options.measure = shares;
    let name = arguments.next().expect("a model");
    let seconds: f64 = arguments.next().and_then(|n| n.parse().ok()).expect("seconds");
    let graph = model(&name);
    let parameters = Parameters::init(&graph, 1);
    let input: usize = graph.input_shape().iter().product();
    for sizes in arguments {
        let (batch, microbatch) = sizes.split_once(':').unwrap_or((&sizes, "0"));
        let [batch, microbatch] = [batch, microbatch].map(|size| size.parse().expect("a number of samples"));
        options.microbatch = microbatch;
        let mut executor = match CudaExecutor::new(&graph, CudaOptions { batch, ..options }) {
            Ok(executor) => executor,
            Err(error) => {
                println!("{{\"task\":\"{name}\",\"batch\":{batch},\"error\":\"{error}\"}}");
                continue;
            }
        };
        let inputs: Vec<f32> = (0..batch * input).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
        let positions: usize = graph.output_shape()[1..].iter().product();
        let classes: Vec<u32> = (0..(batch * positions) as u32).map(|i| i % 10).collect();
        let batch_of = Batch::new(&inputs, Targets::Classes(&classes));
        let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, executor.layout())
            .expect("a bound for so many");
        let (mut times, mut gradient, mut around) = (Vec::new(), Vec::new(), 0.0);
        let len = executor.layout().len();
        let groups = vec![0; executor.layout().entries().len()];
        let moments = StateValues { first: vec![0.0; len], second: vec![0.0; len], mean: None };
        let mut state = if fetches { None } else { Some(executor.state(&moments, &groups).expect("memory")) };
        executor.load(&parameters).expect("same graph");
        let mut started = Instant::now();
        while times.len() < WARM_UPS + LEAST
            || (started.elapsed().as_secs_f64() < seconds && times.len() < MOST)
        {
            let step = Instant::now();
            if times.len() == WARM_UPS {
                started = step;
            }
            let mut sum = executor.gradient_sum_in(std::mem::take(&mut gradient)).expect("memory");
            let mut loaded = match fetches {
                true => executor.load(&parameters).expect("same graph"),
                false => executor.resident().expect("parameters"),
            };
            let sent = step.elapsed().as_secs_f64();
            if let Err(error) = loaded.clipped_sum(&batch_of, &rule, &mut sum) {
                println!("{{\"task\":\"{name}\",\"batch\":{batch},\"error\":\"{error}\"}}");
                return;
            }
            let summed = step.elapsed().as_secs_f64();
            match &mut state {
                Some(state) => {
                    let numbers = [RULE.numbers(1e-6, 0.0, batch as u64, 1 + times.len() as u64, 0.0)];
                    loaded.update(sum, state, &update(&numbers, times.len())).expect("finite");
                }
                None => gradient = loaded.gradient(sum).expect("same graph"),
            }
            executor.synchronize().expect("the card works");
            around = sent + step.elapsed().as_secs_f64() - summed;
            times.push(step.elapsed().as_secs_f64());
        }
        let first = times[0];
        let mut warm = times.split_off(WARM_UPS);
        warm.sort_by(f64::total_cmp);
        let median = warm[warm.len() / 2];
        println!(
            "{{\"task\":\"{name}\",\"batch\":{batch},\"precision\":\"{:?}\",\"samples_per_second\":{:.1},\"best_samples_per_second\":{:.1},\"first_step_seconds\":{first:.2},\"around_seconds\":{around:.4},\"peak_mb\":{:.0},\"microbatch\":{},\"steps\":{}}}",
            options.precision,
            batch as f64 / median,
            batch as f64 / warm[0],
            executor.peak_bytes() as f64 / f64::from(1 << 20),
            executor.microbatch(),
            warm.len(),
        );
        let total: f64 = executor.shares().iter().map(|(_, time)| time).sum();
        let mut list = executor.shares().to_vec();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (operation, time) in list {
            let steps = (warm.len() + WARM_UPS) as f64;
            println!("  {operation:<40} {:>9.3} ms {:>5.1} %", time / steps, 100.0 * time / total);
        }
        if choices {
            executor.choices().iter().for_each(|choice| println!("  {choice}"));
        }
    }
}
