//! Every public operation that takes time.
fn main() {}
