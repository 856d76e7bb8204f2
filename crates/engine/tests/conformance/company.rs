//! What a sample adds depends on no other sample: it has the same bits in any company, at any place and in sums of any size.

use dapple_engine::{Batch, Clipping, DropoutSource, Layout, Targets};
use dapple_graph::op::Activation;
use dapple_graph::{Graph, Parameters};

use crate::common::{Data, parameters, specimens};
use crate::graphs::{flat_linear, layers, layers_and_models, regression};
use crate::subject::{Opened, Subject};

/// How many samples have their bits compared.
pub(crate) const SAMPLES: usize = 7;
const FLAT: Clipping = Clipping::Flat { max_norm: 0.7 };

/// The sum over some parts of the data, with one call for each. Whatever the batch is, a sample is the same record, so dropout treats it the
/// same.
pub(crate) fn sum_of(
    opened: &mut Opened<'_>,
    values: &Parameters,
    data: &Data,
    parts: &[(usize, usize)],
) -> Vec<f64> {
    let records: Vec<usize> = (0..SAMPLES).map(|sample| 3 + 10 * sample).collect();
    let batches: Vec<Batch<'_>> = parts
        .iter()
        .map(|&(first, end)| {
            let dropout = Some(DropoutSource { seed: 5, records: &records[first..end] });
            Batch { dropout, ..data.part(first..end, data.inputs.len() / SAMPLES) }
        })
        .collect();
    let rule = opened.rule(&FLAT);
    opened.steps(values, &batches, &rule).gradient
}

pub(crate) fn a_sample_adds_the_same_bits_in_any_company(subjects: &[Subject]) {
    for (name, graph) in layers_and_models(subjects.iter().any(|subject| subject.on_card())) {
        let values = parameters(&graph);
        for views in [1, 2] {
            let data = Data::new(&graph, SAMPLES, views);
            // Several views take the same paths, so the first subject will do.
            for subject in &subjects[..if views > 1 { 1 } else { subjects.len() }] {
                let mut opened = subject.planned_for(SAMPLES).open(&graph);
                let mut of = |parts: &[(usize, usize)]| sum_of(&mut opened, &values, &data, parts);
                let title = format!("{name}, {views} views, {subject:?}");
                // First all samples at once; then in parts from the last to the first; then one by one, each in the first place.
                let all = of(&[(0, SAMPLES)]);
                assert!(all == of(&[(6, SAMPLES), (3, 6), (0, 3)]), "{title}: turned round");
                let singles: Vec<_> = (0..SAMPLES).map(|i| (i, i + 1)).collect();
                assert!(all == of(&singles), "{title}: one by one");
                // Sums are whole numbers of a unit, so differences are exact, unless weights are standardised and the sum is projected.
                if !Layout::new(&graph).standardised() {
                    let (others, alone) = (of(&[(0, 6)]), of(&[(6, SAMPLES)]));
                    let same =
                        all.iter().zip(&others).zip(&alone).all(|((all, others), own)| all - others == *own);
                    assert!(same, "{title}: the last one adds something else among the others");
                }
            }
        }
    }
}

/// What a model says about a sample has the same bits at every place and beside any others, if as many samples are shown at once.
pub(crate) fn a_sample_says_the_same_in_any_company(subjects: &[Subject]) {
    for (name, graph) in layers_and_models(subjects.iter().any(|subject| subject.on_card())) {
        let values = parameters(&graph);
        let data = Data::new(&graph, SAMPLES, 1);
        let size = data.inputs.len() / SAMPLES;
        let turned: Vec<f32> = data.inputs.chunks(size).rev().flatten().copied().collect();
        for subject in subjects {
            let mut opened = subject.planned_for(SAMPLES).open(&graph);
            let all = opened.forward(&values, &data.inputs);
            let len = all.len() / SAMPLES;
            let back = opened.forward(&values, &turned);
            for sample in 0..SAMPLES {
                let own = &all[sample * len..][..len];
                let title = format!("{name}, {subject:?}, sample {sample}");
                assert!(own == &back[(SAMPLES - 1 - sample) * len..][..len], "{title}: turned round");
                // Zeros are what a call is filled up with.
                let mut alone = vec![0.0; data.inputs.len()];
                alone[..size].copy_from_slice(&data.inputs[sample * size..][..size]);
                assert!(own == &opened.forward(&values, &alone)[..len], "{title}: among zeros");
            }
        }
    }
}

