//! The models that both benchmarks measure, found by name.

use dapple_graph::tune::{Lora, Tuning};
use dapple_graph::zoo::{self, ConvNext, Norm, ResNet, Vgg, VisionTransformer, WideResNet};
use dapple_graph::{Graph, GraphError};

/// The shape of a photograph.
const PHOTOGRAPH: [usize; 3] = [3, 224, 224];

/// The model of this name, for ten classes; `None` if no model has it. A transformer's name may end with `-lora`, in which case adapters of
/// rank 8 and the head train.
pub(crate) fn named(name: &str) -> Option<Result<Graph, GraphError>> {
    let group = Norm::Group(32);
    Some(match name {
        "small-cnn" => zoo::small_cnn(&[1, 28, 28], 10),
        "wrn-16-4" => zoo::wide_resnet(WideResNet::W16x4, &[3, 32, 32], 10),
        "resnet-18" => zoo::resnet(ResNet::R18, &[3, 100, 100], 10, group),
        "vgg-11" => zoo::vgg(Vgg::V11, &[3, 100, 100], 10, Norm::Removed),
        "resnet-50" => zoo::resnet(ResNet::R50, &PHOTOGRAPH, 10, group),
        other => {
            if let Some(model) = ConvNext::named(other) {
                return Some(zoo::convnext(model, &PHOTOGRAPH, 10));
            }
            let plain = other.strip_suffix("-lora");
            let model = VisionTransformer::named(plain.unwrap_or(other))?;
            let lora = Tuning::Lora(Lora { rank: 8, alpha: 16.0, targets: Vec::new() });
            let tuning = if plain.is_some() { lora } else { Tuning::All };
            zoo::vision_transformer(model, &PHOTOGRAPH, 10).and_then(|graph| graph.tuned(&tuning))
        }
    })
}
