//! Reads and writes plans as TOML, with errors that name line, column and key.

use super::PlanSpec;
use crate::error::PlanError;

/// The name of a plan that was not read from a file.
const NAMELESS: &str = "plan.toml";

impl PlanSpec {
    /// Reads a plan.
    ///
    /// # Errors
    /// Text that is not TOML, unknown keys, values of the wrong type. The error names line, column and dotted key.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let broken = |key: String, error: &toml::de::Error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let message = plain_words(error.message());
            PlanError::Toml { file: NAMELESS.to_owned(), line, column, key, message }
        };
        let deserializer = toml::Deserializer::parse(text).map_err(|error| broken(String::new(), &error))?;
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            broken(if path == "." { String::new() } else { path }, error.inner())
        })
    }

    /// Writes the plan; [`PlanSpec::from_toml`] reads it back to the same plan.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Every value of a plan has a TOML form.
        toml::to_string(self).expect("a plan came from such a text, or holds what one may hold")
    }
}

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before: &str = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The reader's message on one line, in words that a user knows.
pub(super) fn plain_words(message: &str) -> String {
    let mut line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    for (word, plain) in [
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a string", "expected text"),
        ("expected tuple struct PartitionShare", "expected [submodels, probability]"),
    ] {
        line = line.replace(word, plain);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_column_and_key() {
        for (text, message, hint) in [
            (
                "[sampling]\nscheme = \"poisson\"\nbatch = \"many\"\n",
                "plan.toml:3:9: sampling.batch: invalid type: string \"many\", expected a whole number",
                "it is the number of records a step takes, a whole number, e.g. `batch = 100`",
            ),
            (
                "[sampling]\nbatchs = 3\n",
                "plan.toml:2:1: sampling.batchs: unknown field `batchs`, expected one of `scheme`, `batch`, `records`, `max_batch`, `per_record`, `epochs`, `steps`",
                "did you mean sampling.batch?",
            ),
            (
                "[privacy]\nrelation = \"pach\"\n",
                "plan.toml:2:12: privacy.relation: unknown variant `pach`, expected one of `add-remove`, `replace`, `patch`, `masked`, `user`",
                "did you mean patch?",
            ),
            (
                "[pipeline]\ncrop = [100, 100, 3]\n",
                "plan.toml:2:8: pipeline.crop: invalid length 3, expected whole pixels as [width, height] or \"WIDTHxHEIGHT\"",
                "it is the size of a crop in whole pixels, WIDTHxHEIGHT, e.g. `crop = \"100x100\"`",
            ),
        ] {
            let error = PlanSpec::from_toml(text).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(error.hint().unwrap(), hint);
        }
        let error = PlanSpec::from_toml("[sampling\nbatch = 1").unwrap_err();
        assert!(error.to_string().starts_with("plan.toml:1:10: "), "{error}");
        assert!(error.in_file("run.toml").to_string().starts_with("run.toml:1:10: "));
    }

    #[test]
    fn whole_plans_are_read() {
        assert_eq!(PlanSpec::from_toml("").unwrap(), PlanSpec::default());
        let spec = PlanSpec::from_toml("[performance]\nthreads = 2\n[privacy]\ndelta = \"1/n\"").unwrap();
        assert_eq!(spec.performance.threads, Some(2));
        assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
    }
}
