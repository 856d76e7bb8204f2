//! Executors that are opened, used and dropped on several threads at once.

use dapple_engine::Clipping;
use dapple_engine::cuda::{Convolutions, CudaExecutor, CudaOptions};
use dapple_graph::zoo;

use crate::common::{Data, parameters};
use crate::report::Report;
use crate::run;

const THREADS: usize = 12;
/// Executors that each thread makes, one after the other.
const ROUNDS: usize = 4;

/// Every one of them must give the bits of an executor that is alone.
pub(crate) fn check(report: &mut Report, _: bool) {
    let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
    let data = Data::new(&graph, 6, 1);
    let start = parameters(&graph);
    // Where time decides nothing, all choose alike.
    let options = CudaOptions { convolutions: Convolutions::Own, batch: 6, ..CudaOptions::default() };
    let gradient = || {
        let mut executor = CudaExecutor::new(&graph, options)?;
        run(&mut executor, &start, &data.batch(), &Clipping::Flat { max_norm: 0.7 })
    };
    let alone = gradient().map(|(gradient, _)| gradient);
    let same = std::thread::scope(|scope| {
        let work = || {
            (0..ROUNDS)
                .filter(|_| matches!((gradient(), &alone), (Ok((got, _)), Ok(want)) if got == *want))
                .count()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<usize>()
    });
    let all = THREADS * ROUNDS;
    println!("{same} of {all} executors on {THREADS} threads give the bits of one alone");
    report.expect(same == all, || format!("threads: {} executors differ from one alone", all - same));
}
