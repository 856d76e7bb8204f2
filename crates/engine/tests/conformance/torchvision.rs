//! Compares the zoo's models with torchvision and PyTorch. `goldens/generate.py` and `goldens/segmentation.py` made the figures.

use dapple_graph::zoo::{self, Backbone, Norm, OutputStride, ResNet, Vgg, WideResNet};
use dapple_graph::{Graph, GraphError};
use serde_json::Value;

use crate::common::{names, parameters, uniform};
use crate::subject::Subject;

const CLASSES: usize = 5;
/// How near outputs must be. Single precision goes through at most a hundred layers. A card cuts the sums of each layer off at 24 bits,
/// always downwards, which adds up from layer to layer; in ResNet-101 we have seen 1.3e-4.
fn near(subject: &Subject) -> f64 {
    if subject.on_card() { 4e-4 } else { 1e-4 }
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Asserts that names, shapes and outputs are equal. The file has some of the outputs, taken from all parts of the whole.
fn equals(subjects: &[Subject], name: &str, graph: Result<Graph, GraphError>, golden: &Value, stored: &str) {
    let graph = graph.unwrap();
    let want = (golden["parameters"].as_u64().unwrap(), golden["checksum"].as_str().unwrap().to_owned());
    assert_eq!(names(&graph), want, "names or shapes of {name}");
    let input: usize = graph.input_shape().iter().product();
    let inputs: Vec<f32> = (0..input).map(|i| uniform("input", i) as f32).collect();
    let values = parameters(&graph);
    let stored = numbers(&golden[stored]);
    let scale = stored.iter().fold(0.0f64, |max, v| max.max(v.abs()));
    for subject in subjects {
        let near = near(subject);
        let got = subject.planned_for(1).open(&graph).forward(&values, &inputs);
        let count = golden["values"].as_u64().map_or(stored.len(), |count| count as usize);
        assert_eq!(got.len(), count, "{name}, {subject:?}");
        for (index, want) in stored.iter().enumerate() {
            let got = got[index * count / stored.len()];
            assert!((got - want).abs() <= near * scale, "{name}, {subject:?}: {got}, not {want}");
        }
        if let Some(want) = golden["mean"].as_f64() {
            let mean = got.iter().sum::<f64>() / count as f64;
            assert!((mean - want).abs() <= near * scale, "{name}, {subject:?}: mean {mean}, not {want}");
            let want = golden["mean_square"].as_f64().unwrap();
            let square = got.iter().map(|value| value * value).sum::<f64>() / count as f64;
            assert!((square - want).abs() <= 2.0 * near * want, "{name}, {subject:?}: {square}, not {want}");
        }
    }
}

fn equal_torchvision<const N: usize>(subjects: &[Subject], models: [(&str, Result<Graph, GraphError>); N]) {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/zoo.json")).unwrap();
    for (name, graph) in models {
        equals(subjects, name, graph, &goldens[name], "output");
    }
}

fn equal_pytorch<const N: usize>(subjects: &[Subject], models: [(&str, Result<Graph, GraphError>); N]) {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/segmentation.json")).unwrap();
    for (name, graph) in models {
        equals(subjects, name, graph, &goldens["outputs"][name], "stored");
    }
}

pub(crate) fn resnets_equal_torchvision(subjects: &[Subject]) {
    let resnet = |depth, norm| zoo::resnet(depth, &[3, 64, 64], 10, norm);
    equal_torchvision(
        subjects,
        [
            ("resnet-18", resnet(ResNet::R18, Norm::Frozen)),
            ("resnet-18-group", resnet(ResNet::R18, Norm::Group(32))),
            ("resnet-34", resnet(ResNet::R34, Norm::Frozen)),
            ("resnet-50", resnet(ResNet::R50, Norm::Frozen)),
            ("resnet-101", resnet(ResNet::R101, Norm::Frozen)),
        ],
    );
}

pub(crate) fn vggs_equal_torchvision(subjects: &[Subject]) {
    let vgg = |depth, norm| zoo::vgg(depth, &[3, 40, 40], 10, norm);
    // They come one after the other, because each has more than a hundred million weights.
    equal_torchvision(subjects, [("vgg-11", vgg(Vgg::V11, Norm::Removed))]);
    equal_torchvision(subjects, [("vgg-11-bn", vgg(Vgg::V11, Norm::Frozen))]);
    equal_torchvision(subjects, [("vgg-16", vgg(Vgg::V16, Norm::Removed))]);
    equal_torchvision(subjects, [("vgg-16-bn", vgg(Vgg::V16, Norm::Frozen))]);
}

pub(crate) fn the_other_models_equal_pytorch(subjects: &[Subject]) {
    equal_torchvision(
        subjects,
        [
            ("wrn-16-4", zoo::wide_resnet(WideResNet::W16x4, &[3, 32, 32], 10)),
            ("wrn-40-4", zoo::wide_resnet(WideResNet::W40x4, &[3, 32, 32], 10)),
            ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10)),
            ("mc3-18", zoo::mc3(&[3, 4, 32, 32], 10, Norm::Frozen)),
        ],
    );
}

