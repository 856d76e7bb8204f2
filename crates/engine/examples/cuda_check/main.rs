//! Compares the CUDA executor with the others, operation by operation and model by model: `cuda_check [quick]`.
//!
//! Without a card it says so and succeeds. Small graphs that together hold every operation are compared with the double-precision
//! reference, the zoo's models with the CPU executor, each with our own convolutions, with cuDNN's, and with whichever is faster.
//!
//! A deep network has millions of activations, and some lie within rounding of the kink of a ReLU or of a tie of a maximum: there two
//! correct executors may take different sides, and the gradient jumps by far more than rounding. So each model is compared to the
//! full tolerance with its kinks smoothed (SiLU for ReLU, mean for maximum), and as it is by its losses, which have no jumps, to the full
//! tolerance, and by the length of the gradient's difference.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{Data, parameters, specimens};
use dapple_engine::cuda::{Convolutions, CudaError, CudaExecutor, CudaOptions};
use dapple_engine::reference::Reference;
use dapple_engine::{Batch, Clipping, CpuExecutor, Dropout, Options, StepStats};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, NodeId, Op, Window, zoo};

/// Largest difference allowed, as a share of the largest value.
const TOLERANCE: f64 = 1e-4;
/// Length of the difference allowed where activations have kinks, as a share of the gradient's length. Seen are up to 0.06, in a
/// network whose last group norms have four values each; a wrong kernel makes a difference near one.
const KINK_TOLERANCE: f64 = 0.2;

/// Counts comparisons and remembers the failures.
#[derive(Default)]
struct Report {
    worst: f64,
    count: usize,
    failures: Vec<String>,
}

impl Report {
    fn compare_lengths(&mut self, name: &str, got: &[f32], want: &[f64]) -> f64 {
        let length: f64 = want.iter().map(|value| value * value).sum::<f64>().sqrt();
        let squares = got.iter().zip(want).map(|(got, want)| (f64::from(*got) - want).powi(2));
        let difference = squares.sum::<f64>().sqrt() / length;
        self.count += 1;
        if difference.is_nan() || difference > KINK_TOLERANCE {
            self.failures.push(format!("{name}: {difference:.2e} of its length"));
        }
        difference
    }

