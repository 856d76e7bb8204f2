//! Plans in layers: flags over a file, single settings over both.

use toml::{Table, Value};

use super::{PlanSpec, keys};
use crate::error::PlanError;
use crate::spec::text::plain_words;

/// Keys of which a plan takes one; a layer that gives one hides the others of the layers below.
const ALTERNATIVES: [&[&[&str]]; 3] = [
    &[&["sampling.epochs"], &["sampling.steps"]],
    &[&["region.patch"], &["region.circle"], &["region.mask"]],
    &[&["pipeline.crop"], &["pipeline.crop_scale", "pipeline.crop_ratio"]],
];

impl PlanSpec {
    /// Sets the value of a dotted key (or flag name), written as in TOML; a value that is not TOML is taken as a string.
    ///
    /// # Errors
    /// A key that no plan has, or a value of the wrong type.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), PlanError> {
        let unknown = || PlanError::UnknownKey { path: path.to_owned(), near: keys::near(path) };
        let key = keys::resolve(path).ok_or_else(unknown)?;
        let (section, name) = key.path.split_once('.').ok_or_else(unknown)?;
        let wrong =
            |message: String| PlanError::Value { key: key.path.to_owned(), message: plain_words(&message) };
        if !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_digit())
            && value.parse::<i64>().is_err()
        {
            return Err(wrong(format!("{value} is too large")));
        }
        let mut table = self.to_table().map_err(wrong)?;
        let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.insert(name.to_owned(), read(key.path, value));
        }
        *self = Self::from_table(table).map_err(wrong)?;
        Ok(())
    }

    /// This plan with everything that `over` gives instead.
    #[must_use]
    pub fn merge(&self, over: &Self) -> Self {
        let (Ok(mut base), Ok(over_table)) = (self.to_table(), over.to_table()) else { return over.clone() };
        for group in ALTERNATIVES {
            let given = |keys: &&[&str]| keys.iter().any(|key| get(&over_table, key).is_some());
            if let Some(chosen) = group.iter().position(given) {
                let others = group.iter().enumerate().filter(|(index, _)| *index != chosen);
                others.flat_map(|(_, keys)| keys.iter()).for_each(|key| remove(&mut base, key));
            }
        }
        for (section, values) in over_table {
            let target = base.entry(section).or_insert_with(|| Value::Table(Table::new()));
            match (target, values) {
                (Value::Table(target), Value::Table(values)) => target.extend(values),
                // The phases: a list is taken as a whole.
                (target, values) => *target = values,
            }
        }
        // Both tables came from plans, key by key, so their union is one.
        Self::from_table(base).unwrap_or_else(|_| over.clone())
    }

    fn to_table(&self) -> Result<Table, String> {
        Table::try_from(self).map_err(|error| error.to_string())
    }

    fn from_table(table: Table) -> Result<Self, String> {
        table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

fn get<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (section, name) = path.split_once('.')?;
    table.get(section)?.as_table()?.get(name)
}

fn remove(table: &mut Table, path: &str) {
    if let Some((section, name)) = path.split_once('.')
        && let Some(Value::Table(section)) = table.get_mut(section)
    {
        section.remove(name);
    }
}

/// A value as TOML would read it behind `key =`; names stay words whatever they look like.
fn read(path: &str, text: &str) -> Value {
    let word = || Value::String(text.to_owned());
    if matches!(
        path,
        "region.mask"
            | "performance.device"
            | "model.name"
            | "model.weights"
            | "data.train"
            | "data.train_labels"
            | "data.test"
            | "data.test_labels"
    ) {
        return word();
    }
    // A second line would be a second key, and 0x10 is a size without width, not sixteen.
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
