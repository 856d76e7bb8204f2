//! Submodels of one executor: each computes what a graph of its own would, and all of them add to one sum.

use dapple_engine::{Batch, Clipping, Layout};
use dapple_graph::op::{Activation, AdaptiveAvgPool, Add, Reshape};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, Window, zoo};

use crate::agreement::agree;
use crate::common::{CLASSES, Data, parameters};
use crate::subject::{Step, Subject};

const BLOCKS: usize = 5;
const SAMPLES: usize = 6;

/// A network of residual blocks with and without standardised weights, of which only some are there.
fn residual(present: impl Fn(usize) -> bool) -> Graph {
    let mut b = GraphBuilder::new(&[3, 6, 6]);
    let window = || Window::square(3).padding(1);
    let mut x = b.conv("stem", b.input(), ConvSpec::new(8, window()).bias()).unwrap();
    for block in (0..BLOCKS).filter(|&block| present(block)) {
        b.block();
        let name = |part: &str| format!("block.{block}.{part}");
        let mut spec = ConvSpec::new(8, window());
        spec.standardise = (block % 2 == 0).then_some(1e-5);
        let branch = b.conv(&name("conv"), x, spec).unwrap();
        let branch = b.group_norm(&name("norm"), branch, 2).unwrap();
        let branch = b.add(&name("relu"), Activation::Relu, &[branch]).unwrap();
        let branch = b.conv(&name("point"), branch, ConvSpec::new(8, Window::square(1)).bias()).unwrap();
        x = b.add(&name("add"), Add, &[branch, x]).unwrap();
    }
    b.end_blocks();
    let x = b.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    let x = b.add("flat", Reshape(vec![8]), &[x]).unwrap();
    let head = b.linear("head", x, 4, Init::XavierUniform, Init::Constant(0.0)).unwrap();
    b.finish(head, CLASSES).unwrap()
}

/// Clips blocks and the rest apart.
fn apart(layout: &Layout) -> Clipping {
    let groups = layout.entries().iter().map(|entry| usize::from(!entry.name.starts_with("block"))).collect();
    Clipping::PerGroup { groups, max_norms: vec![0.3, 0.5] }
}

/// The samples of a batch that go through one submodel.
fn through<'d>(data: &'d Data, samples: std::ops::Range<usize>, submodel: usize) -> Batch<'d> {
    Batch { submodel: Some(submodel), ..data.part(samples, data.inputs.len() / SAMPLES) }
}

pub(crate) fn submodels_equal_graphs_of_their_own(subjects: &[Subject]) {
    let whole = residual(|_| true);
    let values = parameters(&whole);
    for (count, views) in [(2, 1), (3, 2), (5, 1)] {
        let submodels = whole.submodels(&[0, 1, 2, 3, 4], count).unwrap();
        let data = Data::new(&whole, SAMPLES, views);
        for (own, _) in submodels.iter().enumerate() {
            let alone = residual(|block| block % count == own);
            let mut reference = Subject::Reference.open(&alone);
            let rule = reference.rule(&apart(reference.layout()));
            let Step { gradient, stats } = reference.step(&parameters(&alone), &data.batch(), &rule);
            for subject in subjects {
                let mut opened = subject.planned_for(SAMPLES).open_with(&whole, &submodels);
                let layout = opened.layout().clone();
                let mut want = vec![0.0; layout.len()];
                for entry in reference.layout().entries() {
                    let place = layout.entries().iter().find(|other| other.name == entry.name).unwrap();
                    want[place.range.clone()].copy_from_slice(&gradient[entry.range.clone()]);
                }
                let rule = opened.rule(&apart(&layout));
                let batch = through(&data, 0..SAMPLES, own);
                let got = opened.step(&values, &batch, &rule);
                let want = Step { gradient: want, stats: stats.clone() };
                agree(&format!("{own} of {count}, {subject:?}"), *subject, &got, &want, &rule);
                for entry in layout.entries() {
                    let absent = !reference.layout().entries().iter().any(|other| other.name == entry.name);
                    let zero = got.gradient[entry.range.clone()].iter().all(|&value| value == 0.0);
                    assert!(zero || !absent, "{} gets a gradient", entry.name);
                }
            }
        }
    }
}

