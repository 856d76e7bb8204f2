//! Many plans at once: the grid of a sweep, and what a row of it says.

use std::borrow::Cow;

use dapple_geometry::Mask;
use serde::Serialize;

use crate::ranges::{self, MAX_POINTS};
use crate::spec::keys::{self, Key};
use crate::{
    BracketPrecision, Certificate, Plan, PlanError, PlanSpec, SolvedUnknown, SolvedValue, Unknown, calibrate,
};

/// The columns of a row beside the values of its combination.
pub const MEASURES: [&str; 5] =
    ["epsilon", "epsilon_lower", "inclusion_probability", "effective_rate", "steps"];

/// A key and the values it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepAxis<Value> {
    /// The key that varies.
    pub key: &'static Key,
    /// Its values, in order.
    pub values: Vec<Value>,
}

impl<Value> SweepAxis<Value> {
    /// The name of the key, which is its flag if it has one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.key.flag.unwrap_or(self.key.path)
    }

    /// The name of the column of its values: that of the key, unless a column of what came out has it.
    #[must_use]
    pub fn column(&self, unknown: Option<Unknown>) -> Cow<'static, str> {
        asked(self.name(), unknown)
    }
}

impl SweepAxis<String> {
    /// Parses `key=a:b:step` or `key=a,b,c`. The key may be a flag name or a dotted path.
    ///
    /// # Errors
    /// A text of another form, a key that no plan has, or values that are neither a list nor a range.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let (name, values) = text.split_once('=').ok_or_else(|| PlanError::Asked {
            message: format!("--over {text} has no `=`"),
            hint: "write --over crop=50:700:50 or --over batch=64,128".to_owned(),
        })?;
        let name = name.trim();
        let key = keys::resolve(name)
            .ok_or_else(|| PlanError::UnknownKey { path: name.to_owned(), near: keys::near(name) })?;
        let values = ranges::values(name, values)?;
        // Two numbers with a colon are a value for a few keys, and for all others a range without its step.
        if let [only] = values.as_slice()
            && only.contains(':')
            && PlanSpec::default().set(key.path, only).is_err()
        {
            return Err(ranges::wrong(name, only, "a range has a step, too"));
        }
        Ok(Self { key, values })
    }
}

/// Every combination of the axes' values. The first axis varies slowest.
///
/// # Errors
/// A key that is given twice, or more than [`MAX_POINTS`] combinations.
pub fn combinations<Value: Clone>(axes: &[SweepAxis<Value>]) -> Result<Vec<Vec<Value>>, PlanError> {
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|other| other.key == axis.key) {
            return Err(PlanError::Asked {
                message: format!("--over {} is given twice", axis.name()),
                hint: "give all its values at once, e.g. --over crop=50,100,200".to_owned(),
            });
        }
    }
    let count = axes.iter().map(|axis| axis.values.len()).try_fold(1usize, usize::checked_mul);
    if count.is_none_or(|count| count > MAX_POINTS) {
        return Err(PlanError::Asked {
            message: format!("a sweep of more than {MAX_POINTS} plans"),
            hint: "take larger steps or fewer axes".to_owned(),
        });
    }
    Ok(axes.iter().fold(vec![Vec::new()], |rows, axis| {
        let extended = |row: &Vec<Value>| {
            let row = row.clone();
            axis.values.iter().map(move |value| row.iter().chain([value]).cloned().collect())
        };
        rows.iter().flat_map(extended).collect()
    }))
}

/// The error with the combination that it is about. `write` gives a value as it reads in a sentence.
#[must_use]
pub fn at<Value>(
    axes: &[SweepAxis<Value>],
    values: &[Value],
    write: impl Fn(&Value) -> String,
    error: PlanError,
) -> PlanError {
    let pairs = axes.iter().zip(values).map(|(axis, value)| format!("{}={}", axis.name(), write(value)));
    PlanError::At { combination: pairs.collect::<Vec<_>>().join(", "), source: Box::new(error) }
}

/// What a combination costs.
#[derive(Debug, Clone, PartialEq)]
pub struct PricedCombination {
    /// The certificate of its plan.
    pub certificate: Certificate,
    /// The unknown and its value, if the plan was solved for one.
    pub solved: Option<SolvedUnknown>,
}

/// Prices a combination; `None` if epsilon is too large to report.
///
/// # Errors
/// Every other error of pricing.
pub fn price(plan: &Plan, precision: BracketPrecision) -> Result<Option<PricedCombination>, PlanError> {
    or_empty(plan.price(precision).map(|certificate| PricedCombination { certificate, solved: None }))
}

/// Solves a combination for an unknown; `None` if no value of it reaches the target.
///
/// # Errors
/// Every other error of calibration.
pub fn solve(
    spec: &PlanSpec,
    masks: &[Mask],
    unknown: Unknown,
    precision: BracketPrecision,
) -> Result<Option<PricedCombination>, PlanError> {
    let found = calibrate(spec, masks, unknown, precision);
    or_empty(
        found.map(|found| PricedCombination { certificate: found.certificate, solved: Some(found.solved) }),
    )
}

/// A combination without an answer is an empty row, and one with a mistake is an error.
fn or_empty(priced: Result<PricedCombination, PlanError>) -> Result<Option<PricedCombination>, PlanError> {
    match priced {
        Ok(priced) => Ok(Some(priced)),
        Err(PlanError::Unreachable { .. }) => Ok(None),
        Err(error) => error.or_none(),
    }
}

/// A number of a row, which knows in which direction rounding is safe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SweepMeasure {
    /// A count.
    Whole(u64),
    /// A number that is never too small, and is rounded up when it is shortened.
    Upper(f64),
    /// A number that is never too large, and is rounded down when it is shortened.
    Lower(f64),
}

