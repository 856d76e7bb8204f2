//! Every model, with the facts that a user chooses by.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dapple_engine::sample_bytes;
use dapple_graph::Parameter;
use dapple_plan::ModelPlan;
use dapple_plan::spec::{ModelSpec, NormSpec, keys};
use serde::Serialize;

use super::Blueprint;
use crate::description::Answers;
use crate::error::TrainError;

/// The largest side that is tried in search of the smallest input.
const LARGEST_SIDE: usize = 512;

/// A model that a plan can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelFacts {
    /// Its name.
    pub name: &'static str,
    /// Number of parameters, for its usual input and classes.
    pub parameters: usize,
    /// Products of two numbers, each followed by a sum, that one usual input takes, forward.
    pub operations: u64,
    /// Bytes that its activations and its gradient take on this machine's processor while it is trained on one usual input. The weights, and
    /// what all inputs of a step share, come on top.
    pub memory: u64,
    /// Whose files of weights it reads: the libraries whose names its parameters have. Of a model that stands on another, these are those of
    /// the backbone.
    pub weights: &'static [&'static str],
    /// What it says about an image or a clip.
    pub answers: Answers,
    /// The input that it is usually given: channels, the frames of a clip, height, width.
    pub input: Vec<usize>,
    /// How many classes it usually tells apart.
    pub classes: usize,
    /// The side of the smallest square image that it takes, or of the frames of a clip.
    pub smallest: usize,
    /// Whether a plan can choose its norm.
    pub norm: bool,
}

/// Every model, in the order of the plan's key.
///
/// # Errors
/// None in practice, because every name is a model.
pub fn models() -> Result<Vec<ModelFacts>, TrainError> {
    let names = keys::find("model.name").map_or(&[][..], |key| key.choices);
    // Planning the memory of a large model takes a tenth of a second, so each core takes the next model that is left.
    let next = AtomicUsize::new(0);
    let found: Vec<OnceLock<_>> = names.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        while let Some((name, found)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            names.get(place).zip(found.get(place))
        } {
            found.get_or_init(|| facts(name));
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(names.len());
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
    found.into_iter().filter_map(OnceLock::into_inner).collect()
}

fn facts(name: &'static str) -> Result<ModelFacts, TrainError> {
    let blueprint = |norm| {
        let spec = ModelSpec { name: Some(name.to_owned()), norm, ..ModelSpec::default() };
        Ok::<_, TrainError>(Blueprint::unread(&ModelPlan::check(&spec)?))
    };
    let (input, classes) = usual(name);
    let model = blueprint(None)?;
    let graph = model.build(input, classes, 0.0)?;
    let (outer, _) = input.split_at(input.len() - 2);
    let takes = |side: &usize| model.build(&[outer, &[*side; 2]].concat(), classes, 0.0).is_ok();
    Ok(ModelFacts {
        name,
        parameters: graph.parameters().iter().filter(|p| !p.buffer).map(Parameter::len).sum(),
        operations: graph.multiply_adds(),
        memory: sample_bytes(&graph),
        weights: libraries(name),
        answers: if graph.output_shape().len() == 1 { Answers::Class } else { Answers::LabelMap },
        input: input.to_vec(),
        classes,
        smallest: (1..LARGEST_SIDE).find(takes).unwrap_or(LARGEST_SIDE),
        norm: blueprint(Some(NormSpec::Group))?.build(input, classes, 0.0).is_ok(),
    })
}

/// The libraries whose names the parameters of a model have; none where there is no other library that has it.
fn libraries(name: &str) -> &'static [&'static str] {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    if begins(&["vit-"]) {
        &["timm", "torchvision", "OpenCLIP"]
    } else if begins(&["convnext-"]) {
        &["timm", "torchvision"]
    } else if begins(&["resnet-", "vgg-", "mobilenet-", "mvit-", "mc3-", "psp-net-", "deeplab-"]) {
        &["torchvision"]
    } else {
        &[]
    }
}

/// The input and the number of classes of the data for which a model is known: MNIST, CIFAR-10, moving shapes,
/// Cityscapes, Kinetics-400, ImageNet.
pub(crate) fn usual(name: &str) -> (&'static [usize], usize) {
    match name {
        "linear" | "small-cnn" => (&[1, 28, 28], 10),
        "small-hybrid" | "vit-ti-4" | "vit-s-4" => (&[3, 32, 32], 10),
        _ if name.starts_with("wrn-") => (&[3, 32, 32], 10),
        "small-fcn" => (&[3, 512, 512], 19),
        _ if name.starts_with("deeplab-") || name.starts_with("psp-net-") => (&[3, 512, 512], 19),
        "small-clip" => (&[3, 8, 32, 32], 6),
        "mc3-18" => (&[3, 16, 112, 112], 400),
        "mvit-v2-s" => (&[3, 16, 224, 224], 400),
        "mvit-v2-b" => (&[3, 32, 224, 224], 400),
        _ => (&[3, 224, 224], 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of parameters are those that torchvision 0.24 documents for its weights, and timm 1.0 for sizes that torchvision
    /// lacks.
    #[test]
    fn known_models_have_the_parameters_that_their_libraries_state() {
        let models = models().unwrap();
        for (name, parameters) in [
            ("resnet-18", 11_689_512),
            ("resnet-50", 25_557_032),
            ("vgg-16", 138_365_992),
            ("mobilenet-v2", 3_504_872),
            ("convnext-t", 28_589_128),
            ("convnext-s", 50_223_688),
            ("convnext-b", 88_591_464),
            ("convnext-l", 197_767_336),
            ("vit-ti-16", 5_717_416),
            ("vit-s-16", 22_050_664),
            ("vit-b-16", 86_567_656),
            ("vit-b-32", 88_224_232),
            ("vit-l-16", 304_326_632),
            ("vit-l-32", 306_535_400),
            ("mvit-v2-s", 34_537_744),
            ("mc3-18", 11_695_440),
        ] {
            let model = models.iter().find(|model| model.name == name).unwrap();
            assert_eq!(model.parameters, parameters, "{name}");
        }
        let find = |name: &str| models.iter().find(|model| model.name == name).unwrap();
        assert_eq!((find("vit-b-32").smallest, find("vit-b-32").norm), (32, false));
        assert_eq!((find("mvit-v2-b").smallest, find("mvit-v2-b").norm), (32, false));
        assert_eq!(find("psp-net-resnet-18").answers, Answers::LabelMap);
        assert!(find("resnet-18").norm && find("resnet-18").answers == Answers::Class);
    }
}