pub(crate) fn submodels_of_models_agree(subjects: &[Subject]) {
    let vit = zoo::VisionTransformer::named("vit-ti-16").expect("a name of the zoo");
    for (graph, list, count) in [
        (
            zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 8, 8], 4).unwrap(),
            &["block1.1", "block2.1", "block3.1"][..],
            3,
        ),
        (
            zoo::resnet(zoo::ResNet::R18, &[3, 32, 32], 4, zoo::Norm::Group(32)).unwrap(),
            &["layer1.0..layer1.1"],
            2,
        ),
        (zoo::vision_transformer(vit, &[3, 32, 32], 4).unwrap(), &["blocks.2..blocks.11"], 5),
    ] {
        let list: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
        let submodels = graph.submodels(&graph.blocks_named(&list).unwrap(), count).unwrap();
        let data = Data::new(&graph, 2, 1);
        let values = parameters(&graph);
        let clipping = Clipping::Flat { max_norm: 0.7 };
        for subject in subjects {
            let mut opened = subject.planned_for(2).open_with(&graph, &submodels);
            let rule = opened.rule(&clipping);
            // Going back and forth between submodels leaves nothing behind.
            for own in (0..count).chain([0]) {
                let want = Subject::Reference.open(&submodels[own]).step(&values, &data.batch(), &rule);
                let batch = Batch { submodel: Some(own), ..data.batch() };
                let got = opened.step(&values, &batch, &rule);
                agree(&format!("{own} of {list:?}, {subject:?}"), *subject, &got, &want, &rule);
            }
        }
    }
}

/// Whole numbers are added, so that neither the order of submodels nor how often they take turns changes a bit. The whole model is what it
/// was without them: to the bit, unless each executor measures for itself which algorithms are fastest.
pub(crate) fn submodels_share_one_sum(subjects: &[Subject]) {
    let whole = residual(|_| true);
    let values = parameters(&whole);
    let submodels = whole.submodels(&[0, 1, 2, 3, 4], 3).unwrap();
    let data = Data::new(&whole, SAMPLES, 1);
    for subject in subjects {
        let subject = subject.planned_for(2);
        let mut opened = subject.open_with(&whole, &submodels);
        let rule = opened.rule(&apart(opened.layout()));
        let parts = [through(&data, 0..2, 0), through(&data, 2..5, 1), through(&data, 5..6, 2)];
        let together = opened.counts(&values, &parts, &rule);
        let mut turned = vec![0; together.len()];
        for part in parts.iter().rev() {
            let alone = opened.counts(&values, std::slice::from_ref(part), &rule);
            turned.iter_mut().zip(alone).for_each(|(sum, count)| *sum += count);
        }
        let in_turns = [
            through(&data, 3..5, 1),
            through(&data, 5..6, 2),
            through(&data, 0..2, 0),
            through(&data, 2..3, 1),
        ];
        assert_eq!(opened.counts(&values, &in_turns, &rule), together, "{subject:?}");
        // A convolution whose filters are projected at the end rounds once for the whole sum.
        let standardised =
            |name: &str| (0..BLOCKS).step_by(2).any(|block| name == format!("block.{block}.conv.weight"));
        for entry in opened.layout().entries().iter().filter(|entry| !standardised(&entry.name)) {
            let range = entry.range.clone();
            assert_eq!(turned[range.clone()], together[range], "{}, {subject:?}", entry.name);
        }
        let got = opened.step(&values, &data.batch(), &rule);
        let alone = subject.open(&whole).step(&values, &data.batch(), &rule);
        if subject.repeats() {
            let another = subject.open_with(&whole, &submodels).counts(&values, &parts, &rule);
            assert_eq!((got, another), (alone, together), "{subject:?}");
        } else {
            agree(&format!("{subject:?}"), subject, &got, &alone, &rule);
        }
    }
}
