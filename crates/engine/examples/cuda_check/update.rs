//! What follows the sum: noise, the optimisers' rules, and a group of cards.

use dapple_engine::cuda::{
    Convolutions, CudaAddition, CudaExecutor, CudaGroup, CudaOptions, LatticeNoise, StateValues, Update,
};
use dapple_engine::{Clipping, UpdateRule};
use dapple_graph::{Graph, GraphBuilder, Init, Parameters, zoo};

use crate::common::{self, Data, uniform};
use crate::report::Report;
use crate::run;

pub(crate) fn check(report: &mut Report, _: bool) {
    noise(report);
    rules(report);
    group(report);
}

/// Sums that lie where rounding is hardest, against mpmath, bit by bit.
fn noise(report: &mut Report) {
    let mut lines = include_str!("../../src/cuda/goldens/noise.txt").lines();
    let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let key: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&head[0][2 * i..2 * i + 2], 16).unwrap()).collect();
    let key: [u8; 32] = key.try_into().unwrap();
    let (lattice, deviation) = (head[1].parse().unwrap(), head[2].parse().unwrap());
    let number = |bits: &str| f32::from_bits(u32::from_str_radix(bits, 16).unwrap());
    let pairs: Vec<(f32, f32)> =
        lines.map(|line| line.split_once(' ').map(|(x, y)| (number(x), number(y))).unwrap()).collect();
    // A linear layer with as many weights as there are sums.
    let mut b = GraphBuilder::new(&[pairs.len() / 2 - 1]);
    let output = b.linear("linear", b.input(), 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    let graph = b.finish(output, common::CLASSES).unwrap();
    let mut executor = CudaExecutor::new(&graph, CudaOptions::default()).expect("the card opened before");
    let sums: Vec<f32> = pairs.iter().map(|(x, _)| *x).collect();
    let mut sum = executor.gradient_sum_of(&sums).unwrap();
    let mut state = executor.state(&StateValues::default()).unwrap();
    executor.load(&Parameters::init(&graph, 1)).unwrap();
    let noise = LatticeNoise { key: &key, lattice, deviation };
    let mut loaded = executor.resident().unwrap();
    let got = loaded.add_noise(&mut sum, &mut state, &noise).and_then(|()| loaded.gradient(sum)).unwrap();
    let wrong = got.iter().zip(&pairs).filter(|(got, (_, want))| got.to_bits() != want.to_bits()).count();
    println!("noise: {} values, {wrong} differ from mpmath's in a bit", pairs.len());
    report.expect(wrong == 0, || format!("noise: {wrong} of {} values are wrong", pairs.len()));

    let mut broken = sums;
    broken[7] = f32::INFINITY;
    let mut sum = executor.gradient_sum_of(&broken).unwrap();
    let failed = executor.resident().unwrap().add_noise(&mut sum, &mut state, &noise);
    report.expect(failed.is_err(), || "noise: an infinite sum passed".into());
    for (lattice, deviation) in [(0.3, 1000.0), (0.5, 3000.0), (0.0, 1000.0), (0.5, f64::NAN)] {
        let mut sum = executor.gradient_sum().unwrap();
        let noise = LatticeNoise { key: &key, lattice, deviation };
        let refused = executor.resident().unwrap().add_noise(&mut sum, &mut state, &noise);
        report.expect(refused.is_err(), || format!("noise: {deviation} steps of {lattice} passed"));
    }
}

/// A model in double precision.
struct Host {
    values: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    mean: Vec<f64>,
}

impl Host {
    /// One update from the formulas. Every value of the small network trains, in the order of its parameters.
    fn update(&mut self, gradient: &[f32], update: &Update<'_>) {
        for (i, sum) in gradient.iter().enumerate() {
            let numbers = &update.numbers;
            let rate = f64::from(numbers.rate);
            let g = f64::from(*sum) * f64::from(numbers.share);
            let direction = match update.rule {
                UpdateRule::Sgd { momentum: 0.0, .. } => rate * g,
                UpdateRule::Sgd { nesterov, .. } => {
                    let momentum = f64::from(numbers.momentum);
                    self.first[i] = momentum * self.first[i] + g;
                    rate * if nesterov { g + momentum * self.first[i] } else { self.first[i] }
                }
                UpdateRule::Adam { .. } => {
                    let [b1, b2] = numbers.betas.map(f64::from);
                    let [r1, r2] = numbers.rest.map(f64::from);
                    self.first[i] = b1 * self.first[i] + r1 * g;
                    self.second[i] = b2 * self.second[i] + r2 * g * g;
                    let scale = self.second[i].sqrt() * f64::from(numbers.root) + f64::from(numbers.eps);
                    rate * self.first[i] / scale
                }
            };
            self.values[i] = self.values[i] * f64::from(numbers.keep) - direction;
            self.mean[i] += f64::from(update.mean_rest) * (self.values[i] - self.mean[i]);
        }
    }
}

