//! Privacy-loss distributions with certified brackets, Rényi accounting, and calibration.
