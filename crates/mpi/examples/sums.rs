//! Measures how long ranks take to hear each other and to add up numbers: `mpirun -n 2 target/release/examples/sums`. The first rank prints one
//! line of JSON for each size, in bytes and seconds (the least of 21, because other processes only add to it), which `bench/scaling/model.py` reads.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::time::Instant;

use dapple_mpi::World;

const TIMES: usize = 21;

fn least(mut work: impl FnMut()) -> f64 {
    let seconds = (0..TIMES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

fn main() {
    let Some(world) = World::join(|error| println!("{error}")).expect("an MPI library") else {
        println!("start it with mpirun");
        return;
    };
    for numbers in [1usize, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 2_750_000, 11_300_000] {
        let mut values = vec![1i32; numbers];
        // Ranks begin each sum together, as they do in a step.
        let heard = least(|| _ = world.gather(&[0; 16]));
        let summed = least(|| {
            values.fill(1);
            let _ = world.gather(&[0]);
            world.add_narrow(&mut values);
        });
        if world.rank() == 0 {
            let (ranks, bytes) = (world.size(), 4 * numbers);
            println!(
                "{{\"ranks\": {ranks}, \"bytes\": {bytes}, \"gather\": {heard:e}, \"sum\": {summed:e}}}"
            );
        }
    }
}
