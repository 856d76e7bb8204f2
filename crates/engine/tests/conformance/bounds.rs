//! What a sample adds to a sum is never longer than the bound.

use std::cell::RefCell;

use dapple_engine::{Batch, Clipping, Targets};
use dapple_graph::op::Activation;
use dapple_graph::{Graph, Parameters, zoo};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::{Data, parameters};
use crate::generated::cases;
use crate::graphs::{flat_linear, layers, small_transformer, tokens};
use crate::subject::Subject;

/// The rules that have one bound for the whole gradient.
fn rules(max_norm: f64, graph: &Graph) -> [Clipping; 4] {
    let trained = graph.parameters().iter().filter(|parameter| parameter.trainable).count();
    let scales = (0..trained).map(|index| [7.0, 0.3][index % 2]).collect();
    [
        Clipping::Flat { max_norm },
        Clipping::PerLayer { max_norm },
        Clipping::Automatic { max_norm, stability: 0.01 },
        Clipping::Scaled { max_norm, scales },
    ]
}

/// Asserts that a single sample, with parameters of zero, does not add more than the bound.
fn bounded(subject: Subject, title: &str, graph: &Graph, batch: &Batch<'_>) {
    let mut opened = subject.planned_for(1).open(graph);
    for max_norm in [1e-6, 0.1, 1.0, 1e4] {
        for clipping in rules(max_norm, graph) {
            let rule = opened.rule(&clipping);
            // The values are whole numbers of units, which single precision holds exactly.
            let step = opened.step(&Parameters::zeros(graph), batch, &rule);
            let shares = step.length() / max_norm;
            assert!(shares <= 1.0, "{title}, {clipping:?}, {subject:?}: {shares} clip norms");
            assert_eq!(step.stats.not_finite, 0, "{title}, {clipping:?}, {subject:?}");
        }
    }
}

/// The views are two crops of one row of alternating pixels. Their gradients cancel except for one part in a million, and inner products in
/// single precision would lose all of it.
pub(crate) fn views_that_cancel_stay_within_the_bound(subjects: &[Subject]) {
    let graph = flat_linear(64, 10);
    let pixel = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 } * 1_048_576.0 + 64.0;
    let inputs: Vec<f32> = (0..64).chain(1..65).map(pixel).collect();
    let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[3, 3])) };
    for subject in subjects {
        bounded(*subject, "views that cancel", &graph, &batch);
        // It must not be clipped away either, if norms are raised for single precision alone, because what rounding may have added is a
        // small part of it.
        if !subject.on_card() {
            let clipping = Clipping::Flat { max_norm: 1.0 };
            let length = subject.step(&graph, &Parameters::zeros(&graph), &batch, &clipping).length();
            assert!(length > 0.9, "{subject:?}: {length} clip norms");
        }
    }
}

/// Columns of 8-bit grey values, normalised as an ordinary plan does.
fn stripes(low: f32, high: f32, size: usize, first: usize) -> Vec<f32> {
    let value = |column: usize| if column.is_multiple_of(2) { high } else { low };
    let normalised = |column: usize| (value(column) / 255.0 - 128.0 / 255.0) / 0.25;
    (0..size * size).map(|i| normalised(first + i % size)).collect()
}

pub(crate) fn stripes_and_white_images_stay_within_the_bound(subjects: &[Subject]) {
    let size = 64;
    let graph = flat_linear(size * size, 10);
    for (low, high) in [(60.0, 198.0), (37.0, 225.0), (0.0, 255.0), (255.0, 255.0), (127.0, 129.0)] {
        let mut inputs = stripes(low, high, size, 0);
        inputs.extend(stripes(low, high, size, 1));
        let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[1, 1])) };
        for subject in subjects {
            bounded(*subject, &format!("stripes of {low} and {high}"), &graph, &batch);
        }
    }
}

/// The samples whose gradients clipping leaves as they are, and no others, are counted. The bounds lie in the gaps between their norms.
pub(crate) fn samples_within_the_bound_are_counted(subjects: &[Subject]) {
    const SAMPLES: usize = 6;
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let (data, values) = (Data::new(&graph, SAMPLES, 1), parameters(&graph));
    for subject in subjects {
        let mut opened = subject.planned_for(SAMPLES).open(&graph);
        let mut count = |clipping: Clipping| {
            let rule = opened.rule(&clipping);
            opened.step(&values, &data.batch(), &rule).stats
        };
        let mut norms = count(Clipping::Flat { max_norm: 1e6 }).norms;
        norms.sort_by(f32::total_cmp);
        let mut told = 0;
        for (within, pair) in norms.windows(2).enumerate() {
            // Less than a thousandth is taken off a bound, and norms are rounded up by less.
            if pair[1] > 1.01 * pair[0] {
                let max_norm = f64::from(pair[0] * pair[1]).sqrt();
                assert_eq!(count(Clipping::Flat { max_norm }).unclipped, within + 1, "{subject:?}");
                told += 1;
            }
        }
        assert!(told > 1, "{subject:?}: {norms:?}");
        assert_eq!(count(Clipping::Flat { max_norm: f64::from(norms[0]) / 2.0 }).unclipped, 0, "{subject:?}");
        assert_eq!(count(Clipping::Off).unclipped, 0, "{subject:?}");
    }
}

