//! A sample that has a number which is not finite adds nothing.

use dapple_engine::{Batch, Clipping, DropoutSource, Targets};
use dapple_graph::Parameters;
use dapple_graph::op::Activation;

use crate::common::{Data, parameters};
use crate::company::{SAMPLES, sum_of};
use crate::graphs::{layers, layers_and_models, regression, tokens};
use crate::subject::Subject;

/// A ReLU turns everything after a pixel that is not a number into zeros, so the outputs' gradients there are zero, and zero times the pixel
/// is again not a number. If the norm were taken to be finite, that would enter the sum.
pub(crate) fn pixels_that_are_no_numbers_are_not_swallowed(subjects: &[Subject]) {
    let mut graphs = vec![("tokens".to_owned(), tokens())];
    for (standardise, deferred) in [(None, true), (Some(1e-5), true), (None, false), (Some(1e-5), false)] {
        for window in [1, 3] {
            let name = format!("standardised {standardise:?}, deferred {deferred}, window {window}");
            graphs.push((name, layers(standardise, deferred, window, Activation::Relu)));
        }
    }
    for (name, graph) in graphs {
        let (data, values) = (Data::new(&graph, 1, 1), parameters(&graph));
        for subject in subjects {
            let mut opened = subject.planned_for(1).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm: 1.0 });
            for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for place in [0, data.inputs.len() / 2] {
                    let mut inputs = data.inputs.clone();
                    inputs[place] = poison;
                    let batch = Batch { inputs: &inputs, ..data.batch() };
                    let length = opened.step(&values, &batch, &rule).length();
                    assert!(length <= 1.0, "{name}, {poison}, {subject:?}: {length}");
                }
            }
        }
    }
}

/// Such a sample leaves the sum as it would be without it.
pub(crate) fn samples_that_are_not_finite_add_nothing(subjects: &[Subject]) {
    for (name, graph) in layers_and_models(subjects.iter().any(|subject| subject.on_card())) {
        let (data, values) = (Data::new(&graph, SAMPLES, 1), parameters(&graph));
        let size = data.inputs.len() / SAMPLES;
        let records: Vec<usize> = (0..SAMPLES).map(|sample| 3 + 10 * sample).collect();
        for subject in subjects {
            let mut opened = subject.planned_for(SAMPLES).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm: 0.7 });
            let others = sum_of(&mut opened, &values, &data, &[(0, 2), (3, SAMPLES)]);
            for poison in [f32::NAN, f32::INFINITY, f32::MAX] {
                for poisoned in [size, 1] {
                    let mut inputs = data.inputs.clone();
                    inputs[2 * size..2 * size + poisoned].fill(poison);
                    let dropout = Some(DropoutSource { seed: 5, records: &records });
                    let batch = Batch { inputs: &inputs, dropout, ..data.batch() };
                    let step = opened.step(&values, &batch, &rule);
                    let title = format!("{name}, {poisoned} values of {poison}, {subject:?}");
                    if step.stats.not_finite == 1 {
                        assert!(step.gradient == others, "{title}: the others' sum changed");
                    } else {
                        // An activation may have swallowed the number.
                        let most = 0.7 * SAMPLES as f64;
                        assert!(step.length() <= most && step.stats.not_finite == 0, "{title}");
                    }
                }
            }
        }
    }
}

/// The loss has no bound here, so the gradient itself overflows.
pub(crate) fn gradients_that_overflow_add_nothing(subjects: &[Subject]) {
    let graph = regression(4, 2);
    let targets = [1.0, 2.0, f32::MAX, f32::MAX];
    let batch = Batch::new(&[1e30; 8], Targets::Values(&targets));
    for subject in subjects {
        let clipping = Clipping::Flat { max_norm: 0.7 };
        let step = subject.planned_for(2).step(&graph, &Parameters::zeros(&graph), &batch, &clipping);
        assert_eq!(step.stats.not_finite, 2, "{subject:?}");
        assert!(step.gradient.iter().all(|&value| value == 0.0), "{subject:?}");
    }
}
