//! Answers one accounting question and tells what it cost, as one line of JSON.
//!
//! `answer epsilon SIGMA RATE STEPS DELTA` (Poisson, add/remove)

use dapple_accounting::{Pld, Precision};

fn main() {
    let args: Vec<f64> = std::env::args().skip(2).map(|a| a.parse().unwrap()).collect();
    for _ in 0..3 {
        let t = std::time::Instant::now();
        let pld = Pld::poisson_gaussian(args[1], args[0]).unwrap().self_compose(args[2] as u64);
        let r = pld.epsilon(args[3], Precision::default());
        println!("{r:?} {:?}", t.elapsed());
    }
}
