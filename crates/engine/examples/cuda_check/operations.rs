//! Every operation and odd shapes against the double-precision reference, and what happens when memory runs out.

use dapple_engine::cuda::{Convolutions, CudaError, CudaExecutor, CudaOptions};
use dapple_engine::reference::Reference;
use dapple_engine::{Batch, Clipping, Dropout, Layout, StepStats};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Op, Window};

use crate::common::{self, Data, parameters, specimens};
use crate::report::{RAISED, Report, TOLERANCE};
use crate::{rule, run, wide};

/// Compares a step with what another executor made of it.
pub(crate) fn agree(
    report: &mut Report,
    name: &str,
    got: Result<(Vec<f32>, StepStats), CudaError>,
    (gradient, stats): &(Vec<f64>, StepStats),
    clipping: &Clipping,
) {
    match got {
        Ok((got, got_stats)) => {
            let tolerance = if *clipping == Clipping::Off { TOLERANCE } else { RAISED };
            let grain = grain(clipping, stats.losses.len());
            report.compare_within(&format!("{name} gradient"), &got, gradient, tolerance, grain);
            report.compare(&format!("{name} losses"), &got_stats.losses, &wide(&stats.losses));
            if *clipping != Clipping::Off {
                let title = format!("{name} norms");
                report.compare_within(&title, &got_stats.norms, &wide(&stats.norms), RAISED, 0.0);
                let low = got_stats.norms.iter().zip(&stats.norms).any(|(got, want)| *got < want * 0.9999);
                report.expect(!low, || format!("{title}: one is too small"));
            }
        }
        Err(error) => report.failures.push(format!("{name}: {error}")),
    }
}

/// What rounding to whole units moves a coordinate by at the most: half a unit a sample on both sides, and half behind a projection. A unit
/// is at most 2^-20 of the bound on the whole.
fn grain(clipping: &Clipping, samples: usize) -> f64 {
    let bound = if *clipping == Clipping::Off { 0.0 } else { clipping.sensitivity() };
    bound * (samples + 1) as f64 * 2f64.powi(-20)
}

pub(crate) fn check(report: &mut Report, _: bool) {
    let mut graphs = specimens();
    graphs.push(("dropout", dropout(Op::Dropout(0.4))));
    graphs.push(("wide group", wide_group()));
    graphs.push(("sums of norms", sums_of_norms()));
    graphs.push(("joined boxes", joined_boxes()));
    graphs.push(("a branch to nowhere", branch_to_nowhere()));
    graphs.push(("channel dropout", dropout(Op::ChannelDropout(0.4))));
    for (name, graph) in &graphs {
        let reference = Reference::new(graph, &parameters(graph)).unwrap();
        let count = graph.parameters().iter().filter(|p| p.trainable).count();
        for (convolutions, microbatch) in
            [(Convolutions::Own, 2), (Convolutions::Cudnn, 0), (Convolutions::Products, 3)]
        {
            let options = CudaOptions { convolutions, microbatch, batch: 5, ..CudaOptions::default() };
            let mut executor = CudaExecutor::new(graph, options).expect("the card opened before");
            let data = Data::new(graph, 5, 1);
            let want = reference.forward(&data.inputs).unwrap();
            match executor.load(&parameters(graph)).and_then(|mut loaded| loaded.forward(&data.inputs)) {
                Ok(got) => report.compare(&format!("{name} forward"), &got, &want),
                Err(error) => report.failures.push(format!("{name} forward: {error}")),
            }
            for views in [1, 3] {
                let data = Data::new(graph, 5, views);
                let dropout = Some(Dropout { seed: 5, records: &[3, 14, 15, 92, 6] });
                let batch = Batch { dropout: dropout.filter(|_| name.ends_with("dropout")), ..data.batch() };
                for clipping in [
                    Clipping::Off,
                    Clipping::Flat { max_norm: 0.7 },
                    Clipping::PerLayer { max_norm: 0.5 },
                    Clipping::Automatic { max_norm: 1.0, stability: 0.01 },
                    Clipping::PerGroup {
                        groups: (0..count).map(|i| i % 2).collect(),
                        max_norms: vec![0.2, 0.4],
                    },
                ] {
                    let want = reference.clipped_sum(&batch, &rule(&clipping, executor.layout())).unwrap();
                    let title = format!("{name} views {views} {clipping:?} {convolutions:?}");
                    agree(
                        report,
                        &title,
                        run(&mut executor, &parameters(graph), &batch, &clipping),
                        &want,
                        &clipping,
                    );
                }
            }
        }
    }
}

