//! Sets single keys, as flags and `--set` do.

use toml::{Table, Value};

use super::PlanSpec;
use super::keys::{self, Key};
use crate::error::PlanError;
use crate::spec::text::plain_words;

impl PlanSpec {
    /// Sets the value of a dotted key (or flag name), written as in TOML. A value that is not TOML is taken as a string.
    ///
    /// # Errors
    /// A key that no plan has, or a value of the wrong type.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), PlanError> {
        let unknown = || PlanError::UnknownKey { path: path.to_owned(), near: keys::near(path) };
        let key = keys::resolve(path).ok_or_else(unknown)?;
        let wrong =
            |message: String| PlanError::Value { key: key.path.to_owned(), message: plain_words(&message) };
        if !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_digit())
            && value.parse::<i64>().is_err()
        {
            return Err(wrong(format!("{value} is too large")));
        }
        let mut table = self.to_table().map_err(wrong)?;
        let section = table.entry(key.section()).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.insert(key.name().to_owned(), read(key, value));
        }
        *self = Self::from_table(table).map_err(wrong)?;
        Ok(())
    }

    fn to_table(&self) -> Result<Table, String> {
        Table::try_from(self).map_err(|error| error.to_string())
    }

    fn from_table(table: Table) -> Result<Self, String> {
        table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

/// A value as TOML would read it behind `key =`. Names stay words, whatever they look like.
fn read(key: &Key, text: &str) -> Value {
    let word = || Value::String(text.to_owned());
    if key.kind.is_verbatim() {
        return word();
    }
    // A second line would be a second key, and 0x10 is a size without width, not the number sixteen.
    if text.contains(['\n', '\r']) || text.starts_with("0x") {
        return word();
    }
    match format!("value = {text}").parse::<Table>() {
        Ok(mut table) => table.remove("value").unwrap_or_else(word),
        Err(_) => word(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Delta, Interval, Pixels};
    use crate::{Relation, Scheme};

    fn layer(settings: &[(&str, &str)]) -> PlanSpec {
        let mut spec = PlanSpec::default();
        for (path, value) in settings {
            spec.set(path, value).unwrap();
        }
        spec
    }

    #[test]
    fn values_are_typed() {
        let spec = layer(&[
            ("crop", "100x50"),
            ("pipeline.image", "[640, 480]"),
            ("pad", "4"),
            ("delta", "1/n"),
            ("crop-scale", "0.08:1"),
            ("relation", "add-remove"),
            ("sampling", "without-replacement"),
            ("noise-multiplier", "1"),
            ("region-mask", "1.png"),
            ("views", "3"),
        ]);
        assert_eq!(spec.pipeline.crop, Some(Pixels { x: 100, y: 50 }));
        assert_eq!(spec.pipeline.image, Some(Pixels { x: 640, y: 480 }));
        assert_eq!(spec.pipeline.pad, Some(Pixels { x: 4, y: 4 }));
        assert_eq!(spec.privacy.delta, Some(Delta::OneOverRecords));
        assert_eq!(spec.pipeline.crop_scale, Some(Interval { low: 0.08, high: 1.0 }));
        assert_eq!(spec.privacy.relation, Some(Relation::AddRemove));
        assert_eq!(spec.sampling.scheme, Some(Scheme::WithoutReplacement));
        assert_eq!(spec.privacy.noise_multiplier, Some(1.0));
        assert_eq!(spec.region.mask.as_deref(), Some("1.png"));
        assert_eq!(layer(&[("image", "0x10")]).pipeline.image, Some(Pixels { x: 0, y: 10 }));
    }

    #[test]
    fn wrong_values_name_the_key_and_the_flag() {
        let mut spec = PlanSpec::default();
        for (path, value, message) in [
            (
                "batch",
                "0.1",
                "sampling.batch (--batch): invalid type: floating point `0.1`, expected a whole number",
            ),
            (
                "crop",
                "big",
                "pipeline.crop (--crop): invalid value: string \"big\", expected whole pixels as [width, height] or \"WIDTHxHEIGHT\"",
            ),
            (
                "batch",
                "1\nrecords = 5",
                "sampling.batch (--batch): invalid type: string \"1\\nrecords = 5\", expected a whole number",
            ),
            (
                "records",
                "18446744073709551616",
                "sampling.records (--records): 18446744073709551616 is too large",
            ),
        ] {
            let error = spec.set(path, value).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(error.hint().is_some());
        }
        let error = spec.set("sampling.batches", "1").unwrap_err();
        assert_eq!(error.to_string(), "unknown key `sampling.batches`");
        assert_eq!(error.hint().as_deref(), Some("did you mean sampling.batch?"));
        assert_eq!(spec, PlanSpec::default());
    }

    #[test]
    fn a_layer_hides_the_alternatives_below() {
        let file = layer(&[("epochs", "100"), ("patch", "10"), ("crop-scale", "0.1:1"), ("batch", "7")]);
        let merged = file.merge(&layer(&[("steps", "5"), ("circle", "3"), ("crop", "9")]));
        assert_eq!(merged, layer(&[("steps", "5"), ("circle", "3"), ("crop", "9"), ("batch", "7")]));
        assert_eq!(file.merge(&PlanSpec::default()), file);
    }
}
