//! Reading goldens, and the steps they are about.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "shared by test binaries")]

use std::collections::BTreeMap;

use dapple_accounting::{Distances, Participation, Pld, Substitution};

/// A row of a golden by column name.
pub type Row<'a> = BTreeMap<&'a str, &'a str>;

/// Rows of a CSV file with a header and `#` comments.
pub fn rows(text: &str) -> Vec<Row<'_>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect()
}

pub fn number(row: &Row<'_>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} in {row:?}"))
}

pub fn substitution(participation: [f64; 3], distances: [f64; 3], sigma: f64) -> Substitution {
    let [absent, unaffected, affected] = participation;
    let participation = Participation { absent, unaffected, affected };
    let [absent, unaffected, affected] = distances;
    Substitution::new(participation, Distances { absent, unaffected, affected }, sigma).unwrap()
}

/// One step by the names of the goldens, with sample rate `g` and inclusion probability `c`.
pub fn step(kind: &str, g: f64, c: f64, sigma: f64) -> Pld {
    match kind {
        "poisson-add-remove" => Pld::poisson_gaussian(g, sigma).unwrap(),
        "poisson-replace" => Pld::substitution(substitution([1.0 - g, 0.0, g], [1.0, 2.0, 2.0], sigma)),
        "poisson-patch" => {
            Pld::substitution(substitution([1.0 - g, g * (1.0 - c), g * c], [1.0, 2.0, 2.0], sigma))
        }
        "without-replacement-patch" => {
            Pld::substitution(substitution([1.0 - g, g * (1.0 - c), g * c], [2.0, 2.0, 2.0], sigma))
        }
        other => panic!("unknown kind {other}"),
    }
}
