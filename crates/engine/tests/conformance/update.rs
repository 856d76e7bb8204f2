//! Compares what follows the sum, the optimisers' rules, with their formulas in double precision.

use dapple_engine::{Batch, Clipping, Layout, UpdateNumbers, UpdateRule};
use dapple_graph::{Parameters, zoo};

use crate::agreement::close;
use crate::common::{Data, uniform};
use crate::subject::{Opened, Subject, wide};

/// How far the running mean moves towards the new parameters, as a share of the distance.
const MEAN_REST: f32 = 0.1;
const CLIPPING: Clipping = Clipping::Flat { max_norm: 0.7 };
const UPDATES: u64 = 3;
/// The noise's part of the second moments, which begin between 0 and a hundredth, so that some of them fall to the floor.
const NOISE: f64 = 0.002;
/// There are a dozen roundings of single precision, of 6e-8 each, in three updates.
const NEAR: f64 = 1e-6;

/// A model in double precision.
struct Exact {
    values: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    mean: Vec<f64>,
}

impl Exact {
    /// Takes one update by the formulas. Every value of the small network trains, in the order of its parameters.
    fn update(&mut self, gradient: &[f64], rule: UpdateRule, layout: &Layout, numbers: &[UpdateNumbers; 2]) {
        let of = |i: usize| layout.entries().iter().position(|entry| entry.range.contains(&i));
        for (i, sum) in gradient.iter().enumerate() {
            let numbers = &numbers[of(i).unwrap() % 2];
            let rate = f64::from(numbers.rate);
            let g = sum * f64::from(numbers.share);
            let direction = match rule {
                UpdateRule::Sgd { momentum: 0.0, .. } => rate * g,
                UpdateRule::Sgd { nesterov, .. } => {
                    let momentum = f64::from(numbers.momentum);
                    self.first[i] = momentum * self.first[i] + g;
                    rate * if nesterov { g + momentum * self.first[i] } else { self.first[i] }
                }
                UpdateRule::Mean { .. } => {
                    self.first[i] =
                        f64::from(numbers.betas[0]) * self.first[i] + f64::from(numbers.rest[0]) * g;
                    rate * self.first[i]
                }
                UpdateRule::Adam { .. } => {
                    let [b1, b2] = numbers.betas.map(f64::from);
                    let [r1, r2] = numbers.rest.map(f64::from);
                    self.first[i] = b1 * self.first[i] + r1 * g;
                    self.second[i] = b2 * self.second[i] + r2 * g * g;
                    let scale = self.second[i].sqrt() * f64::from(numbers.root) + f64::from(numbers.eps);
                    rate * self.first[i] / scale
                }
                UpdateRule::CorrectedAdam { .. } => {
                    let [b1, b2] = numbers.betas.map(f64::from);
                    let [r1, r2] = numbers.rest.map(f64::from);
                    self.first[i] = b1 * self.first[i] + r1 * g;
                    self.second[i] = b2 * self.second[i] + r2 * g * g;
                    let left = (self.second[i] - f64::from(numbers.noise)).max(f64::from(numbers.floor));
                    rate * self.first[i] / (left.sqrt() * f64::from(numbers.root))
                }
            };
            self.values[i] = self.values[i] * f64::from(numbers.keep) - direction;
            self.mean[i] += f64::from(MEAN_REST) * (self.values[i] - self.mean[i]);
        }
    }
}

/// What a subject has learned.
struct Learned {
    parameters: Parameters,
    first: Vec<f32>,
    second: Vec<f32>,
    /// The running mean, which only cards keep themselves.
    mean: Option<Vec<f32>>,
}

