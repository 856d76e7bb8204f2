//! MobileNetV2 and the segmentation models against PyTorch. `goldens/segmentation.py` made the figures.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, checksum, names, parameters, uniform, uniform_at};
use dapple_engine::reference::Reference;
use dapple_engine::{Clipping, CpuExecutor, Layout, Options};
use dapple_graph::Graph;
use dapple_graph::zoo::{self, Backbone, Norm, OutputStride, ResNet};
use serde_json::Value;

const CLASSES: usize = 5;

fn golden(section: &str, name: &str) -> Value {
    let goldens: Value = serde_json::from_str(include_str!("goldens/segmentation.json")).unwrap();
    goldens[section][name].clone()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn equals_pytorch(name: &str, graph: Graph) {
    let golden = golden("outputs", name);
    let want = (golden["parameters"].as_u64().unwrap(), golden["checksum"].as_str().unwrap().to_owned());
    assert_eq!(names(&graph), want, "names or shapes of {name}");

    let input: usize = graph.input_shape().iter().product();
    let inputs: Vec<f32> = (0..input).map(|i| uniform("input", i) as f32).collect();
    let mut executor = CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
    let got = executor.load(&parameters(&graph)).unwrap().forward(&inputs).unwrap();
    assert_eq!(got.len() as u64, golden["values"].as_u64().unwrap());
    let stored = numbers(&golden["stored"]);
    let scale = stored.iter().fold(0.0f64, |max, v| max.max(v.abs()));
    // Single precision through at most a hundred layers.
    for (index, want) in stored.iter().enumerate() {
        let got = f64::from(got[index * got.len() / stored.len()]);
        assert!((got - want).abs() <= 1e-4 * scale, "{name}: {got} against {want}");
    }
    let count = got.len() as f64;
    let mean = got.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let square = got.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / count;
    let (want_mean, want_square) =
        (golden["mean"].as_f64().unwrap(), golden["mean_square"].as_f64().unwrap());
    assert!((mean - want_mean).abs() <= 1e-4 * scale, "{name}: mean {mean} against {want_mean}");
    assert!((square - want_square).abs() <= 2e-4 * want_square, "{name}: {square} against {want_square}");
}

fn deeplab(
    backbone: Backbone,
    output_stride: OutputStride,
    (height, width): (usize, usize),
    norm: Norm,
) -> Graph {
    zoo::deeplab_v3_plus(backbone, output_stride, &[3, height, width], CLASSES, norm).unwrap()
}

fn psp(backbone: ResNet, (height, width): (usize, usize), norm: Norm) -> Graph {
    zoo::psp_net(backbone, &[3, height, width], CLASSES, norm).unwrap()
}

#[test]
fn mobilenets_equal_torchvision() {
    let mobilenet = |shape: &[usize], norm| zoo::mobilenet_v2(shape, CLASSES, norm).unwrap();
    equals_pytorch("mobilenet-v2", mobilenet(&[3, 64, 64], Norm::Frozen));
    equals_pytorch("mobilenet-v2-group", mobilenet(&[3, 65, 49], Norm::Group(32)));
}

#[test]
fn deeplabs_equal_pytorch() {
    use OutputStride::{Eight, Sixteen};
    let resnet = Backbone::ResNet;
    let group = Norm::Group(32);
    equals_pytorch("deeplab-resnet-50", deeplab(resnet(ResNet::R50), Sixteen, (64, 64), Norm::Frozen));
    equals_pytorch("deeplab-resnet-50-odd", deeplab(resnet(ResNet::R50), Sixteen, (57, 90), Norm::Frozen));
    let removed = deeplab(resnet(ResNet::R18), Eight, (64, 64), Norm::Removed);
    equals_pytorch("deeplab-resnet-18-stride-8", removed);
    equals_pytorch("deeplab-resnet-34-group", deeplab(resnet(ResNet::R34), Sixteen, (45, 33), group));
    let deep = deeplab(resnet(ResNet::R101), Eight, (33, 40), Norm::Frozen);
    equals_pytorch("deeplab-resnet-101-stride-8", deep);
    equals_pytorch("deeplab-mobilenet", deeplab(Backbone::MobileNetV2, Sixteen, (64, 64), Norm::Frozen));
    equals_pytorch("deeplab-mobilenet-stride-8", deeplab(Backbone::MobileNetV2, Eight, (49, 80), group));
}

#[test]
fn psp_nets_equal_pytorch() {
    equals_pytorch("psp-resnet-50", psp(ResNet::R50, (64, 64), Norm::Frozen));
    equals_pytorch("psp-resnet-50-odd", psp(ResNet::R50, (57, 90), Norm::Frozen));
    equals_pytorch("psp-resnet-18-group", psp(ResNet::R18, (64, 48), Norm::Group(32)));
    equals_pytorch("psp-resnet-34-removed", psp(ResNet::R34, (33, 40), Norm::Removed));
    equals_pytorch("psp-resnet-101", psp(ResNet::R101, (40, 33), Norm::Frozen));
}

/// Norm of every parameter's gradient and its inner product with a direction, against PyTorch, each within `tolerance` of the norm, or of
/// a thousandth of the largest norm.
fn gradients_equal(name: &str, graph: &Graph, loss: f64, gradient: impl Fn(usize) -> f64, tolerance: f64) {
    let golden = golden("gradients", name);
    let want = golden["loss"].as_f64().unwrap();
    assert!((loss - want).abs() <= tolerance * want, "{name}: loss {loss} against {want}");
    let layout = Layout::new(graph);
    let parts = golden["gradients"].as_object().unwrap();
    let norms = parts.values().map(|part| part[0].as_f64().unwrap());
    let largest = norms.fold(0.0, f64::max);
    for entry in layout.entries() {
        let part = numbers(&parts[&entry.name]);
        let direction = checksum(&format!("{} direction", entry.name));
        let (mut square, mut product) = (0.0, 0.0);
        for (index, place) in entry.range.clone().enumerate() {
            let g = gradient(place);
            square += g * g;
            product += g * uniform_at(direction, index);
        }
        let scale = tolerance * part[0].max(1e-3 * largest);
        let norm = square.sqrt();
        assert!((norm - part[0]).abs() <= scale, "{name} {}: norm {norm} against {}", entry.name, part[0]);
        assert!((product - part[1]).abs() <= scale, "{name} {}: {product} against {}", entry.name, part[1]);
    }
}

#[test]
fn gradients_of_whole_models_equal_autograd() {
    let mobilenet = deeplab(Backbone::MobileNetV2, OutputStride::Sixteen, (25, 18), Norm::Frozen);
    let group = Norm::Group(32);
    let residual = deeplab(Backbone::ResNet(ResNet::R18), OutputStride::Sixteen, (25, 18), group);
    let pyramid = psp(ResNet::R18, (25, 18), group);
    for (name, graph) in
        [("deeplab-mobilenet", mobilenet), ("deeplab-resnet-18", residual), ("psp-resnet-18", pyramid)]
    {
        let data = Data::new(&graph, 1, 1);
        let parameters = parameters(&graph);
        let (loss, gradient) =
            Reference::new(&graph, &parameters).unwrap().gradient(&data.batch(), 0).unwrap();
        // Both sides compute in double precision.
        gradients_equal(name, &graph, loss, |index| gradient[index], 1e-9);

        for checkpoints in [false, true] {
            let options = Options { threads: 2, checkpoints, ..Options::default() };
            let mut executor = CpuExecutor::new(&graph, options).unwrap();
            let (mut sum, rule) = (executor.gradient_sum(), common::rule(&Clipping::Off, executor.layout()));
            let mut loaded = executor.load(&parameters).unwrap();
            let stats = loaded.clipped_sum(&data.batch(), &rule, &mut sum).unwrap();
            let gradient = loaded.gradient(sum).unwrap();
            let loss = f64::from(stats.losses[0]);
            // Single precision through fifty layers; an activation whose rounding crosses zero costs more than the sums do.
            gradients_equal(name, &graph, loss, |index| f64::from(gradient[index]), 1e-3);
        }
    }
}
