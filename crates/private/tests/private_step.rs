//! A private step is its four parts, one after the other: the clipped sum, the noise, the division by the expected batch, the update. Here
//! they are done by hand with what the engine offers, and every bit of what is learned must be the same. So it must be where the sums of
//! successive steps are released together.
#![allow(clippy::unwrap_used)]

use std::vec::IntoIter;

use dapple_data::{MasterKey, Purpose, StepKey};
use dapple_engine::{
    Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, StepStats, Targets, Total, UpdateRule,
};
use dapple_graph::{Graph, GraphBuilder, Init, Loss, Parameters, zoo};
use dapple_private::{
    CorrelatedSums, Executor, Learned, Microbatches, Noise, OptimiserSettings, Processor, StepError, Update,
    private_step,
};

/// The number of samples in each microbatch of each step. There are steps of several microbatches, of none at all, and of one.
const STEPS: [&[usize]; 6] = [&[], &[5, 3, 4], &[], &[1], &[7], &[2]];
/// The expected batch, which differs from what every step draws, so that dividing by the number drawn would show.
const BATCH: u64 = 6;
const RATE: f64 = 0.3;
const CLIPPING: Clipping = Clipping::Flat { max_norm: 0.7 };
/// Coefficients of the sums of successive steps, in multiples of the unit behind them.
const COEFFICIENTS: [i32; 3] = [256, 117, -40];
const UNIT: f64 = 1.0 / 256.0;

/// How the sum of a step becomes a gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Release {
    Plain,
    Noisy,
    Together,
}

const RELEASES: [Release; 3] = [Release::Plain, Release::Noisy, Release::Together];

/// The records of one step.
struct Records {
    inputs: Vec<f32>,
    classes: Vec<u32>,
}

impl Records {
    fn new(graph: &Graph, samples: usize, step: usize) -> Self {
        let size: usize = graph.input_shape().iter().product();
        let pixel = |i: usize| ((i * 7919 + step * 131) % 1013) as f32 / 506.5 - 1.0;
        let classes = (0..samples).map(|i| ((i + step) % 10) as u32).collect();
        Self { inputs: (0..samples * size).map(pixel).collect(), classes }
    }

    fn microbatches(&self, sizes: &[usize]) -> Vec<Batch<'_>> {
        let size = self.inputs.len() / self.classes.len().max(1);
        let mut first = 0;
        let part = |&count: &usize| {
            let own = first..first + count;
            first += count;
            let inputs = &self.inputs[own.start * size..own.end * size];
            Batch::new(inputs, Targets::Classes(&self.classes[own]))
        };
        sizes.iter().map(part).collect()
    }
}

struct Parts<'r>(IntoIter<Batch<'r>>);

impl Microbatches for Parts<'_> {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        Ok(self.0.next())
    }
}

/// What is learned when the parts are done by hand.
#[derive(Clone)]
struct ByHand {
    parameters: Parameters,
    first: Vec<f32>,
    second: Vec<f32>,
    mean: Option<Vec<f32>>,
    /// The noise's part of the second moments.
    noise: f64,
    release: Release,
    /// The sums of all steps so far, what a one stands for in those that are not zero, and what was learned from them.
    sums: Vec<Vec<i64>>,
    unit: f64,
    gradients: Vec<Vec<f32>>,
}

impl ByHand {
    fn new(settings: &OptimiserSettings, layout: &Layout, parameters: &Parameters, release: Release) -> Self {
        let (first, second) = settings.rule.state_len(layout.len());
        let mean = settings.mean_decay.map(|_| parameters.values().to_vec());
        let (first, second) = (vec![0.0; first], vec![0.0; second]);
        let (sums, gradients) = (Vec::new(), Vec::new());
        Self {
            parameters: parameters.clone(),
            first,
            second,
            mean,
            noise: 0.0,
            release,
            sums,
            unit: 1.0,
            gradients,
        }
    }

