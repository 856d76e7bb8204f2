//! What a sample adds to a sum: never more than the bound, the same bits in any company, nothing if it is not finite.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, cancelling_views, flat_linear, layers, parameters, specimens, stripes};
use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, Layout, Options, StepStats, Targets};
use dapple_graph::{Graph, GraphBuilder, Init, Loss, Op, Parameters, zoo};
use proptest::prelude::*;

/// The clipped sum and what is told of its samples.
fn clipped(
    graph: &Graph,
    values: &Parameters,
    batch: &Batch<'_>,
    clipping: &Clipping,
) -> (Vec<f32>, StepStats) {
    let mut executor = CpuExecutor::new(graph, Options { threads: 2, ..Options::default() }).unwrap();
    let rule = ClippingRule::new(clipping, executor.layout()).unwrap();
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(values).unwrap();
    let stats = loaded.clipped_sum(batch, &rule, &mut sum).unwrap();
    (loaded.gradient(sum).unwrap(), stats)
}

/// In double precision; the values of a single sample's sum are exact there.
fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn views_that_cancel_stay_within_the_bound() {
    let graph = flat_linear(64, 10);
    let inputs = cancelling_views();
    let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[3, 3])) };
    let (sum, stats) = clipped(&graph, &Parameters::zeros(&graph), &batch, &Clipping::Flat { max_norm: 1.0 });
    let length = norm(&sum);
    assert!(length <= 1.0, "{length} clip norms");
    // Nor is it clipped away: what rounding may have added is a small part of it.
    assert!(length > 0.9, "{length} clip norms");
    assert_eq!(stats.not_finite, 0);
}

#[test]
fn stripes_and_white_images_stay_within_the_bound() {
    let size = 64;
    let graph = flat_linear(size * size, 10);
    for (low, high) in [(60.0, 198.0), (37.0, 225.0), (0.0, 255.0), (255.0, 255.0), (127.0, 129.0)] {
        let mut inputs = stripes(low, high, size, 0);
        inputs.extend(stripes(low, high, size, 1));
        let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[1, 1])) };
        for clipping in [
            Clipping::Flat { max_norm: 0.1 },
            Clipping::PerLayer { max_norm: 0.1 },
            Clipping::Automatic { max_norm: 0.1, stability: 0.01 },
        ] {
            let (sum, stats) = clipped(&graph, &Parameters::zeros(&graph), &batch, &clipping);
            assert!(norm(&sum) <= 0.1, "{low} and {high}, {clipping:?}: {}", norm(&sum));
            assert_eq!(stats.not_finite, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the pixels: huge, tiny, alternating, equal.
    #[test]
    fn no_sample_adds_more_than_the_bound(
        deferred: bool,
        standardised: bool,
        views in 1usize..4,
        scale in -30i32..30,
        offset in -3i32..24,
        seed in 0u64..1000,
        max_norm in prop::sample::select(vec![1e-6, 0.3, 1.0, 7.0, 1e4]),
    ) {
        let graph = layers(standardised.then_some(1e-5), deferred, 3, Op::Tanh);
        let data = Data::new(&graph, 1, views);
        let shift = 2f32.powi(offset);
        let inputs: Vec<f32> = data
            .inputs
            .iter()
            .enumerate()
            .map(|(i, value)| {
                let sign = if (i as u64 + seed).is_multiple_of(2) { 1.0 } else { -1.0 };
                (value + sign * shift) * 2f32.powi(scale)
            })
            .collect();
        let batch = Batch { inputs: &inputs, ..data.batch() };
        for clipping in [
            Clipping::Flat { max_norm },
            Clipping::PerLayer { max_norm },
            Clipping::Automatic { max_norm, stability: 0.01 },
        ] {
            let (sum, _) = clipped(&graph, &parameters(&graph), &batch, &clipping);
            prop_assert!(norm(&sum) <= max_norm, "{:?}: {} of {max_norm}", clipping, norm(&sum));
        }
    }
}

/// The part of a sum that a sample adds is what it adds alone.
#[test]
fn a_sample_adds_the_same_bits_in_any_company() {
    let mut graphs = specimens();
    graphs.push(("wide resnet", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 8, 8], 4).unwrap()));
    let clipping = Clipping::Flat { max_norm: 0.7 };
    for (name, graph) in graphs {
        for views in [1, 2] {
            let data = Data::new(&graph, 7, views);
            let values = parameters(&graph);
            let mut executor =
                CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
            let rule = ClippingRule::new(&clipping, executor.layout()).unwrap();
            let mut of = |parts: &[(usize, usize)]| {
                let mut sum = executor.gradient_sum();
                let mut loaded = executor.load(&values).unwrap();
                for &(first, end) in parts {
                    let batch = data.part(first..end, data.inputs.len() / 7);
                    loaded.clipped_sum(&batch, &rule, &mut sum).unwrap();
                }
                loaded.gradient(sum).unwrap()
            };
            // The last alone, among all, and moved to the front: whole numbers of a unit, so differences are exact.
            let alone = of(&[(6, 7)]);
            let (all, others) = (of(&[(0, 7)]), of(&[(0, 6)]));
            let moved = of(&[(6, 7), (3, 6), (0, 3)]);
            // A projection of the whole sum follows where weights are standardised.
            let whole = !executor.layout().standardised();
            assert_eq!(all, moved, "{name}, {views} views");
            if whole {
                for ((all, others), alone) in all.iter().zip(&others).zip(&alone) {
                    assert_eq!(all - others, *alone, "{name}, {views} views");
                }
            }
        }
    }
}

