//! What a sample adds to a sum: never more than the bound, the same bits in any company, nothing if it is not finite.

use std::ops::Range;

use dapple_engine::cuda::{Convolutions, CudaError, CudaExecutor, CudaOptions, Precision};
use dapple_engine::{Batch, Clipping, Dropout, Targets};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Loss, Op, Parameters, Window, zoo};

use crate::common::{self, Data, parameters, specimens, uniform};
use crate::operations::dropout;
use crate::report::Report;
use crate::{length, rule, run, wide};

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Tf32, Precision::Bf16];
/// Samples whose bits are compared.
const SAMPLES: usize = 7;

pub(crate) fn check(report: &mut Report, quick: bool) {
    for precision in PRECISIONS {
        cancelling(report, precision);
        scales(report, precision, if quick { 40 } else { 200 });
        rounding(report, precision);
        let options = CudaOptions { precision, batch: SAMPLES, ..CudaOptions::default() };
        company(report, options);
        let options = CudaOptions { convolutions: Convolutions::Own, ..options };
        company(report, options);
        many(report, options);
        not_finite(report, options);
    }
}

/// A single sample must not add more than the bound.
fn bounded(
    report: &mut Report,
    title: &str,
    (graph, values): (&Graph, &Parameters),
    batch: &Batch<'_>,
    precision: Precision,
) {
    let options = CudaOptions { precision, batch: 1, ..CudaOptions::default() };
    let mut executor = CudaExecutor::new(graph, options).expect("the card opened before");
    for max_norm in [1e-6, 0.1, 1.0, 1e4] {
        for clipping in [
            Clipping::Flat { max_norm },
            Clipping::PerLayer { max_norm },
            Clipping::Automatic { max_norm, stability: 0.01 },
        ] {
            let got = run(&mut executor, values, batch, &clipping);
            // A value is a whole number of units that single precision holds.
            let norm = got.as_ref().map_or(f64::NAN, |(sum, _)| length(wide(sum).into_iter()));
            report.expect(norm <= max_norm, || {
                format!("{title} {precision:?} {clipping:?}: {} clip norms", norm / max_norm)
            });
        }
    }
}

/// Views whose gradients nearly cancel, and ordinary stripes of which two crops do.
fn cancelling(report: &mut Report, precision: Precision) {
    let graph = common::flat_linear(64, 10);
    let inputs = common::cancelling_views();
    let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[3, 3])) };
    bounded(report, "views that cancel", (&graph, &Parameters::zeros(&graph)), &batch, precision);
    let size = 64;
    let graph = common::flat_linear(size * size, 10);
    for (low, high) in [(60.0, 198.0), (37.0, 225.0), (0.0, 255.0), (255.0, 255.0), (127.0, 129.0)] {
        let mut inputs = common::stripes(low, high, size, 0);
        inputs.extend(common::stripes(low, high, size, 1));
        let batch = Batch { views: 2, ..Batch::new(&inputs, Targets::Classes(&[1, 1])) };
        let title = format!("stripes of {low} and {high}");
        bounded(report, &title, (&graph, &Parameters::zeros(&graph)), &batch, precision);
    }
}

/// Pixels that are huge, tiny, alternating or nearly equal, through layers that are written down and layers that are not.
fn scales(report: &mut Report, precision: Precision, cases: usize) {
    for deferred in [false, true] {
        for standardise in [None, Some(1e-5)] {
            let graph = common::layers(standardise, deferred, 3, Op::Tanh);
            let values = parameters(&graph);
            for views in 1..4 {
                let options = CudaOptions { precision, batch: 1, ..CudaOptions::default() };
                let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
                let data = Data::new(&graph, 1, views);
                for case in 0..cases {
                    let pick = |name: &str, low: f64, high: f64| {
                        low + (uniform(name, case) + 1.0) / 2.0 * (high - low)
                    };
                    let (scale, shift) =
                        (pick("scale", -30.0, 30.0).exp2(), pick("shift", -3.0, 24.0).exp2());
                    let max_norm = 10f64.powf(pick("bound", -6.0, 4.0));
                    let value = |(i, value): (usize, &f32)| {
                        let sign = if (i + case).is_multiple_of(2) { 1.0 } else { -1.0 };
                        ((f64::from(*value) + sign * shift) * scale) as f32
                    };
                    let inputs: Vec<f32> = data.inputs.iter().enumerate().map(value).collect();
                    let batch = Batch { inputs: &inputs, ..data.batch() };
                    let got = run(&mut executor, &values, &batch, &Clipping::Flat { max_norm });
                    let norm = got.as_ref().map_or(f64::NAN, |(sum, _)| length(wide(sum).into_iter()));
                    report.expect(norm <= max_norm, || {
                        let layer = format!("deferred {deferred}, standardised {}", standardise.is_some());
                        format!(
                            "{layer}, {views} views, case {case}, {precision:?}: {} clip norms",
                            norm / max_norm
                        )
                    });
                }
            }
        }
    }
}

