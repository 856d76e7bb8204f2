//! Models that no card can hold.

use dapple_engine::cuda::{CudaError, CudaExecutor, CudaOptions};
use dapple_engine::{Batch, Clipping};
use dapple_graph::op::{Activation, AdaptiveAvgPool, Reshape, Upsample};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Window};

use super::alone;
use crate::common::{CLASSES, Data, parameters, rule};

/// A graph whose activations outgrow any card.
fn huge() -> Graph {
    let mut b = GraphBuilder::new(&[1, 4, 4]);
    let mut x = b.conv("conv", b.input(), ConvSpec::new(1, Window::square(1))).unwrap();
    x = b.add("large", Upsample([4096, 4096]), &[x]).unwrap();
    for layer in 0..60 {
        x = b.add(&format!("silu{layer}"), Activation::Silu, &[x]).unwrap();
    }
    x = b.add("pool", AdaptiveAvgPool(vec![2, 2]), &[x]).unwrap();
    x = b.add("flat", Reshape(vec![4]), &[x]).unwrap();
    b.finish(x, CLASSES).unwrap()
}

fn step(graph: &Graph, microbatch: usize, batch: &Batch<'_>) -> Result<(), CudaError> {
    let options = CudaOptions { microbatch, batch: microbatch, ..CudaOptions::default() };
    let mut executor = CudaExecutor::new(graph, options).unwrap();
    let rule = rule(&Clipping::Flat { max_norm: 1.0 }, executor.layout());
    let mut sum = executor.gradient_sum()?;
    executor.load(&parameters(graph))?.clipped_sum(batch, &rule, &mut sum).map(|_| ())
}

/// After it has said so, the executor goes on working with fewer samples.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_card_that_is_too_small_says_so() {
    let _card = alone();
    let (graph, samples) = (huge(), 100);
    let data = Data::new(&graph, samples, 1);
    let all = step(&graph, samples, &data.batch());
    assert!(matches!(all, Err(CudaError::OutOfMemory { .. })), "{all:?}");
    assert_eq!(step(&graph, 1, &data.part(0..2, 16)), Ok(()));
}
