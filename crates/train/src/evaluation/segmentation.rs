//! How well a model tells the class of every pixel, on whole images at their own size.

use std::ops::Range;
use std::sync::Arc;

use dapple_data::{DataError, Dataset, LabelMap, Target, UNLABELLED, Views, Whole};
use dapple_geometry::Size;
use dapple_graph::Parameters;
use rayon::prelude::*;

use super::confusion::Confusion;
use super::{Evaluation, Overlap};
use crate::error::TrainError;
use crate::inference::Inference;

/// Values of views and answers that are in memory at once: 256 MiB.
const VALUES: usize = 1 << 26;

/// How a model looks at an image of any size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Method {
    /// All of it at once.
    Whole,
    /// Window by window of the size that the model was trained on; where windows overlap, their scores are averaged.
    Sliding {
        /// The step from one window to the next, as a share of the window.
        stride: f64,
    },
}

/// A model with weights that scores every class at every pixel.
pub(crate) struct Segmenter<'a> {
    pub(crate) inference: &'a mut Inference,
    pub(crate) parameters: &'a Parameters,
    pub(crate) views: &'a Views,
    pub(crate) method: Method,
}

/// One look at an image.
struct Look {
    image: usize,
    origin: [u32; 2],
    window: Size,
}

impl Segmenter<'_> {
    /// Scores of each image: `[classes, height, width]` of the image as the model sees it.
    pub(crate) fn scores(&mut self, images: &[Whole]) -> Result<Vec<Vec<f32>>, TrainError> {
        let classes = self.inference.classes();
        let channels = self.views.shape()[0];
        let mut sums: Vec<Sum> = images.iter().map(|image| Sum::new(classes, image.size())).collect();
        let looks = images.iter().enumerate().map(|(image, whole)| self.looks(image, whole));
        let looks: Vec<Look> = looks.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        for group in looks.chunk_by(|one, next| one.window == next.window) {
            let Some(&Look { window, .. }) = group.first() else { continue };
            let positions = window.pixels() as usize;
            let shape = [channels, window.height() as usize, window.width() as usize];
            for piece in group.chunks((VALUES / (positions * (channels + classes)).max(1)).max(1)) {
                let mut inputs = vec![0.0; piece.len() * channels * positions];
                for (look, input) in piece.iter().zip(inputs.chunks_exact_mut(channels * positions)) {
                    images[look.image].window(look.origin, window, input);
                }
                let outputs = self.inference.forward(&shape, self.parameters, &inputs)?;
                for (look, output) in piece.iter().zip(outputs.chunks_exact(classes * positions)) {
                    sums[look.image].add(look, output);
                }
            }
        }
        Ok(sums.into_iter().map(Sum::mean).collect())
    }

    fn looks(&self, image: usize, whole: &Whole) -> Result<Vec<Look>, TrainError> {
        let Method::Sliding { stride } = self.method else {
            return Ok(vec![Look { image, origin: [0, 0], window: whole.size() }]);
        };
        let [_, height, width] = self.views.shape();
        let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let window = Size::named("window", side(width), side(height))
            .map_err(|source| DataError::Geometry { place: "a window".to_owned(), source })?;
        let step = |length: u32| (f64::from(length) * stride).round().clamp(1.0, f64::from(length)) as u32;
        let origins = whole.windows(window, [step(window.width()), step(window.height())]);
        Ok(origins.into_iter().map(|origin| Look { image, origin, window }).collect())
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

    /// Evaluates the model on every image of a data set, at the size of its label map; pixels without a class count nothing.
    pub(crate) fn evaluate(
        &mut self,
        dataset: &Arc<dyn Dataset>,
        threads: usize,
    ) -> Result<Evaluation, TrainError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| TrainError::Threads { threads, reason: error.to_string() })?;
        let classes = self.inference.classes();
        let mut tally = Tally::new(classes);
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
                    Tally::of(whole, map, scores, classes)
                };
                for image in pool.install(|| answered.map(one).collect::<Vec<_>>()) {
                    tally.add(&image);
                }
            }
        }
        tally.finish()
    }
}

/// Images whose scores are in memory at once.
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

/// The class with the highest score; of equal ones the first.
fn likeliest(scores: &[f32]) -> usize {
    scores.iter().enumerate().fold(0, |best, (class, &score)| if score > scores[best] { class } else { best })
}

/// Scores of windows, added up where they lie.
struct Sum {
    size: Size,
    // [classes, height, width]
    values: Vec<f32>,
    // [height, width]
    seen: Vec<u32>,
}

impl Sum {
    fn new(classes: usize, size: Size) -> Self {
        let positions = size.pixels() as usize;
        Self { size, values: vec![0.0; classes * positions], seen: vec![0; positions] }
    }