/// How far the sum of a deferred convolution is from the exact one, as a share of `S`, the sizes of what it is made of: the figure that
/// norms are raised by. Weights of zero make outputs of zero, so that both sides have the same gradient of the output.
fn rounding(report: &mut Report, precision: Precision) {
    let (channels, out) = (96, 128);
    let eta = |positions: usize| {
        let factors = match precision {
            Precision::F32 => 0.0,
            Precision::Tf32 => (-9f64).exp2(),
            Precision::Bf16 => (-7f64).exp2(),
        };
        factors + (positions + 8) as f64 * (-20f64).exp2()
    };
    for size in [2, 4, 8] {
        let positions = size * size;
        let mut builder = GraphBuilder::new(&[channels, size, size]);
        let spec = ConvSpec::new(out, Window::square(3).padding(1));
        let x = builder.conv("conv", builder.input(), spec).unwrap();
        let graph = builder.finish(x, Loss::SquaredError).unwrap();
        let options = CudaOptions { precision, batch: 1, ..CudaOptions::default() };
        let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
        let mut worst = 0f64;
        for case in 0..20 {
            // Values of many sizes, of one sign or alternating, with low bits that rounding to fewer takes away.
            let value = |name: &str, i: usize| {
                let value = uniform(&format!("{name} {case}"), i);
                match case % 4 {
                    0 => value,
                    1 => 1.0 + value.abs() / 512.0,
                    2 => (1.0 + value / 1024.0) * if i.is_multiple_of(2) { 1.0 } else { -1.0 },
                    _ => value * (20.0 * uniform(name, i)).exp2(),
                }
            };
            let inputs: Vec<f32> = (0..channels * positions).map(|i| value("x", i) as f32).collect();
            let targets: Vec<f32> = (0..out * positions).map(|i| value("t", i) as f32).collect();
            let batch = Batch::new(&inputs, Targets::Values(&targets));
            let Ok((got, _)) = run(&mut executor, &Parameters::zeros(&graph), &batch, &Clipping::Off) else {
                return report.failures.push(format!("rounding {precision:?}: the step failed"));
            };
            // The gradient of the mean squared error, rounded as the card rounds it.
            let count = targets.len() as f64;
            let g = |o: usize, p: usize| {
                f64::from((-2.0 * f64::from(targets[o * positions + p]) * (1.0 / count)) as f32)
            };
            let at = |p: usize, tap: usize| {
                let (y, x) = (p / size + tap / 3, p % size + tap % 3);
                ((1..=size).contains(&y) && (1..=size).contains(&x)).then(|| (y - 1) * size + x - 1)
            };
            let input = |c: usize, p: usize| f64::from(inputs[c * positions + p]);
            let mut squares = 0.0;
            for o in 0..out {
                for c in 0..channels {
                    for tap in 0..9 {
                        let exact: f64 =
                            (0..positions).filter_map(|p| Some(g(o, p) * input(c, at(p, tap)?))).sum();
                        squares += (f64::from(got[(o * channels + c) * 9 + tap]) - exact).powi(2);
                    }
                }
            }
            let sizes: f64 = (0..positions)
                .map(|p| {
                    let taps = (0..9).filter_map(|tap| at(p, tap));
                    let read = taps.flat_map(|from| (0..channels).map(move |c| (c, from)));
                    let a = length(read.map(|(c, from)| input(c, from)));
                    a * length((0..out).map(|o| g(o, p)))
                })
                .sum();
            worst = worst.max(squares.sqrt() / sizes);
        }
        println!(
            "sums of {positions} positions, {precision:?}: off by {worst:.1e} of the sizes, {:.1e} assumed",
            eta(positions)
        );
        report.expect(worst <= eta(positions), || {
            format!("{positions} positions {precision:?}: off by {worst:.1e}")
        });
    }
}

