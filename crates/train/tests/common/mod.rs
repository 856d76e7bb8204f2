//! Data sets and plans for tests, given by the formulas of `goldens/training.py`.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use dapple_graph::{Graph, Parameters, weights, zoo};
use dapple_plan::PlanSpec;
use dapple_train::{
    Evaluation, Event, Observer, RankGroup, Request, Silent, Verdict, World, follow, resume, start, verify,
};

/// Bytes of a `.npy` file.
pub(crate) fn npy(kind: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values);
    bytes
}

/// Images and labels of four classes, as files in a folder.
pub(crate) fn write_data(folder: &Path, name: &str, records: usize, side: usize) {
    let mut pixels = Vec::new();
    for i in 0..records {
        for y in 0..side {
            for x in 0..side {
                let value = 40 * (i % 4) * (x % 4) + 23 * y + 11 * i * (y % 3) + 7 * x * (i % 5);
                pixels.push((value % 256) as u8);
            }
        }
    }
    let labels: Vec<u8> = (0..records).flat_map(|i| ((i % 4) as i64).to_le_bytes()).collect();
    fs::write(folder.join(format!("{name}.npy")), npy("|u1", &format!("{records}, {side}, {side}"), &pixels))
        .unwrap();
    fs::write(folder.join(format!("{name}-labels.npy")), npy("<i8", &format!("{records},"), &labels))
        .unwrap();
}

/// Grey pictures for each of the four classes, in folders named after their numbers.
pub(crate) fn write_pool(folder: &Path, pictures: usize, side: usize) {
    for i in 0..pictures {
        let mut bytes = format!("P5\n{side} {side}\n255\n").into_bytes();
        bytes.extend((0..side * side).map(|p| ((i * 37 + p * 11 + p / side * (i % 4) * 53) % 256) as u8));
        fs::create_dir_all(folder.join((i % 4).to_string())).unwrap();
        fs::write(folder.join(format!("{}/{i:03}.pgm", i % 4)), bytes).unwrap();
    }
}

/// Coloured pictures of four classes below `train`, and below `masks` a mask of each. Every fourth picture has no private pixel, and in every
/// fourth all are private; of the others a rectangle is. What private and public pixels show follows from a number each.
pub(crate) fn write_parted(folder: &Path, pictures: usize, side: usize, (private, public): (usize, usize)) {
    for i in 0..pictures {
        let corners = match i % 4 {
            0 => None,
            1 => Some([0, 0, side, side]),
            _ => Some([i % side / 2, 1, side / 2 + i % 3, side / 2 - 1 + i % 4]),
        };
        let is_private = |x, y| {
            corners
                .is_some_and(|[left, top, right, bottom]| x >= left && x <= right && y >= top && y <= bottom)
        };
        let mut bytes = format!("P6\n{side} {side}\n255\n").into_bytes();
        for at in 0..side * side {
            let (x, y) = (at % side, at / side);
            let number = if is_private(x, y) { private } else { public };
            let value = |channel: usize| {
                (number * 101 + i * 37 + x * 11 + y * (i % 4) * 53 + channel * 71 * number) % 256
            };
            bytes.extend((0..3).map(|channel| value(channel) as u8));
        }
        for name in ["train", "masks"] {
            fs::create_dir_all(folder.join(format!("{name}/{}", i % 4))).unwrap();
        }
        fs::write(folder.join(format!("train/{}/{i:03}.ppm", i % 4)), bytes).unwrap();
        let boxes: Vec<_> = corners.into_iter().collect();
        fs::write(folder.join(format!("masks/{}/{i:03}.json", i % 4)), format!("{{\"boxes\": {boxes:?}}}"))
            .unwrap();
    }
}

/// Clips of four classes below `train`, and below `masks` the masks of each: a rectangle that moves from frame to frame. Every fourth clip has
/// no private pixel, and in every fourth all are private. What private and public pixels show follows from a number each.
pub(crate) fn write_parted_clips(folder: &Path, clips: usize, side: usize, numbers: (usize, usize)) {
    const FRAMES: usize = 5;
    for i in 0..clips {
        let is_private = |frame: usize, x: usize, y: usize| match i % 4 {
            0 => false,
            1 => true,
            _ => (frame + i..frame + i + side / 2).contains(&(x + i)) && y > side / 4 && y < side / 2 + frame,
        };
        let (mut values, mut masks) = (Vec::new(), Vec::new());
        for at in 0..FRAMES * side * side {
            let (frame, x, y) = (at / (side * side), at % side, at / side % side);
            let private = is_private(frame, x, y);
            masks.push(u8::from(private));
            let number = if private { numbers.0 } else { numbers.1 };
            let value = |channel: usize| {
                (number * 101 + i * 37 + x * 11 + frame * 29 + y * (i % 4) * 53 + channel * 71 * number) % 256
            };
            values.extend((0..3).map(|channel| value(channel) as u8));
        }
        for (name, shape, values) in [("train", ", 3", values), ("masks", "", masks)] {
            fs::create_dir_all(folder.join(format!("{name}/{}", i % 4))).unwrap();
            let shape = format!("{FRAMES}, {side}, {side}{shape}");
            fs::write(folder.join(format!("{name}/{}/{i:03}.npy", i % 4)), npy("|u1", &shape, &values))
                .unwrap();
        }
    }
}

