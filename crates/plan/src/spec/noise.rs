//! `[noise]`: how the noise of different steps belongs together.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::declare::{section, words};

section! {
    /// `[noise]`: how the noise of different steps belongs together.
    pub struct NoiseSpec = "noise" {
        bands: Bands =
            ("the number of steps over which noise cancels, a whole number, or auto", "8")
                .flag("bands", "B")
                .or("1, noise of its own for each step");
        coefficients: CoefficientKind =
            ("how the noise cancels: as in the square root of sums, or as the noise in the iterates is least", "square-root")
                .or("optimised");
        iterates: NoiseMeasure =
            ("which iterates optimised coefficients and auto look at: the mean over all, or the last", "last")
                .or("mean");
    }
}

words! {
    /// How coefficients are chosen.
    #[derive(Default)]
    pub enum CoefficientKind {
        /// By minimising the noise in what the optimiser makes of the gradients.
        #[default]
        Optimised = "optimised",
        /// Those of the square root of the matrix of ones below the diagonal.
        SquareRoot = "square-root",
    }
}

words! {
    /// The iterates in which noise is measured.
    #[derive(Default)]
    pub enum NoiseMeasure {
        /// The root of the mean square over all of them.
        #[default]
        Mean = "mean",
        /// The last one.
        Last = "last",
    }
}

/// A number of bands: a number, or `"auto"` for the one with the least noise in the iterates at the plan's epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bands {
    /// A number.
    Count(u64),
    /// Whichever leaves the least noise.
    Auto,
}

impl fmt::Display for Bands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(formatter),
            Self::Auto => formatter.write_str("auto"),
        }
    }
}

impl FromStr for Bands {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Count).map_err(|_| ()),
        }
    }
}

impl Serialize for Bands {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Bands {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BandsVisitor;
        impl Visitor<'_> for BandsVisitor {
            type Value = Bands;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a whole number, or \"auto\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Bands, E> {
                let count = u64::try_from(value);
                count.map(Bands::Count).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Bands, E> {
                Ok(Bands::Count(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bands, E> {
                text.parse().map_err(|()| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(BandsVisitor)
    }
}
