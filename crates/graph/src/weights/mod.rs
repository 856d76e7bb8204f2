//! Weights files: `.safetensors` under the names of the library that a model comes from.

mod positions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::GraphError;
use crate::graph::{Graph, Parameter, ParameterId};
use crate::init::Parameters;
use crate::zoo::backbone_name;

/// Every name that keeps a weights file from fitting a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// In the graph but not in the file.
    pub missing: Vec<String>,
    /// In the file but not in the graph.
    pub unexpected: Vec<String>,
    /// In both with different shapes: name, shape in the graph, shape in the file.
    pub wrong_shape: Vec<(String, Vec<usize>, Vec<usize>)>,
    /// Of a number type that cannot be read: name and type.
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

/// Reads parameters from the bytes of a safetensors file. Counters that PyTorch's batch norm stores are skipped.
///
/// # Errors
/// If the bytes are not safetensors, or any name or shape does not fit: the error lists every one.
pub fn read(graph: &Graph, bytes: &[u8]) -> Result<Parameters, GraphError> {
    let mut file = tensors(bytes)?;
    let mut parameters = Parameters::zeros(graph);
    let mut mismatch = take(graph, &mut file, |name| Some(name.to_owned()), &mut parameters);
    mismatch.unexpected = file.into_keys().collect();
    if mismatch.is_empty() { Ok(parameters) } else { Err(GraphError::Weights(mismatch)) }
}

/// Reads the backbone of a segmentation model from the bytes of a torchvision classifier's file; the rest of the parameters stay as they
/// are. Returns the names of the file that the backbone does without: the classifier, and what belongs to batch norms that the model
/// has replaced or removed.
///
/// # Errors
/// If the bytes are not safetensors, the model has no backbone, or any other name or shape does not fit: the error lists every one.
/// Then the parameters are not usable.
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

/// What the names of a torchvision classifier's last layers begin with; a backbone does without them.
const CLASSIFIERS: [&str; 3] = ["fc.", "classifier.", "features.18."];

/// The tensors of a file by name.
fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, TensorView<'_>>, GraphError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| GraphError::Format(error.to_string()))?;
    Ok(file.tensors().into_iter().filter(|(name, _)| !name.ends_with(".num_batches_tracked")).collect())
}

/// Moves every parameter that has a name in the file from there; returns what does not fit.
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

/// The grid of a file's position embeddings, where only their number differs from the model's. Files do not tell its sides: it is a square.
fn other_grid(parameter: &Parameter, shape: &[usize]) -> Option<[usize; 2]> {
    let [height, width] = parameter.grid?;
    let [outer @ .., rows, features] = &parameter.shape[..] else { return None };
    let [found_outer @ .., found_rows, found_features] = shape else { return None };
    let before = rows - height * width;
    let side = positions::square_side(found_rows.checked_sub(before)?)?;
    (outer == found_outer && features == found_features).then_some([side, side])
}

/// Reads position embeddings of one grid for another; false where the numbers are of a type that cannot be read.
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

/// Reads parameters from a safetensors file.
///
/// # Errors
/// As [`read`], and if it is no file, cannot be opened or is much larger than the model.
pub fn load(graph: &Graph, path: &Path) -> Result<Parameters, GraphError> {
    read(graph, &bytes_of(graph, path)?)
}

/// Reads the backbone of a segmentation model from a torchvision classifier's safetensors file, as [`read_backbone`] does.
///
/// # Errors
/// As [`read_backbone`], and if it is no file, cannot be opened or is much larger than the model.
pub fn load_backbone(
    graph: &Graph,
    path: &Path,
    parameters: &mut Parameters,
) -> Result<Vec<String>, GraphError> {
    read_backbone(graph, &bytes_of(graph, path)?, parameters)
}

/// Bytes that a file may have beyond those of the model: other heads, counters, names.
const BESIDE_MODEL: u64 = 1 << 30;

/// The bytes of a weights file. A device has no end, a pipe waits for a writer, and a file much larger than the model is another's.
fn bytes_of(graph: &Graph, path: &Path) -> Result<Vec<u8>, GraphError> {
    let failed = |source| file_error(path, source);
    let refused = |problem: &str| failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, problem));
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(refused("not a file"));
    }
    // Numbers have up to eight bytes.
    let values: u64 = graph.parameters().iter().map(|p| p.shape.iter().product::<usize>() as u64).sum();
    if about.len() > values.saturating_mul(8).saturating_add(BESIDE_MODEL) {
        return Err(refused("it is much larger than the model"));
    }
    std::fs::read(path).map_err(failed)
}

/// The parameters as the bytes of a safetensors file.
///
/// # Errors
/// If the parameters do not belong to the graph.
pub fn write(graph: &Graph, parameters: &Parameters) -> Result<Vec<u8>, GraphError> {
    if !parameters.fit(graph) {
        return Err(GraphError::Unknown("a set of parameters".into()));
    }
    let encoded: Vec<Vec<u8>> = (0..graph.parameters().len())
        .map(|index| {
            parameters.get(ParameterId(index)).iter().flat_map(|value| value.to_le_bytes()).collect()
        })
        .collect();
    let format = |error: safetensors::SafeTensorError| GraphError::Format(error.to_string());
    let views: Vec<(&str, TensorView<'_>)> = graph
        .parameters()
        .iter()
        .zip(&encoded)
        .map(|(p, bytes)| Ok((p.name.as_str(), TensorView::new(Dtype::F32, p.shape.clone(), bytes)?)))
        .collect::<Result<_, safetensors::SafeTensorError>>()
        .map_err(format)?;
    safetensors::serialize(views, None).map_err(format)
}

/// Writes the parameters to a safetensors file.
///
/// # Errors
/// As [`write()`], and if the file cannot be written.
pub fn save(graph: &Graph, parameters: &Parameters, path: &Path) -> Result<(), GraphError> {
    std::fs::write(path, write(graph, parameters)?).map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> GraphError {
    GraphError::File { path: path.display().to_string(), source }
}

/// Decodes 16-, 32- and 64-bit floating-point numbers; false for any other type.
fn decode(tensor: &TensorView<'_>, values: &mut [f32]) -> bool {
    let bytes = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*chunk);
            }
        }
        Dtype::F64 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f64::from_le_bytes(*chunk) as f32;
            }
        }
        Dtype::BF16 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*chunk)) << 16);
            }
        }
        Dtype::F16 => {
            for (value, chunk) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = half_to_single(u16::from_le_bytes(*chunk));
            }
        }
        _ => return false,
    }
    true
}

/// IEEE 754 half precision to single precision, exact.
fn half_to_single(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * (-24f32).exp2(),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * ((exponent - 25) as f32).exp2(),
    }
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
        // Both models have a conv1.weight, of different shapes.
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
        use zoo::{TokenPooling, VisionTransformer, VitDialect, VitSize};
        for dialect in [VitDialect::Timm, VitDialect::Torchvision, VitDialect::OpenClip { projection: 8 }] {
            let model = VisionTransformer {
                size: VitSize::Tiny,
                patch: 16,
                pooling: TokenPooling::ClassToken,
                dialect,
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
            // Whether six positions were two by three or three by two, a file does not say.
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

    #[test]
    fn halves_decode() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 5.960_464_5e-8), (0x7bff, 65504.0)] {
            assert_eq!(half_to_single(bits), value);
        }
    }
}
