//! The CPU executor against the reference executor.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, parameters, rule, specimen, specimens};
use dapple_engine::reference::Reference;
use dapple_engine::{Batch, Clipping, CpuExecutor, Dropout, Layout, Options, StepStats, Targets};
use dapple_graph::{Graph, Loss};

/// Clipped sum as a flat gradient.
fn clipped(graph: &Graph, batch: &Batch<'_>, clipping: &Clipping, options: Options) -> (Vec<f32>, StepStats) {
    let parameters = parameters(graph);
    let mut executor = CpuExecutor::new(graph, options).unwrap();
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(&parameters).unwrap();
    let rule = rule(clipping, &Layout::new(graph));
    let stats = loaded.clipped_sum(batch, &rule, &mut sum).unwrap();
    let gradient = loaded.gradient(sum).unwrap();
    (gradient, stats)
}

/// Every value within 1e-5 of the largest: single precision rounds by 6e-8, and the longest sums here have a few hundred terms. And within
/// the grain: what rounding to whole units may move it by.
fn close(name: &str, got: &[f32], want: &[f64], grain: f64) {
    assert_eq!(got.len(), want.len(), "{name}");
    let scale = want.iter().fold(1e-30f64, |max, v| max.max(v.abs()));
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (f64::from(*got) - want).abs() <= 1e-5 * scale + grain,
            "{name}[{index}]: {got} against {want} (scale {scale})"
        );
    }
}

fn agree(name: &str, graph: &Graph, batch: &Batch<'_>, clipping: &Clipping, options: Options) {
    let reference = Reference::new(graph, &parameters(graph)).unwrap();
    let rule = rule(clipping, &Layout::new(graph));
    let (want, want_stats) = reference.clipped_sum(batch, &rule).unwrap();
    let (got, stats) = clipped(graph, batch, clipping, options);
    // A norm that is rounded up clips by as much more.
    let scale = want.iter().fold(0f64, |max, v| max.max(v.abs()));
    let more = (f64::from(common::ROUNDED_UP) - 1.0) * scale;
    close(&format!("{name} gradient"), &got, &want, common::grain(&rule, stats.losses.len()) + more);
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&v| f64::from(v)).collect() };
    close(&format!("{name} losses"), &stats.losses, &wide(&want_stats.losses), 0.0);
    if *clipping != Clipping::Off {
        for (got, want) in stats.norms.iter().zip(&want_stats.norms) {
            let enclosed = *got >= want * (1.0 - 1e-5) && *got <= want * common::ROUNDED_UP;
            assert!(enclosed, "{name}: norm {got} against {want}");
        }
    }
}

#[test]
fn clipped_sums_agree_for_every_operation() {
    for (name, graph) in specimens() {
        for views in [1, 3] {
            let data = Data::new(&graph, 3, views);
            for clipping in [
                Clipping::Off,
                Clipping::Flat { max_norm: 0.7 },
                Clipping::PerLayer { max_norm: 0.5 },
                Clipping::Automatic { max_norm: 1.0, stability: 0.01 },
            ] {
                let options = Options { threads: 2, ..Options::default() };
                agree(&format!("{name} {views} {clipping:?}"), &graph, &data.batch(), &clipping, options);
            }
        }
    }
}

#[test]
fn forward_passes_agree() {
    for (name, graph) in specimens() {
        let data = Data::new(&graph, 5, 1);
        let parameters = parameters(&graph);
        let want = Reference::new(&graph, &parameters).unwrap().forward(&data.inputs).unwrap();
        let mut executor = CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
        let got = executor.load(&parameters).unwrap().forward(&data.inputs).unwrap();
        close(name, &got, &want, 0.0);
    }
}

#[test]
fn groups_of_parameters_are_clipped_apart() {
    let graph = specimen("deep");
    let data = Data::new(&graph, 4, 1);
    let count = graph.parameters().iter().filter(|p| p.trainable).count();
    let clipping =
        Clipping::PerGroup { groups: (0..count).map(|i| i % 3).collect(), max_norms: vec![0.2, 0.4, 0.1] };
    agree("groups", &graph, &data.batch(), &clipping, Options { threads: 2, ..Options::default() });
}

