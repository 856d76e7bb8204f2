//! Datasets, decoding, samplers, and the spatial pipeline of a plan executed.
