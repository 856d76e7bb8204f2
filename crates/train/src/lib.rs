//! Private training: the step, optimisers, the ledger, checkpoints, runs.