#[test]
fn threads_groups_splits_and_checkpoints_change_no_bit() {
    let clipping = Clipping::Flat { max_norm: 0.7 };
    for name in ["deep", "norms", "attention", "pools", "conv_3d", "conv_depthwise"] {
        let graph = specimen(name);
        let data = Data::new(&graph, 5, 2);
        let batch = data.batch();
        let base = clipped(&graph, &batch, &clipping, Options { threads: 1, group: 1, ..Options::default() });
        for (threads, group) in [(1, 4), (2, 2), (3, 1), (8, 3)] {
            let options = Options { threads, group, ..Options::default() };
            assert_eq!(base, clipped(&graph, &batch, &clipping, options), "{name} {threads} {group}");
        }
        let size = data.inputs.len() / 5;
        let parameters = parameters(&graph);
        let mut executor = CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
        let mut sum = executor.gradient_sum();
        let mut loaded = executor.load(&parameters).unwrap();
        for part in [0..2, 2..2, 2..5] {
            let part = data.part(part, size);
            loaded.clipped_sum(&part, &rule(&clipping, &Layout::new(&graph)), &mut sum).unwrap();
        }
        let gradient = loaded.gradient(sum).unwrap();
        assert_eq!(base.0, gradient, "{name} split");
    }
}

/// Layers of more than a million weights that each sample reads once, the second beside a shortcut.
fn vast(loss: Loss) -> Graph {
    let mut builder = dapple_graph::GraphBuilder::new(&[1104]);
    let input = builder.input();
    let zero = dapple_graph::Init::Constant(0.0);
    let x = builder.linear("first", input, 8, zero, zero).unwrap();
    let x = builder.linear("wide", x, 1104, zero, zero).unwrap();
    let x = builder.add("relu", dapple_graph::Op::Relu, &[x]).unwrap();
    let x = builder.linear("vast", x, 1104, zero, zero).unwrap();
    let x = builder.add("tanh", dapple_graph::Op::Tanh, &[x]).unwrap();
    let branch = builder.linear("branch", x, 1104, zero, zero).unwrap();
    let x = builder.add("sum", dapple_graph::Op::Add, &[x, branch]).unwrap();
    let x = builder.linear("narrowing", x, 1001, zero, zero).unwrap();
    let x = builder.linear("head", x, 4, zero, zero).unwrap();
    builder.finish(x, loss).unwrap()
}

#[test]
fn vast_layers_agree() {
    let graph = vast(common::CLASSES);
    let clipping = Clipping::Flat { max_norm: 0.7 };
    for (samples, views) in [(1, 1), (7, 1), (2, 2)] {
        let data = Data::new(&graph, samples, views);
        agree(
            "vast",
            &graph,
            &data.batch(),
            &clipping,
            Options { threads: 2, group: 5, ..Options::default() },
        );
    }
}

/// Their gradients are summed for 64 items at a time.
#[test]
fn sums_of_vast_layers_are_the_same_however_they_are_split() {
    let (graph, clipping) = (vast(common::CLASSES), Clipping::Flat { max_norm: 0.7 });
    let data = Data::new(&graph, 67, 1);
    let base = clipped(&graph, &data.batch(), &clipping, Options { threads: 1, ..Options::default() });
    for (threads, group) in [(1, 1), (3, 2), (2, 33)] {
        let options = Options { threads, group, ..Options::default() };
        assert_eq!(base, clipped(&graph, &data.batch(), &clipping, options), "{threads} {group}");
    }
}

