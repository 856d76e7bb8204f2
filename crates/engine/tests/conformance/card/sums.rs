//! Long sums, over many channels, many positions and many samples. The tensor cores cut sums off where they should round, so that errors
//! grow with the length. Kernels that left such a sum to them as a whole were off by 2e-4.

use dapple_engine::Clipping;
use dapple_graph::op::{Activation, AdaptiveAvgPool};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Window};

use crate::agreement::agree;
use crate::common::{CLASSES, Data, head, parameters};
use crate::subject::Subject;

pub(crate) fn long_sums_agree(subjects: &[Subject]) {
    let graphs = [
        ("channels", many_channels(), 2),
        ("positions", many_positions(&[3, 255, 257]), 2),
        ("positions in space", many_positions(&[2, 21, 40, 43]), 2),
        ("samples", many_samples(), 3000),
    ];
    for (name, graph, samples) in graphs {
        let (data, values) = (Data::new(&graph, samples, 1), parameters(&graph));
        // The reference is slow but exact; the processor does for many samples, because it adds them in whole numbers.
        let oracle = if samples < 10 { Subject::Reference } else { Subject::threads(0) };
        let mut oracle = oracle.open(&graph);
        let rule = oracle.rule(&Clipping::Flat { max_norm: 0.7 });
        let want = oracle.step(&values, &data.batch(), &rule);
        for subject in subjects {
            let subject = subject.planned_for(samples);
            let got = subject.open(&graph).step(&values, &data.batch(), &rule);
            agree(&format!("sums over {name}, {subject:?}"), subject, &got, &want, &rule);
        }
    }
}

/// A graph in which outputs and data gradients are sums of 36,864 products.
fn many_channels() -> Graph {
    let mut b = GraphBuilder::new(&[3, 5, 5]);
    let three = || Window::square(3).padding(1);
    let x = b.conv("first", b.input(), ConvSpec::new(16, Window::square(1)).bias()).unwrap();
    let x = b.conv("wide", x, ConvSpec::new(4096, three())).unwrap();
    let x = b.conv("narrow", x, ConvSpec::new(16, three())).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// A graph in which weight gradients are sums over as many positions as the sample has.
fn many_positions(shape: &[usize]) -> Graph {
    let axes = shape.len() - 1;
    let mut b = GraphBuilder::new(shape);
    let spec = || ConvSpec::new(8, Window { padding: vec![1; axes], ..Window::new(axes, 3) }).bias();
    let x = b.conv("first", b.input(), spec()).unwrap();
    let x = b.add("first silu", Activation::Silu, &[x]).unwrap();
    let x = b.conv("second", x, spec()).unwrap();
    let x = b.add("second silu", Activation::Silu, &[x]).unwrap();
    let x = b.add("pool", AdaptiveAvgPool(vec![1; axes]), &[x]).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// A graph with so many weights and so few positions that gradients are deferred, and summed over all samples at once.
fn many_samples() -> Graph {
    let mut b = GraphBuilder::new(&[4, 4, 4]);
    let spec = || ConvSpec::new(192, Window::square(3).padding(1)).bias();
    let x = b.conv("first", b.input(), spec()).unwrap();
    let x = b.add("silu", Activation::Silu, &[x]).unwrap();
    let x = b.conv("second", x, spec()).unwrap();
    head(b, x, CLASSES).unwrap()
}
