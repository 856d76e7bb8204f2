//! Compares every operation with the double-precision reference.

use dapple_engine::{Batch, Clipping, DropoutSource, StepStats, Targets};
use dapple_graph::Graph;

use crate::agreement::{agree, close};
use crate::common::{Data, parameters, specimen, uniform};
use crate::graphs::{deferred_standardised, filtered, layer_scales, maxima, operations, pooled_tokens, vast};
use crate::subject::Subject;

const FLAT: Clipping = Clipping::Flat { max_norm: 0.7 };

/// Asserts that all subjects agree with the reference on a batch.
pub(crate) fn all_agree(
    subjects: &[Subject],
    title: &str,
    graph: &Graph,
    batch: &Batch<'_>,
    clipping: &Clipping,
) {
    let values = parameters(graph);
    let mut reference = Subject::Reference.open(graph);
    let rule = reference.rule(clipping);
    let want = reference.step(&values, batch, &rule);
    for subject in subjects {
        let subject = subject.planned_for(want.stats.losses.len());
        let title = format!("{title}, {clipping:?}, {subject:?}");
        agree(&title, subject, &subject.step(graph, &values, batch, clipping), &want, &rule);
    }
}

pub(crate) fn clipped_sums_agree_for_every_operation(subjects: &[Subject]) {
    for (name, graph) in operations() {
        let values = parameters(&graph);
        let mut reference = Subject::Reference.open(&graph);
        let mut opened: Vec<_> =
            subjects.iter().map(|subject| (subject, subject.planned_for(5).open(&graph))).collect();
        let count = graph.parameters().iter().filter(|p| p.trainable).count();
        for views in [1, 3] {
            let data = Data::new(&graph, 5, views);
            let dropout = Some(DropoutSource { seed: 5, records: &[3, 14, 15, 92, 6] });
            let batch = Batch { dropout: dropout.filter(|_| name.ends_with("dropout")), ..data.batch() };
            for clipping in [
                Clipping::Off,
                FLAT,
                Clipping::PerLayer { max_norm: 0.5 },
                Clipping::Automatic { max_norm: 1.0, stability: 0.01 },
                Clipping::Scaled { max_norm: 0.5, scales: (0..count).map(|i| [0.5, 3.0][i % 2]).collect() },
                Clipping::PerGroup { groups: (0..count).map(|i| i % 2).collect(), max_norms: vec![0.2, 0.4] },
            ] {
                let rule = reference.rule(&clipping);
                let want = reference.step(&values, &batch, &rule);
                for (subject, opened) in &mut opened {
                    let title = format!("{name}, {views} views, {clipping:?}, {subject:?}");
                    agree(&title, **subject, &opened.step(&values, &batch, &rule), &want, &rule);
                }
            }
        }
    }
}

pub(crate) fn sums_of_two_views_agree(subjects: &[Subject]) {
    for (name, graph) in operations() {
        let data = Data::new(&graph, 3, 2);
        all_agree(subjects, name, &graph, &data.batch(), &FLAT);
    }
}

pub(crate) fn forward_passes_agree(subjects: &[Subject]) {
    for (name, graph) in operations() {
        let data = Data::new(&graph, 5, 1);
        let values = parameters(&graph);
        let want = Subject::Reference.open(&graph).forward(&values, &data.inputs);
        for subject in subjects {
            let got = subject.planned_for(5).open(&graph).forward(&values, &data.inputs);
            close(&format!("{name}, {subject:?}"), &got, &want, subject.tolerance().plain, 0.0);
        }
    }
}

pub(crate) fn groups_of_parameters_are_clipped_apart(subjects: &[Subject]) {
    let graph = specimen("deep");
    let data = Data::new(&graph, 4, 1);
    let count = graph.parameters().iter().filter(|p| p.trainable).count();
    let clipping =
        Clipping::PerGroup { groups: (0..count).map(|i| i % 3).collect(), max_norms: vec![0.2, 0.4, 0.1] };
    all_agree(subjects, "groups", &graph, &data.batch(), &clipping);
}

