//! Certificates as documents of their own.

use serde::{Deserialize, Serialize};

use super::Certificate;

/// The version of the certificates that this program writes. Certificates without a number are older than this numbering.
const SCHEMA: u32 = 1;
/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A certificate together with its schema and the version of the program, which tell a reader how it is written. Certificates inside the
/// certificate of a run stand without these, because that one has a schema of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CertificateDocument<'a> {
    /// The certificate.
    #[serde(flatten)]
    certificate: &'a Certificate,
    /// The version of the certificate's form, from 1.
    schema: u32,
    /// The version of the program that wrote it.
    program_version: &'static str,
}

/// The part of a document that is read before its certificate.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    schema: u32,
}

impl Certificate {
    /// The certificate as a document of its own.
    #[must_use]
    pub fn document(&self) -> CertificateDocument<'_> {
        CertificateDocument { schema: SCHEMA, program_version: VERSION, certificate: self }
    }

    /// Reads a certificate back, with every number exact to its last bit. It may be from before certificates had a schema.
    ///
    /// # Errors
    /// Text that is not a certificate, or one of a later version. The message is one line.
    pub fn from_json(text: &str) -> Result<Self, String> {
        // A name in the text may hold line ends.
        let one_line = |error: serde_json::Error| error.to_string().replace(char::is_control, " ");
        let Head { schema } = serde_json::from_str(text).map_err(one_line)?;
        if schema > SCHEMA {
            return Err(format!("schema {schema} is of a later version"));
        }
        serde_json::from_str(text).map_err(one_line)
    }

    /// The certificate as JSON, with one field per line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // A struct of numbers and strings always has a JSON form.
        serde_json::to_string_pretty(&self.document()).expect("numbers, words and lists of them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bracket, BracketPrecision, Plan, PlanSpec};
    use proptest::prelude::*;

    fn price() -> Certificate {
        let text = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[region]\npatch = [2, 2]\n[pipeline]\nimage = [20, 20]\n\
            crop = [8, 8]\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 5\n";
        Plan::check(&PlanSpec::from_toml(text).unwrap()).unwrap().price(BracketPrecision::default()).unwrap()
    }

    #[test]
    fn a_document_tells_its_form() {
        let price = price();
        let value: serde_json::Value = serde_json::from_str(&price.to_json()).unwrap();
        assert_eq!((&value["schema"], &value["program_version"]), (&1.into(), &VERSION.into()));
        assert_eq!(Certificate::from_json(&price.to_json()), Ok(price.clone()));
        // Certificates stand without a schema if they are old, and inside a run's certificate.
        let bare = serde_json::to_string(&price).unwrap();
        assert!(!bare.contains("schema"));
        assert_eq!(Certificate::from_json(&bare), Ok(price.clone()));
        let later = price.to_json().replace("\"schema\": 1", "\"schema\": 2");
        assert_eq!(Certificate::from_json(&later), Err("schema 2 is of a later version".to_owned()));
        assert!(Certificate::from_json("{\"schema\": 1}").is_err_and(|error| !error.contains('\n')));
    }

    proptest! {
        #[test]
        fn every_number_is_read_back_to_its_bits(bits in prop::array::uniform4(any::<u64>())) {
            let [lower, upper, delta, rate] = bits.map(f64::from_bits);
            prop_assume!([lower, upper, delta, rate].iter().all(|value| value.is_finite()));
            let epsilon = Bracket { lower: Some(lower), upper };
            let written = Certificate { epsilon, delta, effective_rate: rate, ..price() };
            let read = Certificate::from_json(&written.to_json()).unwrap();
            let ends = |one: &Certificate| {
                (one.epsilon.lower.map(f64::to_bits), one.epsilon.upper.to_bits(), one.delta.to_bits(), one.effective_rate.to_bits())
            };
            prop_assert_eq!(ends(&read), ends(&written));
            prop_assert_eq!(read, written);
        }
    }
}