/// This must hold for all pixels, be they huge, tiny, alternating or nearly equal, and for layers whose gradients are written down as well as
/// for others.
pub(crate) fn no_sample_adds_more_than_the_bound(subjects: &[Subject]) {
    let mut graphs = vec![("tokens".to_owned(), tokens())];
    for deferred in [false, true] {
        for standardise in [None, Some(1e-5)] {
            let name = format!("deferred {deferred}, standardised {standardise:?}");
            graphs.push((name, layers(standardise, deferred, 3, Activation::Tanh)));
        }
    }
    let mut kind = 0;
    for (name, graph) in graphs {
        let values = parameters(&graph);
        for views in 1..4 {
            let data = Data::new(&graph, 1, views);
            kind += 1;
            for subject in subjects {
                if let Err(error) = drawn_samples_are_bounded(*subject, &graph, &values, &data, kind) {
                    panic!("{name}, {views} views, {subject:?}: {error}");
                }
            }
        }
    }
}

/// Draws how large the pixels of a sample are, by how much they alternate, and the bound.
fn drawn_samples_are_bounded(
    subject: Subject,
    graph: &Graph,
    values: &Parameters,
    data: &Data,
    kind: u64,
) -> Result<(), impl std::fmt::Display> {
    let strategy = (-30.0..30.0, -3.0..24.0, 0usize..2, -6.0..4.0);
    let opened = RefCell::new(subject.planned_for(1).open(graph));
    // All cases share one executor, which on a card takes longer to make than they take to run.
    let count = if subject.on_card() { 70 } else { 3 };
    TestRunner::new(cases(count, kind)).run(&strategy, |drawn: (f64, f64, usize, f64)| {
        let (scale, shift, odd, bound) = drawn;
        let max_norm = 10f64.powf(bound);
        let value = |(i, value): (usize, &f32)| {
            let sign = if (i + odd).is_multiple_of(2) { 1.0 } else { -1.0 };
            ((f64::from(*value) + sign * shift.exp2()) * scale.exp2()) as f32
        };
        let inputs: Vec<f32> = data.inputs.iter().enumerate().map(value).collect();
        let batch = Batch { inputs: &inputs, ..data.batch() };
        for clipping in rules(max_norm, graph) {
            let rule = opened.borrow().rule(&clipping);
            let shares = opened.borrow_mut().step(values, &batch, &rule).length() / max_norm;
            prop_assert!(shares <= 1.0, "{clipping:?}: {shares} clip norms");
        }
        Ok(())
    })
}

/// A gradient that is longer than the bound is as long as the bound afterwards, except for what norms are raised by and what rounding takes.
pub(crate) fn a_long_gradient_is_clipped_to_the_bound(subjects: &[Subject]) {
    let mut models = vec![("small-cnn", zoo::small_cnn(&[1, 28, 28], 10))];
    if subjects.iter().any(|subject| subject.on_card()) {
        let group = zoo::Norm::Group(32);
        models.extend([
            ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10)),
            ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, group)),
            ("resnet-50", zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, group)),
            ("vgg-11", zoo::vgg(zoo::Vgg::V11, &[3, 64, 64], 10, zoo::Norm::Removed)),
            ("vit-ti-16", small_transformer()),
        ]);
    }
    let max_norm = 0.01;
    for (name, graph) in models {
        let graph = graph.unwrap();
        let (data, values) = (Data::new(&graph, 4, 1), parameters(&graph));
        let size: usize = graph.input_shape().iter().product();
        for subject in subjects {
            let mut opened = subject.planned_for(6).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm });
            // Each of 64 positions may be raised by as much as its factors are rounded. The tolerance is for positions that add to the norm
            // independently; here some cancel, so it is doubled.
            let less = 2.0 * subject.tolerance().raised + 64.0 * subject.factor_rounding() + rule.taken_off();
            for sample in 0..4 {
                let batch = data.part(sample..sample + 1, size);
                let shares = opened.step(&values, &batch, &rule).length() / max_norm;
                assert!(shares <= 1.0 && shares >= 1.0 - less, "{name}, {subject:?}: {shares} clip norms");
            }
        }
    }
}
