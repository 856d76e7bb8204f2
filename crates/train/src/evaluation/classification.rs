//! How well a model tells the class of an image.

use std::sync::Arc;

use dapple_data::{Dataset, Loader, LoaderOptions, Views};
use dapple_graph::Parameters;
use dapple_private::Executor;

use super::Evaluation;
use super::confusion::Confusion;
use crate::error::TrainError;

/// The images that a classifier is evaluated on, and how it looks at them. If the views are crops, the probabilities of `grid * grid` crops
/// of each image are averaged.
#[derive(Clone, Copy)]
pub(crate) struct ShownImages<'s> {
    pub(crate) dataset: &'s Arc<dyn Dataset>,
    pub(crate) views: &'s Views,
    pub(crate) grid: u32,
    pub(crate) threads: usize,
}

/// Evaluates a model.
pub(crate) fn evaluate(
    executor: &mut dyn Executor,
    parameters: &Parameters,
    images: ShownImages<'_>,
) -> Result<Evaluation, TrainError> {
    let mut tally = ClassTally::new(images.dataset.classes() as usize);
    ask(executor, parameters, images, |probabilities, label| tally.count(&probabilities, label))?;
    Ok(tally.finish())
}

/// Evaluates several models that answer together: the mean of their probabilities counts. Only one of them is in memory at a time.
pub(crate) fn evaluate_together(
    models: impl ExactSizeIterator<Item = Result<Box<dyn Executor>, TrainError>>,
    parameters: &Parameters,
    images: ShownImages<'_>,
) -> Result<Evaluation, TrainError> {
    let count = models.len() as f64;
    let mut answers: Vec<(Vec<f64>, usize)> = Vec::new();
    for executor in models {
        let mut record = 0;
        ask(&mut *executor?, parameters, images, |probabilities, label| {
            if record == answers.len() {
                answers.push((vec![0.0; probabilities.len()], label));
            }
            let mean = &mut answers[record].0;
            mean.iter_mut().zip(probabilities).for_each(|(mean, value)| *mean += value / count);
            record += 1;
        })?;
    }
    let mut tally = ClassTally::new(images.dataset.classes() as usize);
    answers.iter().for_each(|(probabilities, label)| tally.count(probabilities, *label));
    Ok(tally.finish())
}

/// Asks a model about all images, and hands on the probabilities that it gives each, with its class.
fn ask(
    executor: &mut dyn Executor,
    parameters: &Parameters,
    images: ShownImages<'_>,
    mut answer: impl FnMut(Vec<f64>, usize),
) -> Result<(), TrainError> {
    let ShownImages { dataset, views, grid, threads } = images;
    let classes = dataset.classes() as usize;
    let options = LoaderOptions { threads, ..LoaderOptions::default() };
    let loader = Loader::evaluate(Arc::clone(dataset), views.clone(), grid, options)?;
    let mut loaded = executor.load(parameters)?;
    for microbatch in loader {
        let microbatch = microbatch?;
        let outputs = loaded.forward(&microbatch.inputs)?;
        let record_len = classes * microbatch.views;
        let labels = microbatch.labels.classes().expect("records have one class each in evaluation");
        let labels = labels.iter().step_by(microbatch.views.max(1));
        for (outputs, &label) in outputs.chunks_exact(record_len.max(1)).zip(labels) {
            answer(probabilities(outputs, classes), label as usize);
        }
    }
    Ok(())
}

/// The mean of the softmax over all views.
pub(crate) fn probabilities(outputs: &[f32], classes: usize) -> Vec<f64> {
    let mut mean = vec![0.0; classes];
    let views = outputs.len() / classes.max(1);
    for view in outputs.chunks_exact(classes.max(1)) {
        let largest = view.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponentials: Vec<f64> = view.iter().map(|&output| f64::from(output - largest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        mean.iter_mut().zip(exponentials).for_each(|(mean, value)| *mean += value / sum / views as f64);
    }
    mean
}

struct ClassTally {
    records: u64,
    top5: u64,
    loss: f64,
    classes: usize,
    confusion: Confusion,
}

impl ClassTally {
    fn new(classes: usize) -> Self {
        Self { records: 0, top5: 0, loss: 0.0, classes, confusion: Confusion::new(classes) }
    }

    fn count(&mut self, probabilities: &[f64], label: usize) {
        let own = probabilities[label];
        // Of equally likely classes the first counts as the likeliest.
        let rank =
            probabilities.iter().enumerate().filter(|&(i, &p)| p > own || (p == own && i < label)).count();
        let best = probabilities
            .iter()
            .enumerate()
            .fold(0, |best, (i, &p)| if p > probabilities[best] { i } else { best });
        self.records += 1;
        self.top5 += u64::from(rank < 5);
        self.loss -= own.max(f64::MIN_POSITIVE).ln();
        self.confusion.count(label, best);
    }

    fn finish(self) -> Evaluation {
        let records = self.records.max(1) as f64;
        Evaluation {
            records: self.records,
            accuracy: self.confusion.accuracy().unwrap_or(0.0),
            class_accuracy: self.confusion.mean_recall(),
            measure: None,
            top5: (self.classes > 5).then_some(self.top5 as f64 / records),
            loss: self.loss / records,
            per_class: (0..self.classes).map(|class| self.confusion.recall(class)).collect(),
            confusion: self.confusion.rows(),
            overlap: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_what_a_reader_would() {
        let mut tally = ClassTally::new(7);
        // In turn, the right class is the likeliest, the sixth, and the fifth because of a tie with a later one.
        tally.count(&[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 0);
        tally.count(&[0.3, 0.2, 0.15, 0.12, 0.11, 0.07, 0.05], 5);
        tally.count(&[0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.0], 4);
        let evaluation = tally.finish();
        assert_eq!(evaluation.accuracy, 1.0 / 3.0);
        assert_eq!(evaluation.top5, Some(2.0 / 3.0));
        assert_eq!(evaluation.confusion[5][0], 1);
        // Three of the seven classes occur, and one of these is found.
        assert_eq!(evaluation.class_accuracy, Some(1.0 / 3.0));
        assert_eq!(evaluation.per_class[..2], [Some(1.0), None]);
        let loss = -(0.4f64.ln() + 0.07f64.ln() + 0.1f64.ln()) / 3.0;
        assert!((evaluation.loss - loss).abs() < 1e-12);
    }

    #[test]
    fn views_are_averaged_as_probabilities() {
        let mean = probabilities(&[0.0, 0.0, 1000.0, 0.0], 2);
        assert!((mean[0] - 0.75).abs() < 1e-12 && (mean[1] - 0.25).abs() < 1e-12, "{mean:?}");
    }
}