#[test]
fn activations_of_maxima_agree() {
    let window = dapple_graph::Window::square(3).stride(2).padding(1);
    for shared in [false, true] {
        let mut builder = dapple_graph::GraphBuilder::new(&[3, 9, 7]);
        let spec = dapple_graph::ConvSpec::new(5, dapple_graph::Window::square(1)).bias();
        let x = builder.conv("conv", builder.input(), spec).unwrap();
        let active = builder.add("relu", dapple_graph::Op::Relu, &[x]).unwrap();
        let mut x = builder.add("max", dapple_graph::Op::MaxPool(window.clone()), &[active]).unwrap();
        if shared {
            // A second reader: the activation has to be taken before the maximum.
            let pool = dapple_graph::Op::AdaptiveAvgPool(vec![5, 4]);
            let average = builder.add("average", pool, &[active]).unwrap();
            x = builder.add("sum", dapple_graph::Op::Add, &[x, average]).unwrap();
        }
        let graph = common::head(builder, x, common::CLASSES).unwrap();
        for views in [1, 2] {
            let data = Data::new(&graph, 5, views);
            let options = Options { threads: 2, group: 2, ..Options::default() };
            agree("maxima", &graph, &data.batch(), &Clipping::Flat { max_norm: 0.7 }, options);
        }
    }
}