    fn compare(&mut self, name: &str, got: &[f32], want: &[f64]) {
        let scale = want.iter().fold(1e-30f64, |max, value| max.max(value.abs()));
        let difference = got.iter().zip(want).fold(0.0f64, |max, (got, want)| {
            let difference = (f64::from(*got) - want).abs() / scale;
            if difference.is_nan() { f64::INFINITY } else { max.max(difference) }
        });
        self.count += 1;
        self.worst = self.worst.max(difference);
        if got.len() != want.len() || difference > TOLERANCE {
            self.failures.push(format!("{name}: {difference:.2e} ({} of {})", got.len(), want.len()));
        }
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn run(
    executor: &mut CudaExecutor,
    graph: &Graph,
    batch: &Batch<'_>,
    clipping: &Clipping,
) -> Result<(Vec<f32>, StepStats), CudaError> {
    let mut sum = executor.gradient_sum()?;
    let mut loaded = executor.load(&parameters(graph))?;
    let stats = loaded.clipped_sum(batch, clipping, &mut sum)?;
    Ok((loaded.gradient(sum)?, stats))
}

/// Compares a step with what another executor made of it.
fn agree(
    report: &mut Report,
    name: &str,
    got: Result<(Vec<f32>, StepStats), CudaError>,
    (gradient, stats): &(Vec<f64>, StepStats),
    clipping: &Clipping,
) {
    match got {
        Ok((got, got_stats)) => {
            report.compare(&format!("{name} gradient"), &got, gradient);
            report.compare(&format!("{name} losses"), &got_stats.losses, &wide(&stats.losses));
            if *clipping != Clipping::Off {
                report.compare(&format!("{name} norms"), &got_stats.norms, &wide(&stats.norms));
            }
        }
        Err(error) => report.failures.push(format!("{name}: {error}")),
    }
}

fn check_operations(report: &mut Report) {
    let mut graphs = specimens();
    graphs.push(("dropout", dropout()));
    for (name, graph) in &graphs {
        let reference = Reference::new(graph, &parameters(graph)).unwrap();
        let count = graph.parameters().iter().filter(|p| p.trainable).count();
        for (convolutions, microbatch) in [(Convolutions::Own, 2), (Convolutions::Cudnn, 0)] {
            let options = CudaOptions { convolutions, microbatch, ..CudaOptions::default() };
            let mut executor = CudaExecutor::new(graph, options).expect("the card opened before");
            let data = Data::new(graph, 5, 1);
            let want = reference.forward(&data.inputs).unwrap();
            match executor.load(&parameters(graph)).and_then(|mut loaded| loaded.forward(&data.inputs)) {
                Ok(got) => report.compare(&format!("{name} forward"), &got, &want),
                Err(error) => report.failures.push(format!("{name} forward: {error}")),
            }
            for views in [1, 3] {
                let data = Data::new(graph, 5, views);
                let dropout = Some(Dropout { seed: 5, first_sample: 3 });
                let batch = Batch { dropout: dropout.filter(|_| *name == "dropout"), ..data.batch() };
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
                    let want = reference.clipped_sum(&batch, &clipping).unwrap();
                    let title = format!("{name} views {views} {clipping:?} {convolutions:?}");
                    agree(report, &title, run(&mut executor, graph, &batch, &clipping), &want, &clipping);
                }
            }
        }
    }
}

/// A graph whose activations outgrow any card: the executor must say so, and work on with fewer samples.
fn check_memory(report: &mut Report) {
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
        let options = CudaOptions { microbatch, ..CudaOptions::default() };
        let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
        let batch = data.part(0..if fits { 2 } else { samples }, 16);
        let got = run(&mut executor, &graph, &batch, &Clipping::Flat { max_norm: 1.0 });
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
fn check_shapes(report: &mut Report, count: usize) {
    for index in 0..count {
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
        let want = reference.clipped_sum(&data.batch(), &clipping).unwrap();
        for convolutions in [Convolutions::Own, Convolutions::Cudnn] {
            let options = CudaOptions { convolutions, ..CudaOptions::default() };
            let got = CudaExecutor::new(&graph, options)
                .and_then(|mut executor| run(&mut executor, &graph, &data.batch(), &clipping));
            agree(report, &format!("{title} {convolutions:?}"), got, &want, &clipping);
        }
    }
}

fn dropout() -> Graph {
    let mut builder = GraphBuilder::new(&[3, 4, 4]);
    let input = builder.input();
    let x = builder.conv("conv", input, ConvSpec::new(6, Window::square(3)).bias()).unwrap();
    let x = builder.add("drop", Op::Dropout(0.4), &[x]).unwrap();
    let x = builder.add("flat", Op::Reshape(vec![24]), &[x]).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

fn check_models(report: &mut Report, quick: bool) {
    let mut models = vec![
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10), 12),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10), 6),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, zoo::Norm::Group(32)), 6),
    ];
    if !quick {
        models.extend([
            ("wrn-40-4", zoo::wide_resnet(zoo::WideResNet::W40x4, &[3, 32, 32], 10), 4),
            ("resnet-18 frozen", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, zoo::Norm::Frozen), 4),
            ("resnet-34", zoo::resnet(zoo::ResNet::R34, &[3, 64, 64], 10, zoo::Norm::Group(32)), 4),
            ("resnet-50", zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, zoo::Norm::Group(32)), 4),
            ("vgg-11", zoo::vgg(zoo::Vgg::V11, &[3, 64, 64], 10, zoo::Norm::Removed), 4),
            ("vgg-16", zoo::vgg(zoo::Vgg::V16, &[3, 32, 32], 10, zoo::Norm::Group(32)), 4),
        ]);
    }
    for (name, graph, samples) in models {
        let graph = graph.unwrap();
        let smooth = smoothed(&graph);
        for (graph, kinks) in [(&smooth, false), (&graph, true)] {
            for views in [1, 2] {
                let data = Data::new(graph, samples, views);
                let clipping = Clipping::Flat { max_norm: 0.7 };
                let mut executor = CpuExecutor::new(graph, Options::default()).unwrap();
                let mut sum = executor.gradient_sum();
                let parameters = parameters(graph);
                let mut loaded = executor.load(&parameters).unwrap();
                let stats = loaded.clipped_sum(&data.batch(), &clipping, &mut sum).unwrap();
                let want = (wide(&loaded.gradient(sum).unwrap()), stats);
                for convolutions in [Convolutions::Own, Convolutions::Cudnn, Convolutions::Fastest] {
                    if views > 1 && convolutions != Convolutions::Fastest {
                        continue;
                    }
                    let options = CudaOptions { convolutions, ..CudaOptions::default() };
                    let title = format!("{name} views {views} {convolutions:?}");
                    let got = CudaExecutor::new(graph, options)
                        .and_then(|mut executor| run(&mut executor, graph, &data.batch(), &clipping));
                    if let (true, Ok((gradient, stats))) = (kinks, &got) {
                        report.compare(&format!("{title} losses"), &stats.losses, &wide(&want.1.losses));
                        let difference = report.compare_lengths(&title, gradient, &want.0);
                        println!("{title}: difference {difference:.1e} of its length");
                        continue;
                    }
                    let before = std::mem::take(&mut report.worst);
                    agree(report, &format!("{title} smoothed"), got, &want, &clipping);
                    println!("{title} smoothed: largest difference {:.1e}", report.worst);
                    report.worst = report.worst.max(before);
                }
            }
        }
    }
}

