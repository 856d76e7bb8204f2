//! Weights files: `.safetensors` under the names of the library that a model comes from.

mod file;
mod fitting;
mod numbers;
mod positions;

use std::collections::BTreeMap;
use std::fmt;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::GraphError;
use crate::graph::{Graph, Parameter, ParameterId};
use crate::init::Parameters;
use crate::zoo::backbone_name;
pub use file::{load, load_backbone, load_fitting, save, shapes};
pub use fitting::{Fitted, read_fitting};
use numbers::decode;

/// All the names because of which a weights file does not fit a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// Names that the graph has and the file lacks.
    pub missing: Vec<String>,
    /// Names that the file has and the graph lacks.
    pub unexpected: Vec<String>,
    /// Names that both have with different shapes, with the shape in the graph and the shape in the file.
    pub wrong_shape: Vec<(String, Vec<usize>, Vec<usize>)>,
    /// Names whose numbers are of a type that cannot be read, with that type.
    pub wrong_type: Vec<(String, String)>,
}

impl Mismatch {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong =
            self.wrong_shape.iter().map(|(name, want, got)| format!("{name} (model {want:?}, file {got:?})"));
        let types = self.wrong_type.iter().map(|(name, kind)| format!("{name} ({kind})"));
        let parts = [
            ("missing", self.missing.clone()),
            ("unexpected", self.unexpected.clone()),
            ("wrong shape", wrong.collect()),
            ("wrong type", types.collect()),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        write!(f, "{}", parts.join("; "))
    }
}

/// Reads parameters from the bytes of a safetensors file. The counters that PyTorch's batch norms store are skipped.
///
/// # Errors
/// If the bytes are not safetensors, or any name, shape or type does not fit. The error lists all that do not.
pub fn read(graph: &Graph, bytes: &[u8]) -> Result<Parameters, GraphError> {
    let mut file = tensors(bytes)?;
    let mut parameters = Parameters::zeros(graph);
    let mut mismatch = take(graph, &mut file, |name| Some(name.to_owned()), &mut parameters);
    mismatch.unexpected = file.into_keys().collect();
    if mismatch.is_empty() { Ok(parameters) } else { Err(GraphError::Weights(mismatch)) }
}

/// Reads the backbone of a segmentation model from the bytes of a torchvision classifier's file, and leaves the other parameters as they
/// are. Returns the names in the file that the backbone has no use for: those of the classifier, and of batch norms that the model has
/// replaced or removed.
///
/// # Errors
/// If the bytes are not safetensors, the model has no backbone, the parameters do not belong to it, or any other name, shape or type does
/// not fit. The error lists all that do not fit. After an error the parameters may be half read and must not be used.
pub fn read_backbone(
    graph: &Graph,
    bytes: &[u8],
    parameters: &mut Parameters,
) -> Result<Vec<String>, GraphError> {
    if !parameters.fit(graph) {
        return Err(GraphError::Unknown("a set of parameters".into()));
    }
    if !graph.parameters().iter().any(|parameter| backbone_name(&parameter.name).is_some()) {
        return Err(GraphError::Unknown("a backbone".into()));
    }
    let mut file = tensors(bytes)?;
    let norms: Vec<String> =
        file.keys().filter_map(|name| Some(format!("{}.", name.strip_suffix(".running_mean")?))).collect();
    let mut mismatch = take(graph, &mut file, backbone_name, parameters);
    let (unused, unexpected) = file.into_keys().partition(|name| {
        CLASSIFIERS.iter().any(|layer| name.starts_with(layer))
            || norms.iter().any(|norm| name.starts_with(norm))
    });
    mismatch.unexpected = unexpected;
    if mismatch.is_empty() { Ok(unused) } else { Err(GraphError::Weights(mismatch)) }
}

/// How the names of the layers begin that torchvision's classifiers have after the backbone's last features.
const CLASSIFIERS: [&str; 3] = ["fc.", "classifier.", "features.18."];

/// The tensors of a file by name.
fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, TensorView<'_>>, GraphError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| GraphError::Format(error.to_string()))?;
    Ok(file.tensors().into_iter().filter(|(name, _)| !name.ends_with(".num_batches_tracked")).collect())
}

