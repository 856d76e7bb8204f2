//! Tests what users add to a sum, in the whole numbers that it is made of. The oracle is a softmax regression in double precision.

use std::vec::IntoIter;

use dapple_data::{MasterKey, Purpose};
use dapple_engine::{Batch, Clipping, Targets, UpdateRule};
use dapple_graph::{GraphBuilder, Init, Loss};
use proptest::prelude::*;

use super::*;
use crate::{Noise, OptimiserSettings, private_step};

const INPUTS: usize = 4;
const CLASSES: usize = 3;
const VALUES: usize = (INPUTS + 1) * CLASSES;

fn graph() -> Graph {
    let mut builder = GraphBuilder::new(&[INPUTS]);
    let (input, zero) = (builder.input(), Init::Constant(0.0));
    let head = builder.linear("head", input, CLASSES, zero, zero).unwrap();
    builder.finish(head, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap()
}

/// Weights, row by row, and behind them biases.
fn learned(graph: &Graph) -> Learned {
    let mut parameters = Parameters::zeros(graph);
    parameters.values_mut().iter_mut().enumerate().for_each(|(i, value)| *value = (0.7 * i as f32).sin());
    let settings = OptimiserSettings {
        rule: UpdateRule::Sgd { momentum: 0.0, nesterov: false },
        weight_decay: 0.0,
        mean_decay: None,
        rate_shares: Vec::new(),
    };
    Learned::new(&settings, &Layout::new(graph), parameters)
}

/// A user's records.
#[derive(Debug, Clone)]
struct Records {
    inputs: Vec<f32>,
    classes: Vec<u32>,
}

impl Records {
    fn new(number: usize, count: usize) -> Self {
        let input = |i: usize| (((i + 31 * number) * 7919 % 1013) as f32 / 506.5) - 1.0;
        let classes = (0..count).map(|i| ((i * i + number) % CLASSES) as u32).collect();
        Self { inputs: (0..count * INPUTS).map(input).collect(), classes }
    }

    fn batch(&self) -> Batch<'_> {
        Batch::new(&self.inputs, Targets::Classes(&self.classes))
    }
}

struct Shown<'r>(IntoIter<Batch<'r>>);

impl Microbatches for Shown<'_> {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        Ok(self.0.next())
    }
}

fn shown(users: &[Records]) -> Shown<'_> {
    Shown(users.iter().map(Records::batch).collect::<Vec<_>>().into_iter())
}

fn several(count: u64, learning_rate: f32, batch: Option<usize>) -> LocalTraining {
    LocalTraining { steps: Some(LocalSteps { count, learning_rate }), batch }
}

/// The whole numbers that these users add up to, what one of them stands for, and what is reported.
fn sum(users: &[Records], local: LocalTraining, max_norm: f64, threads: usize) -> (Vec<i64>, f64, StepStats) {
    let graph = graph();
    let mut processor = UserProcessor::new(&graph, &[], local, threads).unwrap();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm }, processor.layout()).unwrap();
    let stats = processor.clipped_sum(&learned(&graph), &mut shown(users), &rule).unwrap();
    let total = processor.sum.take().unwrap().into_total();
    let (counts, unit) = total.counts().unwrap();
    (counts.collect(), unit, stats)
}

/// The mean gradient of some records, and their mean loss.
fn gradient(weights: &[f64], records: &Records, places: &[usize]) -> (Vec<f64>, f64) {
    let (mut mean, mut loss) = (vec![0.0; VALUES], 0.0);
    for &place in places {
        let input: Vec<f64> =
            records.inputs[place * INPUTS..][..INPUTS].iter().map(|&value| f64::from(value)).collect();
        let score = |class: usize| {
            let row = &weights[class * INPUTS..][..INPUTS];
            row.iter().zip(&input).map(|(weight, value)| weight * value).sum::<f64>()
                + weights[CLASSES * INPUTS + class]
        };
        let scores: Vec<f64> = (0..CLASSES).map(score).collect();
        let all: f64 = scores.iter().map(|score| score.exp()).sum();
        let class = records.classes[place] as usize;
        loss += all.ln() - scores[class];
        for (other, score) in scores.iter().enumerate() {
            let error = score.exp() / all - f64::from(u8::from(other == class));
            for (at, value) in input.iter().enumerate() {
                mean[other * INPUTS + at] += error * value / places.len() as f64;
            }
            mean[CLASSES * INPUTS + other] += error / places.len() as f64;
        }
    }
    (mean, loss / places.len() as f64)
}

