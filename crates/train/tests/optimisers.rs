//! Tests optimisers, schedules and the running mean against PyTorch (goldens/optimisers.py).
#![allow(clippy::unwrap_used)]

use dapple_engine::Layout;
use dapple_graph::{Graph, GraphBuilder, Init, Loss, Parameters};
use dapple_plan::spec::OptimiserSpec;
use dapple_plan::{LearningRate, OptimiserPlan, PlanSpec};
use dapple_private::{Ema, Optimiser, OptimiserSettings, OptimiserState};
use dapple_train::optimiser_settings;
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    start: Vec<f32>,
    gradients: Vec<Vec<f32>>,
    updates: Vec<Updates>,
    rates: Vec<Rates>,
    mean: Mean,
}

#[derive(Deserialize)]
struct Updates {
    spec: String,
    rate: f64,
    weights: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Rates {
    spec: String,
    rates: Vec<f64>,
}

#[derive(Deserialize)]
struct Mean {
    decay: f64,
    weights: Vec<Vec<f32>>,
}

fn goldens() -> Goldens {
    serde_json::from_str(include_str!("goldens/optimisers.json")).unwrap()
}

fn settings(text: &str) -> OptimiserSettings {
    optimiser_settings(&OptimiserPlan::check(&spec(text)).unwrap(), &model(&[0.0; 6]).0).unwrap()
}

fn spec(text: &str) -> OptimiserSpec {
    PlanSpec::from_toml(&format!("[optimiser]\n{text}")).unwrap().optimiser
}

/// Two linear layers, 2 -> 2 and 2 -> 1. All six weights train, with a frozen bias between them.
fn model(start: &[f32]) -> (Graph, Parameters) {
    let mut builder = GraphBuilder::new(&[2]);
    let zero = Init::Constant(0.0);
    let x = builder.linear("first", builder.input(), 2, zero, zero).unwrap();
    let x = builder.linear("second", x, 1, zero, zero).unwrap();
    let mut graph = builder.finish(x, Loss::SquaredError).unwrap();
    graph.set_trainable(|name| name.ends_with("weight"));
    let mut parameters = Parameters::zeros(&graph);
    for (name, range) in [("first.weight", 0..4), ("second.weight", 4..6)] {
        let id = graph.find_parameter(name).unwrap();
        parameters.get_mut(id).copy_from_slice(&start[range]);
    }
    (graph, parameters)
}

fn trainable(graph: &Graph, parameters: &Parameters) -> Vec<f32> {
    let layout = Layout::new(graph);
    layout.entries().iter().flat_map(|entry| parameters.get(entry.id).to_vec()).collect()
}

/// Asserts that values agree after a dozen updates in single precision, in which PyTorch rounds in another order.
fn close(ours: &[f32], theirs: &[f32], what: &str) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - theirs).abs() <= 3e-6 * theirs.abs().max(1.0), "{what}: {ours} {theirs}");
    }
}

#[test]
fn updates_follow_pytorch() {
    let goldens = goldens();
    for case in &goldens.updates {
        let (graph, mut parameters) = model(&goldens.start);
        let mut optimiser = Optimiser::new(&settings(&case.spec), &Layout::new(&graph), &parameters);
        for (gradient, expected) in goldens.gradients.iter().zip(&case.weights) {
            optimiser.update(&mut parameters, gradient, case.rate, 0.0);
            close(&trainable(&graph, &parameters), expected, &case.spec);
        }
        let bias = graph.find_parameter("first.bias").unwrap();
        assert_eq!(parameters.get(bias), [0.0, 0.0], "frozen values never move");
    }
}

#[test]
fn a_restored_optimiser_goes_on_as_before() {
    let goldens = goldens();
    for case in &goldens.updates {
        let (graph, mut parameters) = model(&goldens.start);
        let fresh = || Optimiser::new(&settings(&case.spec), &Layout::new(&graph), &model(&goldens.start).1);
        let mut optimiser = fresh();
        for (gradient, expected) in goldens.gradients.iter().zip(&case.weights) {
            optimiser.update(&mut parameters, gradient, case.rate, 0.0);
            close(&trainable(&graph, &parameters), expected, &case.spec);
            let state = optimiser.state().clone();
            optimiser = fresh();
            assert!(optimiser.restore(state));
        }
        assert!(!optimiser.restore(OptimiserState { first: vec![0.0; 99], ..Default::default() }));
    }
}

