//! How well a model tells the class of an image.

use std::sync::Arc;

use dapple_data::{Dataset, Loader, LoaderOptions, Views};
use dapple_graph::Parameters;
use dapple_private::Executor;

use super::Evaluation;
use super::confusion::Confusion;
use super::shared::{dealt, own_part};
use crate::error::TrainError;
use crate::ranks::RankGroup;

/// The images that a classifier is evaluated on, and how it looks at them. If the views are crops, the probabilities of `grid * grid` crops
/// of each image are averaged.
#[derive(Clone, Copy)]
pub(crate) struct ShownImages<'s> {
    pub(crate) dataset: &'s Arc<dyn Dataset>,
    pub(crate) views: &'s Views,
    pub(crate) grid: u32,
    pub(crate) threads: usize,
    /// The processes that share the images.
    pub(crate) ranks: Option<&'s RankGroup>,
}

/// Evaluates a model.
pub(crate) fn evaluate(
    executor: &mut dyn Executor,
    parameters: &Parameters,
    images: ShownImages<'_>,
) -> Result<Evaluation, TrainError> {
    tally(images, |own| {
        let mut answers = Vec::new();
        ask(executor, parameters, own, |probabilities, label| {
            answers.push(ClassAnswer::of(&probabilities, label))
        })?;
        Ok(answers)
    })
}

/// Counts the answers to all images, of which each process asks for its part.
fn tally(
    images: ShownImages<'_>,
    asked: impl FnOnce(ShownImages<'_>) -> Result<Vec<ClassAnswer>, TrainError>,
) -> Result<Evaluation, TrainError> {
    let own = own_part(images.dataset, images.ranks);
    let answers = own.and_then(|own| asked(ShownImages { dataset: &own, ..images }));
    let answers = dealt(images.ranks, answers, ClassAnswer::bytes, ClassAnswer::from_bytes)?;
    let mut tally = ClassTally::new(images.dataset.classes() as usize);
    answers.iter().for_each(|answer| tally.count(answer));
    Ok(tally.finish())
}

/// Evaluates several models that answer together: the mean of their probabilities counts. Only one of them is in memory at a time.
pub(crate) fn evaluate_together(
    models: impl ExactSizeIterator<Item = Result<Box<dyn Executor>, TrainError>>,
    parameters: &Parameters,
    images: ShownImages<'_>,
) -> Result<Evaluation, TrainError> {
    let count = models.len() as f64;
    tally(images, |own| {
        let mut answers: Vec<(Vec<f64>, usize)> = Vec::new();
        for executor in models {
            let mut record = 0;
            ask(&mut *executor?, parameters, own, |probabilities, label| {
                if record == answers.len() {
                    answers.push((vec![0.0; probabilities.len()], label));
                }
                let mean = &mut answers[record].0;
                mean.iter_mut().zip(probabilities).for_each(|(mean, value)| *mean += value / count);
                record += 1;
            })?;
        }
        Ok(answers.iter().map(|(probabilities, label)| ClassAnswer::of(probabilities, *label)).collect())
    })
}

/// Asks a model about all images, and hands on the probabilities that it gives each, with its class.
fn ask(
    executor: &mut dyn Executor,
    parameters: &Parameters,
    images: ShownImages<'_>,
    mut answer: impl FnMut(Vec<f64>, usize),
) -> Result<(), TrainError> {
    let ShownImages { dataset, views, grid, threads, .. } = images;
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

/// What matters of the probabilities that a model gives an image.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ClassAnswer {
    label: u32,
    /// The likeliest class; then how many classes are likelier than the right one, and the probability of that.
    best: u32,
    likelier: u32,
    own: f64,
}

impl ClassAnswer {
    fn of(probabilities: &[f64], label: usize) -> Self {
        // What overflowed on its way says nothing: nothing is likelier than anything else, and nothing is right by not being less.
        let probabilities: Vec<f64> =
            probabilities.iter().map(|&p| if p.is_nan() { 0.0 } else { p }).collect();
        let own = probabilities[label];
        // Of equally likely classes the first counts as the likeliest.
        let likelier =
            probabilities.iter().enumerate().filter(|&(i, &p)| p > own || (p == own && i < label)).count();
        let best = probabilities
            .iter()
            .enumerate()
            .fold(0, |best, (i, &p)| if p > probabilities[best] { i } else { best });
        Self { label: label as u32, best: best as u32, likelier: likelier as u32, own }
    }

    fn bytes(&self) -> Vec<u8> {
        let counts = [self.label, self.best, self.likelier].into_iter().flat_map(u32::to_le_bytes);
        counts.chain(self.own.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (counts, own) = bytes.split_at_checked(12)?;
        let mut counts = counts.as_chunks::<4>().0.iter().map(|count| u32::from_le_bytes(*count));
        let (label, best, likelier) = (counts.next()?, counts.next()?, counts.next()?);
        Some(Self { label, best, likelier, own: f64::from_le_bytes(own.try_into().ok()?) })
    }
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

    fn count(&mut self, answer: &ClassAnswer) {
        self.records += 1;
        self.top5 += u64::from(answer.likelier < 5);
        self.loss -= answer.own.max(f64::MIN_POSITIVE).ln();
        self.confusion.count(answer.label as usize, answer.best as usize);
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
        let mut count = |probabilities: &[f64], label| {
            let answer = ClassAnswer::of(probabilities, label);
            assert_eq!(ClassAnswer::from_bytes(&answer.bytes()), Some(answer));
            tally.count(&answer);
        };
        // In turn, the right class is the likeliest, the sixth, and the fifth because of a tie with a later one.
        count(&[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 0);
        count(&[0.3, 0.2, 0.15, 0.12, 0.11, 0.07, 0.05], 5);
        count(&[0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.0], 4);
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

    /// An answer without a number was among the five likeliest for every class.
    #[test]
    fn what_is_no_number_is_no_answer() {
        let nothing = [f64::NAN; 7];
        assert_eq!([0, 5, 6].map(|label| ClassAnswer::of(&nothing, label).likelier), [0, 5, 6]);
        assert_eq!(ClassAnswer::of(&nothing, 6).best, 0);
        let overflowed = probabilities(&[0.0, f32::INFINITY, 1.0, 2.0, 3.0, 4.0, 5.0], 7);
        assert_eq!(ClassAnswer::of(&overflowed, 6).likelier, 6);
    }

    #[test]
    fn views_are_averaged_as_probabilities() {
        let mean = probabilities(&[0.0, 0.0, 1000.0, 0.0], 2);
        assert!((mean[0] - 0.75).abs() < 1e-12 && (mean[1] - 0.25).abs() < 1e-12, "{mean:?}");
    }
}