    /// What the noise of a step adds to its part of the second moments, by its deviation and the expected batch. Of sums that are released
    /// together, the noise is that of all steps so far, times the coefficients of `1 / c`.
    fn remember(&mut self, rule: UpdateRule, noise: Option<(&Noise, &StepKey)>) {
        if let UpdateRule::CorrectedAdam { betas: [_, beta], .. } = rule {
            let mut inverse = vec![1.0];
            let steps = if self.release == Release::Together { self.sums.len() } else { 0 };
            for t in 1..=steps {
                let before = (1..=t.min(2)).map(|k| f64::from(COEFFICIENTS[k]) * UNIT * inverse[t - k]);
                inverse.push(-before.sum::<f64>());
            }
            let grown: f64 = inverse.iter().map(|d| d * d).sum();
            let variance = noise.map_or(0.0, |(noise, _)| noise.variance() / (BATCH * BATCH) as f64);
            self.noise = beta * self.noise + (1.0 - beta) * (variance * grown);
        }
    }

    /// The gradient that is learned from a sum, before it is divided by the batch.
    fn released(&mut self, mut sum: Total, noise: Option<(&Noise, &StepKey)>) -> Vec<f32> {
        let (Release::Together, Some((noise, key))) = (self.release, noise) else {
            return noisy(&mut sum, noise).to_vec();
        };
        let (counts, unit) = sum.counts().unwrap();
        let counts: Vec<i64> = counts.collect();
        if counts.iter().any(|&count| count != 0) {
            self.unit = unit;
        }
        let len = counts.len();
        self.sums.push(counts);
        let back = |rows: usize, k: usize| rows.checked_sub(k + 1);
        let together: Vec<i64> = (0..len)
            .map(|i| {
                let terms = COEFFICIENTS.iter().enumerate();
                terms.filter_map(|(k, &c)| Some(i64::from(c) * self.sums[back(self.sums.len(), k)?][i])).sum()
            })
            .collect();
        let mut gradient = vec![0.0; len];
        noise.add(&mut gradient, &together, self.unit * UNIT, key).unwrap();
        for (i, value) in gradient.iter_mut().enumerate() {
            let mut exact = f64::from(*value);
            for (k, &c) in COEFFICIENTS[1..].iter().enumerate() {
                if let Some(row) = back(self.gradients.len(), k) {
                    exact -= f64::from(c) * UNIT * f64::from(self.gradients[row][i]);
                }
            }
            *value = exact as f32;
        }
        self.gradients.push(gradient.clone());
        gradient
    }

    /// Does the last three parts of the `count`-th step: noise, division and update.
    fn update(
        &mut self,
        settings: &OptimiserSettings,
        layout: &Layout,
        sum: Total,
        noise: Option<(&Noise, &StepKey)>,
        count: u64,
    ) {
        self.remember(settings.rule, noise);
        let share = 1.0 / BATCH as f32;
        let gradient: Vec<f32> = self.released(sum, noise).iter().map(|value| value * share).collect();
        for (index, entry) in layout.entries().iter().enumerate() {
            let rate = RATE * settings.rate_shares.get(index).unwrap_or(&1.0);
            let numbers = settings.rule.numbers(rate, settings.weight_decay, 1, count, self.noise);
            let own = |state: &[f32]| if state.is_empty() { 0..0 } else { entry.range.clone() };
            let (first, second) = (own(&self.first), own(&self.second));
            let values = self.parameters.get_mut(entry.id);
            let (first, second) = (&mut self.first[first], &mut self.second[second]);
            settings.rule.update(&numbers, values, &gradient[entry.range.clone()], first, second);
        }
        if let (Some(mean), Some(decay)) = (&mut self.mean, settings.mean_decay) {
            let rest = mean_rest(decay, count);
            let pairs = mean.iter_mut().zip(self.parameters.values());
            pairs.for_each(|(mean, value)| *mean += rest * (value - *mean));
        }
    }
}

/// The sum in single precision, with noise if there is any.
fn noisy<'t>(sum: &'t mut Total, noise: Option<(&Noise, &StepKey)>) -> &'t mut [f32] {
    match noise {
        Some((noise, key)) => {
            sum.make_plain(|bits, carried, unit| noise.add(bits, carried, unit, key)).unwrap()
        }
        None => sum.to_single(),
    }
}

/// How far a running mean moves towards the parameters, as a share: its decay grows to its value as `(1 + n) / (10 + n)`.
fn mean_rest(decay: f64, count: u64) -> f32 {
    let n = count as f64;
    (1.0 - decay.min((1.0 + n) / (10.0 + n))) as f32
}

