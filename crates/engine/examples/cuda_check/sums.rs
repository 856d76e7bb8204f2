//! Long sums: over many channels, many positions and many samples. The tensor cores cut sums off where they should round, so that errors
//! add up with the length; kernels that left such a sum to them whole were 2e-4 off.

use dapple_engine::cuda::{Convolutions, CudaExecutor, CudaOptions};
use dapple_engine::reference::Reference;
use dapple_engine::{Clipping, Layout};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Op, Window};

use crate::common::{self, Data, parameters};
use crate::operations::agree;
use crate::report::Report;
use crate::{cpu, rule, run, run_on_cpu, wide};

pub(crate) fn check(report: &mut Report, _: bool) {
    let clipping = Clipping::Flat { max_norm: 0.7 };
    let graphs = [
        ("channels", many_channels(), 2),
        ("positions", many_positions(&[3, 255, 257]), 2),
        ("positions in space", many_positions(&[2, 21, 40, 43]), 2),
        ("samples", many_samples(), 3000),
    ];
    for (name, graph, samples) in graphs {
        let data = Data::new(&graph, samples, 1);
        let start = parameters(&graph);
        // The reference is slow and exact; the CPU's executor adds samples up in parts.
        let want = if samples < 10 {
            {
                let rule = rule(&clipping, &Layout::new(&graph));
                Reference::new(&graph, &start).unwrap().clipped_sum(&data.batch(), &rule).unwrap()
            }
        } else {
            let (gradient, stats) = run_on_cpu(&mut cpu(&graph), &start, &data.batch(), &clipping);
            (wide(&gradient), stats)
        };
        for convolutions in [Convolutions::Own, Convolutions::Cudnn, Convolutions::Products] {
            let options = CudaOptions { convolutions, batch: samples, ..CudaOptions::default() };
            let got = CudaExecutor::new(&graph, options)
                .and_then(|mut executor| run(&mut executor, &start, &data.batch(), &clipping));
            let before = std::mem::take(&mut report.worst);
            agree(report, &format!("sums over {name} {convolutions:?}"), got, &want, &clipping);
            println!("sums over {name}, {convolutions:?}: largest difference {:.1e}", report.worst);
            report.worst = report.worst.max(before);
        }
    }
}

/// Outputs and data gradients that are sums of 36,864 products.
fn many_channels() -> Graph {
    let mut b = GraphBuilder::new(&[3, 5, 5]);
    let three = || Window::square(3).padding(1);
    let x = b.conv("first", b.input(), ConvSpec::new(16, Window::square(1)).bias()).unwrap();
    let x = b.conv("wide", x, ConvSpec::new(4096, three())).unwrap();
    let x = b.conv("narrow", x, ConvSpec::new(16, three())).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}

/// Weight gradients over as many positions as the sample has.
fn many_positions(shape: &[usize]) -> Graph {
    let axes = shape.len() - 1;
    let mut b = GraphBuilder::new(shape);
    let spec = || ConvSpec::new(8, Window { padding: vec![1; axes], ..Window::new(axes, 3) }).bias();
    let x = b.conv("first", b.input(), spec()).unwrap();
    let x = b.add("first silu", Op::Silu, &[x]).unwrap();
    let x = b.conv("second", x, spec()).unwrap();
    let x = b.add("second silu", Op::Silu, &[x]).unwrap();
    let x = b.add("pool", Op::AdaptiveAvgPool(vec![1; axes]), &[x]).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}

/// Weights so many and positions so few that only norms are made of each sample, and sums over all of them at once.
fn many_samples() -> Graph {
    let mut b = GraphBuilder::new(&[4, 4, 4]);
    let spec = || ConvSpec::new(192, Window::square(3).padding(1)).bias();
    let x = b.conv("first", b.input(), spec()).unwrap();
    let x = b.add("silu", Op::Silu, &[x]).unwrap();
    let x = b.conv("second", x, spec()).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}
