//! A step on private and public parts is the noisy sum of the private ones with the public sum in it or behind it. Here it is done by hand,
//! and every bit of what is learned must be the same.
#![allow(clippy::unwrap_used)]

use std::vec::IntoIter;

use dapple_data::{MasterKey, Purpose, StepKey};
use dapple_engine::{
    Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, Targets, Total, UpdateRule,
};
use dapple_graph::{Graph, IGNORED, Parameters, zoo};
use dapple_private::{
    Learned, Microbatches, Noise, OptimiserSettings, Processor, PublicParts, StepError, Update, masked_step,
};

const BATCH: u64 = 6;
const CLIP: f64 = 0.7;

struct Parts<'r>(IntoIter<Batch<'r>>);

impl Microbatches for Parts<'_> {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        Ok(self.0.next())
    }
}

/// The parts of some records: pixels, and a class or none.
struct Records(Vec<f32>, Vec<u32>);

impl Records {
    fn new(graph: &Graph, classes: &[u32], seed: usize) -> Self {
        let size: usize = graph.input_shape().iter().product();
        let pixel = |i: usize| ((i * 7919 + seed * 131) % 1013) as f32 / 506.5 - 1.0;
        Self((0..classes.len() * size).map(pixel).collect(), classes.to_vec())
    }

    fn batch(&self) -> Vec<Batch<'_>> {
        if self.1.is_empty() { Vec::new() } else { vec![Batch::new(&self.0, Targets::Classes(&self.1))] }
    }
}

fn graph() -> Graph {
    zoo::small_cnn(&[1, 28, 28], 10).unwrap()
}

fn rule(layout: &Layout, bound: Option<f64>) -> ClippingRule {
    let clipping = bound.map_or(Clipping::Off, |max_norm| Clipping::Flat { max_norm });
    ClippingRule::new(&clipping, layout).unwrap()
}

fn total(parameters: &Parameters, records: &Records, bound: Option<f64>) -> Total {
    let mut engine = CpuExecutor::new(&graph(), CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
    let rule = rule(engine.layout(), bound);
    let mut sum = engine.gradient_sum();
    let mut loaded = engine.load(parameters).unwrap();
    records.batch().iter().for_each(|batch| _ = loaded.clipped_sum(batch, &rule, &mut sum).unwrap());
    loaded.total(sum).unwrap()
}

fn settings() -> OptimiserSettings {
    let rule = UpdateRule::Sgd { momentum: 0.0, nesterov: false };
    OptimiserSettings { rule, weight_decay: 0.0, mean_decay: None, rate_shares: Vec::new() }
}

/// What is learned in one step with a learning rate of one.
fn learned(
    records: (&Records, &Records),
    public: (Option<f64>, f32),
    noise: Option<(&Noise, &StepKey)>,
) -> Result<Vec<f32>, StepError> {
    let graph = graph();
    let mut processor = Processor::new(&graph, 2).unwrap();
    let layout = Layout::new(&graph);
    let mut learned = Learned::new(&settings(), &layout, Parameters::init(&graph, 5));
    let private = noise.map(|_| CLIP);
    let (own, others) = (rule(&layout, private), rule(&layout, public.0));
    let mut parts = Parts(records.0.batch().into_iter());
    let mut public_parts = Parts(records.1.batch().into_iter());
    let update = Update { noise, count: None, batch: BATCH, learning_rate: 1.0 };
    let public = PublicParts { microbatches: &mut public_parts, rule: &others, weight: public.1 };
    masked_step(&mut processor, &mut learned, (&mut parts, &own), public, &update)?;
    Ok(learned.parameters.values().to_vec())
}

fn plain(total: &mut Total, noise: Option<(&Noise, &StepKey)>) -> Vec<f32> {
    match noise {
        Some((noise, key)) => {
            total.make_plain(|bits, carried, unit| noise.add(bits, carried, unit, key)).unwrap().to_vec()
        }
        None => total.to_single().to_vec(),
    }
}

/// Records with and without a part, and no records at all.
fn cases() -> Vec<(Records, Records)> {
    let graph = graph();
    let of = |classes: &[u32], seed| Records::new(&graph, classes, seed);
    vec![
        (of(&[1, 2, IGNORED, 3], 1), of(&[4, 5], 2)),
        (of(&[], 1), of(&[4, 5, IGNORED], 2)),
        (of(&[IGNORED, IGNORED], 1), of(&[4], 2)),
        (of(&[1, 2], 1), of(&[], 2)),
        (of(&[], 1), of(&[], 2)),
    ]
}

#[test]
fn a_step_is_what_its_parts_are_by_hand() {
    let graph = graph();
    let first = Parameters::init(&graph, 5);
    let key = MasterKey::from_seed(7).purpose(Purpose::Noise).step(3);
    let noise = Noise::new(1.5 * CLIP).unwrap();
    for (private, public) in cases() {
        for noise in [Some((&noise, &key)), None] {
            for (bound, weight) in
                [(None, 1.0), (None, 0.25), (Some(2.3 * CLIP), 1.0), (Some(0.01 * CLIP), 1.0)]
            {
                if noise.is_none() && bound.is_some() {
                    continue;
                }
                let mut sum = total(&first, &private, noise.map(|_| CLIP));
                let mut others = total(&first, &public, bound);
                let gradient = match bound {
                    Some(_) => {
                        sum.join(&others).unwrap();
                        plain(&mut sum, noise)
                    }
                    None => {
                        let mut gradient = plain(&mut sum, noise);
                        let others = others.to_single().to_vec();
                        gradient.iter_mut().zip(others).for_each(|(sum, public)| *sum += weight * public);
                        gradient
                    }
                };
                let layout = Layout::new(&graph);
                let mut want = first.clone();
                for entry in layout.entries() {
                    let values = want.get_mut(entry.id).iter_mut().zip(&gradient[entry.range.clone()]);
                    values.for_each(|(value, gradient)| *value -= gradient * (1.0 / BATCH as f32));
                }
                let got = learned((&private, &public), (bound, weight), noise).unwrap();
                let apart = got.iter().zip(want.values()).map(|(got, want)| (got - want).abs());
                assert!(apart.fold(0.0, f32::max) <= 1e-7, "{bound:?}, {weight}");
            }
        }
    }
}

/// What a bounded public sum adds is in the noisy sum to the last digit: nothing is left over from which the two could be told apart.
#[test]
fn bounded_public_gradients_leave_no_digits_beside_the_lattice() {
    let graph = graph();
    let key = MasterKey::from_seed(7).purpose(Purpose::Noise).step(3);
    let noise = Noise::new(1.5 * CLIP).unwrap();
    let private = Records::new(&graph, &[1, 2, 3], 1);
    let public = Records::new(&graph, &[4, 5], 2);
    let first = Parameters::init(&graph, 5);
    let mut sum = total(&first, &private, Some(CLIP));
    sum.join(&total(&first, &public, Some(0.3 * CLIP))).unwrap();
    let noisy = plain(&mut sum, Some((&noise, &key)));
    assert!(noisy.iter().all(|value| (f64::from(*value) / noise.step()).fract() == 0.0));
}

#[test]
fn a_bounded_sum_has_no_weight() {
    let graph = graph();
    let records = || Records::new(&graph, &[1], 1);
    let key = MasterKey::from_seed(7).purpose(Purpose::Noise).step(3);
    let noise = Noise::new(CLIP).unwrap();
    let refused = learned((&records(), &records()), (Some(CLIP), 0.5), Some((&noise, &key))).unwrap_err();
    assert!(refused.to_string().contains("weight"), "{refused}");
}