/// Takes the updates one after the other, and shows the sum that went into each and what was learned from it.
fn learn(
    opened: &mut Opened<'_>,
    learned: &mut Learned,
    batch: &Batch<'_>,
    (rule, numbers): (UpdateRule, &dyn Fn(u64) -> [UpdateNumbers; 2]),
    seen: &mut dyn FnMut(&[f64], &[f32]),
) {
    let clipping = opened.rule(&CLIPPING);
    let layout = opened.layout().clone();
    match opened {
        Opened::Reference(..) => panic!("the reference takes no updates"),
        Opened::Cpu(_) => {
            for count in 1..=UPDATES {
                let (sum, numbers) =
                    (opened.step(&learned.parameters, batch, &clipping).gradient, numbers(count));
                let gradient: Vec<f32> = sum.iter().map(|&sum| sum as f32 * numbers[0].share).collect();
                let Learned { parameters, first, second, .. } = learned;
                for (index, entry) in layout.entries().iter().enumerate() {
                    let place = entry.range.clone();
                    let own = |state: &[f32]| if state.is_empty() { 0..0 } else { place.clone() };
                    let (of_first, of_second) = (own(first), own(second));
                    rule.update(
                        &numbers[index % 2],
                        &mut parameters.values_mut()[place.clone()],
                        &gradient[place.clone()],
                        &mut first[of_first],
                        &mut second[of_second],
                    );
                }
                seen(&sum, parameters.values());
            }
        }
        #[cfg(feature = "cuda")]
        Opened::Cuda(executor) => {
            use dapple_engine::cuda::{CudaUpdate, StateValues};
            let Learned { parameters, first, second, mean } = learned;
            *mean = Some(parameters.values().to_vec());
            let values = StateValues { first: first.clone(), second: second.clone(), mean: mean.clone() };
            let groups: Vec<usize> = (0..layout.entries().len()).map(|entry| entry % 2).collect();
            let mut state = executor.state(&values, &groups).unwrap();
            executor.load(parameters).unwrap();
            for count in 1..=UPDATES {
                let numbers = numbers(count);
                let update = CudaUpdate { noise: None, rule, numbers: &numbers, mean_rest: MEAN_REST };
                let mut sums = [executor.gradient_sum().unwrap(), executor.gradient_sum().unwrap()];
                let mut loaded = executor.resident().unwrap();
                for sum in &mut sums {
                    loaded.clipped_sum(batch, &clipping, sum).unwrap();
                }
                let [shown, used] = sums;
                let sum = wide(&loaded.gradient(shown).unwrap());
                loaded.update(used, &mut state, &update).unwrap();
                loaded.fetch(parameters).unwrap();
                seen(&sum, parameters.values());
            }
            StateValues { first: *first, second: *second, mean: *mean } = state.fetch(executor).unwrap();
            // After the exchange, the mean is where the parameters were.
            executor.resident().unwrap().exchange_mean(&mut state).unwrap();
            let mut exchanged = parameters.clone();
            executor.resident().unwrap().fetch(&mut exchanged).unwrap();
            assert_eq!(Some(exchanged.values()), mean.as_deref());
        }
    }
}

pub(crate) fn rules_follow_their_formulas(subjects: &[Subject]) {
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let data = Data::new(&graph, 6, 1);
    let adam = UpdateRule::Adam { betas: [0.9, 0.99], eps: 1e-6 };
    let sgd = |momentum, nesterov| UpdateRule::Sgd { momentum, nesterov };
    let corrected = UpdateRule::CorrectedAdam { betas: [0.9, 0.99], floor: 1e-2 };
    for (rule, rate) in [
        (sgd(0.0, false), 0.3),
        (sgd(0.8, false), 0.3),
        (sgd(0.8, true), 0.3),
        (adam, 0.01),
        (corrected, 0.01),
        (UpdateRule::Mean { decay: 0.9 }, 0.3),
    ] {
        for subject in subjects {
            let mut opened = subject.planned_for(6).open(&graph);
            let layout = opened.layout().clone();
            let len = layout.len();
            let lens = rule.state_len(len);
            let numbers =
                |name, len| (0..len).map(|i| 0.01 * uniform(name, i).abs() as f32).collect::<Vec<_>>();
            let mut learned = Learned {
                parameters: Parameters::init(&graph, 5),
                first: numbers("first", lens.0),
                second: numbers("second", lens.1),
                mean: None,
            };
            let padded = |values: &[f32]| {
                let mut values = wide(values);
                values.resize(len, 0.0);
                values
            };
            let start = wide(learned.parameters.values());
            let mut exact = Exact {
                values: start.clone(),
                first: padded(&learned.first),
                second: padded(&learned.second),
                mean: start,
            };
            // Every second parameter moves by half the rate.
            let of = |count| [rate, 0.5 * rate].map(|rate| rule.numbers(rate, 0.001 / rate, 6, count, NOISE));
            let title = format!("{rule:?}, {subject:?}");
            let mut count = 0;
            let mut seen = |sum: &[f64], values: &[f32]| {
                count += 1;
                exact.update(sum, rule, &layout, &of(count));
                close(&format!("{title}, parameters {count}"), &wide(values), &exact.values, NEAR, 0.0);
            };
            learn(&mut opened, &mut learned, &data.batch(), (rule, &of), &mut seen);
            close(&format!("{title}, first"), &wide(&learned.first), &exact.first[..lens.0], NEAR, 0.0);
            close(&format!("{title}, second"), &wide(&learned.second), &exact.second[..lens.1], NEAR, 0.0);
            if let Some(mean) = &learned.mean {
                close(&format!("{title}, mean"), &wide(mean), &exact.mean, NEAR, 0.0);
            }
        }
    }
}