/// More samples than whole numbers of 32 bits hold: all at once, cut otherwise and on other threads they make the same sum, which is that of
/// what small parts of them add, each alone where that does not take too long.
#[test]
fn many_samples_add_up_to_what_each_adds() {
    let mut graphs: Vec<(&str, Graph, usize)> =
        specimens().into_iter().take(5).map(|(name, graph)| (name, graph, 1)).collect();
    graphs.push(("deferred", layers(None, true, 3, Op::Tanh), 1));
    // A layer whose gradients stay pending for a while.
    graphs.push(("vast", flat_linear(1040, 1040), 500));
    // A bound that every gradient exceeds, so that counts are as large as they get.
    let clipping = Clipping::Flat { max_norm: 1e-4 };
    for (name, graph, part) in graphs {
        let samples = 1500;
        let data = Data::new(&graph, samples, 1);
        let (values, size) = (parameters(&graph), data.inputs.len() / samples);
        let of = |parts: &[(usize, usize)], options: Options| -> Vec<i64> {
            let mut executor = CpuExecutor::new(&graph, options).unwrap();
            let rule = ClippingRule::new(&clipping, executor.layout()).unwrap();
            let mut sum = executor.gradient_sum();
            let mut loaded = executor.load(&values).unwrap();
            for &(first, end) in parts {
                loaded.clipped_sum(&data.part(first..end, size), &rule, &mut sum).unwrap();
            }
            loaded.total(sum).unwrap().counts().unwrap().0.collect()
        };
        let one = Options { threads: 1, ..Options::default() };
        let whole = of(&[(0, samples)], one);
        assert_eq!(of(&[(1023, samples), (1000, 1023), (0, 1000)], one), whole, "{name}");
        assert_eq!(of(&[(0, samples)], Options { threads: 2, group: 700, ..one }), whole, "{name}");
        if Layout::new(&graph).standardised() {
            continue;
        }
        let mut executor = CpuExecutor::new(&graph, one).unwrap();
        let rule = ClippingRule::new(&clipping, executor.layout()).unwrap();
        let mut want = vec![0i128; whole.len()];
        for first in (0..samples).step_by(part) {
            let mut sum = executor.gradient_sum();
            let mut loaded = executor.load(&values).unwrap();
            loaded.clipped_sum(&data.part(first..first + part, size), &rule, &mut sum).unwrap();
            let alone = loaded.total(sum).unwrap();
            want.iter_mut().zip(alone.counts().unwrap().0).for_each(|(want, own)| *want += i128::from(own));
        }
        assert!(want.iter().zip(&whole).all(|(want, whole)| *want == i128::from(*whole)), "{name}");
    }
}

