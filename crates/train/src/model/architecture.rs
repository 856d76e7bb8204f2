//! Architectures by name.

use dapple_geometry::TokenGrid;
use dapple_graph::zoo::{
    self, Backbone, ConvNext, LibraryNames, MvitSize, Norm, OutputStride, ResNet, TokenPooling, Vgg,
    VisionTransformer, WideResNet,
};
use dapple_graph::{Graph, GraphError};
use dapple_plan::ModelPlan;
use dapple_plan::spec::{NormSpec, PoolingSpec};

use super::small;
use crate::error::TrainError;

/// Number of groups of a group norm.
const GROUPS: usize = 32;

/// The models with dropout layers of their own beside which weights lie that these split, where they drop nodes at a rate of one half.
pub(crate) const EVEN_DROPOUT_MODELS: &str = "vgg-11, vgg-16, mobilenet-v2, psp-net-resnet-18, psp-net-resnet-34, psp-net-resnet-50, psp-net-resnet-101";

/// Which places of an image a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelTokens {
    /// All of them.
    All,
    /// The tokens that have a share in it, which every sample tells.
    Subset,
    /// All, but its last mean is over those that have a share in it.
    Pooled,
}

/// The windows through which a model reads tokens, if it can be given a subset of them.
pub(super) fn token_grid(name: &str) -> Option<TokenGrid> {
    if MvitSize::named(name).is_some() {
        // Windows of 3 x 7 x 7, which overlap.
        return TokenGrid::new(7, 4, 3).and_then(|grid| grid.over_frames(3, 2, 1)).ok();
    }
    let patch = u32::try_from(VisionTransformer::named(name)?.patch).ok()?;
    TokenGrid::patches(patch).ok()
}

/// Whose names a model has at first; none where it has the same everywhere.
pub(super) fn first_names(name: &str) -> Option<LibraryNames> {
    let transformer = VisionTransformer::named(name).map(|model| model.names);
    transformer.or_else(|| ConvNext::named(name).map(|model| model.names))
}

/// The model of a plan, under the names of a library where several have it.
pub(super) fn architecture(
    plan: &ModelPlan,
    names: Option<LibraryNames>,
    shape: &[usize],
    classes: usize,
    tokens: ModelTokens,
) -> Result<Graph, TrainError> {
    let name = plan.name.as_str();
    if shape.len() == 4 && !takes_clips(name) {
        let problem = format!("{name} takes images, and the data are clips");
        return Err(TrainError::setting(
            "model.name",
            problem,
            "choose small-clip, mc3-18, mvit-v2-s or mvit-v2-b",
        ));
    }
    let norm = match plan.norm.unwrap_or_default() {
        NormSpec::Group => Norm::Group(GROUPS),
        NormSpec::Frozen => Norm::Frozen,
        NormSpec::Removed => Norm::Removed,
    };
    let fixed = |graph: Result<Graph, GraphError>| match plan.norm {
        None => Ok(graph?),
        Some(_) => {
            Err(TrainError::setting("model.norm", format!("{name} has no choice of norm"), "leave it out"))
        }
    };
    let transformer = VisionTransformer::named(name);
    if plan.pooling.is_some() && transformer.is_none() {
        let problem = format!("{name} has no choice of pooling");
        return Err(TrainError::setting("model.pooling", problem, "leave it out"));
    }
    if let Some(backbone) = name.strip_prefix("deeplab-v3-plus-").and_then(backbone) {
        return Ok(zoo::deeplab_v3_plus(backbone, output_stride(plan)?, shape, classes, norm)?);
    }
    if plan.output_stride.is_some() {
        let problem = format!("{name} has no choice of output stride");
        return Err(TrainError::setting("model.output_stride", problem, "leave it out"));
    }
    if let Some(model) = transformer {
        let names = names.unwrap_or(model.names);
        let model = VisionTransformer { pooling: pooling(plan), names, ..model };
        return fixed(match tokens {
            ModelTokens::All | ModelTokens::Pooled => zoo::vision_transformer(model, shape, classes),
            ModelTokens::Subset => zoo::vision_transformer_on_subsets(model, shape, classes),
        });
    }
    if let Some(model) = ConvNext::named(name) {
        let names = names.unwrap_or(model.names);
        return fixed(zoo::convnext(ConvNext { names, ..model }, shape, classes));
    }
    if let Some(size) = MvitSize::named(name) {
        clips(name, shape)?;
        return fixed(match tokens {
            ModelTokens::All | ModelTokens::Pooled => zoo::mvit_v2(size, shape, classes),
            ModelTokens::Subset => zoo::mvit_v2_on_subsets(size, shape, classes),
        });
    }
    if tokens == ModelTokens::Subset {
        let problem = format!("{name} does not tell the tokens of an image apart");
        let hint = "give \"pooled\" or \"blank\", or choose a vision transformer or MViT";
        return Err(TrainError::setting("masked.pass", problem, hint));
    }
    if let Some(Backbone::ResNet(depth)) = name.strip_prefix("psp-net-").and_then(backbone) {
        return Ok(zoo::psp_net(depth, shape, classes, norm)?);
    }
    match name {
        "linear" => fixed(small::linear(shape, classes)),
        "small-cnn" => fixed(zoo::small_cnn(shape, classes)),
        "small-hybrid" => fixed(zoo::small_hybrid(shape, classes)),
        "small-clip" => {
            clips(name, shape)?;
            fixed(small::clip_network(shape, classes))
        }
        "mc3-18" => {
            clips(name, shape)?;
            Ok(zoo::mc3(shape, classes, norm)?)
        }
        "small-fcn" => fixed(small::fully_convolutional(shape, classes)),
        "wrn-16-4" => fixed(zoo::wide_resnet(WideResNet::W16x4, shape, classes)),
        "wrn-40-4" => fixed(zoo::wide_resnet(WideResNet::W40x4, shape, classes)),
        "vgg-11" => Ok(zoo::vgg(Vgg::V11, shape, classes, norm)?),
        "vgg-16" => Ok(zoo::vgg(Vgg::V16, shape, classes, norm)?),
        other => match backbone(other) {
            Some(Backbone::ResNet(depth)) => Ok(zoo::resnet(depth, shape, classes, norm)?),
            Some(Backbone::MobileNetV2) => Ok(zoo::mobilenet_v2(shape, classes, norm)?),
            None => Err(TrainError::setting(
                "model.name",
                format!("{other:?} is no model"),
                ModelPlan::hint_for(other),
            )),
        },
    }
}

