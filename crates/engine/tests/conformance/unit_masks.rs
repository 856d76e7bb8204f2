//! Masks of dropout layers: all views of a sample share one, and what a graph calls split moves under a mask or under its complement, never
//! under both.

use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Clipping, DropoutSource, Layout, UnitMasks};
use dapple_graph::op::{Activation, AdaptiveAvgPool, Add, Dropout, MaxPool, Reshape};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, Loss, NodeId, Window};
use proptest::prelude::*;

use crate::common::{Data, parameters};
use crate::graphs::dropping;
use crate::operations::all_agree;
use crate::subject::Subject;

const CLASSES: usize = 3;
const VIEWS: usize = 2;

/// Fair coins that follow from a seed.
fn coins(seed: u64, count: usize) -> Vec<bool> {
    let mut state = seed;
    let mut coin = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 63 == 1
    };
    (0..count).map(|_| coin()).collect()
}

/// Executors agree on what masks do, and masks do something.
pub(crate) fn masks_agree(subjects: &[Subject]) {
    for op in [Dropout::of_values(0.5), Dropout::of_channels(0.5)] {
        let graph = dropping(op);
        let data = Data::new(&graph, 4, VIEWS);
        let units = graph.dropout_units();
        let of = |seed| coins(seed, 4 * units.len());
        let (one, other) = (of(1), of(2));
        let masked = |kept| Batch { masks: Some(UnitMasks { units: &units, kept }), ..data.batch() };
        all_agree(subjects, "masks", &graph, &masked(&one), &Clipping::Flat { max_norm: 0.5 });
        for subject in subjects {
            let step = |batch| subject.step(&graph, &parameters(&graph), &batch, &Clipping::Off).gradient;
            assert_ne!(step(masked(&one)), step(masked(&other)), "{subject:?}");
            assert_ne!(step(masked(&one)), step(data.batch()), "{subject:?}");
        }
    }
}

/// With many equal views of one sample, a channel that is dropped is dropped in all of them, and its bias has no gradient.
#[test]
fn views_of_a_sample_share_its_mask() {
    let graph = dropping(Dropout::of_channels(0.5));
    let units = graph.dropout_units();
    let values = parameters(&graph);
    let reference = ReferenceExecutor::new(&graph, &values).unwrap();
    let bias = Layout::new(&graph).entries()[1].range.clone();
    let data = Data::new(&graph, 1, 16);
    let kept = coins(3, units.len());
    let batch = Batch { masks: Some(UnitMasks { units: &units, kept: &kept }), ..data.batch() };
    let gradient = reference.gradient(&batch, 0).unwrap().1;
    let moved: Vec<bool> = gradient[bias].iter().map(|&value| value != 0.0).collect();
    assert_eq!(moved, kept);
    assert!(kept.contains(&true) && kept.contains(&false));
}

#[test]
fn masks_of_another_length_are_refused() {
    let graph = dropping(Dropout::of_channels(0.5));
    let units = graph.dropout_units();
    let data = Data::new(&graph, 2, 1);
    let kept = coins(3, units.len());
    let batch = Batch { masks: Some(UnitMasks { units: &units, kept: &kept }), ..data.batch() };
    let values = parameters(&graph);
    let error = ReferenceExecutor::new(&graph, &values).unwrap().gradient(&batch, 0).unwrap_err();
    assert!(error.to_string().starts_with("masks: expected"), "{error}");
}

/// Adds one layer to an image.
fn grown(b: &mut GraphBuilder, x: NodeId, name: &str, choice: u8) -> NodeId {
    let (channels, side) = (b.shape(x)[0], b.shape(x)[1]);
    let pointwise = ConvSpec::new(channels, Window::square(1));
    match choice {
        0 => b.conv(name, x, ConvSpec::new(6, Window::square(3).padding(1)).bias()),
        1 => b.conv(name, x, pointwise.groups(2).bias()),
        2 => b.conv(name, x, pointwise.standardise(1e-5)),
        3 => b.add(name, Activation::Relu, &[x]),
        4 => b.add(name, Activation::Tanh, &[x]),
        5 | 6 => b.add(name, Dropout::of_channels(0.5), &[x]),
        7 => b.add(name, Dropout::of_values(0.5), &[x]),
        8 => b.add(name, Dropout::of_channels(0.3), &[x]),
        9 => b.group_norm(name, x, 2),
        10 => b.channel_scale(name, x, 0, 0.7),
        13 => b.batch_norm(name, x, false),
        11 if side > 1 => b.add(name, MaxPool(Window::square(2).stride(2)), &[x]),
        _ => {
            let inner = b.add(&format!("{name}.drop"), Dropout::of_channels(0.5), &[x]).unwrap();
            let inner = b.conv(&format!("{name}.conv"), inner, pointwise.bias()).unwrap();
            b.add(name, Add, &[x, inner])
        }
    }
    .unwrap()
}

