//! `dapple audit`: what it prints and refuses.

#![allow(clippy::unwrap_used)]

mod common;

use common::{dapple, dapple_with, exact_snapshot};

const PLAN: &str = "--batch 100 --records 1000 --steps 40 --noise-multiplier 0.8 --delta 1e-5 --device cpu";

#[test]
fn a_measured_bound_stands_beside_the_certified_one() {
    let answer = dapple(&format!("audit {PLAN} --json --set train.seed=3")).json();
    let number = |key: &str| answer[key].as_f64().unwrap();
    // The seed fixes the coins and the run. Without it the bound would be too large with a probability of at most 0.05.
    assert!(
        number("epsilon_lower_bound") > 1.0 && number("epsilon_lower_bound") < number("epsilon_certified")
    );
    assert_eq!((number("confidence"), number("delta"), number("canaries")), (0.95, 1e-5, 1000.0));
    assert_eq!((&answer["relation"], &answer["machine"]), (&"add-remove".into(), &"cpu".into()));
    let certified = dapple(&format!("account {}", PLAN.replace("--device cpu", "--json"))).json();
    assert_eq!(certified["epsilon"]["upper"], answer["epsilon_certified"]);
    assert_eq!(certified["plan_hash"], answer["plan_hash"]);
}

/// An audit counts and measures the data of a plan, and solves for the noise.
#[test]
fn plans_of_training_are_audited() {
    let plan = "[data]\nformat = 'fashion-scenes'\nsize = '16x16'\n[privacy]\nepsilon = 5.0\ndelta = 1e-5\n\
                [region]\npatch = [8, 8]\n[pipeline]\ncrop = [64, 64]\n[sampling]\nbatch = 200\nsteps = 3\n";
    let command = "audit plan.toml --json --canaries 100 --confidence 0.9 --device cpu";
    let answer =
        dapple_with(command, |folder| std::fs::write(folder.join("plan.toml"), plan).unwrap()).json();
    let certified = answer["epsilon_certified"].as_f64().unwrap();
    assert!((4.9..=5.0).contains(&certified) && answer["relation"] == "patch", "{answer}");
}

/// Whoever is told the submodels measures more than is certified, which is no fault of the training.
#[test]
fn what_the_secret_is_worth_is_measured() {
    let plan = "--batch 1000 --records 1000 --steps 24 --noise-multiplier 2 --delta 0.01 --submodels 16 --device cpu";
    let answer = dapple(&format!("audit {plan} --set train.seed=11 --tell-submodels --json")).json();
    let number = |key: &str| answer[key].as_f64().unwrap();
    assert!(number("epsilon_lower_bound") > number("epsilon_certified"), "{answer}");
    assert!(answer["assumptions"].to_string().contains("told which submodel"), "{answer}");
    assert_eq!(dapple(&format!("audit {PLAN} --tell-submodels")).code, 2);
}

#[test]
fn text_and_refusals() {
    let text = dapple(&format!("audit {PLAN} --canaries 1 --confidence 0.999 --set train.seed=3"));
    let wrong = [
        "--canaries 0",
        "--canaries 1001",
        "--confidence 1",
        "--crop 10x10",
        "--relation masked",
        "--set train.private=false",
    ];
    let refused: String = wrong
        .iter()
        .map(|more| {
            let run = dapple(&format!("audit {PLAN} {more}"));
            format!("{more}: exit {}\n{}", run.code, run.stderr)
        })
        .collect();
    exact_snapshot("audit", &format!("{}{refused}", text.report()));
}
