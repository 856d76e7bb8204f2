//! Reading files of a model that was trained for other classes, or without classes at all.

use std::collections::{BTreeMap, BTreeSet};

use safetensors::tensor::TensorView;

use super::{take, tensors};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Parameters;
use crate::tune::adapters;
use crate::zoo::IMAGE_TOWER;

/// A model filled from a file that may lack its last layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The parameters of the file, and for the last layers that the file lacks, those that were there before.
    pub parameters: Parameters,
    /// The names of the last layers that the file lacks.
    pub fresh: Vec<String>,
}

/// Reads as much of a model as a file has. A last layer that the file lacks, or has for another number of classes, stays as it is in
/// `parameters`, and so do adapters, which files of plain models do not have. A text tower beside an image tower is skipped.
///
/// # Errors
/// If the bytes are not safetensors, the parameters do not belong to the graph, or any other name, shape or type does not fit. The error
/// lists all that do not fit.
pub fn read_fitting(graph: &Graph, bytes: &[u8], mut parameters: Parameters) -> Result<Fitted, GraphError> {
    if !parameters.fit(graph) {
        return Err(GraphError::Unknown("a set of parameters".into()));
    }
    let mut file = tensors(bytes)?;
    // A file without any tensor does not pass for a model that only lacks its last layers.
    let fresh: Vec<NodeId> = match file.is_empty() {
        true => Vec::new(),
        false => graph.heads().into_iter().filter(|&head| is_other_head(graph, head, &file)).collect(),
    };
    let of_heads = fresh.iter().flat_map(|&head| graph.node(head).op.parameters());
    let missing = adapters(graph).into_iter().filter(|&id| !file.contains_key(&graph.parameter(id).name));
    let kept: BTreeSet<&str> = of_heads.chain(missing).map(|id| graph.parameter(id).name.as_str()).collect();
    file.retain(|name, _| !kept.contains(name.as_str()));
    let name = |name: &str| (!kept.contains(name)).then(|| name.to_owned());
    let mut mismatch = take(graph, &mut file, name, &mut parameters);
    let is_tower = graph.parameters().iter().any(|parameter| parameter.name.starts_with(IMAGE_TOWER));
    mismatch.unexpected =
        file.into_keys().filter(|name| !is_tower || name.starts_with(IMAGE_TOWER)).collect();
    if !mismatch.is_empty() {
        return Err(GraphError::Weights(mismatch));
    }
    let fresh = fresh.into_iter().map(|head| graph.node(head).name.clone()).collect();
    Ok(Fitted { parameters, fresh })
}

