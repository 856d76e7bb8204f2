//! Runs a graph: forward, and the clipped sum of per-sample gradients.
