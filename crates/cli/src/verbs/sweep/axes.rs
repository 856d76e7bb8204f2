//! The axes of a sweep.

use dapple_plan::PlanError;
use dapple_plan::spec::keys::{self, Key};
use dapple_report::Cell;
use serde_json::json;

use crate::failure::Failure;
use crate::ranges;

/// A key and the values it takes.
#[derive(Debug)]
pub(crate) struct Axis {
    /// The name of its column: the flag where there is one.
    pub(crate) name: String,
    pub(crate) key: &'static Key,
    pub(crate) values: Vec<String>,
}

impl Axis {
    /// `key=a:b:step` or `key=a,b,c`; the key may be a flag name or a dotted path.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let (name, values) = text.split_once('=').ok_or_else(|| {
            Failure::request(
                format!("--over {text} has no `=`"),
                "write --over crop=50:700:50 or --over batch=64,128",
            )
        })?;
        let name = name.trim();
        let key = keys::resolve(name)
            .ok_or_else(|| PlanError::UnknownKey { path: name.to_owned(), near: keys::near(name) })?;
        let name = key.flag.unwrap_or(key.path).to_owned();
        Ok(Self { name, key, values: ranges::values(text, values)? })
    }

    /// The values as numbers; `None` if any is not one. A square counts by its side.
    pub(crate) fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(|value| number(value)).collect()
    }
}

/// A value as a number.
pub(crate) fn number(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Refuses the same key twice.
pub(crate) fn refuse_repeats(axes: &[Axis]) -> Result<(), Failure> {
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|other| other.key == axis.key) {
            return Err(Failure::request(
                format!("--over {} is given twice", axis.name),
                "give all its values at once, e.g. --over crop=50,100,200",
            ));
        }
    }
    Ok(())
}

/// Every combination, the first axis slowest.
pub(crate) fn combinations(axes: &[Axis]) -> Result<Vec<Vec<String>>, Failure> {
    let count = axes.iter().map(|axis| axis.values.len()).try_fold(1usize, usize::checked_mul);
    if count.is_none_or(|count| count > ranges::MAX_POINTS) {
        return Err(Failure::request(
            format!("a sweep of more than {} plans", ranges::MAX_POINTS),
            "take larger steps or fewer axes",
        ));
    }
    Ok(axes.iter().fold(vec![Vec::new()], |rows, axis| {
        let extended = |row: &Vec<String>| {
            let row = row.clone();
            axis.values.iter().map(move |value| row.iter().chain([value]).cloned().collect())
        };
        rows.iter().flat_map(extended).collect()
    }))
}

/// A value as JSON: a number where it is one.
pub(crate) fn json_value(value: &str) -> serde_json::Value {
    match (value.parse::<i64>(), number(value)) {
        (Ok(whole), _) => json!(whole),
        (_, Some(real)) => json!(real),
        _ => json!(value),
    }
}

/// A value in a table.
pub(crate) fn cell(value: &str) -> Cell {
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_keep_their_order() {
        let axes = [Axis::parse("crop=1:2:1").unwrap(), Axis::parse("sampling.batch=7,8,9").unwrap()];
        let rows = combinations(&axes).unwrap();
        let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["1 7", "1 8", "1 9", "2 7", "2 8", "2 9"]);
        assert_eq!(axes[1].name, "batch");
        assert!(refuse_repeats(&axes).is_ok());
        assert!(refuse_repeats(&[Axis::parse("crop=1").unwrap(), Axis::parse("--crop=2").unwrap()]).is_err());
        assert!(Axis::parse("corp=1").is_err() && Axis::parse("crop").is_err());
    }
}