/// The same sample as often as one sum in 32 bits holds it, and beyond, with its whole bound in one coordinate.
#[test]
fn samples_of_one_mind_do_not_overflow() {
    let mut builder = GraphBuilder::new(&[1]);
    let input = builder.input();
    let output = builder.linear("head", input, 1, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    let graph = builder.finish(output, Loss::SquaredError).unwrap();
    // The largest number of units, just below a power of two.
    let clipping = Clipping::Flat { max_norm: 1.0f64.next_down() };
    for sign in [1.0, -1.0] {
        for samples in [1, 1024, 1025, 5000] {
            let (inputs, targets) = (vec![1e6; samples], vec![sign * 1e6; samples]);
            let batch = Batch::new(&inputs, Targets::Values(&targets));
            let (sum, _) = clipped(&graph, &Parameters::zeros(&graph), &batch, &clipping);
            // Its bias takes a millionth of it, and single precision a few more.
            let share = f64::from(sum[0]) / samples as f64 / -f64::from(sign);
            assert!(share <= 1.0 && share > 1.0 - 1e-5, "{samples}: {share}");
        }
    }
}

/// A pixel that is no number, behind which a ReLU makes zeros of everything: the outputs' gradients there are zero, and zero times it is again
/// no number. A norm that is taken to be finite would let it into the sum.
#[test]
fn pixels_that_are_no_numbers_are_not_swallowed() {
    let clipping = Clipping::Flat { max_norm: 1.0 };
    for (standardise, deferred) in [(None, true), (Some(1e-5), true), (None, false), (Some(1e-5), false)] {
        for window in [1, 3] {
            let graph = layers(standardise, deferred, window, Op::Relu);
            let data = Data::new(&graph, 1, 1);
            let values = parameters(&graph);
            for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for place in [0, data.inputs.len() / 2] {
                    let mut inputs = data.inputs.clone();
                    inputs[place] = poison;
                    let batch = Batch { inputs: &inputs, ..data.batch() };
                    let (sum, _) = clipped(&graph, &values, &batch, &clipping);
                    let length = norm(&sum);
                    assert!(length <= 1.0, "{standardise:?} {deferred} {window} {poison}: {length}");
                }
            }
        }
    }
}

#[test]
fn samples_that_are_not_finite_add_nothing() {
    let mut graphs = specimens();
    graphs.push(("wide resnet", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 8, 8], 4).unwrap()));
    graphs.push(("deferred", layers(None, true, 3, Op::Tanh)));
    let clipping = Clipping::Flat { max_norm: 0.7 };
    for (name, graph) in graphs {
        let data = Data::new(&graph, 5, 1);
        let values = parameters(&graph);
        let size = data.inputs.len() / 5;
        for poison in [f32::NAN, f32::INFINITY, f32::MAX] {
            let mut inputs = data.inputs.clone();
            inputs[2 * size..3 * size].fill(poison);
            let batch = Batch { inputs: &inputs, ..data.batch() };
            let (sum, stats) = clipped(&graph, &values, &batch, &clipping);
            assert!(sum.iter().all(|value| value.is_finite()), "{name}, {poison}");
            if stats.not_finite == 1 {
                let mut executor =
                    CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
                let rule = ClippingRule::new(&clipping, executor.layout()).unwrap();
                let mut others = executor.gradient_sum();
                let mut loaded = executor.load(&values).unwrap();
                for part in [0..2, 3..5] {
                    loaded.clipped_sum(&data.part(part, size), &rule, &mut others).unwrap();
                }
                assert_eq!(sum, loaded.gradient(others).unwrap(), "{name}, {poison}");
            } else {
                assert!(norm(&sum) <= 5.0 * 0.7);
            }
        }
    }
    // A loss without a bound: the gradient itself overflows.
    let mut builder = GraphBuilder::new(&[4]);
    let input = builder.input();
    let output = builder.linear("head", input, 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    let graph = builder.finish(output, Loss::SquaredError).unwrap();
    let targets = [1.0, 2.0, f32::MAX, f32::MAX];
    let batch = Batch::new(&[1e30; 8], Targets::Values(&targets));
    let (sum, stats) = clipped(&graph, &Parameters::zeros(&graph), &batch, &clipping);
    assert_eq!(stats.not_finite, 2);
    assert!(sum.iter().all(|&value| value == 0.0));
}
