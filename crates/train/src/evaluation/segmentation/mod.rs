//! How well a model tells the class of every pixel, on whole images at their own size.

mod sum;
mod tally;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use dapple_data::{DataError, Dataset, LabelMap, Target, Views, Whole};
use dapple_geometry::Size;
use dapple_graph::Parameters;
use dapple_plan::MapEvaluation;
use dapple_private::StepError;
use rayon::prelude::*;

use super::Evaluation;
use super::shared::own_part;
use crate::error::TrainError;
use crate::inference::Inference;
use crate::ranks::RankGroup;
use sum::Sum;
use tally::PixelTally;

/// The most values of views and answers in memory at once: 256 MiB.
const VALUES: usize = 1 << 26;

/// A model with weights that scores every class at every pixel.
pub(crate) struct Segmenter<'a> {
    pub(crate) inference: &'a mut Inference,
    pub(crate) parameters: &'a Parameters,
    pub(crate) views: &'a Views,
    pub(crate) method: MapEvaluation,
}

/// A window through which the model looks at one of several images.
struct EvaluationWindow {
    image: usize,
    origin: [u32; 2],
    size: Size,
}

impl Segmenter<'_> {
    /// The scores of each image, `[classes, height, width]` at the size at which the model sees it.
    pub(crate) fn scores(&mut self, images: &[Whole]) -> Result<Vec<Vec<f32>>, TrainError> {
        let classes = self.inference.classes();
        let channels = self.views.shape()[0];
        let mut sums: Vec<Sum> = images.iter().map(|image| Sum::new(classes, image.size())).collect();
        let windows = images.iter().enumerate().map(|(image, whole)| self.windows(image, whole));
        let windows: Vec<EvaluationWindow> =
            windows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        for group in windows.chunk_by(|one, next| one.size == next.size) {
            let Some(&EvaluationWindow { size, .. }) = group.first() else { continue };
            let positions = size.pixels() as usize;
            let shape = [channels, size.height() as usize, size.width() as usize];
            for piece in group.chunks((VALUES / (positions * (channels + classes)).max(1)).max(1)) {
                let mut inputs = vec![0.0; piece.len() * channels * positions];
                for (window, input) in piece.iter().zip(inputs.chunks_exact_mut(channels * positions)) {
                    images[window.image].window(window.origin, size, input);
                }
                let outputs = self.inference.forward(&shape, self.parameters, &inputs)?;
                for (window, output) in piece.iter().zip(outputs.chunks_exact(classes * positions)) {
                    sums[window.image].add(window, output);
                }
            }
        }
        Ok(sums.into_iter().map(Sum::mean).collect())
    }

    fn windows(&self, image: usize, whole: &Whole) -> Result<Vec<EvaluationWindow>, TrainError> {
        let MapEvaluation::Sliding { stride } = self.method else {
            return Ok(vec![EvaluationWindow { image, origin: [0, 0], size: whole.size() }]);
        };
        let size = self.views.view_size();
        let step = |length: u32| (f64::from(length) * stride).round().clamp(1.0, f64::from(length)) as u32;
        let origins = whole.windows(size, [step(size.width()), step(size.height())]);
        Ok(origins.into_iter().map(|origin| EvaluationWindow { image, origin, size }).collect())
    }

    /// The likeliest class of every pixel of an image, row by row at its own size.
    pub(crate) fn label(&mut self, whole: &Whole) -> Result<Vec<u8>, TrainError> {
        let scores = self.scores(std::slice::from_ref(whole))?;
        let classes = self.inference.classes();
        let mut labels = Vec::with_capacity(whole.original().pixels() as usize);
        for scores in &scores {
            whole.restore(scores, classes, |scores| labels.push(likeliest(scores) as u8));
        }
        Ok(labels)
    }

    /// Evaluates the model on every image of a data set, at the size of its label map. Pixels without a class do not count.
    /// The processes that share a run share the images.
    pub(crate) fn evaluate(
        &mut self,
        dataset: &Arc<dyn Dataset>,
        threads: usize,
        ranks: Option<&RankGroup>,
    ) -> Result<Evaluation, TrainError> {
        let own = own_part(dataset, ranks).and_then(|own| self.tally(&own, threads));
        PixelTally::together(own, ranks)?.finish()
    }

    /// The tally of all images of a data set.
    fn tally(&mut self, dataset: &Arc<dyn Dataset>, threads: usize) -> Result<PixelTally, TrainError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| StepError::Threads { threads, reason: error.to_string() })?;
        let classes = self.inference.classes();
        let mut tally = PixelTally::new(classes);
        let mut next = 0;
        while next < dataset.len() {
            let records = next..dataset.len().min(next + pool.current_num_threads());
            next = records.end;
            let views = self.views;
            let read = |record| read(&**dataset, views, record);
            let (images, maps): (Vec<Whole>, Vec<LabelMap>) = pool
                .install(|| records.into_par_iter().map(read).collect::<Vec<_>>())
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            for group in groups(&images, classes) {
                let scores = self.scores(&images[group.clone()])?;
                let answered = images[group.clone()].par_iter().zip(&maps[group]).zip(&scores);
                let one = |((whole, map), scores): ((&Whole, &LabelMap), &Vec<f32>)| {
                    PixelTally::of(whole, map, scores, classes)
                };
                for image in pool.install(|| answered.map(one).collect::<Vec<_>>()) {
                    tally.add(&image);
                }
            }
        }
        Ok(tally)
    }
}

/// Groups of images whose scores fit into memory at once.
fn groups(images: &[Whole], classes: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut values = 0;
    for (index, image) in images.iter().enumerate() {
        values += classes * image.size().pixels() as usize;
        match groups.last_mut() {
            Some(group) if values <= VALUES => group.end = index + 1,
            _ => {
                values = classes * image.size().pixels() as usize;
                groups.push(index..index + 1);
            }
        }
    }
    groups
}

fn read(dataset: &dyn Dataset, views: &Views, record: usize) -> Result<(Whole, LabelMap), DataError> {
    let image = dataset.read(record)?;
    let Target::Map(map) = dataset.target(record)? else {
        let place = dataset.place(record);
        return Err(DataError::TargetKind { place, found: "one class", expected: "a label map" });
    };
    if map.size() != image.size() {
        let place = dataset.place(record);
        return Err(DataError::LabelSize { place, found: map.size(), expected: image.size() });
    }
    let whole = views.whole(&image).map_err(|error| error.at(|| dataset.place(record)))?;
    Ok((whole, map))
}

/// The class with the highest score, or the first of equals.
fn likeliest(scores: &[f32]) -> usize {
    scores.iter().enumerate().fold(0, |best, (class, &score)| if score > scores[best] { class } else { best })
}
