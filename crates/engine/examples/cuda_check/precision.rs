//! TF32 and bf16 against single precision on the CPU, and the bound of clipping in every precision.

use dapple_engine::Clipping;
use dapple_engine::cuda::{CudaExecutor, CudaOptions, Precision};
use dapple_graph::{Graph, Op, zoo};

use crate::common::{Data, parameters};
use crate::models::smoothed;
use crate::report::{RAISED, Report};
use crate::{apart, cpu, length, run, run_on_cpu, wide};

/// Most that a factor is moved by: the tensor cores cut TF32 off at 11 bits, and bf16 is rounded at 8.
fn rounding(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 0.0,
        Precision::Tf32 => (-10f64).exp2(),
        Precision::Bf16 => (-9f64).exp2(),
    }
}

/// How far a gradient may be from single precision's, as a share of its length. Each layer rounds two factors, forward and again backward;
/// roundings of different layers are independent, so they add up like a random walk. Four deviations.
fn tolerance(graph: &Graph, precision: Precision) -> f64 {
    let layers = graph.nodes().iter().filter(|node| matches!(node.op, Op::Conv { .. } | Op::Linear { .. }));
    4.0 * (4.0 * layers.count() as f64).sqrt() * rounding(precision)
}

pub(crate) fn check(report: &mut Report, _: bool) {
    let models = [
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10)),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10)),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, zoo::Norm::Group(32))),
        ("resnet-50", zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, zoo::Norm::Group(32))),
        ("vgg-11", zoo::vgg(zoo::Vgg::V11, &[3, 64, 64], 10, zoo::Norm::Removed)),
    ];
    for (name, graph) in models {
        let graph = graph.unwrap();
        for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
            let options = CudaOptions { precision, batch: 6, ..CudaOptions::default() };
            if precision != Precision::F32 {
                distance(report, name, &smoothed(&graph), options);
            }
            bound(report, name, &graph, options);
        }
    }
}

fn distance(report: &mut Report, name: &str, graph: &Graph, options: CudaOptions) {
    let data = Data::new(graph, 6, 1);
    let clipping = Clipping::Flat { max_norm: 0.7 };
    let (want, _) = run_on_cpu(&mut cpu(graph), &parameters(graph), &data.batch(), &clipping);
    let got = CudaExecutor::new(graph, options)
        .and_then(|mut executor| run(&mut executor, &parameters(graph), &data.batch(), &clipping));
    let difference = got.map_or(f64::NAN, |(got, _)| apart(&got, &want) / length(wide(&want).into_iter()));
    let allowed = tolerance(graph, options.precision);
    println!("{name} {:?}: {difference:.1e} of its length, {allowed:.1e} allowed", options.precision);
    report.expect(difference <= allowed, || format!("{name} {:?}: {difference:.1e}", options.precision));
}

/// One sample's contribution is as long as the bound and never longer.
fn bound(report: &mut Report, name: &str, graph: &Graph, options: CudaOptions) {
    let data = Data::new(graph, 4, 1);
    let size: usize = graph.input_shape().iter().product();
    let start = parameters(graph);
    let max_norm = 0.01;
    let mut executor = CudaExecutor::new(graph, options).expect("the card opened before");
    for sample in 0..4 {
        let batch = data.part(sample..sample + 1, size);
        let got = run(&mut executor, &start, &batch, &Clipping::Flat { max_norm });
        let norm = got.map_or(f64::NAN, |(got, _)| length(wide(&got).into_iter()));
        // Bounds are lowered by what norms of layers that are not written down are raised by; see `RAISED`.
        let raised = RAISED + 64.0 * rounding(options.precision);
        let holds = norm <= max_norm && norm >= (1.0 - raised) * max_norm;
        report.expect(holds, || {
            format!("{name} {:?}: a contribution of {norm}, not {max_norm}", options.precision)
        });
    }
}
