//! Answers one accounting question and tells what it cost, as one line of JSON.
//!
//! `answer epsilon SIGMA RATE STEPS DELTA` (Poisson, add/remove)

use dapple_accounting::*;

fn main() {
    let args: Vec<f64> = std::env::args().skip(2).map(|a| a.parse().unwrap()).collect();
    for _ in 0..1 {
        let t = std::time::Instant::now();
        let pld = if std::env::args().nth(1).unwrap() == "patch" { let rate=args[1]; Pld::substitution(Substitution::new(Participation{absent:1.0-rate,unaffected:0.0,affected:rate}, Distances{absent:2.0,unaffected:2.0,affected:2.0}, args[0]).unwrap()) } else { Pld::poisson_gaussian(args[1], args[0]).unwrap() }.self_compose(args[2] as u64);
        let r = pld.epsilon(args[3], Precision::default());
        println!("{r:?} {:?}", t.elapsed());
    }
}