/// Graphs of every layer kind, and models.
fn graphs() -> Vec<(&'static str, Graph)> {
    let mut graphs = specimens();
    let models = [
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10)),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10)),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, zoo::Norm::Group(32))),
        ("resnet-18 on odd images", zoo::resnet(zoo::ResNet::R18, &[3, 50, 50], 10, zoo::Norm::Group(32))),
    ];
    graphs.extend(models.map(|(name, graph)| (name, graph.unwrap())));
    graphs.push(("dropout", dropout(Op::Dropout(0.4))));
    graphs.push(("deferred", common::layers(None, true, 3, Op::Tanh)));
    // A ReLU makes zeros of what is no number.
    graphs.push(("deferred, rectified", common::layers(None, true, 1, Op::Relu)));
    graphs.push(("deferred, standardised", common::layers(Some(1e-5), true, 3, Op::Relu)));
    graphs
}

/// The sum over some parts of the data, one call for each.
/// Whatever the batch, a sample is the same record, and drops the same.
fn records(samples: Range<usize>) -> Vec<usize> {
    samples.map(|sample| 3 + 10 * sample).collect()
}

fn sum_of(
    executor: &mut CudaExecutor,
    graph: &Graph,
    data: &Data,
    parts: &[(usize, usize)],
) -> Result<Vec<f32>, CudaError> {
    let rule = rule(&Clipping::Flat { max_norm: 0.7 }, executor.layout());
    let mut sum = executor.gradient_sum()?;
    let mut loaded = executor.load(&parameters(graph))?;
    for &(first, end) in parts {
        let records = records(first..end);
        let dropout = Some(Dropout { seed: 5, records: &records });
        let batch = Batch { dropout, ..data.part(first..end, data.inputs.len() / SAMPLES) };
        loaded.clipped_sum(&batch, &rule, &mut sum)?;
    }
    loaded.gradient(sum)
}

/// More samples than whole numbers of 32 bits hold add up to what parts of them do that fit, in whole numbers that hold anything.
fn many(report: &mut Report, options: CudaOptions) {
    const MANY: usize = 2500;
    for (name, graph) in [
        ("deferred", common::layers(None, true, 3, Op::Tanh)),
        ("written", common::layers(None, false, 3, Op::Tanh)),
        ("linear", common::flat_linear(64, 10)),
    ] {
        let data = Data::new(&graph, MANY, 1);
        let size = data.inputs.len() / MANY;
        // In microbatches that fill 32 bits, and in others.
        for microbatch in [0, 700] {
            let options = CudaOptions { microbatch, batch: MANY, ..options };
            let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
            let mut counts = |parts: &[(usize, usize)]| -> Result<Vec<i128>, CudaError> {
                // Nearly every gradient is longer than this.
                let rule = rule(&Clipping::Flat { max_norm: 1e-4 }, executor.layout());
                let mut sum = executor.gradient_sum()?;
                let mut loaded = executor.load(&parameters(&graph))?;
                for &(first, end) in parts {
                    loaded.clipped_sum(&data.part(first..end, size), &rule, &mut sum)?;
                }
                let total = loaded.total(sum)?;
                Ok(total.counts().map(|(counts, _)| counts.map(i128::from).collect()).unwrap_or_default())
            };
            let mut same = || -> Result<bool, CudaError> {
                let whole = counts(&[(0, MANY)])?;
                let mut added = vec![0; whole.len()];
                for first in (0..MANY).step_by(500) {
                    let part = counts(&[(first, first + 500)])?;
                    added.iter_mut().zip(part).for_each(|(added, part)| *added += part);
                }
                let turned = counts(&[(1100, MANY), (0, 1100)])?;
                Ok(!whole.is_empty() && whole == added && whole == turned)
            };
            let same = same();
            report.expect(same == Ok(true), || {
                format!(
                    "sums of {MANY} samples, {name}, {microbatch} together, {:?}: {same:?}",
                    options.precision
                )
            });
        }
    }
}

