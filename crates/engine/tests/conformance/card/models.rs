//! The zoo's models, compared with the processor.
//!
//! A deep network has millions of activations, and some lie within rounding of the kink of a ReLU or of a tie for a maximum. There two
//! correct executors may take different sides, and the gradient jumps by far more than rounding. So models are compared in two ways. With
//! their kinks smoothed (SiLU for ReLU and ReLU6, the mean for a maximum) they must agree to the full tolerance without clipping, and to the
//! tolerance of raised norms with clipping. As they are, they must agree to the full tolerance in their losses, which have no jumps; and
//! sample by sample, the card's gradient should be no farther from the processor's than that moves when the weights move by as much as
//! rounding does. If the card's rounding is no worse than such a move, then among it and `MOVES` moves it is the farthest with probability
//! at most `1 / (MOVES + 1)` for each sample. The test fails if it is the farthest for more samples than a binomial number exceeds with
//! probability [`ALPHA`]. A kernel that is wrong would be wrong for all samples.

use dapple_engine::{Clipping, Layout};
use dapple_graph::op::{Activation, AvgPool, Conv, GroupNorm, MaxPool};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, NodeId, Op, Parameters, zoo};

use crate::agreement::agree;
use crate::common::{Data, checksum, parameters, uniform_at};
use crate::subject::{Step, Subject, apart};

/// The error rate of the test of a model with kinks, over the rounding of both executors.
const ALPHA: f64 = 1e-6;
/// How many samples that test has, and how often the weights are moved for each.
const SAMPLES: usize = 16;
const MOVES: usize = 7;
/// How far weights move. Products that are split into three parts err by 2^-21, and do so in every layer, forward and backward.
const MOVE: f64 = 1.0 / (1 << 18) as f64;

/// The models. Their norms are chosen so that moving weights by a share of 2^-21 moves a smoothed model's gradient by less than 2e-5 of its
/// largest value, because beyond that, rounding alone may exceed the tolerance.
fn zoo() -> Vec<(&'static str, Graph, usize)> {
    let (group, frozen) = (zoo::Norm::Group(32), zoo::Norm::Frozen);
    let (r18, r50, r101) = (zoo::ResNet::R18, zoo::ResNet::R50, zoo::ResNet::R101);
    let (eight, sixteen) = (zoo::OutputStride::Eight, zoo::OutputStride::Sixteen);
    let deeplab = |backbone, stride, norm| zoo::deeplab_v3_plus(backbone, stride, &[3, 65, 65], 21, norm);
    let models = [
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10), 12),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10), 6),
        ("wrn-40-4", zoo::wide_resnet(zoo::WideResNet::W40x4, &[3, 32, 32], 10), 4),
        ("resnet-18", zoo::resnet(r18, &[3, 64, 64], 10, group), 6),
        ("resnet-18 frozen", zoo::resnet(r18, &[3, 64, 64], 10, frozen), 4),
        ("resnet-34", zoo::resnet(zoo::ResNet::R34, &[3, 64, 64], 10, group), 4),
        ("resnet-50", zoo::resnet(r50, &[3, 64, 64], 10, group), 4),
        ("resnet-101", zoo::resnet(r101, &[3, 64, 64], 10, frozen), 4),
        ("vgg-11", zoo::vgg(zoo::Vgg::V11, &[3, 64, 64], 10, zoo::Norm::Removed), 4),
        ("vgg-16", zoo::vgg(zoo::Vgg::V16, &[3, 32, 32], 10, group), 4),
        ("mobilenet-v2", zoo::mobilenet_v2(&[3, 64, 64], 10, zoo::Norm::Group(8)), 4),
        ("deeplab resnet-18", deeplab(zoo::Backbone::ResNet(r18), sixteen, group), 4),
        ("deeplab mobilenet-v2", deeplab(zoo::Backbone::MobileNetV2, sixteen, zoo::Norm::Group(8)), 4),
        ("deeplab resnet-50", deeplab(zoo::Backbone::ResNet(r50), sixteen, frozen), 2),
        ("deeplab resnet-101", deeplab(zoo::Backbone::ResNet(r101), eight, frozen), 2),
        ("psp-net resnet-18", zoo::psp_net(r18, &[3, 65, 65], 21, group), 4),
        ("psp-net resnet-50", zoo::psp_net(r50, &[3, 65, 65], 21, frozen), 2),
    ];
    models.into_iter().map(|(name, graph, samples)| (name, graph.unwrap(), samples)).collect()
}

pub(crate) fn smoothed_models_agree(subjects: &[Subject]) {
    for (name, graph, samples) in zoo() {
        let smooth = smoothed(&graph);
        let (values, layout) = (parameters(&smooth), Layout::new(&smooth));
        let rules = [Clipping::Off, Clipping::Flat { max_norm: 0.7 }]
            .map(|clipping| crate::common::rule(&clipping, &layout));
        for views in [1, 2] {
            let data = Data::new(&smooth, samples, views);
            let mut cpu = Subject::threads(0).open(&smooth);
            let wanted = rules.clone().map(|rule| cpu.step(&values, &data.batch(), &rule));
            // Several views run the same kernels, so the fastest subject will do, which comes last.
            for subject in &subjects[if views > 1 { subjects.len() - 1 } else { 0 }..] {
                let subject = subject.planned_for(samples);
                let mut opened = subject.open(&smooth);
                for (rule, want) in rules.iter().zip(&wanted) {
                    let got = opened.step(&values, &data.batch(), rule);
                    let title = format!("{name} smoothed, {views} views, {:?}, {subject:?}", rule.clipping());
                    agree(&title, subject, &got, want, rule);
                }
            }
        }
    }
}