/// Layers that no output depends on: they take no memory, and their gradients are zero.
fn branch_to_nowhere() -> Graph {
    let mut b = GraphBuilder::new(&[3, 9, 8]);
    let three = || Window::square(3).padding(1);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, three())).unwrap();
    let aside = b.conv("aside", x, ConvSpec::new(5, three()).bias()).unwrap();
    b.conv("deeper aside", aside, ConvSpec::new(4, Window::square(1))).unwrap();
    let x = b.conv("on", x, ConvSpec::new(4, three())).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}

/// A graph whose activations outgrow any card: the executor must say so, and work on with fewer samples.
pub(crate) fn check_memory(report: &mut Report, _: bool) {
    let mut b = GraphBuilder::new(&[1, 4, 4]);
    let mut x = b.conv("conv", b.input(), ConvSpec::new(1, Window::square(1))).unwrap();
    x = b.add("large", Op::Upsample([4096, 4096]), &[x]).unwrap();
    for layer in 0..60 {
        x = b.add(&format!("silu{layer}"), Op::Silu, &[x]).unwrap();
    }
    x = b.add("pool", Op::AdaptiveAvgPool(vec![2, 2]), &[x]).unwrap();
    x = b.add("flat", Op::Reshape(vec![4]), &[x]).unwrap();
    let graph = b.finish(x, common::CLASSES).unwrap();
    let samples = 100;
    let data = Data::new(&graph, samples, 1);
    for (microbatch, fits) in [(samples, false), (1, true)] {
        let options = CudaOptions { microbatch, batch: microbatch, ..CudaOptions::default() };
        let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
        let batch = data.part(0..if fits { 2 } else { samples }, 16);
        let got = run(&mut executor, &parameters(&graph), &batch, &Clipping::Flat { max_norm: 1.0 });
        match got {
            Ok(_) if fits => {}
            Err(CudaError::OutOfMemory { wanted_mb, free_mb }) if !fits => {
                println!("out of memory, as it must be: {wanted_mb} MB wanted, {free_mb} MB free");
            }
            got => report.failures.push(format!("memory, {microbatch} together: {:?}", got.map(|_| ()))),
        }
    }
}

/// Convolutions of shapes that are nobody's usual choice.
pub(crate) fn check_shapes(report: &mut Report, quick: bool) {
    for index in 0..if quick { 30 } else { 120 } {
        let pick = |name: &str, low: usize, high: usize| {
            low + ((common::uniform(name, index) + 1.0) / 2.0 * (high - low) as f64) as usize
        };
        let groups = pick("groups", 1, 3);
        let (channels, out) = (groups * pick("channels", 1, 13), groups * pick("out", 1, 40));
        let window = Window {
            kernel: vec![pick("kernel rows", 1, 6), pick("kernel columns", 1, 6)],
            stride: vec![pick("stride rows", 1, 4), pick("stride columns", 1, 4)],
            padding: vec![pick("padding rows", 0, 3), pick("padding columns", 0, 3)],
            dilation: vec![pick("dilation rows", 1, 3), pick("dilation columns", 1, 3)],
        };
        let shape = [channels, pick("height", 6, 24), pick("width", 6, 40)];
        let mut spec = ConvSpec::new(out, window).groups(groups);
        spec.bias = pick("bias", 0, 2) == 1;
        spec.standardise = Some(1e-5).filter(|_| pick("standardise", 0, 2) == 1);
        let title = format!("shape {index}: {shape:?} {spec:?}");
        let Ok(graph) = common::conv(&shape, spec) else { continue };
        let clipping = Clipping::Flat { max_norm: 0.7 };
        let data = Data::new(&graph, 3, pick("views", 1, 3));
        let reference = Reference::new(&graph, &parameters(&graph)).unwrap();
        let layout = Layout::new(&graph);
        let want = reference.clipped_sum(&data.batch(), &rule(&clipping, &layout)).unwrap();
        for convolutions in [Convolutions::Own, Convolutions::Cudnn, Convolutions::Products] {
            let options = CudaOptions { convolutions, batch: 3, ..CudaOptions::default() };
            let got = CudaExecutor::new(&graph, options)
                .and_then(|mut executor| run(&mut executor, &parameters(&graph), &data.batch(), &clipping));
            agree(report, &format!("{title} {convolutions:?}"), got, &want, &clipping);
        }
    }
}

