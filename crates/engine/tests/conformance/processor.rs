//! Checks that the processor's options, which say how the work is divided, do not change a single bit.

use dapple_engine::{Batch, Clipping, CpuOptions, Targets};
use dapple_graph::Graph;

use crate::common::{Data, parameters, specimen, specimens, uniform};
use crate::graphs::{filtered, vast};
use crate::subject::{Step, Subject};

const FLAT: Clipping = Clipping::Flat { max_norm: 0.7 };
const ONE: CpuOptions = CpuOptions { threads: 1, group: 1, memory: 0, checkpoints: false };

fn step(graph: &Graph, batch: &Batch<'_>, options: CpuOptions) -> Step {
    Subject::Cpu(options).step(graph, &parameters(graph), batch, &FLAT)
}

#[test]
fn threads_groups_and_splits_change_no_bit() {
    for name in ["deep", "norms", "attention", "pools", "conv_3d", "conv_depthwise"] {
        let graph = specimen(name);
        let data = Data::new(&graph, 5, 2);
        let base = step(&graph, &data.batch(), ONE);
        for (threads, group) in [(1, 4), (2, 2), (3, 1), (8, 3)] {
            let options = CpuOptions { threads, group, ..ONE };
            assert_eq!(base, step(&graph, &data.batch(), options), "{name} {threads} {group}");
        }
        let size = data.inputs.len() / 5;
        let parts = [0..2, 2..2, 2..5].map(|part| data.part(part, size));
        let mut opened = Subject::threads(2).open(&graph);
        let rule = opened.rule(&FLAT);
        assert_eq!(base, opened.steps(&parameters(&graph), &parts, &rule), "{name} split");
    }
}

/// The gradients of vast layers are summed for 64 items at a time.
#[test]
fn sums_of_vast_layers_are_the_same_however_they_are_split() {
    let graph = vast();
    let data = Data::new(&graph, 67, 1);
    let base = step(&graph, &data.batch(), CpuOptions { group: 0, ..ONE });
    for (threads, group) in [(1, 1), (3, 2), (2, 33)] {
        let options = CpuOptions { threads, group, ..ONE };
        assert_eq!(base, step(&graph, &data.batch(), options), "{threads} {group}");
    }
}

#[test]
fn filtered_convolutions_are_the_same_whatever_the_threads_groups_and_memory() {
    let graph = filtered();
    for views in [1, 2] {
        let data = Data::new(&graph, 5, views);
        let base = step(&graph, &data.batch(), ONE);
        for (threads, group, memory) in [(1, 4, 0), (2, 2, 0), (8, 3, 0), (3, 0, 1), (4, 0, 2 << 20)] {
            let options = CpuOptions { threads, group, memory, checkpoints: false };
            assert_eq!(base, step(&graph, &data.batch(), options), "{threads} {group} {memory}");
        }
    }
}

#[test]
fn threads_inside_a_sample_change_no_bit() {
    let mut graphs = specimens();
    graphs.push(("vast", vast()));
    for (name, graph) in graphs {
        let data = Data::new(&graph, 2, 2);
        // With hardly any memory, samples run one at a time on all threads.
        let [one, many] = [(1, 0), (5, 1)].map(|(threads, memory)| {
            let options = CpuOptions { threads, memory, ..CpuOptions::default() };
            let outputs = Subject::Cpu(options).open(&graph).forward(&parameters(&graph), &data.inputs);
            (step(&graph, &data.batch(), options), outputs)
        });
        assert_eq!(one, many, "{name}");
    }
}

#[test]
fn probabilities_generalise_classes() {
    let graph = specimen("smoothing");
    let inputs: Vec<f32> = (0..12).map(|i| uniform("input", i) as f32).collect();
    let certain = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let [hard, soft] = [Targets::Classes(&[1, 3]), Targets::Probabilities(&certain)]
        .map(|targets| step(&graph, &Batch::new(&inputs, targets), CpuOptions::default()));
    assert_eq!(hard, soft);
}
