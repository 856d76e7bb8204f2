//! One plan, two readers: what a run does, and what it costs in privacy.