/// Takes every parameter for which `name` gives a name out of the file, and returns what does not fit.
fn take(
    graph: &Graph,
    file: &mut BTreeMap<String, TensorView<'_>>,
    name: impl Fn(&str) -> Option<String>,
    parameters: &mut Parameters,
) -> Mismatch {
    let mut mismatch = Mismatch::default();
    for (index, parameter) in graph.parameters().iter().enumerate() {
        let Some(name) = name(&parameter.name) else { continue };
        let Some(tensor) = file.remove(&name) else {
            mismatch.missing.push(name);
            continue;
        };
        let values = parameters.get_mut(ParameterId(index));
        let read = match tensor.shape() == parameter.shape {
            true => decode(&tensor, values),
            false => match other_grid(parameter, tensor.shape()) {
                Some(grid) => decode_resampled(&tensor, parameter, grid, values),
                None => {
                    mismatch.wrong_shape.push((name, parameter.shape.clone(), tensor.shape().to_vec()));
                    continue;
                }
            },
        };
        if !read {
            mismatch.wrong_type.push((name, format!("{:?}", tensor.dtype())));
        }
    }
    mismatch
}

/// The grid of a file's position embeddings, if nothing but their number differs from the model's. Files do not tell the sides of the
/// grid, so it is taken to be a square.
fn other_grid(parameter: &Parameter, shape: &[usize]) -> Option<[usize; 2]> {
    let [height, width] = parameter.grid?;
    let [outer @ .., rows, features] = &parameter.shape[..] else { return None };
    let [found_outer @ .., found_rows, found_features] = shape else { return None };
    let before = rows - height * width;
    let side = positions::square_side(found_rows.checked_sub(before)?)?;
    (outer == found_outer && features == found_features).then_some([side, side])
}

/// Reads position embeddings of one grid and resamples them to another; false if the numbers are of a type that cannot be read.
fn decode_resampled(
    tensor: &TensorView<'_>,
    parameter: &Parameter,
    from: [usize; 2],
    values: &mut [f32],
) -> bool {
    let (Some(to), Some(&features)) = (parameter.grid, parameter.shape.last()) else { return false };
    let before = parameter.len() / features - to[0] * to[1];
    let mut stored = vec![0.0; tensor.shape().iter().product()];
    let read = decode(tensor, &mut stored);
    values.copy_from_slice(&positions::resample(&stored, features, before, from, to));
    read
}

/// Writes the parameters as the bytes of a safetensors file.
///
/// # Errors
/// If the parameters do not belong to the graph.
pub fn write(graph: &Graph, parameters: &Parameters) -> Result<Vec<u8>, GraphError> {
    write_some(graph, parameters, |_| true)
}

/// Writes the parameters that train, and no others, as the bytes of a safetensors file.
///
/// # Errors
/// Those of [`write()`].
pub fn write_trained(graph: &Graph, parameters: &Parameters) -> Result<Vec<u8>, GraphError> {
    write_some(graph, parameters, |parameter| parameter.trainable)
}