/// A random model: layers of an image, layers of a vector, and a head.
fn model(image: &[u8], vector: &[u8], pooled: bool) -> Graph {
    let mut b = GraphBuilder::new(&[3, 4, 4]);
    let mut x = b.conv("first", b.input(), ConvSpec::new(4, Window::square(1)).bias()).unwrap();
    for (number, &choice) in image.iter().enumerate() {
        x = grown(&mut b, x, &format!("image{number}"), choice);
    }
    if pooled {
        x = b.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    }
    let len = b.shape(x).iter().product();
    x = b.add("flat", Reshape(vec![len]), &[x]).unwrap();
    for (number, &choice) in vector.iter().enumerate() {
        let name = format!("vector{number}");
        x = match choice {
            0 | 1 => b.linear(&name, x, 5, Init::Constant(0.0), Init::Constant(0.0)),
            2 => b.add(&name, Activation::Gelu, &[x]),
            3 => b.layer_norm(&name, x, 1e-5),
            4 => b.add(&name, Dropout::of_values(0.3), &[x]),
            _ => b.add(&name, Dropout::of_values(0.5), &[x]),
        }
        .unwrap();
    }
    x = b.linear("head", x, CLASSES, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    b.finish(x, Loss::CrossEntropy { label_smoothing: 0.1 }).unwrap()
}

/// The gradient of one sample under a mask, and how many split values have one.
fn gradient_under(graph: &Graph, kept: &[bool]) -> (Vec<f64>, usize) {
    let units = graph.dropout_units();
    let values = parameters(graph);
    let data = Data::new(graph, 1, VIEWS);
    // Layers at other rates drop by the key of each view.
    let dropout = Some(DropoutSource { seed: 5, records: &[7] });
    let batch = Batch { dropout, masks: Some(UnitMasks { units: &units, kept }), ..data.batch() };
    let gradient = ReferenceExecutor::new(graph, &values).unwrap().gradient(&batch, 0).unwrap().1;
    let moved = moved_under(graph, kept, &gradient);
    (gradient, moved)
}

/// Asserts that no value of a gradient moves of which a unit is dropped. Returns how many split values have a gradient.
fn moved_under(graph: &Graph, kept: &[bool], gradient: &[f64]) -> usize {
    let (layout, split) = (Layout::new(graph), graph.dropout_split());
    let mut moved = 0;
    for parameter in split.parameters() {
        let range = layout.entries()[layout.position(parameter.id).unwrap()].range.clone();
        for (place, &value) in gradient[range].iter().enumerate() {
            let touched = parameter.units(place);
            let mut touched = touched.iter().flatten().peekable();
            let is_split = touched.peek().is_some();
            let may_move = touched.all(|&unit| kept[unit]);
            let name = &graph.parameter(parameter.id).name;
            assert!(may_move || value == 0.0, "{name} {place} moves by {value} although its unit is dropped");
            moved += usize::from(is_split && value != 0.0);
        }
    }
    moved
}

/// Models with dropout of values and of channels, behind one another, with more units than a word has bits: small ones, one of layers that all
/// threads compute together, and one of convolutions by minimal filtering.
fn droppable() -> [Graph; 4] {
    [model(&[0, 5, 3], &[0, 5, 2, 0, 5], true), model(&[5, 0, 6, 3], &[6, 0, 5], false), vast(), filtered()]
}

/// A head like that of a VGG: layers of more than a million weights with dropout behind them.
fn vast() -> Graph {
    let mut b = GraphBuilder::new(&[1104]);
    let zero = Init::Constant(0.0);
    let mut x = b.linear("first", b.input(), 8, zero, zero).unwrap();
    for name in ["wide", "vast"] {
        x = b.linear(name, x, 1104, zero, zero).unwrap();
        x = b.add(&format!("{name}.relu"), Activation::Relu, &[x]).unwrap();
        x = b.add(&format!("{name}.drop"), Dropout::of_values(0.5), &[x]).unwrap();
    }
    let x = b.linear("head", x, CLASSES, zero, zero).unwrap();
    b.finish(x, Loss::CrossEntropy { label_smoothing: 0.1 }).unwrap()
}

/// Convolutions whose channels are dropped.
fn filtered() -> Graph {
    let mut b = GraphBuilder::new(&[32, 13, 9]);
    let mut x = b.input();
    for (name, out) in [("first", 48), ("second", 64), ("third", 32)] {
        x = b.conv(name, x, ConvSpec::new(out, Window::square(3).padding(1)).bias()).unwrap();
        x = b.add(&format!("{name}.relu"), Activation::Relu, &[x]).unwrap();
        x = b.add(&format!("{name}.drop"), Dropout::of_channels(0.5), &[x]).unwrap();
    }
    x = b.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    x = b.add("flat", Reshape(vec![32]), &[x]).unwrap();
    let x = b.linear("head", x, CLASSES, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    b.finish(x, Loss::CrossEntropy { label_smoothing: 0.1 }).unwrap()
}

/// What a sample adds has exactly nothing in a value of which a unit is dropped, in the arithmetic that runs.
pub(crate) fn dropped_nodes_get_exactly_nothing(subjects: &[Subject]) {
    for (graph, seed) in droppable().iter().zip(4..) {
        let units = graph.dropout_units();
        let data = Data::new(graph, 1, VIEWS);
        let kept = coins(seed, units.len());
        let batch = Batch { masks: Some(UnitMasks { units: &units, kept: &kept }), ..data.batch() };
        for subject in subjects {
            let step = subject.step(graph, &parameters(graph), &batch, &Clipping::Flat { max_norm: 0.5 });
            assert!(moved_under(graph, &kept, &step.gradient) > 10, "{subject:?}");
        }
    }
}

/// Each sample has its own mask, whatever the others' are and wherever it lies, and all layers have their own part of it.
pub(crate) fn masks_of_a_sample_are_its_own(subjects: &[Subject]) {
    const SAMPLES: usize = 5;
    for graph in droppable() {
        let units = graph.dropout_units();
        assert!(units.layers().len() > 1);
        let data = Data::new(&graph, SAMPLES, VIEWS);
        let kept = coins(8, SAMPLES * units.len());
        let masks = Some(UnitMasks { units: &units, kept: &kept });
        let batch = Batch { masks, ..data.batch() };
        all_agree(subjects, "masks of samples", &graph, &batch, &Clipping::Flat { max_norm: 0.5 });
        let size = data.inputs.len() / SAMPLES;
        let one = |sample: usize| {
            let kept = &kept[sample * units.len()..][..units.len()];
            Batch { masks: Some(UnitMasks { units: &units, kept }), ..data.part(sample..sample + 1, size) }
        };
        for subject in subjects {
            let mut opened = subject.planned_for(SAMPLES).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm: 0.5 });
            let values = parameters(&graph);
            let together = opened.counts(&values, std::slice::from_ref(&batch), &rule);
            let alone: Vec<Batch<'_>> = (0..SAMPLES).map(one).collect();
            assert_eq!(opened.counts(&values, &alone, &rule), together, "{subject:?}");
        }
    }
}