/// A grey or coloured picture as a PNG file.
fn write_png(path: &Path, colour: png::ColorType, side: u32, values: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), side, side);
    encoder.set_color(colour);
    encoder.write_header().unwrap().write_image_data(values).unwrap();
}

/// Pairs of images of 20x20 pixels whose label maps are given by a function of record and pixel.
pub(crate) fn write_pairs(folder: &Path, records: u32, label: impl Fn(u32, u32) -> u8) {
    for record in 0..records {
        let values: Vec<u8> = (0..1200).map(|value| (value * (record + 3) % 251) as u8).collect();
        let labels: Vec<u8> = (0..400).map(|pixel| label(record, pixel)).collect();
        write_png(&folder.join(format!("images/{record}.png")), png::ColorType::Rgb, 20, &values);
        write_png(&folder.join(format!("labels/{record}.png")), png::ColorType::Grayscale, 20, &labels);
    }
}

/// Parameters whose values follow the formula of the goldens.
pub(crate) fn filled(graph: &Graph) -> Parameters {
    let mut parameters = Parameters::zeros(graph);
    for (p, parameter) in graph.parameters().iter().enumerate() {
        let id = graph.find_parameter(&parameter.name).unwrap();
        let fan = if parameter.shape.len() > 1 { parameter.shape[1..].iter().product::<usize>() } else { 16 };
        for (i, value) in parameters.get_mut(id).iter_mut().enumerate() {
            *value = ((0.37 * i as f64 + p as f64).sin() / (fan as f64).sqrt()) as f32;
        }
    }
    parameters
}

/// Writes the first weights of the goldens' small network to a file.
pub(crate) fn write_small_cnn(folder: &Path) {
    let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
    weights::save(&graph, &filled(&graph), &folder.join("small-cnn.safetensors")).unwrap();
}

/// A plan for `train.npy` in a folder.
pub(crate) fn request(folder: &Path, rest: &str) -> Request {
    let text = format!(
        "[data]\nformat = 'npy'\ntrain = 'train.npy'\ntrain_labels = 'train-labels.npy'\nmean = [0.5]\nstd = [0.25]\n{rest}"
    );
    Request { spec: PlanSpec::from_toml(&text).unwrap(), base: folder.to_owned(), masks: Vec::new() }
}

/// Remembers what a run tells.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) losses: Vec<Option<f64>>,
    pub(crate) drawn: Vec<usize>,
    pub(crate) evaluations: Vec<Evaluation>,
    pub(crate) warnings: Vec<String>,
    /// Ends the run after this many steps.
    pub(crate) stop_after: Option<u64>,
}

impl Observer for Recorder {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Step(report) => {
                self.losses.push(report.loss);
                self.drawn.push(report.drawn);
                if Some(report.step) >= self.stop_after && self.stop_after.is_some() {
                    return ControlFlow::Break(());
                }
            }
            Event::Evaluated { evaluation, .. } => self.evaluations.push((*evaluation).clone()),
            Event::Warning(text) => self.warnings.push((*text).to_owned()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// The weights that a run ended with, in the order of the file.
pub(crate) fn model_bytes(run: &Path) -> Vec<u8> {
    fs::read(run.join("model.safetensors")).unwrap()
}

/// A run that is stopped after two steps and goes on has the weights of one that was never stopped, and verifies.
pub(crate) fn goes_on_alike(folder: &Path, request: &Request) {
    let [whole, parts] = ["whole", "parts"].map(|name| folder.join(name));
    start(request, &whole, &mut Silent).unwrap();
    start(request, &parts, &mut Recorder { stop_after: Some(2), ..Recorder::default() }).unwrap();
    resume(&parts, &mut Silent).unwrap();
    assert_eq!(model_bytes(&parts), model_bytes(&whole));
    assert!(matches!(verify(&parts, None).unwrap(), Verdict::Valid { .. }));
}

/// Lets the first of several ranks do something, while the others, each with its own plan or none, take part.
pub(crate) fn among<T: Send>(
    others: &[Option<Request>],
    first: impl FnOnce(&Arc<RankGroup>) -> T + Send,
) -> T {
    let mut worlds = World::of_threads(others.len() + 1).into_iter();
    let own = worlds.next().unwrap();
    std::thread::scope(|scope| {
        for (world, request) in worlds.zip(others) {
            scope.spawn(move || follow(&RankGroup::of(world), request.as_ref()));
        }
        scope.spawn(move || first(&RankGroup::of(own))).join().unwrap()
    })
}