impl From<SolvedValue> for SweepMeasure {
    fn from(value: SolvedValue) -> Self {
        match value {
            SolvedValue::Whole(value) => Self::Whole(value),
            // The only real unknown is the noise multiplier, of which more is safe.
            SolvedValue::Real(value) => Self::Upper(value),
        }
    }
}

/// The name of a column of values that were asked for: `target_epsilon` where another column says which epsilon was reached.
#[must_use]
pub fn asked(name: &str, unknown: Option<Unknown>) -> Cow<'_, str> {
    match measured(unknown).any(|measured| measured == name) {
        true => Cow::Owned(format!("target_{name}")),
        false => Cow::Borrowed(name),
    }
}

/// The columns that follow those of the axes: the unknown if there is one, and those of [`MEASURES`] that are not the unknown.
pub fn measured(unknown: Option<Unknown>) -> impl Iterator<Item = &'static str> {
    let own = unknown.map(Unknown::name);
    own.into_iter().chain(MEASURES.into_iter().filter(move |measure| Some(*measure) != own))
}

/// The numbers of a row in the columns of [`measured`]. They are empty if the combination has no answer.
#[must_use]
pub fn measures(priced: Option<&PricedCombination>, unknown: Option<Unknown>) -> Vec<Option<SweepMeasure>> {
    let Some(PricedCombination { certificate, solved }) = priced else {
        return measured(unknown).map(|_| None).collect();
    };
    let solved = unknown.map(|_| solved.map(|solved| solved.value.into()));
    let told = [
        Some(SweepMeasure::Upper(certificate.epsilon.upper)),
        certificate.epsilon.lower.map(SweepMeasure::Lower),
        Some(SweepMeasure::Upper(certificate.inclusion_probability)),
        Some(SweepMeasure::Upper(certificate.effective_rate)),
        Some(SweepMeasure::Whole(certificate.steps)),
    ];
    let own = unknown.map(Unknown::name);
    let told = MEASURES.into_iter().zip(told).filter(|(measure, _)| Some(*measure) != own);
    solved.into_iter().chain(told.map(|(_, value)| value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_keep_their_order() {
        let axes =
            [SweepAxis::parse("crop=1:2:1").unwrap(), SweepAxis::parse("sampling.batch=7,8,9").unwrap()];
        let rows = combinations(&axes).unwrap();
        let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["1 7", "1 8", "1 9", "2 7", "2 8", "2 9"]);
        assert_eq!(axes[1].name(), "batch");
        assert_eq!(axes[1].column(None), "batch");
        let epsilon = SweepAxis::parse("epsilon=1,2").unwrap();
        assert_eq!(epsilon.column(Some(Unknown::NoiseMultiplier)), "target_epsilon");
        assert_eq!(axes[1].column(Some(Unknown::Batch)), "target_batch");
    }

    #[test]
    fn what_was_asked_for_and_what_was_reached_have_different_names() {
        let unknowns = [Unknown::NoiseMultiplier, Unknown::Epochs, Unknown::Steps, Unknown::Batch];
        let unknowns = unknowns.map(Some).into_iter().chain([None]);
        for unknown in unknowns {
            let given = ["epsilon=1,2", "steps=3,4", "batch=5,6", "noise-multiplier=1,2"];
            let axes = given.map(|text| SweepAxis::parse(text).unwrap());
            let columns =
                axes.iter().map(|axis| axis.column(unknown)).chain(measured(unknown).map(Cow::Borrowed));
            let columns: Vec<_> = columns.collect();
            let different: std::collections::BTreeSet<_> = columns.iter().collect();
            assert_eq!(different.len(), columns.len(), "{unknown:?}: {columns:?}");
            assert_eq!(measures(None, unknown).len(), measured(unknown).count());
        }
    }

    #[test]
    fn grids_that_are_wrong() {
        let axis = |text| SweepAxis::parse(text).unwrap();
        assert!(combinations(&[axis("crop=1"), axis("--crop=2")]).is_err());
        assert!(combinations(&[axis("batch=1:1000:1"), axis("steps=1:1000:1")]).is_err());
        assert!(SweepAxis::parse("corp=1").is_err() && SweepAxis::parse("crop").is_err());
    }

    #[test]
    fn rows_without_an_answer_are_empty_and_wrong_ones_are_errors() {
        let precision = BracketPrecision::default();
        let spec = |noise: f64, epochs: u64| {
            let text = format!(
                "privacy = {{ delta = 1e-5, epsilon = 1e-6, noise_multiplier = {noise}, relation = 'replace' }}\n\
                 sampling = {{ batch = 100, records = 3000, epochs = {epochs} }}"
            );
            PlanSpec::from_toml(&text).unwrap()
        };
        // With hundreds of thousands of steps of little noise, epsilon is too large to report.
        assert_eq!(price(&Plan::check(&spec(0.05, 10_000)).unwrap(), precision), Ok(None));
        let spec = spec(1.0, 1);
        assert_eq!(solve(&spec, &[], Unknown::NoiseMultiplier, precision), Ok(None));
        assert!(solve(&spec, &[], Unknown::Crop, precision).is_err());
        let priced = price(&Plan::check(&spec).unwrap(), precision).unwrap();
        let columns = measured(None).count();
        let (told, empty) = (measures(priced.as_ref(), None), measures(None, None));
        assert!(told.len() == columns && told.iter().all(Option::is_some));
        assert!(empty.len() == columns && empty.iter().all(Option::is_none));
        assert_eq!(measures(None, Some(Unknown::Batch)).len(), columns + 1);
    }
}