/// A network that serves as a classifier or as the backbone of a segmentation model.
fn backbone(name: &str) -> Option<Backbone> {
    Some(match name {
        "resnet-18" => Backbone::ResNet(ResNet::R18),
        "resnet-34" => Backbone::ResNet(ResNet::R34),
        "resnet-50" => Backbone::ResNet(ResNet::R50),
        "resnet-101" => Backbone::ResNet(ResNet::R101),
        "mobilenet-v2" => Backbone::MobileNetV2,
        _ => return None,
    })
}

/// Whether a model takes clips; softmax regression takes anything.
fn takes_clips(name: &str) -> bool {
    MvitSize::named(name).is_some() || matches!(name, "small-clip" | "mc3-18" | "linear")
}

/// Refuses images for a model of clips.
fn clips(name: &str, shape: &[usize]) -> Result<(), TrainError> {
    match shape.len() {
        3 => Err(TrainError::setting(
            "model.name",
            format!("{name} takes clips, and the data are images"),
            "choose another model, or data.format = \"clip-folder\"",
        )),
        _ => Ok(()),
    }
}

fn output_stride(plan: &ModelPlan) -> Result<OutputStride, TrainError> {
    match plan.output_stride {
        Some(8) => Ok(OutputStride::Eight),
        Some(16) | None => Ok(OutputStride::Sixteen),
        Some(other) => {
            let problem = format!("features cannot lie {other} pixels apart");
            Err(TrainError::setting("model.output_stride", problem, "give 8 or 16"))
        }
    }
}

fn pooling(plan: &ModelPlan) -> TokenPooling {
    match plan.pooling.unwrap_or_default() {
        PoolingSpec::ClassToken => TokenPooling::ClassToken,
        PoolingSpec::Mean => TokenPooling::Mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::spec::ModelSpec;

    #[test]
    fn a_model_of_clips_takes_no_images() {
        let spec = ModelSpec { name: Some("mvit-v2-s".to_owned()), ..ModelSpec::default() };
        let plan = ModelPlan::check(&spec).unwrap();
        let graph = architecture(&plan, None, &[3, 4, 32, 32], 5, ModelTokens::All).unwrap();
        assert_eq!(graph.output_shape(), [5]);
        let images = ModelSpec { name: Some("small-cnn".to_owned()), ..ModelSpec::default() };
        let images = ModelPlan::check(&images).unwrap();
        let error = architecture(&images, None, &[3, 4, 32, 32], 5, ModelTokens::All).unwrap_err();
        assert_eq!(error.to_string(), "model.name: small-cnn takes images, and the data are clips");
        let error = architecture(&plan, None, &[3, 32, 32], 5, ModelTokens::All).unwrap_err();
        assert_eq!(error.to_string(), "model.name: mvit-v2-s takes clips, and the data are images");
        assert!(error.hint().unwrap().contains("clip-folder"));
    }

    #[test]
    fn the_models_that_dropout_splits_are_listed() {
        let names = dapple_plan::spec::keys::find("model.name").unwrap().choices;
        let splits = |name: &&&str| {
            let spec = ModelSpec { name: Some((**name).to_owned()), ..ModelSpec::default() };
            let (shape, classes) = super::super::catalogue::usual(name);
            let graph =
                architecture(&ModelPlan::check(&spec).unwrap(), None, shape, classes, ModelTokens::All)
                    .unwrap();
            graph.with_even_dropout().dropout_split().whole().next().is_some()
        };
        let found: Vec<&str> = names.iter().filter(splits).copied().collect();
        assert_eq!(found.join(", "), EVEN_DROPOUT_MODELS);
    }
}
