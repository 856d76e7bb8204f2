//! Compares noise on the card with mpmath's, bit by bit. `src/cuda/goldens/noise.py` made the figures.

use dapple_engine::cuda::{CudaExecutor, CudaOptions, LatticeNoise, StateValues};
use dapple_graph::{Graph, GraphBuilder, Init, Parameters};

use super::alone;
use crate::common::CLASSES;

/// Sums that lie where rounding is hardest, and what they become with noise.
struct Golden {
    key: [u8; 32],
    lattice: f64,
    deviation: f64,
    pairs: Vec<(f32, f32)>,
}

fn golden() -> Golden {
    let mut lines = include_str!("../../../src/cuda/goldens/noise.txt").lines();
    let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let key: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&head[0][2 * i..2 * i + 2], 16).unwrap()).collect();
    let number = |bits: &str| f32::from_bits(u32::from_str_radix(bits, 16).unwrap());
    let pairs =
        lines.map(|line| line.split_once(' ').map(|(x, y)| (number(x), number(y))).unwrap()).collect();
    let (lattice, deviation) = (head[1].parse().unwrap(), head[2].parse().unwrap());
    Golden { key: key.try_into().unwrap(), lattice, deviation, pairs }
}

/// A linear layer with as many weights as there are sums.
fn graph(sums: usize) -> Graph {
    let mut b = GraphBuilder::new(&[sums / 2 - 1]);
    let output = b.linear("linear", b.input(), 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
    b.finish(output, CLASSES).unwrap()
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn noise_is_that_of_mpmath() {
    let _card = alone();
    let Golden { key, lattice, deviation, pairs } = golden();
    let graph = graph(pairs.len());
    let mut executor = CudaExecutor::new(&graph, CudaOptions::default()).unwrap();
    let sums: Vec<f32> = pairs.iter().map(|(x, _)| *x).collect();
    let mut sum = executor.gradient_sum_of(&sums).unwrap();
    let groups = vec![0; executor.layout().entries().len()];
    let mut state = executor.state(&StateValues::default(), &groups).unwrap();
    let mut loaded = executor.load(&Parameters::init(&graph, 1)).unwrap();
    loaded.add_noise(&mut sum, &mut state, &LatticeNoise { key: &key, lattice, deviation }).unwrap();
    let got = loaded.gradient(sum).unwrap();
    assert_eq!(got.len(), pairs.len());
    let wrong = got.iter().zip(&pairs).filter(|(got, (_, want))| got.to_bits() != want.to_bits()).count();
    assert_eq!(wrong, 0, "of {} values", pairs.len());
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn noise_that_was_not_proven_is_refused() {
    let _card = alone();
    let Golden { key, lattice, deviation, pairs } = golden();
    let graph = graph(pairs.len());
    let mut executor = CudaExecutor::new(&graph, CudaOptions::default()).unwrap();
    let groups = vec![0; executor.layout().entries().len()];
    let mut state = executor.state(&StateValues::default(), &groups).unwrap();
    executor.load(&Parameters::init(&graph, 1)).unwrap();
    let mut broken: Vec<f32> = pairs.iter().map(|(x, _)| *x).collect();
    broken[7] = f32::INFINITY;
    let mut sum = executor.gradient_sum_of(&broken).unwrap();
    let noise = LatticeNoise { key: &key, lattice, deviation };
    assert!(executor.resident().unwrap().add_noise(&mut sum, &mut state, &noise).is_err());
    for (lattice, deviation) in [(0.3, 1000.0), (0.5, 3000.0), (0.0, 1000.0), (0.5, f64::NAN)] {
        let mut sum = executor.gradient_sum().unwrap();
        let noise = LatticeNoise { key: &key, lattice, deviation };
        let refused = executor.resident().unwrap().add_noise(&mut sum, &mut state, &noise);
        assert!(refused.is_err(), "{deviation} steps of {lattice}");
    }
}
