//! A key of the plan that has its own value for one method.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use dapple_reproduce::experiment::{Method, Setting};

/// A setting for one method, written as `METHOD[@EPSILON]:KEY=VALUE`.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) method: Method,
    /// The only budget that it holds for, if one is named.
    pub(super) epsilon: Option<f64>,
    pub(super) key: String,
    pub(super) value: String,
}

impl Own {
    pub(super) fn concerns(&self, setting: &Setting) -> bool {
        self.method == setting.method && (self.epsilon.is_none() || self.epsilon == setting.epsilon)
    }
}

impl FromStr for Own {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            "write METHOD:KEY=VALUE or METHOD@EPSILON:KEY=VALUE, e.g. record@5:optimiser.learning_rate=0.1";
        let (which, setting) = text.split_once(':').ok_or(form)?;
        let (key, value) = setting.split_once('=').ok_or(form)?;
        let (method, epsilon) = match which.split_once('@') {
            Some((method, epsilon)) => (method, Some(super::budget(epsilon)?)),
            None => (which, None),
        };
        let method = Method::from_str(method.trim(), false)
            .map_err(|_| format!("there is no method `{}`; methods are {}", method.trim(), Method::list()))?;
        Ok(Self { method, epsilon, key: key.trim().to_owned(), value: value.trim().to_owned() })
    }
}

impl fmt::Display for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, epsilon, key, value } = self;
        let at = epsilon.map_or_else(String::new, |epsilon| format!("@{epsilon}"));
        write!(formatter, "{}{at}:{key}={value}", method.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_method_are_read() {
        let own: Own = "patch@5:optimiser.learning_rate=0.5".parse().unwrap();
        assert_eq!(own.to_string(), "patch@5:optimiser.learning_rate=0.5");
        let at = |method, epsilon| Setting { method, epsilon: Some(epsilon), seed: 1 };
        assert!(own.concerns(&at(Method::Patch, 5.0)));
        assert!(!own.concerns(&at(Method::Patch, 1.0)) && !own.concerns(&at(Method::Record, 5.0)));
        let everywhere: Own = "record: sampling.batch = 7".parse().unwrap();
        assert!(everywhere.concerns(&at(Method::Record, 1.0)) && everywhere.value == "7");
        for text in ["", "patch", "patch:batch", "tile:a=1", "patch@-1:a=1", "patch@x:a=1"] {
            assert!(text.parse::<Own>().is_err(), "{text}");
        }
    }
}
