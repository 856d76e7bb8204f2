//! Answers one accounting question and tells what it cost, as one line of JSON: for comparing accountants.
//!
//! - `answer epsilon SIGMA RATE STEPS DELTA`: Poisson sampling, add/remove
//! - `answer calibrate EPSILON RATE STEPS DELTA`: the noise multiplier
//! - `answer profile SIGMA RATE STEPS POINTS TOP`: delta at the last of POINTS epsilons from 0 to TOP
//! - `answer patch SIGMA RATE STEPS DELTA`: without replacement at the effective rate, distance 2

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a benchmark program")]

use dapple_accounting::calibrate::{PrivacyTarget, smallest};
use dapple_accounting::{Bracket, BracketPrecision, Distances, Participation, Pld, Substitution};

fn main() {
    let mut words = std::env::args().skip(1);
    let question = words.next().unwrap();
    let numbers: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
    // A warm-up with other numbers, as for the peers: code is in memory, plans and tables are not shared.
    answer(&question, &numbers.iter().map(|x| if *x >= 1.0 { *x } else { 0.9 * x }).collect::<Vec<f64>>());
    // The scheduler counts in ticks of a few milliseconds: repeat until they do not matter.
    let start = cpu_seconds();
    let mut bracket = answer(&question, &numbers);
    let mut count = 1.0;
    while cpu_seconds() - start < 0.3 {
        bracket = answer(&question, &numbers);
        count += 1.0;
    }
    let spent = (cpu_seconds() - start) / count;
    let line = serde_json::json!({
        "result": bracket.upper, "lower": bracket.lower, "upper": bracket.upper,
        "cpu_seconds": spent, "peak_mb": peak_mb(),
    });
    println!("{line}");
}

fn answer(question: &str, numbers: &[f64]) -> Bracket {
    let precision = BracketPrecision::default();
    let poisson = |sigma: f64| Ok(Pld::poisson_gaussian(numbers[1], sigma)?.self_compose(numbers[2] as u64));
    match question {
        "epsilon" => poisson(numbers[0]).unwrap().epsilon(numbers[3], precision).unwrap(),
        "calibrate" => {
            let target = PrivacyTarget { epsilon: numbers[0], delta: numbers[3] };
            Bracket::exact(
                smallest("noise multiplier", (0.05, 1e4), target, precision, poisson).unwrap().value,
            )
        }
        "profile" => {
            let count = numbers[3] as u32;
            let epsilons: Vec<f64> = (1..=count).map(|i| numbers[4] * f64::from(i) / numbers[3]).collect();
            *poisson(numbers[0]).unwrap().profile(&epsilons, precision).unwrap().last().unwrap()
        }
        "patch" => {
            let rate = numbers[1];
            let participation = Participation { absent: 1.0 - rate, unaffected: 0.0, affected: rate };
            let distances = Distances { absent: 2.0, unaffected: 2.0, affected: 2.0 };
            let step = Pld::substitution(Substitution::new(participation, distances, numbers[0]).unwrap());
            step.self_compose(numbers[2] as u64).epsilon(numbers[3], precision).unwrap()
        }
        other => panic!("unknown question {other}"),
    }
}

/// CPU time of this process's only thread, from the scheduler's nanosecond counter.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e-9
}

/// The largest resident size so far.
fn peak_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