/// The processor's step for one sample, and how far moved weights take its gradient at most, as a share of its length.
struct Host {
    step: Step,
    farthest_move: f64,
}

/// Runs all samples on the processor, each on one thread.
fn on_processor(graph: &Graph, data: &Data, start: &Parameters) -> Vec<Host> {
    let moved: Vec<Parameters> = std::thread::scope(|scope| {
        let moving: Vec<_> =
            (0..MOVES).map(|index| scope.spawn(move || moved(graph, start, index))).collect();
        moving.into_iter().map(|moved| moved.join().unwrap()).collect()
    });
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = |samples: &[usize]| -> Vec<Host> {
        let mut cpu = Subject::threads(1).open(graph);
        let rule = cpu.rule(&Clipping::Off);
        let one = |&sample: &usize| {
            let batch = data.part(sample..sample + 1, graph.input_shape().iter().product());
            let step = cpu.step(start, &batch, &rule);
            let jumps =
                moved.iter().map(|moved| apart(&cpu.step(moved, &batch, &rule).gradient, &step.gradient));
            let farthest_move = jumps.fold(0.0, f64::max) / step.length();
            Host { step, farthest_move }
        };
        samples.iter().map(one).collect()
    };
    let samples: Vec<usize> = (0..SAMPLES).collect();
    std::thread::scope(|scope| {
        let parts = samples.chunks(SAMPLES.div_ceil(threads));
        let work = &work;
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// This compares the models as they are, sample by sample.
pub(crate) fn models_with_kinks_are_no_farther_than_moved_weights(subjects: &[Subject]) {
    let most = binomial_bound(SAMPLES, 1.0 / (MOVES + 1) as f64, ALPHA);
    for (name, graph, _) in zoo() {
        let (data, start) = (Data::new(&graph, SAMPLES, 1), parameters(&graph));
        let size: usize = graph.input_shape().iter().product();
        let wanted = on_processor(&graph, &data, &start);
        for subject in subjects {
            let near = subject.tolerance().plain;
            let mut opened = subject.planned_for(1).open(&graph);
            let rule = opened.rule(&Clipping::Off);
            let (mut farthest, mut within) = (0, 0);
            for (sample, want) in wanted.iter().enumerate() {
                let got = opened.step(&start, &data.part(sample..sample + 1, size), &rule);
                let losses = (f64::from(got.stats.losses[0]), f64::from(want.step.stats.losses[0]));
                let title = format!("{name}, sample {sample}, {subject:?}");
                assert!((losses.0 - losses.1).abs() <= near * losses.1, "{title}: losses {losses:?}");
                let difference = apart(&got.gradient, &want.step.gradient) / want.step.length();
                within += usize::from(difference <= near);
                farthest += usize::from(difference.is_nan() || difference > want.farthest_move.max(near));
            }
            println!(
                "{name}: {within} of {SAMPLES} samples within {near:.0e}, {farthest} farther than any move"
            );
            assert!(farthest <= most, "{name}: {farthest} samples farther than any move, {most} allowed");
        }
    }
}

/// The weights after each was moved at random by at most a share [`MOVE`].
fn moved(graph: &Graph, parameters: &Parameters, index: usize) -> Parameters {
    let mut moved = parameters.clone();
    let name = checksum(&format!("move {index} of {}", graph.parameters().len()));
    for (i, value) in moved.values_mut().iter_mut().enumerate() {
        *value = (f64::from(*value) * (1.0 + MOVE * uniform_at(name, i))) as f32;
    }
    moved
}

/// The least number that a binomial number exceeds with at most this probability.
fn binomial_bound(trials: usize, chance: f64, alpha: f64) -> usize {
    // P(X = k + 1) / P(X = k) = (n - k) / (k + 1) * p / (1 - p)
    let mut term = (1.0 - chance).powi(trials as i32);
    let mut beyond = 1.0 - term;
    let mut k = 0;
    while beyond > alpha && k < trials {
        term *= (trials - k) as f64 / (k + 1) as f64 * chance / (1.0 - chance);
        beyond -= term;
        k += 1;
    }
    k
}

/// The same model with SiLU for ReLU and ReLU6, and the mean for the maximum of a window.
pub(crate) fn smoothed(graph: &Graph) -> Graph {
    let mut b = GraphBuilder::new(graph.input_shape());
    let mut ids: Vec<NodeId> = vec![b.input()];
    for node in &graph.nodes()[1..] {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|id| ids[id.index()]).collect();
        let id = match &node.op {
            Op::Conv(Conv { window, groups, bias, standardise, .. }) => {
                let mut spec = ConvSpec::new(node.shape[0], window.clone()).groups(*groups);
                spec.bias = bias.is_some();
                spec.standardise = *standardise;
                b.conv(&node.name, inputs[0], spec)
            }
            Op::Linear(_) => {
                let (out, zero) = (node.shape[node.shape.len() - 1], Init::Constant(0.0));
                b.linear(&node.name, inputs[0], out, zero, zero)
            }
            Op::GroupNorm(GroupNorm { groups, .. }) => b.group_norm(&node.name, inputs[0], *groups),
            Op::BatchNorm(_) => b.batch_norm(&node.name, inputs[0], false),
            Op::Activation(Activation::Relu | Activation::Relu6) => {
                b.add(&node.name, Activation::Silu, &inputs)
            }
            Op::MaxPool(MaxPool(window)) => b.add(&node.name, AvgPool(window.clone()), &inputs),
            op => b.add(&node.name, op.clone(), &inputs),
        };
        ids.push(id.unwrap());
    }
    for auxiliary in graph.auxiliary() {
        b.auxiliary(ids[auxiliary.output.index()], auxiliary.weight);
    }
    b.finish(ids[graph.output().index()], graph.loss()).unwrap()
}