/// What a sample adds is the same whoever shares its microbatch, at whatever place, and however the microbatch is filled up.
fn company(report: &mut Report, options: CudaOptions) {
    let mut apart = Vec::new();
    let graphs = graphs();
    for (name, graph) in &graphs {
        // Where libraries run, each executor measures them first.
        let sizes: &[(usize, usize)] = match options.convolutions {
            Convolutions::Own => &[(1, 0), (2, 0), (1, 3)],
            _ => &[(1, 3)],
        };
        for &(views, microbatch) in sizes {
            let data = Data::new(graph, SAMPLES, views);
            let options = CudaOptions { microbatch, ..options };
            let mut executor = CudaExecutor::new(graph, options).expect("the card opened before");
            // All at once; the last first, then the others from behind; one by one, each in the first place.
            let orders: [Vec<(usize, usize)>; 3] = [
                vec![(0, SAMPLES)],
                vec![(6, SAMPLES), (3, 6), (0, 3)],
                (0..SAMPLES).map(|i| (i, i + 1)).collect(),
            ];
            let sums: Result<Vec<_>, _> =
                orders.iter().map(|order| sum_of(&mut executor, graph, &data, order)).collect();
            let same = matches!(&sums, Ok(sums) if sums.iter().all(|sum| *sum == sums[0]));
            report.expect(same, || {
                let title = format!("{name}, {views} views, {microbatch} together, {options:?}");
                match &sums {
                    Ok(sums) => {
                        let far = |sum: &Vec<f32>| crate::apart(sum, &sums[0]) / 0.7;
                        format!("{title}: {:.1e} and {:.1e} clip norms apart", far(&sums[1]), far(&sums[2]))
                    }
                    Err(error) => format!("{title}: {error}"),
                }
            });
            if !same {
                apart.push(format!("{name} ({views} views, {microbatch} together)"));
            }
        }
    }
    println!(
        "same bits in any company, {:?} {:?}: {} graphs, not {apart:?}",
        options.precision,
        options.convolutions,
        graphs.len()
    );
}

/// A sample of which a number is not finite leaves the sum as it is without it.
fn not_finite(report: &mut Report, options: CudaOptions) {
    for (name, graph) in graphs() {
        let data = Data::new(&graph, SAMPLES, 1);
        let (values, size) = (parameters(&graph), data.inputs.len() / SAMPLES);
        let mut executor = CudaExecutor::new(&graph, options).expect("the card opened before");
        for poison in [f32::NAN, f32::INFINITY, f32::MAX] {
            for all in [true, false] {
                let mut inputs = data.inputs.clone();
                inputs[2 * size..if all { 3 * size } else { 2 * size + 1 }].fill(poison);
                let records = records(0..SAMPLES);
                let dropout = Some(Dropout { seed: 5, records: &records });
                let batch = Batch { inputs: &inputs, dropout, ..data.batch() };
                let title = format!("{name} with {poison}, {options:?}");
                let clipping = Clipping::Flat { max_norm: 0.7 };
                match run(&mut executor, &values, &batch, &clipping) {
                    Ok((sum, stats)) if stats.not_finite == 1 => {
                        let others = sum_of(&mut executor, &graph, &data, &[(0, 2), (3, SAMPLES)]);
                        let same = matches!(others, Ok(others) if others == sum);
                        report.expect(same, || format!("{title}: the others' sum changed"));
                    }
                    // An activation may have swallowed it.
                    Ok((sum, stats)) => {
                        let norm = length(wide(&sum).into_iter());
                        let most = 0.7 * SAMPLES as f64;
                        report.expect(norm <= most && stats.not_finite == 0, || format!("{title}: {norm}"));
                    }
                    Err(error) => report.failures.push(format!("{title}: {error}")),
                }
            }
        }
    }
}