pub(crate) fn layer_scales_agree(subjects: &[Subject]) {
    let graph = layer_scales();
    for (views, clipping) in [(1, Clipping::Off), (1, FLAT), (3, FLAT)] {
        let data = Data::new(&graph, 5, views);
        all_agree(subjects, "layer scales", &graph, &data.batch(), &clipping);
    }
}

pub(crate) fn vast_layers_agree(subjects: &[Subject]) {
    let graph = vast();
    for (samples, views) in [(1, 1), (7, 1), (2, 2)] {
        let data = Data::new(&graph, samples, views);
        all_agree(subjects, "vast", &graph, &data.batch(), &FLAT);
    }
}

pub(crate) fn activations_of_maxima_agree(subjects: &[Subject]) {
    for shared in [false, true] {
        let graph = maxima(shared);
        for views in [1, 2] {
            let data = Data::new(&graph, 5, views);
            all_agree(subjects, &format!("maxima, {views} views"), &graph, &data.batch(), &FLAT);
        }
    }
}

pub(crate) fn filtered_convolutions_agree(subjects: &[Subject]) {
    let graph = filtered();
    for views in [1, 2] {
        let data = Data::new(&graph, 5, views);
        all_agree(subjects, &format!("filtered, {views} views"), &graph, &data.batch(), &FLAT);
    }
}

/// The norm of a deferred standardised layer reads the outputs of all views, when the backward passes of the first views are already over.
pub(crate) fn deferred_standardised_layers_agree_over_views(subjects: &[Subject]) {
    let graph = deferred_standardised();
    let data = Data::new(&graph, 2, 3);
    all_agree(subjects, "standardised views", &graph, &data.batch(), &FLAT);
}

pub(crate) fn probabilities_agree(subjects: &[Subject]) {
    let graph = specimen("smoothing");
    let inputs: Vec<f32> = (0..12).map(|i| uniform("input", i) as f32).collect();
    let mixed = [0.1, 0.6, 0.2, 0.1, 0.0, 0.5, 0.5, 0.0];
    let batch = Batch::new(&inputs, Targets::Probabilities(&mixed));
    all_agree(subjects, "mixed", &graph, &batch, &Clipping::Flat { max_norm: 0.3 });
}

pub(crate) fn frozen_parameters_leave_the_rest_unchanged(subjects: &[Subject]) {
    let mut graph = specimen("deep");
    let everything = Data::new(&graph, 3, 1);
    graph.set_trainable(|name| name.starts_with("conv3") || name.starts_with("head"));
    all_agree(subjects, "frozen", &graph, &everything.batch(), &Clipping::Flat { max_norm: 0.3 });
    let needs = graph.needs_gradient();
    let lowest = graph.nodes().iter().position(|node| node.name == "conv3").unwrap();
    assert!(needs[..lowest].iter().all(|needs| !needs) && needs[lowest]);
}

/// Gradients that nobody asks for are left out, and this does not change the others.
pub(crate) fn parts_of_pooled_tokens_train_alone(subjects: &[Subject]) {
    let mut graph = pooled_tokens();
    let data = Data::new(&graph, 3, 2);
    for part in ["attention.rel_pos_h", "query", "key.pool", "value", "norm"] {
        graph.set_trainable(|name| name.starts_with(part));
        all_agree(subjects, &format!("{part} of pooled tokens"), &graph, &data.batch(), &FLAT);
    }
}

pub(crate) fn an_empty_batch_adds_nothing(subjects: &[Subject]) {
    for name in ["deep", "pixels", "squares"] {
        let graph = specimen(name);
        let (data, values) = (Data::new(&graph, 0, 2), parameters(&graph));
        for subject in subjects {
            let mut opened = subject.planned_for(4).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm: 1.0 });
            let step = opened.step(&values, &data.batch(), &rule);
            assert!(step.gradient.iter().all(|g| *g == 0.0), "{name}, {subject:?}");
            assert_eq!(step.stats, StepStats::default(), "{name}, {subject:?}");
            assert!(opened.forward(&values, &[]).is_empty(), "{name}, {subject:?}");
        }
    }
}
