//! Compares gradients with PyTorch's autograd. `goldens/generate.py` and `goldens/segmentation.py` made the figures.

use dapple_engine::{Clipping, Layout};
use dapple_graph::Graph;
use dapple_graph::zoo::{self, Backbone, Norm, OutputStride, ResNet};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::{Data, checksum, parameters, specimens, uniform_at};
use crate::subject::{Step, Subject};

fn doubles(file: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let tensor = file.tensor(name).unwrap();
    tensor.data().as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
}

/// The gradient of the first sample and its loss, without clipping, so that no digit is lost.
pub(crate) fn first(subject: Subject, graph: &Graph, data: &Data) -> Step {
    let size = data.views * graph.input_shape().iter().product::<usize>();
    subject.planned_for(1).step(graph, &parameters(graph), &data.part(0..1, size), &Clipping::Off)
}

/// How far a gradient may be from autograd's, as a share of its size, and the least that this size counts as, as a share of the largest
/// gradient. Some parameters before a norm have no gradient but rounding.
fn allowed(subject: Subject) -> (f64, f64) {
    match subject {
        // Both sides compute in double precision, and only the order of sums differs.
        Subject::Reference => (1e-10, 1e-4),
        other => (other.tolerance().plain, 1.0),
    }
}

pub(crate) fn gradients_equal_autograd(subjects: &[Subject]) {
    let bytes = include_bytes!("../goldens/autograd.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    for subject in subjects {
        let mut compared = 0;
        let (share, least) = allowed(*subject);
        for (name, graph) in specimens() {
            let data = Data::new(&graph, 2, 1);
            let losses = doubles(&file, &format!("{name}/loss"));
            let both =
                subject.planned_for(2).step(&graph, &parameters(&graph), &data.batch(), &Clipping::Off);
            for (got, want) in both.stats.losses.iter().zip(&losses) {
                // Losses are reported in single precision.
                let near = subject.tolerance().plain * want.abs().max(1.0);
                assert!((f64::from(*got) - want).abs() <= near, "{name}, {subject:?}: {got}, not {want}");
            }
            let gradient = first(*subject, &graph, &data).gradient;
            let largest = gradient.iter().fold(0.0f64, |max, g| max.max(g.abs()));
            for entry in Layout::new(&graph).entries() {
                let want = doubles(&file, &format!("{name}/{}", entry.name));
                let scale = want.iter().fold(least * largest, |max, g| max.max(g.abs()));
                let title = format!("{name} {}, {subject:?}", entry.name);
                let got = &gradient[entry.range.clone()];
                assert_eq!(got.len(), want.len(), "{title}");
                for (index, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert!((got - want).abs() <= share * scale, "{title}[{index}]: {got}, not {want}");
                }
                compared += 1;
            }
        }
        // Every tensor of the file but the losses was used.
        assert_eq!(compared, file.names().len() - specimens().len());
    }
}

/// Asserts that the norm of every parameter's gradient, and its inner product with a direction, are within `share` of the norm, or of a
/// thousandth of the largest norm.
pub(crate) fn equals(title: &str, golden: &Value, graph: &Graph, step: &Step, share: f64) {
    let (loss, want) = (f64::from(step.stats.losses[0]), golden["loss"].as_f64().unwrap());
    // Losses are reported in single precision.
    assert!((loss - want).abs() <= share.max(1e-7) * want, "{title}: loss {loss}, not {want}");
    let parts = golden["gradients"].as_object().unwrap();
    let largest = parts.values().map(|part| part[0].as_f64().unwrap()).fold(0.0, f64::max);
    for entry in Layout::new(graph).entries() {
        let part = &parts[&entry.name];
        let (norm, product) = (part[0].as_f64().unwrap(), part[1].as_f64().unwrap());
        let direction = checksum(&format!("{} direction", entry.name));
        let (mut square, mut along) = (0.0, 0.0);
        for (index, g) in step.gradient[entry.range.clone()].iter().enumerate() {
            square += g * g;
            along += g * uniform_at(direction, index);
        }
        let near = share * norm.max(1e-3 * largest);
        let length = f64::sqrt(square);
        assert!((length - norm).abs() <= near, "{title} {}: norm {length}, not {norm}", entry.name);
        assert!((along - product).abs() <= near, "{title} {}: {along}, not {product}", entry.name);
    }
}

pub(crate) fn gradients_of_whole_models_equal_autograd(subjects: &[Subject]) {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/segmentation.json")).unwrap();
    let (shape, classes, group) = ([3, 25, 18], 5, Norm::Group(32));
    let deeplab = |backbone, norm| {
        zoo::deeplab_v3_plus(backbone, OutputStride::Sixteen, &shape, classes, norm).unwrap()
    };
    for (name, graph) in [
        ("deeplab-mobilenet", deeplab(Backbone::MobileNetV2, Norm::Frozen)),
        ("deeplab-resnet-18", deeplab(Backbone::ResNet(ResNet::R18), group)),
        ("psp-resnet-18", zoo::psp_net(ResNet::R18, &shape, classes, group).unwrap()),
    ] {
        let data = Data::new(&graph, 1, 1);
        for subject in subjects {
            let share = match subject {
                // Both sides compute in double precision.
                Subject::Reference => 1e-9,
                // Single precision goes through fifty layers, and an activation that rounding moves across zero costs more than the sums.
                _ => 1e-3,
            };
            let step = first(*subject, &graph, &data);
            equals(&format!("{name}, {subject:?}"), &goldens["gradients"][name], &graph, &step, share);
        }
    }
}
