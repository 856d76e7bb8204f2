//! Compares TF32 and bf16 with single precision on the processor.

use dapple_engine::Clipping;
use dapple_graph::{Graph, Op, zoo};

use super::models::smoothed;
use crate::common::{Data, parameters};
use crate::graphs::{heads_of_all_sizes, small_transformer, tokens};
use crate::subject::{Subject, apart};

/// How far a gradient may be from single precision's, as a share of its length. Each layer rounds two factors forward, and again backward.
/// Roundings of different layers are independent, so they add up like a random walk, of which four deviations are allowed.
fn allowed(graph: &Graph, subject: Subject) -> f64 {
    let layers =
        graph.nodes().iter().filter(|node| matches!(node.op, Op::Conv(_) | Op::Linear(_) | Op::Attention(_)));
    4.0 * (4.0 * layers.count() as f64).sqrt() * subject.factor_rounding()
}

pub(crate) fn gradients_are_as_near_as_a_random_walk(subjects: &[Subject]) {
    let group = zoo::Norm::Group(32);
    let models = [
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10)),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10)),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, group)),
        ("resnet-50", zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, group)),
        ("vgg-11", zoo::vgg(zoo::Vgg::V11, &[3, 64, 64], 10, zoo::Norm::Removed)),
    ];
    let mut graphs: Vec<_> = models.map(|(name, graph)| (name, smoothed(&graph.unwrap()))).into();
    // These networks have no kinks. Where weights are frozen, kernels that make them do not add up the gradients of biases.
    graphs.push(("vit-ti-16", small_transformer().unwrap()));
    let mut biases = small_transformer().unwrap();
    biases.set_trainable(|name| name.ends_with("bias"));
    graphs.push(("vit-ti-16, biases alone", biases));
    graphs.push(("tokens", tokens()));
    graphs.extend(heads_of_all_sizes());
    let clipping = Clipping::Flat { max_norm: 0.7 };
    for (name, graph) in graphs {
        let (data, values) = (Data::new(&graph, 6, 1), parameters(&graph));
        let want = Subject::threads(0).step(&graph, &values, &data.batch(), &clipping);
        for subject in subjects {
            let got = subject.planned_for(6).step(&graph, &values, &data.batch(), &clipping);
            let difference = apart(&got.gradient, &want.gradient) / want.length();
            let allowed = allowed(&graph, *subject);
            println!("{name}: {difference:.1e} of its length, {allowed:.1e} allowed");
            assert!(difference <= allowed, "{name}, {subject:?}: {difference:.1e} of its length");
        }
    }
}