/// Whether a file has no such last layer, or has it for another number of classes.
fn is_other_head(graph: &Graph, head: NodeId, file: &BTreeMap<String, TensorView<'_>>) -> bool {
    let parameters = graph.node(head).op.parameters();
    let shapes = parameters.iter().map(|&id| {
        let parameter = graph.parameter(id);
        (&parameter.shape[..], file.get(&parameter.name).map(TensorView::shape))
    });
    let fits = |(wanted, found): (&[usize], Option<&[usize]>)| found == Some(wanted);
    // Only the first axis counts classes. A shape with a zero in it could claim any number of classes without a byte to show for it.
    let differs_by_classes = |(wanted, found): (&[usize], Option<&[usize]>)| {
        found.is_none_or(|found| {
            found.len() == wanted.len() && !found.contains(&0) && found.get(1..) == wanted.get(1..)
        })
    };
    !shapes.clone().all(fits) && shapes.clone().all(differs_by_classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{Lora, Tuning};
    use crate::weights::write;
    use crate::zoo::{self, LibraryNames, TokenPooling, VisionTransformer, VitSize};

    fn transformer(names: LibraryNames, classes: usize) -> Graph {
        let (size, pooling) = (VitSize::Tiny, TokenPooling::ClassToken);
        zoo::vision_transformer(VisionTransformer { size, patch: 16, pooling, names }, &[3, 32, 32], classes)
            .unwrap()
    }

    /// The file of a model with some tensors renamed, or left out where the new name is empty.
    fn renamed(graph: &Graph, parameters: &Parameters, rename: impl Fn(&str) -> String) -> Vec<u8> {
        let bytes = write(graph, parameters).unwrap();
        let file = tensors(&bytes).unwrap();
        let views = file.into_iter().map(|(name, view)| (rename(&name), view));
        safetensors::serialize(views.filter(|(name, _)| !name.is_empty()), None).unwrap()
    }

    fn get<'a>(parameters: &'a Parameters, graph: &Graph, name: &str) -> &'a [f32] {
        parameters.get(graph.find_parameter(name).unwrap())
    }

    #[test]
    fn heads_of_other_classes_and_missing_heads_are_fresh_and_told() {
        for names in [LibraryNames::Timm, LibraryNames::Torchvision, LibraryNames::OpenClip { projection: 8 }]
        {
            let (stored, graph) = (transformer(names, 7), transformer(names, 5));
            let head = graph.node(graph.heads()[0]).name.clone();
            let theirs = Parameters::init(&stored, 3);
            let headless = |name: &str| if name.starts_with(&head) { String::new() } else { name.to_owned() };
            for bytes in [write(&stored, &theirs).unwrap(), renamed(&stored, &theirs, headless)] {
                let fresh = Parameters::init(&graph, 1);
                let fitted = read_fitting(&graph, &bytes, fresh.clone()).unwrap();
                assert_eq!(fitted.fresh, [head.as_str()]);
                for parameter in graph.parameters() {
                    let name = &parameter.name;
                    let (source, own) =
                        if name.starts_with(&head) { (&fresh, &graph) } else { (&theirs, &stored) };
                    assert_eq!(get(&fitted.parameters, &graph, name), get(source, own, name), "{name}");
                }
            }
            let whole = read_fitting(&stored, &write(&stored, &theirs).unwrap(), Parameters::zeros(&stored));
            assert_eq!(whole.unwrap(), Fitted { parameters: theirs, fresh: Vec::new() });
        }
    }

    #[test]
    fn the_text_tower_is_left_out_and_nothing_else() {
        let names = LibraryNames::OpenClip { projection: 8 };
        let graph = transformer(names, 5);
        let parameters = Parameters::init(&graph, 3);
        let text = |name: &str| if name == "head.bias" { "logit_scale".to_owned() } else { name.to_owned() };
        let read = |bytes: &[u8]| read_fitting(&graph, bytes, Parameters::zeros(&graph));
        assert_eq!(read(&renamed(&graph, &parameters, text)).unwrap().fresh, ["head"]);
        let other =
            |name: &str| if name == "head.bias" { "visual.scale".to_owned() } else { name.to_owned() };
        let error = read(&renamed(&graph, &parameters, other)).unwrap_err();
        assert!(error.to_string().contains("unexpected: visual.scale"), "{error}");
        let plain = transformer(LibraryNames::Timm, 5);
        let bytes = renamed(&plain, &Parameters::init(&plain, 3), text);
        assert!(read_fitting(&plain, &bytes, Parameters::zeros(&plain)).is_err());
    }

    #[test]
    fn what_is_missing_but_heads_is_refused_by_name() {
        let graph = transformer(LibraryNames::Timm, 5);
        let parameters = Parameters::init(&graph, 3);
        let without =
            |left: &'static str| {
                renamed(&graph, &parameters, move |name| {
                    if name.starts_with(left) { String::new() } else { name.to_owned() }
                })
            };
        let read = |bytes: &[u8]| read_fitting(&graph, bytes, Parameters::zeros(&graph));
        let error = read(&without("blocks.3.mlp")).unwrap_err().to_string();
        for name in ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"] {
            assert!(error.contains(&format!("blocks.3.mlp.{name}")), "{error}");
        }
        assert!(!error.contains("head"), "{error}");
        // Of an empty file, even the head is missing.
        assert!(read(&without("")).unwrap_err().to_string().contains("head.weight"));
    }

    #[test]
    fn the_file_of_a_plain_model_fills_an_adapted_one() {
        let plain = transformer(LibraryNames::Timm, 5);
        let lora = Lora { rank: 4, alpha: 8.0, targets: vec!["attn.qkv".to_owned()] };
        let graph = plain.clone().tuned(&Tuning::Lora(lora)).unwrap();
        let (theirs, fresh) = (Parameters::init(&plain, 3), Parameters::init(&graph, 1));
        let fitted = read_fitting(&graph, &write(&plain, &theirs).unwrap(), fresh.clone()).unwrap();
        assert_eq!(fitted.fresh, Vec::<String>::new());
        for parameter in graph.parameters() {
            let name = &parameter.name;
            let (source, own) = if name.contains("lora") { (&fresh, &graph) } else { (&theirs, &plain) };
            assert_eq!(get(&fitted.parameters, &graph, name), get(source, own, name), "{name}");
        }
    }
}