/// Rules of all kinds for a model; the last lets every other parameter move by a share of the rate.
fn settings(graph: &Graph) -> [OptimiserSettings; 4] {
    let entries = Layout::new(graph).entries().len();
    let shares: Vec<f64> = (0..entries).map(|entry| if entry % 2 == 0 { 0.75 } else { 1.0 }).collect();
    let sgd = |momentum, nesterov| UpdateRule::Sgd { momentum, nesterov };
    let adam = UpdateRule::Adam { betas: [0.9, 0.99], eps: 1e-6 };
    let corrected = UpdateRule::CorrectedAdam { betas: [0.9, 0.99], floor: 1e-4 };
    [
        (sgd(0.0, false), 0.0, None, Vec::new()),
        (sgd(0.8, true), 0.01, Some(0.9), Vec::new()),
        (adam, 0.001, Some(0.5), Vec::new()),
        (corrected, 0.001, None, shares),
    ]
    .map(|(rule, weight_decay, mean_decay, rate_shares)| OptimiserSettings {
        rule,
        weight_decay,
        mean_decay,
        rate_shares,
    })
}

/// A small model, the same model partly frozen, and one so large that threads share the work that follows the sum.
fn graphs() -> [Graph; 3] {
    let small = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let mut frozen = small.clone();
    let last = small.parameters().last().unwrap().name.clone();
    frozen.set_trainable(|name| name.split('.').next() == last.split('.').next());
    let mut builder = GraphBuilder::new(&[1000]);
    let input = builder.input();
    let large = builder.linear("linear", input, 100, Init::XavierUniform, Init::Constant(0.0)).unwrap();
    [small, frozen, builder.finish(large, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap()]
}

/// Asserts that the values are the same bit by bit.
fn same(title: &str, what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{title}: {what}");
    let other = got.iter().zip(want).filter(|(got, want)| got.to_bits() != want.to_bits()).count();
    assert_eq!(other, 0, "{title}: {what} of {} values", want.len());
}

fn compare(title: &str, learned: &Learned, want: &ByHand) {
    same(title, "parameters", learned.parameters.values(), want.parameters.values());
    let state = learned.optimiser.state();
    same(title, "first moments", &state.first, &want.first);
    same(title, "second moments", &state.second, &want.second);
    assert_eq!(state.noise.to_bits(), want.noise.to_bits(), "{title}: the noise's part");
    let mean = learned.mean.as_ref().map(|mean| mean.parameters().values());
    assert_eq!(mean.is_some(), want.mean.is_some(), "{title}");
    same(title, "mean", mean.unwrap_or_default(), want.mean.as_deref().unwrap_or_default());
}

/// Takes all steps with an executor, does their parts by hand as well, and compares.
fn hold<E: Executor>(
    graph: &Graph,
    title: &str,
    settings: &OptimiserSettings,
    release: Release,
    executor: &mut E,
    mut by_hand: impl FnMut(
        &mut ByHand,
        &[Batch<'_>],
        &ClippingRule,
        Option<(&Noise, &StepKey)>,
        u64,
    ) -> StepStats,
) {
    let layout = Layout::new(graph);
    let rule = ClippingRule::new(&CLIPPING, &layout).unwrap();
    let noise = Noise::new(0.7 * 1.1).unwrap();
    let keys = MasterKey::from_seed(3).purpose(Purpose::Noise);
    let start = Parameters::init(graph, 5);
    let private = release != Release::Plain;
    let correlated = (release == Release::Together).then(|| CorrelatedSums::new(&COEFFICIENTS, UNIT));
    let mut learned = Learned { correlated, ..Learned::new(settings, &layout, start.clone()) };
    let mut want = ByHand::new(settings, &layout, &start, release);
    for (step, sizes) in STEPS.into_iter().enumerate() {
        let records = Records::new(graph, sizes.iter().sum(), step);
        let microbatches = records.microbatches(sizes);
        let key = keys.step(step as u64);
        let before = learned.parameters.clone();
        let noise = private.then_some((&noise, &key));
        let stats = by_hand(&mut want, &microbatches, &rule, noise, step as u64 + 1);
        let update = Update { noise, count: None, batch: BATCH, learning_rate: RATE };
        let mut parts = Parts(microbatches.into_iter());
        let got = private_step(executor, &mut learned, &mut parts, &rule, &update).unwrap();
        executor.fetch(&mut learned).unwrap();
        let title = format!("{title}, {settings:?}, {release:?}, step {step}");
        assert_eq!(got, stats, "{title}");
        compare(&title, &learned, &want);
        // Noise moves the parameters even where no record was drawn.
        let moved = learned.parameters.values() != before.values();
        assert!(moved || !private && sizes.is_empty(), "{title}: nothing was learned");
    }
}

#[test]
fn a_step_of_the_processor_is_its_four_parts() {
    for (index, graph) in graphs().iter().enumerate() {
        for settings in settings(graph) {
            for release in RELEASES {
                let mut processor = Processor::new(graph, 2).unwrap();
                // One thread by hand and two in the step, because the number of threads must change nothing.
                let mut engine =
                    CpuExecutor::new(graph, CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
                let layout = Layout::new(graph);
                let title = format!("graph {index}");
                hold(
                    graph,
                    &title,
                    &settings,
                    release,
                    &mut processor,
                    |own, batches, rule, noise, count| {
                        let mut sum = engine.gradient_sum();
                        let mut loaded = engine.load(&own.parameters).unwrap();
                        let mut stats = StepStats::default();
                        for batch in batches {
                            stats.join(loaded.clipped_sum(batch, rule, &mut sum).unwrap());
                        }
                        let total = loaded.total(sum).unwrap();
                        own.update(&settings, &layout, total, noise, count);
                        stats
                    },
                );
            }
        }
    }
}

/// Even by hand, the card adds up and updates; but the noise by hand is the host's, which the card's must equal.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_step_of_a_card_is_its_four_parts() {
    use dapple_engine::cuda::{Convolutions, CudaAddition, CudaExecutor, CudaOptions, StateValues};
    use dapple_private::Cards;

    // With measured times the two executors might choose different convolutions, and round differently.
    let options = CudaOptions { convolutions: Convolutions::Own, batch: 12, ..CudaOptions::default() };
    for (index, graph) in graphs().iter().enumerate() {
        for settings in settings(graph) {
            for release in RELEASES {
                let mut cards =
                    Cards::new((graph, &[]), &[0], options, CudaAddition::Host, "cuda:0".to_owned()).unwrap();
                let mut engine = CudaExecutor::new(graph, options).unwrap();
                let layout = Layout::new(graph);
                let title = format!("graph {index}");
                hold(graph, &title, &settings, release, &mut cards, |own, batches, rule, noise, count| {
                    own.remember(settings.rule, noise);
                    let mut sum = engine.gradient_sum().unwrap();
                    let mut loaded = engine.load(&own.parameters).unwrap();
                    let mut stats = StepStats::default();
                    for batch in batches {
                        stats.join(loaded.clipped_sum(batch, rule, &mut sum).unwrap());
                    }
                    let total = loaded.total(sum).unwrap();
                    let sum = engine.gradient_sum_of(&own.released(total, noise)).unwrap();
                    let ByHand { parameters, first, second, mean, noise: part, .. } = own;
                    let values =
                        StateValues { first: first.clone(), second: second.clone(), mean: mean.clone() };
                    let shares = [1.0, 0.75];
                    let shared = !settings.rate_shares.is_empty();
                    let groups: Vec<usize> = (0..layout.entries().len())
                        .map(|entry| usize::from(shared && entry % 2 == 0))
                        .collect();
                    let mut state = engine.state(&values, &groups).unwrap();
                    let numbers = shares.map(|share| {
                        settings.rule.numbers(RATE * share, settings.weight_decay, BATCH, count, *part)
                    });
                    let used = groups.iter().max().map_or(0, |last| last + 1);
                    let mean_rest = settings.mean_decay.map_or(0.0, |decay| mean_rest(decay, count));
                    let update = dapple_engine::cuda::CudaUpdate {
                        noise: None,
                        rule: settings.rule,
                        numbers: &numbers[..used],
                        mean_rest,
                    };
                    let mut loaded = engine.resident().unwrap();
                    loaded.update(sum, &mut state, &update).unwrap();
                    loaded.fetch(parameters).unwrap();
                    StateValues { first: *first, second: *second, mean: *mean } =
                        state.fetch(&mut engine).unwrap();
                    stats
                });
            }
        }
    }
}
