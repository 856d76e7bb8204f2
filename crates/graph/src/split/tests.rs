use super::*;
use crate::op::{Activation, AdaptiveAvgPool, Add, Dropout, Reshape};
use crate::{ConvSpec, GraphBuilder, GraphError, Init, Loss, NodeId, Window, zoo};

const ZERO: Init = Init::Constant(0.0);

fn linear(b: &mut GraphBuilder, name: &str, input: NodeId, out: usize) -> NodeId {
    b.linear(name, input, out, ZERO, ZERO).unwrap()
}

fn dropped(b: &mut GraphBuilder, name: &str, op: Dropout, input: NodeId) -> NodeId {
    b.add(name, op, &[input]).unwrap()
}

fn finished(b: GraphBuilder, output: NodeId) -> Graph {
    b.finish(output, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap()
}

/// The names of parameters that are split as a whole, and of those that are split in part.
fn names(graph: &Graph) -> (Vec<&str>, Vec<&str>) {
    let split = graph.dropout_split();
    let name = |one: &SplitParameter| graph.parameter(one.id).name.as_str();
    let (whole, part): (Vec<_>, Vec<_>) = split.parameters().iter().partition(|one| one.is_whole());
    (whole.into_iter().map(name).collect(), part.into_iter().map(name).collect())
}

#[test]
fn adjacent_layers_are_split_and_the_bias_behind_is_not() -> Result<(), GraphError> {
    // Linear layers 0, 3 and 6 with dropout at one half behind the first two.
    let graph = zoo::vgg(zoo::Vgg::V11, &[3, 32, 32], 5, zoo::Norm::Group(8))?;
    let all = ["classifier.0.weight", "classifier.0.bias", "classifier.3.weight", "classifier.3.bias"];
    let (whole, part) = names(&graph);
    assert_eq!(whole, [&all[..], &["classifier.6.weight"]].concat());
    assert!(part.is_empty(), "{part:?}");
    let split = graph.dropout_split();
    assert_eq!(split.units().len(), 2 * 4096);
    // A weight between both layers touches a unit of each.
    let middle = graph.find_parameter("classifier.3.weight").unwrap();
    let middle = split.parameters().iter().find(|one| one.id == middle).unwrap();
    assert_eq!(middle.units(7 * 4096 + 11), [Some(4096 + 7), Some(11)]);
    Ok(())
}

#[test]
fn only_a_half_splits() {
    for (rate, splits) in [(0.5, true), (0.4, false), (0.0, false)] {
        let mut b = GraphBuilder::new(&[6]);
        let input = b.input();
        let x = linear(&mut b, "one", input, 4);
        let x = dropped(&mut b, "drop", Dropout::of_values(rate), x);
        let x = linear(&mut b, "two", x, 3);
        let graph = finished(b, x);
        assert_eq!(!names(&graph).0.is_empty(), splits, "{rate}");
        assert_eq!(graph.dropout_units().is_empty(), !splits);
    }
}

#[test]
fn channels_are_split_where_they_are_dropped_as_wholes() {
    for (op, splits) in [(Dropout::of_channels(0.5), true), (Dropout::of_values(0.5), false)] {
        let mut b = GraphBuilder::new(&[3, 4, 4]);
        let x = b.conv("one", b.input(), ConvSpec::new(6, Window::square(3)).bias()).unwrap();
        let x = b.add("relu", Activation::Relu, &[x]).unwrap();
        let x = dropped(&mut b, "drop", op, x);
        let x = b.conv("two", x, ConvSpec::new(4, Window::square(1)).groups(2).bias()).unwrap();
        let x = b.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
        let x = b.add("flat", Reshape(vec![4]), &[x]).unwrap();
        let x = linear(&mut b, "head", x, 3);
        let graph = finished(b, x);
        let expected: &[&str] = if splits { &["one.weight", "one.bias", "two.weight"] } else { &[] };
        assert_eq!(names(&graph), (expected.to_vec(), Vec::new()));
        if splits {
            let split = graph.dropout_split();
            // The last filter of four reads the last three of six channels.
            assert_eq!(split.parameters()[2].units(3 * 3 + 1), [None, Some(4)]);
        }
    }
}

#[test]
fn ways_around_norms_and_standardised_filters_are_not_split() {
    let mut b = GraphBuilder::new(&[4, 2, 2]);
    let first = b.conv("first", b.input(), ConvSpec::new(4, Window::square(1)).bias()).unwrap();
    let x = b.group_norm("norm", first, 2).unwrap();
    let x = dropped(&mut b, "drop", Dropout::of_channels(0.5), x);
    let x = b.conv("behind", x, ConvSpec::new(4, Window::square(1)).standardise(1e-5)).unwrap();
    let x = b.add("around", Add, &[x, first]).unwrap();
    let x = b.conv("last", x, ConvSpec::new(2, Window::square(1))).unwrap();
    let x = dropped(&mut b, "drop last", Dropout::of_channels(0.5), x);
    let x = b.add("flat", Reshape(vec![8]), &[x]).unwrap();
    let x = linear(&mut b, "head", x, 3);
    let graph = finished(b, x);
    // The first layer has a way around and a norm behind it, and the standardised one is read by a sum.
    assert_eq!(names(&graph), (vec!["last.weight", "head.weight"], Vec::new()));
}

#[test]
fn slices_and_concatenations_end_what_is_known() {
    let mut b = GraphBuilder::new(&[6]);
    let input = b.input();
    let all = linear(&mut b, "one", input, 4);
    let slice = |start| crate::op::Slice { axis: 0, start, end: start + 2 };
    let upper = b.add("upper", slice(0), &[all]).unwrap();
    let lower = linear(&mut b, "lower", upper, 2);
    let lower = dropped(&mut b, "drop", Dropout::of_values(0.5), lower);
    let both = b.add("both", crate::op::Concat { axis: 0 }, &[lower, upper]).unwrap();
    let x = linear(&mut b, "head", both, 3);
    let graph = finished(b, x);
    // The head reads the concatenation, whose values count as mixed.
    assert_eq!(names(&graph), (vec!["lower.weight", "lower.bias"], Vec::new()));
}

/// Layers at other rates are set to one half, and of an image whole channels are dropped, so that what stood between them and a filter is split.
#[test]
fn layers_of_a_model_are_made_even() {
    let psp = zoo::psp_net(zoo::ResNet::R18, &[3, 32, 32], 5, zoo::Norm::Frozen).unwrap();
    assert!(psp.dropout_units().is_empty());
    let psp = psp.with_even_dropout();
    let (mut found, part) = names(&psp);
    found.sort_unstable();
    let before = ["auxiliary_head.convs.0.conv.weight", "auxiliary_head.conv_seg.weight"];
    let before_decoder = ["decode_head.bottleneck.conv.weight", "decode_head.conv_seg.weight"];
    let mut expected = [before, before_decoder].concat();
    expected.sort_unstable();
    assert_eq!((found, part), (expected, Vec::new()));
    for (norm, expected) in [
        (zoo::Norm::Group(8), &["classifier.1.weight"][..]),
        (zoo::Norm::Frozen, &["features.18.0.weight", "classifier.1.weight"]),
    ] {
        let mobile = zoo::mobilenet_v2(&[3, 32, 32], 5, norm).unwrap().with_even_dropout();
        assert_eq!(names(&mobile).0, expected);
    }
    // What dropout stands before in this model is joined to other features, of which some are never dropped.
    let deeplab = zoo::deeplab_v3_plus(
        zoo::Backbone::ResNet(zoo::ResNet::R18),
        zoo::OutputStride::Sixteen,
        &[3, 32, 32],
        5,
        zoo::Norm::Frozen,
    );
    let deeplab = deeplab.unwrap().with_even_dropout();
    assert!(!names(&deeplab).0.iter().any(|name| name.starts_with("classifier.classifier")), "{deeplab:?}");
    let cnn = zoo::small_cnn(&[1, 28, 28], 10).unwrap().with_head_dropout(0.5).unwrap();
    assert_eq!(names(&cnn), (vec!["fc1.weight", "fc1.bias", "fc2.weight"], Vec::new()));
}