pub(crate) fn mobilenets_equal_torchvision(subjects: &[Subject]) {
    let mobilenet = |shape: &[usize], norm| zoo::mobilenet_v2(shape, CLASSES, norm);
    equal_pytorch(
        subjects,
        [
            ("mobilenet-v2", mobilenet(&[3, 64, 64], Norm::Frozen)),
            ("mobilenet-v2-group", mobilenet(&[3, 65, 49], Norm::Group(32))),
        ],
    );
}

pub(crate) fn deeplabs_equal_pytorch(subjects: &[Subject]) {
    use OutputStride::{Eight, Sixteen};
    let of = |backbone, stride, (height, width): (usize, usize), norm| {
        zoo::deeplab_v3_plus(backbone, stride, &[3, height, width], CLASSES, norm)
    };
    let (resnet, mobilenet, group) = (Backbone::ResNet, Backbone::MobileNetV2, Norm::Group(32));
    equal_pytorch(
        subjects,
        [
            ("deeplab-resnet-50", of(resnet(ResNet::R50), Sixteen, (64, 64), Norm::Frozen)),
            ("deeplab-resnet-50-odd", of(resnet(ResNet::R50), Sixteen, (57, 90), Norm::Frozen)),
            ("deeplab-resnet-18-stride-8", of(resnet(ResNet::R18), Eight, (64, 64), Norm::Removed)),
            ("deeplab-resnet-34-group", of(resnet(ResNet::R34), Sixteen, (45, 33), group)),
            ("deeplab-resnet-101-stride-8", of(resnet(ResNet::R101), Eight, (33, 40), Norm::Frozen)),
            ("deeplab-mobilenet", of(mobilenet, Sixteen, (64, 64), Norm::Frozen)),
            ("deeplab-mobilenet-stride-8", of(mobilenet, Eight, (49, 80), group)),
        ],
    );
}

pub(crate) fn psp_nets_equal_pytorch(subjects: &[Subject]) {
    let of = |backbone, (height, width): (usize, usize), norm| {
        zoo::psp_net(backbone, &[3, height, width], CLASSES, norm)
    };
    equal_pytorch(
        subjects,
        [
            ("psp-resnet-50", of(ResNet::R50, (64, 64), Norm::Frozen)),
            ("psp-resnet-50-odd", of(ResNet::R50, (57, 90), Norm::Frozen)),
            ("psp-resnet-18-group", of(ResNet::R18, (64, 48), Norm::Group(32))),
            ("psp-resnet-34-removed", of(ResNet::R34, (33, 40), Norm::Removed)),
            ("psp-resnet-101", of(ResNet::R101, (40, 33), Norm::Frozen)),
        ],
    );
}