/// A stem, two blocks, and a head: four layers of 2 -> 2 without their biases.
fn blocks() -> Graph {
    let mut builder = GraphBuilder::new(&[2]);
    let zero = Init::Constant(0.0);
    let mut x = builder.input();
    for name in ["stem", "block.0", "block.1", "head"] {
        match name {
            "stem" => {}
            "head" => builder.end_blocks(),
            _ => builder.block(),
        }
        x = builder.linear(name, x, 2, zero, zero).unwrap();
    }
    let mut graph = builder.finish(x, Loss::SquaredError).unwrap();
    graph.set_trainable(|name| name.ends_with("weight"));
    graph
}

/// PyTorch's way is a group of parameters for each layer, with the rate multiplied by the decay to the power of the layers behind it; weight
/// decay follows the group's rate. So every layer moves as in an optimiser of its own at its own rate, which the goldens above hold.
#[test]
fn a_layer_moves_as_in_a_group_with_its_share_of_the_rate() {
    let (graph, rate) = (blocks(), 0.1);
    let layout = Layout::new(&graph);
    for text in ["momentum = 0.9\nweight_decay = 0.1", "kind = 'adamw'\nweight_decay = 0.2"] {
        let of =
            |text: &str| optimiser_settings(&OptimiserPlan::check(&spec(text)).unwrap(), &graph).unwrap();
        let decayed = of(&format!("{text}\nlayer_decay = 0.5"));
        assert_eq!(decayed.rate_shares, [0.125, 0.25, 0.5, 1.0]);
        let start = Parameters::init(&graph, 3);
        let runs = |settings: &OptimiserSettings, rate: f64| {
            let mut parameters = start.clone();
            let mut optimiser = Optimiser::new(settings, &layout, &parameters);
            for step in 0..5 {
                let gradient: Vec<f32> =
                    (0..layout.len()).map(|i| (step as f32 + 0.7 * i as f32).sin()).collect();
                optimiser.update(&mut parameters, &gradient, rate, 0.0);
            }
            parameters
        };
        let together = runs(&decayed, rate);
        for (entry, share) in layout.entries().iter().zip([0.125, 0.25, 0.5, 1.0]) {
            let alone = runs(&of(text), rate * share);
            assert_eq!(together.get(entry.id), alone.get(entry.id), "{text}, {}", entry.name);
        }
    }
}

#[test]
fn layer_decay_needs_a_model_of_blocks() {
    let plan = OptimiserPlan::check(&spec("layer_decay = 0.75")).unwrap();
    let error = optimiser_settings(&plan, &model(&[0.0; 6]).0).unwrap_err();
    assert_eq!(error.to_string(), "optimiser.layer_decay: the model is no sequence of blocks");
    assert!(error.hint().unwrap().contains("vit"));
}

#[test]
fn learning_rates_follow_pytorch() {
    for case in goldens().rates {
        let schedule =
            LearningRate::check(&spec(&format!("learning_rate = 0.4\n{}", case.spec)), 12).unwrap();
        for (step, expected) in case.rates.iter().enumerate() {
            let rate = schedule.at(step as u64);
            // PyTorch multiplies its rates up step by step in double precision.
            assert!((rate - expected).abs() < 1e-12, "{} step {step}: {rate} {expected}", case.spec);
        }
    }
}

#[test]
fn the_running_mean_follows_its_definition() {
    let goldens = goldens();
    let (graph, mut parameters) = model(&goldens.start);
    let mut ema = Ema::new(goldens.mean.decay, &parameters);
    let mut optimiser = Optimiser::new(&settings("kind = 'sgd'"), &Layout::new(&graph), &parameters);
    for (index, (gradient, expected)) in goldens.gradients.iter().zip(&goldens.mean.weights).enumerate() {
        optimiser.update(&mut parameters, gradient, 0.1, 0.0);
        ema.update(&parameters, index as u64 + 1);
        close(&trainable(&graph, ema.parameters()), expected, "mean");
    }
}