/// The same model with SiLU for ReLU and the mean for the maximum of a window.
fn smoothed(graph: &Graph) -> Graph {
    let mut b = GraphBuilder::new(graph.input_shape());
    let mut ids: Vec<NodeId> = vec![b.input()];
    for node in &graph.nodes()[1..] {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|id| ids[id.index()]).collect();
        let id = match &node.op {
            Op::Conv { window, groups, bias, standardise, .. } => {
                let mut spec = ConvSpec::new(node.shape[0], window.clone()).groups(*groups);
                spec.bias = bias.is_some();
                spec.standardise = *standardise;
                b.conv(&node.name, inputs[0], spec)
            }
            Op::Linear { .. } => {
                let (out, zero) = (node.shape[node.shape.len() - 1], Init::Constant(0.0));
                b.linear(&node.name, inputs[0], out, zero, zero)
            }
            Op::GroupNorm { groups, .. } => b.group_norm(&node.name, inputs[0], *groups),
            Op::BatchNorm { .. } => b.batch_norm(&node.name, inputs[0], false),
            Op::Relu => b.add(&node.name, Op::Silu, &inputs),
            Op::MaxPool(window) => b.add(&node.name, Op::AvgPool(window.clone()), &inputs),
            op => b.add(&node.name, op.clone(), &inputs),
        };
        ids.push(id.unwrap());
    }
    b.finish(ids[graph.output().index()], graph.loss()).unwrap()
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    match CudaExecutor::new(&graph, CudaOptions::default()) {
        Ok(executor) => println!("{}", executor.device_name()),
        Err(error) => {
            println!("skipped: {error}\nhint: {}", error.hint().unwrap_or("none"));
            return ExitCode::SUCCESS;
        }
    }
    let mut report = Report::default();
    check_operations(&mut report);
    println!("operations: {} comparisons, largest difference {:.1e}", report.count, report.worst);
    check_shapes(&mut report, if quick { 30 } else { 120 });
    println!("and shapes: {} comparisons, largest difference {:.1e}", report.count, report.worst);
    check_memory(&mut report);
    check_models(&mut report, quick);
    println!(
        "{} comparisons, largest difference {:.1e}, {} failures",
        report.count,
        report.worst,
        report.failures.len()
    );
    report.failures.iter().take(60).for_each(|failure| println!("FAILED {failure}"));
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
