//! Numbers and digests as text: rounded to the safe side, in full, or as people read them. Nothing else in the workspace rounds what is
//! printed.

#![forbid(unsafe_code)]

mod exact;
mod safe;
mod significant;

pub use exact::{exact, full, hexadecimal};
pub use safe::{brief, down, up};
pub use significant::{group_digits, grouped, plain, power_of_ten, pretty, superscript};

/// A finite number as a factor of so many significant digits and a power of ten.
fn scientific(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{value:.*e}", digits - 1);
    let (factor, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (factor.to_owned(), exponent.parse().unwrap_or(0))
}
