//! The reference executor against PyTorch's autograd, and the zoo against torchvision. `goldens/generate.py` made the figures.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, names, parameters, specimens, uniform};
use dapple_engine::reference::Reference;
use dapple_engine::{CpuExecutor, Layout, Options};
use dapple_graph::zoo::{self, Norm, ResNet, Vgg, WideResNet};
use dapple_graph::{Graph, GraphError};
use safetensors::SafeTensors;

fn doubles(file: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let tensor = file.tensor(name).unwrap();
    tensor.data().as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
}

#[test]
fn gradients_equal_autograd() {
    let bytes = include_bytes!("goldens/autograd.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let mut compared = 0;
    for (name, graph) in specimens() {
        let data = Data::new(&graph, 2, 1);
        let reference = Reference::new(&graph, &parameters(&graph)).unwrap();
        let losses = doubles(&file, &format!("{name}/loss"));
        for (sample, want) in losses.iter().enumerate() {
            let (loss, _) = reference.gradient(&data.batch(), sample).unwrap();
            // Both sides compute in double precision: only the order of sums differs.
            assert!((loss - want).abs() <= 1e-11 * want.abs().max(1.0), "{name}: {loss} against {want}");
        }
        let (_, gradient) = reference.gradient(&data.batch(), 0).unwrap();
        let largest = gradient.iter().fold(0.0f64, |max, g| max.max(g.abs()));
        for entry in Layout::new(&graph).entries() {
            let want = doubles(&file, &format!("{name}/{}", entry.name));
            let got = &gradient[entry.range.clone()];
            assert_eq!(got.len(), want.len(), "{name} {}", entry.name);
            // Some parameters before a norm have no gradient but rounding.
            let scale = want.iter().fold(1e-4 * largest, |max, g| max.max(g.abs()));
            for (index, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!(
                    (got - want).abs() <= 1e-10 * scale,
                    "{name} {}[{index}]: {got} against {want}",
                    entry.name
                );
            }
            compared += 1;
        }
    }
    // Every tensor of the file but the losses was used.
    assert_eq!(compared, file.names().len() - specimens().len());
}

fn equals_torchvision(name: &str, graph: Result<Graph, GraphError>) {
    let goldens: serde_json::Value = serde_json::from_str(include_str!("goldens/zoo.json")).unwrap();
    let golden = &goldens[name];
    let graph = graph.unwrap();
    let want = (golden["parameters"].as_u64().unwrap(), golden["checksum"].as_str().unwrap().to_owned());
    assert_eq!(names(&graph), want, "names or shapes of {name}");

    let input: usize = graph.input_shape().iter().product();
    let inputs: Vec<f32> = (0..input).map(|i| uniform("input", i) as f32).collect();
    let mut executor = CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
    let got = executor.load(&parameters(&graph)).unwrap().forward(&inputs).unwrap();
    let want: Vec<f64> = golden["output"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let scale = want.iter().fold(0.0f64, |max, v| max.max(v.abs()));
    for (got, want) in got.iter().zip(&want) {
        // Single precision through at most a hundred layers.
        assert!((f64::from(*got) - want).abs() <= 1e-4 * scale, "{name}: {got} against {want}");
    }
}

#[test]
fn resnets_equal_torchvision() {
    let shape = [3, 64, 64];
    equals_torchvision("resnet-18", zoo::resnet(ResNet::R18, &shape, 10, Norm::Frozen));
    equals_torchvision("resnet-18-group", zoo::resnet(ResNet::R18, &shape, 10, Norm::Group(32)));
    equals_torchvision("resnet-34", zoo::resnet(ResNet::R34, &shape, 10, Norm::Frozen));
    equals_torchvision("resnet-50", zoo::resnet(ResNet::R50, &shape, 10, Norm::Frozen));
    equals_torchvision("resnet-101", zoo::resnet(ResNet::R101, &shape, 10, Norm::Frozen));
}

#[test]
fn vggs_equal_torchvision() {
    let shape = [3, 40, 40];
    equals_torchvision("vgg-11", zoo::vgg(Vgg::V11, &shape, 10, Norm::Removed));
    equals_torchvision("vgg-11-bn", zoo::vgg(Vgg::V11, &shape, 10, Norm::Frozen));
    equals_torchvision("vgg-16", zoo::vgg(Vgg::V16, &shape, 10, Norm::Removed));
    equals_torchvision("vgg-16-bn", zoo::vgg(Vgg::V16, &shape, 10, Norm::Frozen));
}

#[test]
fn the_other_models_equal_pytorch() {
    equals_torchvision("wrn-16-4", zoo::wide_resnet(WideResNet::W16x4, &[3, 32, 32], 10));
    equals_torchvision("wrn-40-4", zoo::wide_resnet(WideResNet::W40x4, &[3, 32, 32], 10));
    equals_torchvision("small-cnn", zoo::small_cnn(&[1, 28, 28], 10));
}