fn write_some(
    graph: &Graph,
    parameters: &Parameters,
    chosen: impl Fn(&Parameter) -> bool,
) -> Result<Vec<u8>, GraphError> {
    if !parameters.fit(graph) {
        return Err(GraphError::Unknown("a set of parameters".into()));
    }
    let chosen = graph.parameters().iter().enumerate().filter(|(_, parameter)| chosen(parameter));
    let encoded: Vec<(&Parameter, Vec<u8>)> = chosen
        .map(|(index, parameter)| {
            let values = parameters.get(ParameterId(index));
            (parameter, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let format = |error: safetensors::SafeTensorError| GraphError::Format(error.to_string());
    let views: Vec<(&str, TensorView<'_>)> = encoded
        .iter()
        .map(|(p, bytes)| Ok((p.name.as_str(), TensorView::new(Dtype::F32, p.shape.clone(), bytes)?)))
        .collect::<Result<_, safetensors::SafeTensorError>>()
        .map_err(format)?;
    safetensors::serialize(views, None).map_err(format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn what_is_written_reads_back() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let parameters = Parameters::init(&graph, 3);
        assert_eq!(read(&graph, &write(&graph, &parameters).unwrap()).unwrap(), parameters);
    }

    #[test]
    fn a_mismatch_lists_every_name() {
        let ten = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let bytes = write(&ten, &Parameters::init(&ten, 3)).unwrap();
        let seven = zoo::small_cnn(&[1, 28, 28], 7).unwrap();
        let Err(GraphError::Weights(mismatch)) = read(&seven, &bytes) else { panic!("must not fit") };
        assert_eq!(mismatch.wrong_shape.len(), 2);
        let residual = zoo::resnet(zoo::ResNet::R18, &[3, 32, 32], 10, zoo::Norm::Frozen).unwrap();
        let Err(GraphError::Weights(mismatch)) = read(&residual, &bytes) else { panic!("must not fit") };
        // Both models have a conv1.weight, but of different shapes.
        assert_eq!(mismatch.wrong_shape.len(), 1);
        assert_eq!(mismatch.missing.len(), residual.parameters().len() - 1);
        assert_eq!(mismatch.unexpected.len(), ten.parameters().len() - 1);
    }

    #[test]
    fn a_classifier_s_file_fills_the_backbone_alone() {
        use zoo::{Backbone, Norm, OutputStride, ResNet};
        let classifiers = [
            (
                Backbone::ResNet(ResNet::R18),
                zoo::resnet(ResNet::R18, &[3, 32, 32], 10, Norm::Frozen).unwrap(),
            ),
            (Backbone::MobileNetV2, zoo::mobilenet_v2(&[3, 32, 32], 10, Norm::Frozen).unwrap()),
        ];
        for (backbone, classifier) in classifiers {
            let theirs = Parameters::init(&classifier, 3);
            let bytes = write(&classifier, &theirs).unwrap();
            for norm in [Norm::Frozen, Norm::Removed, Norm::Group(8)] {
                let model =
                    zoo::deeplab_v3_plus(backbone, OutputStride::Sixteen, &[3, 33, 40], 5, norm).unwrap();
                let fresh = Parameters::zeros(&model);
                let mut loaded = fresh.clone();
                let unused = read_backbone(&model, &bytes, &mut loaded).unwrap();
                let statistics = unused.iter().any(|name| name.ends_with("running_mean"));
                assert_eq!(statistics, norm != Norm::Frozen || backbone == Backbone::MobileNetV2);
                for parameter in model.parameters() {
                    let id = model.find_parameter(&parameter.name).unwrap();
                    let want = match backbone_name(&parameter.name) {
                        Some(name) => theirs.get(classifier.find_parameter(&name).unwrap()),
                        None => fresh.get(id),
                    };
                    assert_eq!(loaded.get(id), want, "{}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn another_classifier_s_file_is_refused_by_name() {
        use zoo::{Norm, ResNet};
        let model = zoo::psp_net(ResNet::R18, &[3, 32, 32], 5, Norm::Frozen).unwrap();
        let mut parameters = Parameters::zeros(&model);
        let deeper = zoo::resnet(ResNet::R34, &[3, 32, 32], 10, Norm::Frozen).unwrap();
        let bytes = write(&deeper, &Parameters::zeros(&deeper)).unwrap();
        let error = read_backbone(&model, &bytes, &mut parameters).unwrap_err().to_string();
        assert!(error.contains("unexpected: layer1.2.conv1.weight"), "{error}");
        let wider = zoo::resnet(ResNet::R50, &[3, 32, 32], 10, Norm::Frozen).unwrap();
        let bytes = write(&wider, &Parameters::zeros(&wider)).unwrap();
        let error = read_backbone(&model, &bytes, &mut parameters).unwrap_err().to_string();
        assert!(error.contains("wrong shape: layer1.0.conv1.weight"), "{error}");
        // A classifier has no backbone of its own.
        assert!(read_backbone(&deeper, &bytes, &mut Parameters::zeros(&deeper)).is_err());
    }

    #[test]
    fn positions_of_another_size_are_resampled() {
        use zoo::{LibraryNames, TokenPooling, VisionTransformer, VitSize};
        for names in [LibraryNames::Timm, LibraryNames::Torchvision, LibraryNames::OpenClip { projection: 8 }]
        {
            let model = VisionTransformer {
                size: VitSize::Tiny,
                patch: 16,
                pooling: TokenPooling::ClassToken,
                names,
            };
            let graph = |height, width| zoo::vision_transformer(model, &[3, height, width], 5).unwrap();
            let (square, oblong, other) = (graph(32, 32), graph(48, 32), graph(48, 64));
            let stored = Parameters::init(&square, 3);
            let loaded = read(&oblong, &write(&square, &stored).unwrap()).unwrap();
            let grids: Vec<_> =
                oblong.parameters().iter().filter(|parameter| parameter.grid.is_some()).collect();
            assert_eq!(grids.len(), 1);
            for parameter in oblong.parameters() {
                let [ours, theirs] =
                    [&oblong, &square].map(|graph| graph.find_parameter(&parameter.name).unwrap());
                let same = loaded.get(ours) == stored.get(theirs);
                assert_eq!(same, parameter.grid.is_none(), "{}", parameter.name);
            }
            // The class token's position stays.
            let [ours, theirs] =
                [&oblong, &square].map(|graph| graph.find_parameter(&grids[0].name).unwrap());
            assert_eq!(loaded.get(ours)[..192], stored.get(theirs)[..192]);
            // A file does not say whether its six positions were two by three or three by two.
            let error = read(&other, &write(&oblong, &loaded).unwrap()).unwrap_err();
            assert!(error.to_string().contains("wrong shape"), "{error}");
        }
    }

    #[test]
    fn rubbish_is_an_error() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        for bytes in [&b""[..], b"\x00", b"not a weights file at all", &[0xff; 64]] {
            assert!(matches!(read(&graph, bytes), Err(GraphError::Format(_))));
        }
    }
}
