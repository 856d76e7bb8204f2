//! Refuses graphs that mix examples, that share a parameter between nodes, or whose output does not suit the loss.

use std::collections::BTreeMap;

use crate::error::GraphError;
use crate::graph::Graph;
use crate::loss::Loss;

/// Checks a whole graph.
///
/// # Guarantee
/// Every operation of an accepted graph computes its output for a sample from that sample and the parameters alone. So the gradient of
/// one sample's loss does not depend on any other sample, which is what clipping per sample needs. Every parameter is read by one node
/// at most, because executors find the gradient of a weight by the node that reads it, and would lose a second reader's part.
pub(crate) fn check(graph: &Graph) -> Result<(), GraphError> {
    if graph.input_shape().is_empty() || graph.input_shape().contains(&0) {
        let reason = format!("a sample of shape {:?} holds no values", graph.input_shape());
        return Err(GraphError::Shape { node: "input".into(), op: "Input", reason });
    }
    for node in graph.nodes() {
        if node.op.operation().mixes_examples() {
            return Err(GraphError::MixesExamples { node: node.name.clone(), op: node.op.name() });
        }
    }
    check_readers(graph)?;
    if let Loss::CrossEntropy { label_smoothing } = graph.loss()
        && (graph.output_shape()[0] < 2 || !(0.0..=1.0).contains(&label_smoothing))
    {
        return Err(GraphError::Loss { shape: graph.output_shape().to_vec(), loss: "cross-entropy" });
    }
    for auxiliary in graph.auxiliary() {
        let node = graph.node(auxiliary.output);
        let refuse = |reason| GraphError::Shape { node: node.name.clone(), op: node.op.name(), reason };
        if auxiliary.output == graph.output() || node.shape != graph.output_shape() {
            let (shape, output) = (&node.shape, graph.output_shape());
            return Err(refuse(format!(
                "an auxiliary output of shape {shape:?} beside an output of {output:?}"
            )));
        }
        if !(auxiliary.weight > 0.0 && auxiliary.weight.is_finite()) {
            return Err(refuse(format!(
                "the weight {} of an auxiliary loss is not positive",
                auxiliary.weight
            )));
        }
    }
    Ok(())
}

fn check_readers(graph: &Graph) -> Result<(), GraphError> {
    let mut readers = BTreeMap::new();
    for node in graph.nodes() {
        for id in node.op.parameters() {
            if let Some(first) = readers.insert(id, &node.name) {
                return Err(GraphError::SharedParameter {
                    parameter: graph.parameter(id).name.clone(),
                    first: first.clone(),
                    second: node.name.clone(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::init::Init;
    use crate::op::{AdaptiveAvgPool, Linear, MatMul, Reshape, Upsample};
    use crate::{ConvSpec, GraphBuilder, GraphError, Loss, Window};

    const LOSS: Loss = Loss::CrossEntropy { label_smoothing: 0.0 };

    #[test]
    fn refuses_batch_statistics_and_names_the_node() {
        let mut builder = GraphBuilder::new(&[3, 8, 8]);
        let x = builder.conv("conv", builder.input(), ConvSpec::new(4, Window::square(3))).unwrap();
        let x = builder.batch_norm("stem.norm", x, true).unwrap();
        let error = builder.finish(x, LOSS).unwrap_err();
        assert_eq!(error.to_string(), "stem.norm (BatchNorm) mixes examples");
        assert!(error.hint().unwrap().contains("group norm"));
    }

    #[test]
    fn refuses_a_parameter_with_two_readers_and_names_both() {
        let mut builder = GraphBuilder::new(&[4]);
        let weight = builder.parameter("tied", &[4, 4], Init::Constant(0.5), false).unwrap();
        let x = builder.add("first", Linear { weight, bias: None }, &[builder.input()]).unwrap();
        let x = builder.add("again", Linear { weight, bias: None }, &[x]).unwrap();
        let error = builder.finish(x, LOSS).unwrap_err();
        assert_eq!(error.to_string(), "first and again both read the parameter tied");
        assert!(error.hint().unwrap().contains("give again a parameter of its own"));
    }

    #[test]
    fn wrong_shapes_name_the_node() {
        let mut builder = GraphBuilder::new(&[3, 8, 8]);
        let input = builder.input();
        let errors = [
            builder.conv("wide", input, ConvSpec::new(4, Window::square(9))).unwrap_err(),
            builder.conv("odd", input, ConvSpec::new(4, Window::square(3)).groups(2)).unwrap_err(),
            builder.add("pool", AdaptiveAvgPool(vec![0, 1]), &[input]).unwrap_err(),
            builder.add("shape", Reshape(vec![5]), &[input]).unwrap_err(),
            builder.group_norm("norm", input, 2).unwrap_err(),
            builder.add("product", MatMul { transpose: false }, &[input]).unwrap_err(),
        ];
        for (error, name) in errors.iter().zip(["wide", "odd", "pool", "shape", "norm", "product"]) {
            assert!(matches!(error, GraphError::Shape { node, .. } if node == name), "{error}");
        }
    }

    #[test]
    fn an_auxiliary_output_has_the_shape_of_the_output_and_a_positive_weight() {
        for (side, weight, fits) in [(6, 0.4, true), (7, 0.4, false), (6, 0.0, false), (6, f32::NAN, false)] {
            let mut builder = GraphBuilder::new(&[3, 6, 6]);
            let x = builder.conv("main", builder.input(), ConvSpec::new(4, Window::square(1))).unwrap();
            let aside = builder.conv("aside", builder.input(), ConvSpec::new(4, Window::square(1))).unwrap();
            let aside = builder.add("resize", Upsample([side, side]), &[aside]).unwrap();
            builder.auxiliary(aside, weight);
            assert_eq!(builder.finish(x, LOSS).is_ok(), fits, "{side} {weight}");
        }
    }

    #[test]
    fn refuses_an_empty_sample() {
        let builder = GraphBuilder::new(&[3, 0, 8]);
        let input = builder.input();
        assert!(builder.finish(input, LOSS).is_err());
    }
}
