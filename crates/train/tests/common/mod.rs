//! Data sets and plans for tests, given by the formulas of `goldens/training.py`.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use dapple_graph::{Graph, Parameters, weights, zoo};
use dapple_plan::PlanSpec;
use dapple_train::{Evaluation, Event, Observer, Request};

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