    fn add(&mut self, look: &Look, output: &[f32]) {
        let (wide, high) = (self.size.width() as usize, self.size.height() as usize);
        let [x, y] = look.origin.map(|origin| origin as usize);
        let (columns, rows) = (look.window.width() as usize, look.window.height() as usize);
        // What lies beyond the edge of a small image is the window's own.
        let (width, height) = (columns.min(wide.saturating_sub(x)), rows.min(high.saturating_sub(y)));
        for row in 0..height {
            let at = (y + row) * wide + x;
            self.seen[at..at + width].iter_mut().for_each(|seen| *seen += 1);
            let planes = self.values.chunks_exact_mut(wide * high).zip(output.chunks_exact(columns * rows));
            for (plane, answer) in planes {
                let target = plane[at..at + width].iter_mut();
                target.zip(&answer[row * columns..]).for_each(|(sum, &score)| *sum += score);
            }
        }
    }

    fn mean(mut self) -> Vec<f32> {
        if self.seen.iter().any(|&seen| seen > 1) {
            for plane in self.values.chunks_exact_mut(self.seen.len()) {
                plane.iter_mut().zip(&self.seen).for_each(|(sum, &seen)| *sum /= seen.max(1) as f32);
            }
        }
        self.values
    }
}

/// What images add to an evaluation.
struct Tally {
    images: u64,
    /// Images with at least one labelled pixel, and the sum of their mean losses.
    labelled: u64,
    loss: f64,
    confusion: Confusion,
}

impl Tally {
    fn new(classes: usize) -> Self {
        Self { images: 0, labelled: 0, loss: 0.0, confusion: Confusion::new(classes) }
    }

    /// One image.
    fn of(whole: &Whole, map: &LabelMap, scores: &[f32], classes: usize) -> Self {
        let mut tally = Self { images: 1, ..Self::new(classes) };
        let mut labels = map.labels().iter();
        let mut pixels = 0u64;
        whole.restore(scores, classes, |scores| {
            let label = labels.next().copied().unwrap_or(UNLABELLED);
            let class = usize::from(label);
            if label == UNLABELLED || class >= classes {
                return;
            }
            let said = likeliest(scores);
            let largest = scores[said];
            let sum: f64 = scores.iter().map(|&score| f64::from(score - largest).exp()).sum();
            tally.loss += sum.ln() + f64::from(largest - scores[class]);
            tally.confusion.count(class, said);
            pixels += 1;
        });
        if pixels > 0 {
            tally.labelled = 1;
            tally.loss /= pixels as f64;
        }
        tally
    }

    fn add(&mut self, image: &Self) {
        self.images += image.images;
        self.labelled += image.labelled;
        self.loss += image.loss;
        self.confusion.add(&image.confusion);
    }