/// A layer behind which something is dropped.
pub(crate) fn dropout(op: Op) -> Graph {
    let mut builder = GraphBuilder::new(&[3, 4, 4]);
    let input = builder.input();
    let x = builder.conv("conv", input, ConvSpec::new(6, Window::square(3)).bias()).unwrap();
    let x = builder.add("drop", op, &[x]).unwrap();
    let x = builder.add("flat", Op::Reshape(vec![24]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

/// A norm with more channels in a group than a block's usual shared memory has room for.
fn wide_group() -> Graph {
    let mut builder = GraphBuilder::new(&[3, 2, 2]);
    let input = builder.input();
    let x = builder.conv("conv", input, ConvSpec::new(4000, Window::square(1))).unwrap();
    let x = builder.group_norm("norm", x, 1).unwrap();
    let x = builder.add("pool", Op::AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    let x = builder.add("flat", Op::Reshape(vec![4000]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

/// Norms that add their residual, with and without an activation behind it, where gradients may share memory and where they may not.
fn sums_of_norms() -> Graph {
    let mut builder = GraphBuilder::new(&[3, 7, 5]);
    let b = &mut builder;
    let conv = |b: &mut GraphBuilder, name: &str, x| {
        let x = b.conv(&format!("{name}.conv"), x, ConvSpec::new(8, Window::square(3).padding(1))).unwrap();
        b.group_norm(&format!("{name}.norm"), x, 4).unwrap()
    };
    let sum = |b: &mut GraphBuilder, name: &str, x, y| b.add(name, Op::Add, &[x, y]).unwrap();
    let relu = |b: &mut GraphBuilder, name: &str, x| b.add(name, Op::Relu, &[x]).unwrap();
    let x = conv(b, "first", b.input());
    let x = relu(b, "first.relu", x);
    // A block with the input itself beside it, and one with a second norm.
    let y = conv(b, "same", x);
    let y = sum(b, "same.sum", y, x);
    let x = relu(b, "same.relu", y);
    let (y, z) = (conv(b, "other.left", x), conv(b, "other.right", x));
    let y = sum(b, "other.sum", y, z);
    let x = relu(b, "other.relu", y);
    // Without an activation, read three times; and a norm of what it adds.
    let y = conv(b, "plain", x);
    let x = sum(b, "plain.sum", x, y);
    let y = b.group_norm("of itself", x, 2).unwrap();
    let y = sum(b, "of itself.sum", x, y);
    let y = relu(b, "of itself.relu", y);
    let x = sum(b, "chain", x, y);
    let z = b.group_norm("last", x, 2).unwrap();
    let x = sum(b, "twice", x, x);
    let x = sum(b, "last.sum", x, z);
    let x = b.add("pool", Op::AdaptiveAvgPool(vec![2, 1]), &[x]).unwrap();
    let x = b.add("flat", Op::Reshape(vec![16]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

/// Boxes that are copied one value or four at a time, along every axis; and a maximum of windows with gaps and of strides beyond them.
fn joined_boxes() -> Graph {
    let mut builder = GraphBuilder::new(&[4, 9, 8]);
    let b = &mut builder;
    let x = b.conv("conv", b.input(), ConvSpec::new(4, Window::square(3).padding(1))).unwrap();
    let x = b.add("channels", Op::Concat { axis: 0 }, &[x, x]).unwrap();
    let x = b.add("rows", Op::Concat { axis: 1 }, &[x, x]).unwrap();
    let x = b.add("columns", Op::Concat { axis: 2 }, &[x, x]).unwrap();
    let x = b.add("slice", Op::Slice { axis: 2, start: 4, end: 13 }, &[x]).unwrap();
    let gaps = Window { kernel: vec![3, 2], stride: vec![2, 1], padding: vec![1, 1], dilation: vec![2, 3] };
    let x = b.add("gaps", Op::MaxPool(gaps), &[x]).unwrap();
    let x = b.add("average", Op::AvgPool(Window::square(3).stride(2).padding(1)), &[x]).unwrap();
    let x = b.add("larger", Op::Upsample([11, 7]), &[x]).unwrap();
    let x = b.add("smaller", Op::Upsample([3, 5]), &[x]).unwrap();
    let x = b.add("turned", Op::Permute(vec![1, 0, 2]), &[x]).unwrap();
    let x = b.add("flat", Op::Reshape(vec![120]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}
