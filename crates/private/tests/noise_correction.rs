//! Compares Adam without the noise's part of its second moment with the formula of Tang et al. 2024 in double precision:
//! `w -= rate m' / sqrt(max(v' - (sigma C / B)^2, floor))`.
#![allow(clippy::unwrap_used)]

use dapple_data::{MasterKey, Purpose};
use dapple_engine::{Batch, Clipping, ClippingRule, Layout, UpdateRule};
use dapple_graph::{Graph, GraphBuilder, Init, Loss, Parameters};
use dapple_private::{
    Executor, Learned, Microbatches, Noise, OptimiserSettings, Processor, StepError, Update, private_step,
};

const BATCH: u64 = 50;
const BETAS: [f64; 2] = [0.9, 0.99];
const RATE: f64 = 0.01;
/// The clip norm, and below, the noise multipliers of the first half of the steps and of the second half.
const CLIP: f64 = 0.8;
const SIGMAS: [f64; 2] = [1.1, 0.6];
const STEPS: u64 = 12;

/// Draws no records, so that the gradient is only noise.
struct Nobody;

impl Microbatches for Nobody {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        Ok(None)
    }
}

fn model() -> Graph {
    let mut builder = GraphBuilder::new(&[300]);
    let zero = Init::Constant(0.0);
    let linear = builder.linear("linear", builder.input(), 100, zero, zero).unwrap();
    builder.finish(linear, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap()
}

/// The noise multiplier of a step.
fn sigma(step: u64) -> f64 {
    SIGMAS[usize::from(step >= STEPS / 2)]
}

/// The parameters after every step of a rule that starts from zeros.
fn learned(rule: UpdateRule, rate: f64) -> Vec<Vec<f32>> {
    let (graph, clipping) = (model(), Clipping::Flat { max_norm: CLIP });
    let mut processor = Processor::new(&graph, 1).unwrap();
    let layout = Layout::new(&graph);
    let clipping = ClippingRule::new(&clipping, &layout).unwrap();
    let settings = OptimiserSettings { rule, weight_decay: 0.0, mean_decay: None, rate_shares: Vec::new() };
    let mut learned = Learned::new(&settings, &layout, Parameters::zeros(&graph));
    let keys = MasterKey::from_seed(9).purpose(Purpose::Noise);
    let values = (0..STEPS).map(|step| {
        let (noise, key) = (Noise::new(sigma(step) * CLIP).unwrap(), keys.step(step));
        let update = Update { noise: Some((&noise, &key)), count: None, batch: BATCH, learning_rate: rate };
        private_step(&mut processor, &mut learned, &mut Nobody, &clipping, &update).unwrap();
        processor.fetch(&mut learned).unwrap();
        learned.parameters.values().to_vec()
    });
    values.collect()
}

/// The noisy gradients. They are what gradient descent at rate one moves the parameters by.
fn gradients() -> Vec<Vec<f64>> {
    let values = learned(UpdateRule::Sgd { momentum: 0.0, nesterov: false }, 1.0);
    let mut before = vec![0.0; values[0].len()];
    let moved = values.iter().map(|values| {
        let moved = values.iter().zip(&before).map(|(&value, before)| before - f64::from(value)).collect();
        before = values.iter().map(|&value| f64::from(value)).collect();
        moved
    });
    moved.collect()
}

#[test]
fn the_update_is_the_papers() {
    let gradients = gradients();
    let variance = |step: u64| (sigma(step) * CLIP / BATCH as f64).powi(2);
    let floor = variance(STEPS - 1) / 4.0;
    let ours = learned(UpdateRule::CorrectedAdam { betas: BETAS, floor }, RATE);
    let n = gradients[0].len();
    let (mut values, mut m, mut v, mut part) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], 0.0);
    let mut floored = [0, 0];
    for (step, (gradient, ours)) in (0..STEPS).zip(gradients.iter().zip(&ours)) {
        // As long as sigma stays the same, this is (sigma C / B)^2 times what corrects for the start at zero.
        part = BETAS[1] * part + (1.0 - BETAS[1]) * variance(step);
        let [c1, c2] = BETAS.map(|beta| 1.0 - beta.powi(step as i32 + 1));
        if step < STEPS / 2 {
            assert!((part / c2 / variance(0) - 1.0).abs() < 1e-12, "step {step}");
        }
        for (i, g) in gradient.iter().enumerate() {
            m[i] = BETAS[0] * m[i] + (1.0 - BETAS[0]) * g;
            v[i] = BETAS[1] * v[i] + (1.0 - BETAS[1]) * g * g;
            let left = v[i] / c2 - part / c2;
            floored[usize::from(left > floor)] += 1;
            values[i] -= RATE * m[i] / c1 / left.max(floor).sqrt();
            // The gradients are differences of values as large as a dozen gradients, and these are rounded by 6e-8 of their size. At least a
            // sixteenth of a second moment remains, and the errors of a dozen updates add up.
            let off = (f64::from(ours[i]) - values[i]).abs();
            assert!(off < 3e-5 * RATE * STEPS as f64, "step {step}, value {i}: {off}");
        }
    }
    // Both sides of the maximum have occurred.
    assert!(floored.iter().all(|&count| count > 10_000), "{floored:?}");
}

/// The variance that is taken off is the one that the noise has. The sum of the squares of n normal values has a standard deviation of
/// sqrt(2 / n) of itself, and differs by more than seven of these with a probability of 3e-12.
#[test]
fn the_noise_has_the_variance_that_is_taken_off() {
    for (step, gradient) in gradients().iter().enumerate().take(3) {
        let n = gradient.len() as f64;
        let measured = gradient.iter().map(|g| g * g).sum::<f64>() / n;
        let taken = Noise::new(sigma(step as u64) * CLIP).unwrap().variance() / (BATCH * BATCH) as f64;
        assert!((measured / taken - 1.0).abs() < 7.0 * (2.0 / n).sqrt(), "step {step}: {measured} {taken}");
        assert!((taken.sqrt() * BATCH as f64 / (sigma(step as u64) * CLIP) - 1.0).abs() < 1e-6);
    }
}
