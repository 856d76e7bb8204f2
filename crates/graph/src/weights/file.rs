//! Reading and writing weights files on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use safetensors::tensor::Metadata;

use super::{Fitted, read, read_backbone, read_fitting, write};
use crate::error::GraphError;
use crate::graph::Graph;
use crate::init::Parameters;

/// Reads parameters from a safetensors file.
///
/// # Errors
/// Those of [`read`], and if the path is no file, cannot be opened or is much larger than the model.
pub fn load(graph: &Graph, path: &Path) -> Result<Parameters, GraphError> {
    read(graph, &bytes_of(graph, path)?)
}

/// Reads the backbone of a segmentation model from a torchvision classifier's safetensors file, as [`read_backbone`] does.
///
/// # Errors
/// Those of [`read_backbone`], and if the path is no file, cannot be opened or is much larger than the model.
pub fn load_backbone(
    graph: &Graph,
    path: &Path,
    parameters: &mut Parameters,
) -> Result<Vec<String>, GraphError> {
    read_backbone(graph, &bytes_of(graph, path)?, parameters)
}

/// Reads as much of a model as a safetensors file has, as [`read_fitting`] does.
///
/// # Errors
/// Those of [`read_fitting`], and if the path is no file, cannot be opened or is much larger than the model.
pub fn load_fitting(graph: &Graph, path: &Path, fresh: Parameters) -> Result<Fitted, GraphError> {
    read_fitting(graph, &bytes_of(graph, path)?, fresh)
}

/// How many bytes a file may have beyond those of the model, for other heads, counters and names.
const BESIDE_MODEL: u64 = 1 << 30;

/// The bytes of a weights file. What is no file is refused, because a device has no end and a pipe would wait for a writer; so is a file
/// much larger than the model, which must be another model's.
fn bytes_of(graph: &Graph, path: &Path) -> Result<Vec<u8>, GraphError> {
    // Each number has up to eight bytes.
    let values: u64 = graph.parameters().iter().map(|p| p.shape.iter().product::<usize>() as u64).sum();
    if length_of(path)? > values.saturating_mul(8).saturating_add(BESIDE_MODEL) {
        return Err(refused(path, "it is much larger than the model"));
    }
    std::fs::read(path).map_err(|source| file_error(path, source))
}

/// The length of a file; an error if the path is something else.
fn length_of(path: &Path) -> Result<u64, GraphError> {
    let about = std::fs::metadata(path).map_err(|source| file_error(path, source))?;
    if about.is_file() { Ok(about.len()) } else { Err(refused(path, "not a file")) }
}

/// How many bytes the head of a file may have, which is the format's own limit.
const LARGEST_HEAD: u64 = 100_000_000;

/// Reads the names and shapes of a safetensors file's tensors, without reading more than its head.
///
/// # Errors
/// If the path is no file, cannot be opened, or does not begin as safetensors files do.
pub fn shapes(path: &Path) -> Result<BTreeMap<String, Vec<usize>>, GraphError> {
    let failed = |source| file_error(path, source);
    let wrong = |problem: &str| GraphError::Format(problem.to_owned());
    let length = length_of(path)?;
    let mut file = File::open(path).map_err(failed)?;
    let mut head_length = [0; 8];
    if length < head_length.len() as u64 {
        return Err(wrong("it is too short"));
    }
    file.read_exact(&mut head_length).map_err(failed)?;
    let head_length = u64::from_le_bytes(head_length);
    if head_length > LARGEST_HEAD.min(length - 8) {
        return Err(wrong("its head is longer than the file, or than any may be"));
    }
    let mut head = Vec::new();
    file.take(head_length).read_to_end(&mut head).map_err(failed)?;
    let head: Metadata =
        serde_json::from_slice(&head).map_err(|error| GraphError::Format(error.to_string()))?;
    Ok(head.tensors().into_iter().map(|(name, tensor)| (name, tensor.shape.clone())).collect())
}

/// Writes the parameters to a safetensors file.
///
/// # Errors
/// Those of [`write()`], and if the file cannot be written.
pub fn save(graph: &Graph, parameters: &Parameters, path: &Path) -> Result<(), GraphError> {
    std::fs::write(path, write(graph, parameters)?).map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> GraphError {
    GraphError::File { path: path.display().to_string(), source }
}

fn refused(path: &Path, problem: &str) -> GraphError {
    file_error(path, std::io::Error::new(std::io::ErrorKind::InvalidInput, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn the_head_of_a_file_tells_its_shapes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        save(&graph, &Parameters::init(&graph, 1), &path).unwrap();
        let found = shapes(&path).unwrap();
        assert_eq!(found.len(), graph.parameters().len());
        assert!(graph.parameters().iter().all(|parameter| found[&parameter.name] == parameter.shape));
        let bytes = std::fs::read(&path).unwrap();
        for damaged in [&bytes[..0], &bytes[..7], &bytes[..20], &[255; 64][..]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(shapes(&path), Err(GraphError::Format(_))));
        }
        assert!(matches!(shapes(folder.path()), Err(GraphError::File { .. })));
    }
}