    fn finish(self) -> Result<Evaluation, TrainError> {
        let classes = self.confusion.rows().len();
        let Some(accuracy) = self.confusion.accuracy() else {
            return Err(TrainError::setting(
                "data.test",
                "no pixel of the label maps has a class",
                "check the classes and the ignored values of the [data] section",
            ));
        };
        let loss = self.loss / self.labelled.max(1) as f64;
        if !loss.is_finite() {
            return Err(TrainError::NotFinite { what: "a score of the model" });
        }
        let per_class_iou: Vec<Option<f64>> =
            (0..classes).map(|class| self.confusion.intersection_over_union(class)).collect();
        let known: Vec<f64> = per_class_iou.iter().flatten().copied().collect();
        Ok(Evaluation {
            records: self.images,
            accuracy,
            top5: None,
            loss,
            per_class: (0..classes).map(|class| self.confusion.recall(class)).collect(),
            confusion: self.confusion.rows(),
            overlap: Some(Overlap {
                // A pixel was counted, so there is a class.
                miou: known.iter().sum::<f64>() / known.len().max(1) as f64,
                pixel_accuracy: accuracy,
                pixels: self.confusion.total(),
                per_class_iou,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_data::{Image, TargetKind, Values};
    use dapple_graph::Parameters;
    use dapple_plan::{Plan, PlanSpec};
    use proptest::prelude::*;

    const CLASSES: usize = 3;

    /// Images whose label maps follow from their pixels; every tenth pixel has no label.
    struct Pictures(Vec<Size>);

    impl Pictures {
        fn pixel(record: usize, pixel: u64) -> u64 {
            (record as u64 + 3).wrapping_mul(pixel + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
        }
    }

    impl Dataset for Pictures {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn classes(&self) -> u32 {
            CLASSES as u32
        }

        fn channels(&self) -> usize {
            3
        }

        fn image_size(&self) -> Option<Size> {
            None
        }

        fn target_kind(&self) -> TargetKind {
            TargetKind::LabelMap
        }

        fn target(&self, record: usize) -> Result<Target, DataError> {
            let size = self.0[record];
            let label = |pixel| match Self::pixel(record, pixel) {
                unlabelled if unlabelled.is_multiple_of(10) => UNLABELLED,
                labelled => (labelled % 3) as u8,
            };
            Ok(Target::Map(LabelMap::new(size, (0..size.pixels()).map(label).collect()).unwrap()))
        }

        fn read(&self, record: usize) -> Result<Image, DataError> {
            let size = self.0[record];
            let values = (0..3 * size.pixels()).map(|value| Self::pixel(record, value) as u8).collect();
            Ok(Image::new(size, 3, Values::Bytes(values)).unwrap())
        }

        fn place(&self, record: usize) -> String {
            format!("picture {record}")
        }

        fn fingerprint(&self) -> Result<String, DataError> {
            Ok(String::new())
        }
    }

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    /// A plan on crops of 16x12, its views, and weights that make different classes likely at different pixels.
    fn setting() -> (PlanSpec, Views, Parameters) {
        let spec = PlanSpec::from_toml(
            "[model]\nname = 'small-fcn'\n[pipeline]\nimage = [20, 15]\ncrop = [16, 12]\n[data]\nmean = [0.5]\nstd = [0.25]\n\
             [sampling]\nrecords = 10\nbatch = 2\nsteps = 1\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n",
        )
        .unwrap();
        let plan = Plan::check(&spec).unwrap();
        let views = Views::of_channels(plan.spatial(), &spec.data, 3, None).unwrap();
        let graph = crate::model::build(&spec.model, &views.shape(), CLASSES, 0.0).unwrap();
        let mut parameters = Parameters::init(&graph, 3);
        parameters.values_mut().iter_mut().for_each(|value| *value *= 3.0);
        (spec, views, parameters)
    }

    fn evaluate(pictures: Vec<Size>, method: Method) -> Result<Evaluation, TrainError> {
        let (spec, views, parameters) = setting();
        let mut inference = Inference::new(&spec, CLASSES);
        let mut segmenter =
            Segmenter { inference: &mut inference, parameters: &parameters, views: &views, method };
        segmenter.evaluate(&(Arc::new(Pictures(pictures)) as Arc<dyn Dataset>), 2)
    }

    /// Pixel by pixel, in the plainest way.
    fn oracle(pictures: &Pictures, scores: impl Fn(usize, &Whole) -> Vec<f32>) -> (Vec<Vec<u64>>, f64) {
        let (_, views, _) = setting();
        let mut confusion = vec![vec![0; CLASSES]; CLASSES];
        let mut losses = Vec::new();
        for record in 0..pictures.len() {
            let whole = views.whole(&pictures.read(record).unwrap()).unwrap();
            let scores = scores(record, &whole);
            let Target::Map(map) = pictures.target(record).unwrap() else { unreachable!() };
            let mut loss = Vec::new();
            for (pixel, &label) in map.labels().iter().enumerate().filter(|(_, label)| **label != UNLABELLED)
            {
                let own: Vec<f64> =
                    (0..CLASSES).map(|class| f64::from(scores[class * map.labels().len() + pixel])).collect();
                let best = (0..CLASSES).rev().max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap();
                confusion[usize::from(label)][best] += 1;
                let sum: f64 = own.iter().map(|score| score.exp()).sum();
                loss.push(sum.ln() - own[usize::from(label)]);
            }
            losses.push(loss.iter().sum::<f64>() / loss.len() as f64);
        }
        (confusion, losses.iter().sum::<f64>() / losses.len() as f64)
    }

    fn forward(values: &[f32], size: Size) -> Vec<f32> {
        let (spec, _, parameters) = setting();
        let shape = [3, size.height() as usize, size.width() as usize];
        Inference::new(&spec, CLASSES).forward(&shape, &parameters, values).unwrap()
    }

    #[test]
    fn whole_images_of_several_sizes_are_counted_pixel_by_pixel() {
        let sizes = vec![size(20, 15), size(20, 15), size(33, 9), size(17, 22), size(20, 15)];
        let (confusion, loss) =
            oracle(&Pictures(sizes.clone()), |_, whole| forward(whole.values(), whole.size()));
        let evaluation = evaluate(sizes, Method::Whole).unwrap();
        assert_eq!(evaluation.confusion, confusion);
        // Sums of at most a thousand terms in another order.
        assert!((evaluation.loss - loss).abs() < 1e-6 * loss, "{} {loss}", evaluation.loss);
        let overlap = evaluation.overlap.clone().unwrap();
        assert_eq!(overlap.pixels, confusion.iter().flatten().sum::<u64>());
        assert_eq!((overlap.pixel_accuracy, evaluation.records), (evaluation.accuracy, 5));
        assert_eq!(evaluation.score().name, "mIoU");
        // The classes are not all the same to the model, or the test would show little.
        assert!(overlap.per_class_iou.iter().flatten().any(|iou| *iou > 0.0), "{overlap:?}");
        let mean = overlap.per_class_iou.iter().flatten().sum::<f64>() / CLASSES as f64;
        assert_eq!(overlap.miou, mean);
    }

    #[test]
    fn windows_are_averaged_where_they_overlap() {
        // Smaller than a window, as large, and larger along either side.
        let sizes = vec![size(10, 7), size(16, 12), size(30, 12), size(25, 31)];
        let window = size(16, 12);
        let sliding = |_, whole: &Whole| {
            let (wide, high) = (whole.size().width() as usize, whole.size().height() as usize);
            let mut sums = vec![(0.0f64, 0u32); CLASSES * wide * high];
            // Half of 16 and of 12.
            for [x, y] in whole.windows(window, [8, 6]) {
                let mut values = vec![0.0; 3 * 16 * 12];
                whole.window([x, y], window, &mut values);
                for (index, score) in forward(&values, window).into_iter().enumerate() {
                    let (class, row, column) = (index / 192, index % 192 / 16, index % 16);
                    let (x, y) = (x as usize + column, y as usize + row);
                    if x < wide && y < high {
                        let sum = &mut sums[(class * high + y) * wide + x];
                        *sum = (sum.0 + f64::from(score), sum.1 + 1);
                    }
                }
            }
            sums.into_iter().map(|(sum, seen)| (sum / f64::from(seen)) as f32).collect()
        };
        let (confusion, loss) = oracle(&Pictures(sizes.clone()), sliding);
        let evaluation = evaluate(sizes, Method::Sliding { stride: 0.5 }).unwrap();
        assert_eq!(evaluation.confusion, confusion);
        // Means of up to nine scores in single precision.
        assert!((evaluation.loss - loss).abs() < 1e-5 * loss, "{} {loss}", evaluation.loss);
    }

    #[test]
    fn labels_are_the_likeliest_classes() {
        let (spec, views, parameters) = setting();
        let pictures = Pictures(vec![size(25, 31)]);
        let whole = views.whole(&pictures.read(0).unwrap()).unwrap();
        let mut inference = Inference::new(&spec, CLASSES);
        let mut segmenter = Segmenter {
            inference: &mut inference,
            parameters: &parameters,
            views: &views,
            method: Method::Whole,
        };
        let labels = segmenter.label(&whole).unwrap();
        let scores = forward(whole.values(), whole.size());
        assert_eq!(labels.len(), 25 * 31);
        for (pixel, &label) in labels.iter().enumerate() {
            let own = |class: usize| scores[class * labels.len() + pixel];
            assert!((0..CLASSES).all(|class| own(class) <= own(usize::from(label))));
        }
    }

    #[test]
    fn nothing_to_judge_by_is_an_error() {
        let mut tally = Tally::new(2);
        let (_, views, _) = setting();
        let image = Pictures(vec![size(2, 2)]).read(0).unwrap();
        let whole = views.whole(&image).unwrap();
        let map = LabelMap::new(size(2, 2), vec![UNLABELLED; 4]).unwrap();
        tally.add(&Tally::of(&whole, &map, &[0.0; 8], 2));
        assert!(tally.finish().unwrap_err().to_string().contains("no pixel"));
        let mut tally = Tally::new(2);
        let map = LabelMap::new(size(2, 2), vec![0, 1, 1, UNLABELLED]).unwrap();
        tally.add(&Tally::of(&whole, &map, &[f32::NAN; 8], 2));
        assert!(matches!(tally.finish(), Err(TrainError::NotFinite { .. })));
    }

    proptest! {
        #[test]
        fn groups_hold_every_image_in_order(sides in prop::collection::vec((1u32..40, 1u32..40), 0..9)) {
            let (_, views, _) = setting();
            let sizes: Vec<Size> = sides.iter().map(|&(width, height)| size(width, height)).collect();
            let pictures = Pictures(sizes);
            let images: Vec<Whole> =
                (0..pictures.len()).map(|record| views.whole(&pictures.read(record).unwrap()).unwrap()).collect();
            // So many classes that few images fit at once.
            let classes = VALUES / 1000;
            let groups = groups(&images, classes);
            let covered: Vec<usize> = groups.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..images.len()).collect::<Vec<_>>());
            for group in groups {
                let pixels: u64 = images[group.clone()].iter().map(|image| image.size().pixels()).sum();
                prop_assert!(group.len() == 1 || pixels as usize * classes <= VALUES);
            }
        }
    }
}
