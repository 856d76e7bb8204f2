//! The product of two values, element by element.
//!
//! Each receives the upstream gradient times the other.

mod cpu;
mod reference;