/// Convolutions that are done by minimal filtering, one with its gradient written down and one deferred.
fn filtered() -> Graph {
    let mut builder = dapple_graph::GraphBuilder::new(&[32, 13, 9]);
    let mut x = builder.input();
    for (name, out, stride) in [("first", 48, 1), ("second", 32, 2), ("third", 64, 1), ("fourth", 32, 1)] {
        let window = dapple_graph::Window::square(3).padding(1).stride(stride);
        x = builder.conv(name, x, dapple_graph::ConvSpec::new(out, window).bias()).unwrap();
        x = builder.group_norm(&format!("{name}.norm"), x, 8).unwrap();
        x = builder.add(&format!("{name}.relu"), dapple_graph::Op::Relu, &[x]).unwrap();
    }
    x = builder.add("pool", dapple_graph::Op::AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    x = builder.add("flatten", dapple_graph::Op::Reshape(vec![32]), &[x]).unwrap();
    x = builder
        .linear("head", x, 4, dapple_graph::Init::XavierUniform, dapple_graph::Init::Constant(0.0))
        .unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

#[test]
fn filtered_convolutions_agree_whatever_the_threads_groups_and_memory() {
    let (graph, clipping) = (filtered(), Clipping::Flat { max_norm: 0.7 });
    for views in [1, 2] {
        let data = Data::new(&graph, 5, views);
        let batch = data.batch();
        agree("filtered", &graph, &batch, &clipping, Options { threads: 1, ..Options::default() });
        let base = clipped(&graph, &batch, &clipping, Options { threads: 1, group: 1, ..Options::default() });
        for (threads, group, memory) in [(1, 4, 0), (2, 2, 0), (8, 3, 0), (3, 0, 1), (4, 0, 2 << 20)] {
            let options = Options { threads, group, memory, checkpoints: false };
            assert_eq!(base, clipped(&graph, &batch, &clipping, options), "{threads} {group} {memory}");
        }
    }
}

/// The norm of a deferred standardised layer reads the outputs of all views, after the first ones' backward passes are over.
#[test]
fn deferred_standardised_layers_agree_over_views() {
    let mut builder = dapple_graph::GraphBuilder::new(&[24, 2, 2]);
    let mut x = builder.input();
    for layer in 0..4 {
        let window = dapple_graph::Window::square(3).padding(1);
        let spec = dapple_graph::ConvSpec::new(24, window).standardise(1e-5);
        x = builder.conv(&format!("conv{layer}"), x, spec).unwrap();
        x = builder.group_norm(&format!("norm{layer}"), x, 4).unwrap();
        x = builder.add(&format!("relu{layer}"), dapple_graph::Op::Relu, &[x]).unwrap();
    }
    x = builder.add("flatten", dapple_graph::Op::Reshape(vec![96]), &[x]).unwrap();
    let zero = dapple_graph::Init::Constant(0.0);
    x = builder.linear("head", x, 4, zero, zero).unwrap();
    let graph = builder.finish(x, common::CLASSES).unwrap();
    let data = Data::new(&graph, 2, 3);
    let clipping = Clipping::Flat { max_norm: 0.7 };
    agree(
        "standardised views",
        &graph,
        &data.batch(),
        &clipping,
        Options { threads: 1, ..Options::default() },
    );
}

#[test]
fn threads_inside_a_sample_change_no_bit() {
    let clipping = Clipping::Flat { max_norm: 0.7 };
    let mut graphs = specimens();
    graphs.push(("vast", vast(common::CLASSES)));
    for (name, graph) in graphs {
        let data = Data::new(&graph, 2, 2);
        // With hardly any memory samples run one at a time, on all threads.
        let [one, many] = [(1, 0), (5, 1)].map(|(threads, memory)| {
            let options = Options { threads, memory, ..Options::default() };
            let parameters = parameters(&graph);
            let mut executor = CpuExecutor::new(&graph, options).unwrap();
            let outputs = executor.load(&parameters).unwrap().forward(&data.inputs).unwrap();
            (clipped(&graph, &data.batch(), &clipping, options), outputs)
        });
        assert_eq!(one, many, "{name}");
    }
}

#[test]
fn probabilities_generalise_classes() {
    let graph = specimen("smoothing");
    let inputs: Vec<f32> = (0..12).map(|i| common::uniform("input", i) as f32).collect();
    let certain = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let clipping = Clipping::Flat { max_norm: 0.3 };
    let [hard, soft] = [Targets::Classes(&[1, 3]), Targets::Probabilities(&certain)]
        .map(|targets| clipped(&graph, &Batch::new(&inputs, targets), &clipping, Options::default()));
    assert_eq!(hard, soft);
    let mixed = [0.1, 0.6, 0.2, 0.1, 0.0, 0.5, 0.5, 0.0];
    let batch = Batch::new(&inputs, Targets::Probabilities(&mixed));
    agree("mixed", &graph, &batch, &clipping, Options::default());
}

#[test]
fn checkpoints_change_nothing_but_rounding() {
    for (name, graph) in specimens() {
        let data = Data::new(&graph, 3, 2);
        let options = Options { threads: 2, group: 2, checkpoints: true, ..Options::default() };
        agree(name, &graph, &data.batch(), &Clipping::Flat { max_norm: 0.7 }, options);
    }
}

#[test]
fn an_empty_batch_adds_nothing() {
    for name in ["deep", "pixels", "squares"] {
        let graph = specimen(name);
        let data = Data::new(&graph, 0, 2);
        let (gradient, stats) =
            clipped(&graph, &data.batch(), &Clipping::Flat { max_norm: 1.0 }, Options::default());
        assert!(gradient.iter().all(|g| *g == 0.0));
        assert_eq!(stats, StepStats::default());
        let mut executor = CpuExecutor::new(&graph, Options::default()).unwrap();
        assert!(executor.load(&parameters(&graph)).unwrap().forward(&[]).unwrap().is_empty());
    }
}

#[test]
fn frozen_parameters_leave_the_rest_unchanged() {
    let mut graph = specimen("deep");
    let everything = Data::new(&graph, 3, 1);
    graph.set_trainable(|name| name.starts_with("conv3") || name.starts_with("head"));
    agree("frozen", &graph, &everything.batch(), &Clipping::Flat { max_norm: 0.3 }, Options::default());
    let needs = graph.needs_gradient();
    let lowest = graph.nodes().iter().position(|node| node.name == "conv3").unwrap();
    assert!(needs[..lowest].iter().all(|needs| !needs) && needs[lowest]);
}

fn dropping(op: dapple_graph::Op) -> Graph {
    let mut builder = dapple_graph::GraphBuilder::new(&[3, 4, 4]);
    let input = builder.input();
    let spec = dapple_graph::ConvSpec::new(6, dapple_graph::Window::square(3)).bias();
    let x = builder.conv("conv", input, spec).unwrap();
    let x = builder.add("drop", op, &[x]).unwrap();
    let x = builder.add("flat", dapple_graph::Op::Reshape(vec![24]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

#[test]
fn dropout_is_the_same_in_both() {
    let graph = dropping(dapple_graph::Op::Dropout(0.4));
    let data = Data::new(&graph, 4, 2);
    let dropout = Some(Dropout { seed: 5, records: &[3, 141, 59, 26] });
    let batch = Batch { dropout, ..data.batch() };
    agree("dropout", &graph, &batch, &Clipping::Flat { max_norm: 0.5 }, Options::default());
    let plain = clipped(&graph, &data.batch(), &Clipping::Off, Options::default()).0;
    assert_ne!(plain, clipped(&graph, &batch, &Clipping::Off, Options::default()).0);
}

/// What a record drops, and so what it adds, has the same bits alone, at two places, and in two companies.
#[test]
fn dropout_follows_the_record() {
    let clipping = Clipping::Flat { max_norm: 0.5 };
    for op in [dapple_graph::Op::Dropout(0.4), dapple_graph::Op::ChannelDropout(0.4)] {
        let graph = dropping(op);
        let (values, views, size) = (parameters(&graph), 2, 2 * 3 * 4 * 4);
        let data = Data::new(&graph, 6, views);
        let mut executor = CpuExecutor::new(&graph, Options { threads: 2, ..Options::default() }).unwrap();
        let rule = rule(&clipping, executor.layout());
        // A batch of some of the six samples, in this order, which are records of these numbers.
        let mut counts = |samples: &[usize], records: &[usize], seed: u64| {
            let inputs: Vec<f32> =
                samples.iter().flat_map(|&i| &data.inputs[i * size..(i + 1) * size]).copied().collect();
            let classes: Vec<u32> = samples.iter().flat_map(|&i| [i as u32, i as u32 + 7]).collect();
            let dropout = Some(Dropout { seed, records });
            let batch = Batch { views, dropout, ..Batch::new(&inputs, Targets::Classes(&classes)) };
            let mut sum = executor.gradient_sum();
            let mut loaded = executor.load(&values).unwrap();
            loaded.clipped_sum(&batch, &rule, &mut sum).unwrap();
            let own: Vec<i64> = loaded.total(sum).unwrap().counts().unwrap().0.collect();
            let place = samples.iter().position(|&i| i == 2).unwrap_or(0);
            (own, Reference::new(&graph, &values).unwrap().gradient(&batch, place).unwrap())
        };
        let less = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
        let (alone, reference) = counts(&[2], &[700], 5);
        let (first, at_first) = counts(&[2, 0, 1], &[700, 8, 31], 5);
        let (last, at_last) = counts(&[4, 0, 5, 3, 2], &[12, 8, 900, 1, 700], 5);
        assert_eq!(less(&first, &counts(&[0, 1], &[8, 31], 5).0), alone);
        assert_eq!(less(&last, &counts(&[4, 0, 5, 3], &[12, 8, 900, 1], 5).0), alone);
        assert_eq!([&at_first, &at_last], [&reference; 2]);
        // Another record, or another step, drops otherwise.
        assert_ne!(counts(&[2], &[701], 5).0, alone);
        assert_ne!(counts(&[2], &[700], 6).0, alone);
    }
}

/// Of one view some channels are dropped, and their biases have no gradient; of many equal views of one record none is dropped in all.
#[test]
fn views_of_a_record_drop_each_for_itself() {
    let graph = dropping(dapple_graph::Op::ChannelDropout(0.4));
    let values = parameters(&graph);
    let reference = Reference::new(&graph, &values).unwrap();
    let bias = Layout::new(&graph).entries()[1].range.clone();
    let dropped = |views: usize, record: usize| {
        let (inputs, classes) = (vec![0.5; views * 48], vec![3; views]);
        let dropout = Some(Dropout { seed: 5, records: &[record] });
        let batch = Batch { views, dropout, ..Batch::new(&inputs, Targets::Classes(&classes)) };
        let gradient = reference.gradient(&batch, 0).unwrap().1;
        gradient[bias.clone()].iter().filter(|&&value| value == 0.0).count()
    };
    assert!((0..5).map(|record| dropped(1, record)).sum::<usize>() > 5);
    assert_eq!((0..5).map(|record| dropped(32, record)).sum::<usize>(), 0);
}
