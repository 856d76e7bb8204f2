use super::*;
use dapple_data::{Image, TargetKind, UNLABELLED, Values};
use dapple_graph::Parameters;
use dapple_plan::{ModelPlan, Plan, PlanSpec, TrainingPlan, ViewPlan};
use proptest::prelude::*;

use crate::evaluation::Measure;
use crate::model::Blueprint;

const CLASSES: usize = 3;

/// Images whose label maps follow from their numbers. About every tenth pixel has no label.
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
        "[model]\nname = 'small-fcn'\n[optimiser]\nlearning_rate = 1.0\n[pipeline]\nimage = [20, 15]\ncrop = [16, 12]\n[data]\nmean = [0.5]\nstd = [0.25]\n\
         [sampling]\nrecords = 10\nbatch = 2\nsteps = 1\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n",
    )
    .unwrap();
    let plan = Plan::check(&spec).unwrap();
    let views = Views::of_channels(plan.spatial(), &ViewPlan::check(&spec.data).unwrap(), 3, None).unwrap();
    let blueprint = Blueprint::unread(&ModelPlan::check(&spec.model).unwrap());
    let graph = blueprint.build(&views.shape(), CLASSES, 0.0).unwrap();
    let mut parameters = Parameters::init(&graph, 3);
    parameters.values_mut().iter_mut().for_each(|value| *value *= 3.0);
    (spec, views, parameters)
}

fn inference(spec: &PlanSpec) -> Inference {
    let plan = TrainingPlan::new(Plan::check(spec).unwrap(), spec).unwrap();
    Inference::new(&plan, &Blueprint::unread(&plan.model), CLASSES)
}

fn evaluate(pictures: Vec<Size>, method: MapEvaluation) -> Result<Evaluation, TrainError> {
    let (spec, views, parameters) = setting();
    let mut model = inference(&spec);
    let mut segmenter = Segmenter { inference: &mut model, parameters: &parameters, views: &views, method };
    segmenter.evaluate(&(Arc::new(Pictures(pictures)) as Arc<dyn Dataset>), 2, None)
}

/// Evaluates pixel by pixel, in the plainest way.
fn oracle(pictures: &Pictures, scores: impl Fn(usize, &Whole) -> Vec<f32>) -> (Vec<Vec<u64>>, f64) {
    let (_, views, _) = setting();
    let mut confusion = vec![vec![0; CLASSES]; CLASSES];
    let mut losses = Vec::new();
    for record in 0..pictures.len() {
        let whole = views.whole(&pictures.read(record).unwrap()).unwrap();
        let scores = scores(record, &whole);
        let Target::Map(map) = pictures.target(record).unwrap() else { unreachable!() };
        let mut loss = Vec::new();
        for (pixel, &label) in map.labels().iter().enumerate().filter(|(_, label)| **label != UNLABELLED) {
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
    inference(&spec).forward(&shape, &parameters, values).unwrap()
}

#[test]
fn whole_images_of_several_sizes_are_counted_pixel_by_pixel() {
    let sizes = vec![size(20, 15), size(20, 15), size(33, 9), size(17, 22), size(20, 15)];
    let (confusion, loss) =
        oracle(&Pictures(sizes.clone()), |_, whole| forward(whole.values(), whole.size()));
    let evaluation = evaluate(sizes, MapEvaluation::Whole).unwrap();
    assert_eq!(evaluation.confusion, confusion);
    // Sums of at most a thousand terms differ by their order.
    assert!((evaluation.loss - loss).abs() < 1e-6 * loss, "{} {loss}", evaluation.loss);
    let overlap = evaluation.overlap.clone().unwrap();
    assert_eq!(overlap.pixels, confusion.iter().flatten().sum::<u64>());
    assert_eq!((overlap.pixel_accuracy, evaluation.records), (evaluation.accuracy, 5));
    assert_eq!(evaluation.score().measure, Measure::MeanIou);
    // The model must tell some classes apart, or the test would show little.
    assert!(overlap.per_class_iou.iter().flatten().any(|iou| *iou > 0.0), "{overlap:?}");
    let mean = overlap.per_class_iou.iter().flatten().sum::<f64>() / CLASSES as f64;
    assert_eq!(overlap.miou, mean);
}

#[test]
fn windows_are_averaged_where_they_overlap() {
    // The images are smaller than a window, as large, and larger along either side.
    let sizes = vec![size(10, 7), size(16, 12), size(30, 12), size(25, 31)];
    let window = size(16, 12);
    let sliding = |_, whole: &Whole| {
        let (wide, high) = (whole.size().width() as usize, whole.size().height() as usize);
        let mut sums = vec![(0.0f64, 0u32); CLASSES * wide * high];
        // The stride is half of 16 and of 12.
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
    let evaluation = evaluate(sizes, MapEvaluation::Sliding { stride: 0.5 }).unwrap();
    assert_eq!(evaluation.confusion, confusion);
    // Means of up to nine scores are rounded in single precision.
    assert!((evaluation.loss - loss).abs() < 1e-5 * loss, "{} {loss}", evaluation.loss);
}

#[test]
fn labels_are_the_likeliest_classes() {
    let (spec, views, parameters) = setting();
    let pictures = Pictures(vec![size(25, 31)]);
    let whole = views.whole(&pictures.read(0).unwrap()).unwrap();
    let mut model = inference(&spec);
    let mut segmenter = Segmenter {
        inference: &mut model,
        parameters: &parameters,
        views: &views,
        method: MapEvaluation::Whole,
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
    let mut tally = PixelTally::new(2);
    let (_, views, _) = setting();
    let image = Pictures(vec![size(2, 2)]).read(0).unwrap();
    let whole = views.whole(&image).unwrap();
    let map = LabelMap::new(size(2, 2), vec![UNLABELLED; 4]).unwrap();
    tally.add(&PixelTally::of(&whole, &map, &[0.0; 8], 2));
    assert!(tally.finish().unwrap_err().to_string().contains("no pixel"));
    let mut tally = PixelTally::new(2);
    let map = LabelMap::new(size(2, 2), vec![0, 1, 1, UNLABELLED]).unwrap();
    tally.add(&PixelTally::of(&whole, &map, &[f32::NAN; 8], 2));
    assert!(matches!(tally.finish(), Err(TrainError::Private(StepError::NotFinite { .. }))));
}

proptest! {
    #[test]
    fn groups_hold_every_image_in_order(sides in prop::collection::vec((1u32..40, 1u32..40), 0..9)) {
        let (_, views, _) = setting();
        let sizes: Vec<Size> = sides.iter().map(|&(width, height)| size(width, height)).collect();
        let pictures = Pictures(sizes);
        let images: Vec<Whole> =
            (0..pictures.len()).map(|record| views.whole(&pictures.read(record).unwrap()).unwrap()).collect();
        // With this many classes only few images fit at once.
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
