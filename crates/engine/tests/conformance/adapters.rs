//! Checks that a model with adapters and the plain model that they are merged into give the same answers.

use dapple_engine::reference::ReferenceExecutor;
use dapple_graph::tune::{Lora, Tuning, merged};
use dapple_graph::zoo::{
    self, LibraryNames, Norm, ResNet, TokenPooling, VisionTransformer, VitSize, mobilenet_v2,
};

use crate::common::{Data, parameters};

#[test]
fn a_model_with_merged_adapters_answers_as_before() {
    let image = [3, 32, 32];
    let (size, pooling, names) = (VitSize::Tiny, TokenPooling::ClassToken, LibraryNames::Timm);
    let vit = VisionTransformer { size, patch: 16, pooling, names };
    for (plain, layer) in [
        (zoo::vision_transformer(vit, &image, 5).unwrap(), "blocks.3.mlp.fc1"),
        (mobilenet_v2(&image, 5, Norm::Frozen).unwrap(), "features.3.conv.2"),
        (zoo::resnet(ResNet::R18, &image, 5, Norm::Frozen).unwrap(), "layer2.0.conv1"),
    ] {
        // Adapters are small beside their layers: random layers between saturated activations would turn rounding into chaos.
        let lora = Lora { rank: 3, alpha: 0.3, targets: Vec::new() };
        let graph = plain.clone().tuned(&Tuning::Lora(lora)).unwrap();
        let mut adapted = parameters(&graph);
        let answers = |graph, parameters: &_| {
            let inputs = Data::new(graph, 2, 1).inputs;
            ReferenceExecutor::new(graph, parameters).unwrap().forward(&inputs).unwrap()
        };
        let wanted = answers(&graph, &adapted);
        let got = answers(&plain, &merged(&graph, &adapted, &plain).unwrap());
        let largest = wanted.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        for (wanted, got) in wanted.iter().zip(&got) {
            // Merged weights are rounded to single precision, layer after layer.
            assert!((wanted - got).abs() <= 1e-5 * largest, "{layer}: {wanted} {got}");
        }
        // The answers are not those of the plain model anyway.
        adapted.get_mut(graph.find_parameter(&format!("{layer}.lora_B.weight")).unwrap()).fill(0.0);
        let without = answers(&graph, &adapted);
        assert!(wanted.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-4 * largest), "{layer}");
    }
}