fn rules(report: &mut Report) {
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let data = Data::new(&graph, 6, 1);
    let clipping = Clipping::Flat { max_norm: 0.7 };
    let adam = UpdateRule::Adam { betas: [0.9, 0.99], eps: 1e-6 };
    let sgd = |momentum, nesterov| UpdateRule::Sgd { momentum, nesterov };
    for (rule, rate) in [(sgd(0.0, false), 0.3), (sgd(0.8, false), 0.3), (sgd(0.8, true), 0.3), (adam, 0.01)]
    {
        let options = CudaOptions { batch: 6, ..CudaOptions::default() };
        let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
        let clipped = crate::rule(&clipping, executor.layout());
        let mut parameters = Parameters::init(&graph, 5);
        let len = executor.layout().len();
        let lens = rule.state_len(len);
        let start: Vec<f32> = parameters.values().to_vec();
        let numbers = |name, len| (0..len).map(|i| 0.01 * uniform(name, i).abs() as f32).collect::<Vec<_>>();
        let values = StateValues {
            first: numbers("first", lens.0),
            second: numbers("second", lens.1),
            mean: Some(start.clone()),
        };
        let padded = |values: &[f32]| {
            let mut values = crate::wide(values);
            values.resize(len, 0.0);
            values
        };
        let mut host = Host {
            values: crate::wide(&start),
            first: padded(&values.first),
            second: padded(&values.second),
            mean: crate::wide(&start),
        };
        let mut state = executor.state(&values).unwrap();
        executor.load(&parameters).unwrap();
        for count in 0..3 {
            let numbers = rule.numbers(rate, 0.001 / rate, 6, count + 1);
            let update = Update { noise: None, rule, numbers, mean_rest: 0.1 };
            let mut sums = [executor.gradient_sum().unwrap(), executor.gradient_sum().unwrap()];
            let mut loaded = executor.resident().unwrap();
            for sum in &mut sums {
                loaded.clipped_sum(&data.batch(), &clipped, sum).unwrap();
            }
            let [seen, used] = sums;
            host.update(&loaded.gradient(seen).unwrap(), &update);
            loaded.update(used, &mut state, &update).unwrap();
            loaded.fetch(&mut parameters).unwrap();
            compare(report, &format!("{rule:?} parameters {count}"), parameters.values(), &host.values);
        }
        let remembered = state.fetch(&mut executor).unwrap();
        compare(report, &format!("{rule:?} first"), &remembered.first, &host.first[..lens.0]);
        compare(report, &format!("{rule:?} second"), &remembered.second, &host.second[..lens.1]);
        compare(report, &format!("{rule:?} mean"), &remembered.mean.unwrap_or_default(), &host.mean);
        executor.resident().unwrap().exchange_mean(&mut state).unwrap();
        executor.resident().unwrap().fetch(&mut parameters).unwrap();
        compare(report, &format!("{rule:?} exchanged"), parameters.values(), &host.mean);
    }
}

/// A dozen roundings of single precision, of 6e-8 each, over three updates.
fn compare(report: &mut Report, name: &str, got: &[f32], want: &[f64]) {
    let largest = want.iter().fold(1e-30f64, |largest, value| largest.max(value.abs()));
    let difference =
        got.iter().zip(want).fold(0.0f64, |worst, (got, want)| worst.max((f64::from(*got) - want).abs()));
    report.expect(got.len() == want.len() && difference <= 1e-6 * largest, || {
        format!("{name}: {:.1e}", difference / largest)
    });
}

/// A group of one card makes what the card makes alone, bit by bit where both take the same algorithms.
fn group(report: &mut Report) {
    let graph: Graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
    let data = Data::new(&graph, 6, 1);
    let clipping = Clipping::Flat { max_norm: 0.7 };
    let options = CudaOptions { convolutions: Convolutions::Own, batch: 6, ..CudaOptions::default() };
    let mut group = match CudaGroup::new(&graph, &[0], options, CudaAddition::Nccl) {
        Ok(group) => group,
        Err(error) => return println!("group: skipped: {error}"),
    };
    let mut alone = CudaExecutor::new(&graph, options).expect("the card opened before");
    let want = run(&mut alone, &common::parameters(&graph), &data.batch(), &clipping).unwrap();
    group.load(&common::parameters(&graph)).unwrap();
    let rule = crate::rule(&clipping, group.layout());
    let mut sum = group.gradient_sum().unwrap();
    let stats = group.clipped_sum(&data.batch(), &rule, &mut sum).unwrap();
    let gradient = group.gradient(sum).unwrap();
    report.expect(gradient == want.0, || "group: another gradient than one card's".to_owned());
    report.expect(stats == want.1, || "group: other losses or norms than one card's".to_owned());
    // Noise once: the update is the gradient plus what one key gives, be it to whole numbers or to what they stand for.
    let key = [7; 32];
    let noise = LatticeNoise { key: &key, lattice: 0.0009765625, deviation: 1500.0 };
    let plain = UpdateRule::Sgd { momentum: 0.0, nesterov: false };
    let numbers = plain.numbers(1.0, 0.0, 1, 1);
    let update = Update { noise: Some(noise), rule: plain, numbers, mean_rest: 0.0 };
    let mut state = group.state(&StateValues::default()).unwrap();
    let mut sum = group.gradient_sum().unwrap();
    group.clipped_sum(&data.batch(), &rule, &mut sum).unwrap();
    group.update(sum, &mut state, &update).unwrap();
    let mut got = common::parameters(&graph);
    group.fetch(&mut got, &state).unwrap();
    let mut state = alone.state(&StateValues::default()).unwrap();
    let sum = alone.gradient_sum_of(&gradient).unwrap();
    let mut loaded = alone.load(&common::parameters(&graph)).unwrap();
    loaded.update(sum, &mut state, &update).unwrap();
    let mut want = common::parameters(&graph);
    loaded.fetch(&mut want).unwrap();
    let same = got.values().iter().zip(want.values()).filter(|(a, b)| a == b).count();
    report.expect(same == got.values().len(), || {
        format!("group: {same} of {} parameters are those of one card", got.values().len())
    });
    println!("group of one card: {same} of {} parameters have the same bits", got.values().len());
}