/// With more samples than whole numbers of 32 bits hold, the sum is the same for all at once and for any cuts, and it is the sum of what
/// small parts add, which are single samples if that does not take too long. How a processor divides the work changes nothing.
pub(crate) fn many_samples_add_up_to_what_each_adds(subjects: &[Subject]) {
    let mut graphs: Vec<(&str, Graph, usize)> =
        specimens().into_iter().take(5).map(|(name, graph)| (name, graph, 1)).collect();
    graphs.push(("deferred", layers(None, true, 3, Activation::Tanh), 1));
    graphs.push(("written", layers(None, false, 3, Activation::Tanh), 500));
    // This layer's gradients stay pending for a while.
    graphs.push(("vast", flat_linear(1040, 1040), 500));
    // Every gradient exceeds this bound, so that counts are as large as they get.
    let clipping = Clipping::Flat { max_norm: 1e-4 };
    for (name, graph, part) in graphs {
        let values = parameters(&graph);
        let mut divided: Option<Vec<i64>> = None;
        for subject in subjects {
            let (samples, part) = if subject.on_card() { (2500, 500) } else { (1500, part) };
            let data = Data::new(&graph, samples, 1);
            let size = data.inputs.len() / samples;
            let mut opened = subject.planned_for(samples).open(&graph);
            let rule = opened.rule(&clipping);
            let mut of = |parts: &[(usize, usize)]| {
                let batches: Vec<_> = parts.iter().map(|&(first, end)| data.part(first..end, size)).collect();
                opened.counts(&values, &batches, &rule)
            };
            let whole = of(&[(0, samples)]);
            assert!(whole.iter().any(|count| *count != 0), "{name}, {subject:?}");
            if let Some(first) = divided.as_ref().filter(|_| !subject.on_card()) {
                assert!(*first == whole, "{name}, {subject:?}: divided otherwise");
                continue;
            }
            let turned = of(&[(1023, samples), (1000, 1023), (0, 1000)]);
            assert!(turned == whole, "{name}, {subject:?}: cut otherwise");
            if !Layout::new(&graph).standardised() {
                let mut added = vec![0i128; whole.len()];
                for first in (0..samples).step_by(part) {
                    let own = of(&[(first, first + part)]);
                    added.iter_mut().zip(own).for_each(|(added, own)| *added += i128::from(own));
                }
                let same = added.iter().zip(&whole).all(|(added, whole)| *added == i128::from(*whole));
                assert!(same, "{name}, {subject:?}: not what the parts add");
            }
            divided = Some(whole);
        }
    }
}

/// The same sample, with its whole bound in one coordinate, is added as often as a sum in 32 bits can hold it, and more often.
pub(crate) fn samples_of_one_mind_do_not_overflow(subjects: &[Subject]) {
    let graph = regression(1, 1);
    // Just below a power of two, a bound has the most units.
    let clipping = Clipping::Flat { max_norm: 1.0f64.next_down() };
    for subject in subjects {
        for sign in [1.0, -1.0] {
            for samples in [1, 1024, 1025, 5000] {
                let (inputs, targets) = (vec![1e6; samples], vec![sign * 1e6; samples]);
                let batch = Batch::new(&inputs, Targets::Values(&targets));
                let step =
                    subject.planned_for(samples).step(&graph, &Parameters::zeros(&graph), &batch, &clipping);
                // The bias takes a millionth of the bound, and single precision a few millionths more.
                let share = step.gradient[0] / samples as f64 / -f64::from(sign);
                assert!(share <= 1.0 && share > 1.0 - 1e-5, "{samples}, {subject:?}: {share}");
            }
        }
    }
}
