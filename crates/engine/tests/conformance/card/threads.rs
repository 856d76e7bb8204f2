//! Executors that are opened, used and dropped on several threads at once.

use dapple_engine::Clipping;
use dapple_engine::cuda::{Convolutions, CudaOptions};
use dapple_graph::zoo;

use super::alone;
use crate::common::{Data, parameters};
use crate::subject::Subject;

const THREADS: usize = 12;
/// How many executors each thread makes, one after the other.
const ROUNDS: usize = 4;

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn executors_on_many_threads_give_the_bits_of_one_alone() {
    let _card = alone();
    let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
    let (data, values) = (Data::new(&graph, 6, 1), parameters(&graph));
    // With our own kernels nothing depends on measured times, so all executors choose alike.
    let subject =
        Subject::Cuda(CudaOptions { convolutions: Convolutions::Own, batch: 6, ..CudaOptions::default() });
    let step = || subject.step(&graph, &values, &data.batch(), &Clipping::Flat { max_norm: 0.7 });
    let alone = step();
    let same = std::thread::scope(|scope| {
        let work = || (0..ROUNDS).filter(|_| step() == alone).count();
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<usize>()
    });
    assert_eq!(same, THREADS * ROUNDS);
}