/// Whether each value of the flat gradient is split.
fn split_values(graph: &Graph) -> Vec<bool> {
    let layout = Layout::new(graph);
    let mut all = vec![false; layout.len()];
    for parameter in graph.dropout_split().parameters() {
        let range = layout.entries()[layout.position(parameter.id).unwrap()].range.clone();
        for (place, value) in all[range].iter_mut().enumerate() {
            *value = parameter.units(place).iter().any(Option::is_some);
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Under a mask and under its complement, the gradient moves disjoint sets of the split values.
    #[test]
    fn a_mask_and_its_complement_move_disjoint_values(
        image in prop::collection::vec(0u8..14, 0..6),
        vector in prop::collection::vec(0u8..7, 0..5),
        pooled: bool,
        seed: u64,
    ) {
        let graph = model(&image, &vector, pooled);
        let kept = coins(seed, graph.dropout_units().len());
        let dropped: Vec<bool> = kept.iter().map(|kept| !kept).collect();
        let (one, other) = (gradient_under(&graph, &kept).0, gradient_under(&graph, &dropped).0);
        for (place, split) in split_values(&graph).into_iter().enumerate() {
            prop_assert!(!split || one[place] == 0.0 || other[place] == 0.0, "value {place}");
        }
    }
}

/// Two adjacent dropout layers: split values do move, the biases behind move under both masks, and parameters are split as wholes.
#[test]
fn what_is_split_moves_and_what_is_not_moves_under_both() {
    let graph = model(&[0, 5, 3], &[0, 5, 2, 0, 5], true);
    let kept: Vec<bool> = (0..graph.dropout_units().len()).map(|unit| unit % 2 == 0).collect();
    let dropped: Vec<bool> = kept.iter().map(|kept| !kept).collect();
    let ((one, moved), (other, moved_other)) =
        (gradient_under(&graph, &kept), gradient_under(&graph, &dropped));
    assert!(moved > 20 && moved_other > 20, "{moved} {moved_other}");
    let bias = graph.find_parameter("head.bias").unwrap();
    let layout = Layout::new(&graph);
    let range = layout.entries()[layout.position(bias).unwrap()].range.clone();
    assert!(range.clone().all(|place| one[place] != 0.0 && other[place] != 0.0));
    let split = graph.dropout_split();
    let whole: Vec<&str> = split.whole().map(|id| graph.parameter(id).name.as_str()).collect();
    assert_eq!(
        whole,
        [
            "image0.weight",
            "image0.bias",
            "vector0.weight",
            "vector0.bias",
            "vector3.weight",
            "vector3.bias",
            "head.weight"
        ]
    );
}