/// What a user sends, by a plain loop, and the mean loss of what its first step sees.
fn update(records: &Records, local: LocalTraining) -> (Vec<f64>, f64) {
    let start: Vec<f64> =
        learned(&graph()).parameters.values().iter().map(|&value| f64::from(value)).collect();
    let count = records.classes.len();
    let batch = local.batch.map_or(count, |batch| batch.min(count));
    let places = |step: usize| (0..batch).map(|place| (step * batch + place) % count).collect::<Vec<_>>();
    let (first, loss) = gradient(&start, records, &places(0));
    let Some(LocalSteps { count: steps, learning_rate }) = local.steps else { return (first, loss) };
    let mut weights = start.clone();
    for step in 0..steps as usize {
        let (gradient, _) = gradient(&weights, records, &places(step));
        weights
            .iter_mut()
            .zip(gradient)
            .for_each(|(weight, gradient)| *weight -= f64::from(learning_rate) * gradient);
    }
    (start.iter().zip(&weights).map(|(start, end)| start - end).collect(), loss)
}

const ONE: LocalTraining = LocalTraining { steps: None, batch: None };

#[test]
fn a_user_adds_what_a_plain_loop_comes_to() {
    for (number, count) in [(0, 1), (1, 5), (2, 8)] {
        let records = Records::new(number, count);
        for local in [
            ONE,
            LocalTraining { batch: Some(3), ..ONE },
            several(1, 0.3, None),
            several(3, 0.5, None),
            several(7, 0.25, Some(2)),
            several(4, 0.5, Some(100)),
        ] {
            let (expected, loss) = update(&records, local);
            let (counts, unit, stats) = sum(std::slice::from_ref(&records), local, 8.0, 1);
            for (count, expected) in counts.iter().zip(&expected) {
                // Half a unit, and the rounding of weights and gradients in single precision, about 2^-24 for each of some dozen operations.
                let difference = (*count as f64 * unit - expected).abs();
                assert!(difference < 0.5 * unit + 2e-6, "{local:?}: {difference}");
            }
            assert!((f64::from(stats.losses[0]) - loss).abs() < 1e-5);
            let norm = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
            assert!((f64::from(stats.norms[0]) / norm - 1.0).abs() < 1e-4);
            assert_eq!((stats.unclipped, stats.not_finite), (1, 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A user more moves the sum by at most the clip norm, in whole numbers, whatever its records are and however it trains; and the sum has
    /// the same bits on any number of threads and in any order.
    #[test]
    fn a_user_moves_the_sum_by_no_more_than_the_bound(
        sizes in prop::collection::vec(1usize..6, 1..6),
        scale in prop::sample::select(vec![1e-3f32, 1.0, 100.0, 1e12]),
        steps in 0u64..4,
        learning_rate in prop::sample::select(vec![0.1f32, 30.0, 1e20]),
        batch in prop::sample::select(vec![None, Some(2)]),
        max_norm in prop::sample::select(vec![0.1f64, 1.0, 3.0]),
        threads in 1usize..4,
    ) {
        let mut users: Vec<Records> = sizes.iter().enumerate().map(|(number, &size)| Records::new(number, size)).collect();
        users[0].inputs.iter_mut().for_each(|value| *value *= scale);
        let local = LocalTraining {
            steps: (steps > 0).then_some(LocalSteps { count: steps, learning_rate }),
            batch,
        };
        let (with, unit, stats) = sum(&users, local, max_norm, 1);
        let (without, _, _) = sum(&users[1..], local, max_norm, 1);
        let moved: i128 = with.iter().zip(&without).map(|(a, b)| i128::from(a - b).pow(2)).sum();
        let most = (max_norm / unit).powi(2).floor() as i128;
        prop_assert!(moved <= most, "{moved} {most}");
        prop_assert_eq!(stats.losses.len(), users.len());

        let (again, _, same) = sum(&users, local, max_norm, threads);
        prop_assert_eq!(&with, &again);
        let bits = |stats: &StepStats| stats.losses.iter().chain(&stats.norms).map(|value| value.to_bits()).collect::<Vec<u32>>();
        prop_assert_eq!(bits(&stats), bits(&same));
        users.reverse();
        prop_assert_eq!(with, sum(&users, local, max_norm, threads).0);
    }
}

#[test]
fn a_user_whose_update_is_not_finite_adds_nothing_and_is_counted() {
    let mut users: Vec<Records> = (0..4).map(|number| Records::new(number, 3)).collect();
    let (alone, _, _) = sum(&[users[0].clone(), users[2].clone(), users[3].clone()], ONE, 1.0, 2);
    users[1].inputs[5] = f32::NAN;
    for local in [ONE, several(3, 0.1, None)] {
        let (counts, _, stats) = sum(&users, local, 1.0, 2);
        assert_eq!((stats.not_finite, stats.losses.len()), (1, 4));
        assert!(local != ONE || counts == alone);
    }
}

/// Without clipping, sums of plain numbers are added in the order of the users, whichever thread is done first.
#[test]
fn plain_sums_do_not_depend_on_threads() {
    let graph = graph();
    let users: Vec<Records> = (0..40).map(|number| Records::new(number, 1 + number % 7)).collect();
    let weights = |threads: usize| {
        let mut processor = UserProcessor::new(&graph, &[], several(2, 0.3, None), threads).unwrap();
        let rule = ClippingRule::new(&Clipping::Off, processor.layout()).unwrap();
        let mut learned = learned(&graph);
        let update = Update { noise: None, count: None, batch: 40, learning_rate: 1.0 };
        private_step(&mut processor, &mut learned, &mut shown(&users), &rule, &update).unwrap();
        learned.parameters.values().iter().map(|value| value.to_bits()).collect::<Vec<u32>>()
    };
    assert_eq!(weights(1), weights(3));
}

/// Nobody was drawn: the loader shows a batch without records, and there is noise as in every step.
#[test]
fn a_round_without_users_is_a_round() {
    let graph = graph();
    let nobody = Records { inputs: Vec::new(), classes: Vec::new() };
    let (counts, _, stats) = sum(std::slice::from_ref(&nobody), ONE, 1.0, 2);
    assert!(counts.iter().all(|&count| count == 0) && stats == StepStats::default());
    let mut processor = UserProcessor::new(&graph, &[], ONE, 2).unwrap();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, processor.layout()).unwrap();
    let (noise, key) = (Noise::new(1.0).unwrap(), MasterKey::from_seed(1).purpose(Purpose::Noise).step(0));
    let update = Update { noise: Some((&noise, &key)), count: None, batch: 4, learning_rate: 1.0 };
    let mut after = learned(&graph);
    private_step(&mut processor, &mut after, &mut shown(&[nobody]), &rule, &update).unwrap();
    let before = learned(&graph);
    let pairs = before.parameters.values().iter().zip(after.parameters.values());
    assert!(pairs.clone().all(|(before, after)| before != after));
    // An update needs a sum of its own.
    assert!(processor.update(&mut after, &update).is_err());
}

/// Hands out some users and then fails.
struct Broken<'r>(Vec<Batch<'r>>);

impl Microbatches for Broken<'_> {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        self.0.pop().map(Some).ok_or(StepError::NotFinite { what: "a test" })
    }
}

#[test]
fn a_fault_ends_the_step_for_all_threads() {
    let graph = graph();
    let users: Vec<Records> = (0..5).map(|number| Records::new(number, 2)).collect();
    for (clipping, bad) in [(Clipping::Off, false), (Clipping::Flat { max_norm: 1.0 }, true)] {
        let mut processor = UserProcessor::new(&graph, &[], ONE, 3).unwrap();
        let rule = ClippingRule::new(&clipping, processor.layout()).unwrap();
        let wrong = [CLASSES as u32, 0];
        let mut batches: Vec<Batch<'_>> = users.iter().map(Records::batch).collect();
        if bad {
            batches[2].targets = Targets::Classes(&wrong);
        }
        let error = processor.clipped_sum(&learned(&graph), &mut Broken(batches), &rule).unwrap_err();
        assert!(bad == matches!(error, StepError::Engine(_)) || matches!(error, StepError::NotFinite { .. }));
        assert!(processor.sum.is_none());
    }
}
