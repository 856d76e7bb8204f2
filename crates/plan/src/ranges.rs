//! Lists and ranges of values, as they are written behind flags.

use serde::Serialize;

use crate::PlanError;

/// The most points. More are a slip of the pen.
pub const MAX_POINTS: usize = 100_000;

/// Reads `a:b:n` (n points from a to b, both included) or a list `a,b,c` that was given for a flag.
///
/// # Errors
/// Text that is neither of them, a number that is not finite, or a count that is not between 1 and [`MAX_POINTS`].
pub fn points(flag: &str, text: &str) -> Result<Vec<f64>, PlanError> {
    let wrong = |problem: &str| PlanError::Asked {
        message: format!("--{flag} {text}: {problem}"),
        hint: format!("write FROM:TO:COUNT or a list, e.g. --{flag} 0:2:21 or --{flag} 0.5,1,2"),
    };
    let number = |part: &str| {
        let value = part.trim().parse::<f64>().map_err(|_| wrong("not a number"))?;
        if value.is_finite() { Ok(value) } else { Err(wrong("not a finite number")) }
    };
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [list] => list.split(',').map(number).collect(),
        [from, to, count] => {
            let (from, to) = (number(from)?, number(to)?);
            let count =
                count.trim().parse::<usize>().map_err(|_| wrong("the count is not a whole number"))?;
            if count == 0 || count > MAX_POINTS {
                return Err(wrong("the count is not between 1 and 100000"));
            }
            let last = (count - 1).max(1) as f64;
            Ok((0..count).map(|i| from + (to - from) * (i as f64 / last)).collect())
        }
        _ => Err(wrong("neither a range nor a list")),
    }
}

/// Reads `a:b:step` (numbers from a on, b included) or a list `a,b,c` of any values that was given for `key`.
///
/// # Errors
/// A range that leads nowhere, an empty value, or more than [`MAX_POINTS`] of them.
pub fn values(key: &str, text: &str) -> Result<Vec<String>, PlanError> {
    let wrong = |problem| wrong(key, text, problem);
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let found: Vec<String> = match parts.as_slice() {
        [from, to, step] => {
            if let (Ok(from), Ok(to), Ok(step)) =
                (from.parse::<i64>(), to.parse::<i64>(), step.parse::<i64>())
            {
                whole(from, to, step)
                    .ok_or_else(|| wrong("the step does not lead from the first to the last value"))?
            } else {
                let (Some(from), Some(to), Some(step)) = (finite(from), finite(to), finite(step)) else {
                    return Err(wrong("not a range of numbers"));
                };
                real(from, to, step)
                    .ok_or_else(|| wrong("the step does not lead from the first to the last value"))?
            }
        }
        _ => text.split(',').map(|value| value.trim().to_owned()).collect(),
    };
    if found.iter().any(String::is_empty) {
        return Err(wrong("an empty value"));
    }
    if found.len() > MAX_POINTS {
        return Err(wrong("more than 100000 values"));
    }
    Ok(found)
}

/// The error of wrong values for a key.
pub(crate) fn wrong(key: &str, text: &str, problem: &str) -> PlanError {
    PlanError::Asked {
        message: format!("--over {key}={text}: {problem}"),
        hint: "write --over KEY=FROM:TO:STEP or --over KEY=A,B,C, e.g. --over crop=50:700:50".to_owned(),
    }
}

fn whole(from: i64, to: i64, step: i64) -> Option<Vec<String>> {
    let span = i128::from(to) - i128::from(from);
    let step = i128::from(step);
    if step == 0 || span * step < 0 {
        return None;
    }
    let count = usize::try_from(span / step).ok()?.min(MAX_POINTS) + 1;
    Some((0..count as i128).map(|i| (i128::from(from) + i * step).to_string()).collect())
}

fn real(from: f64, to: f64, step: f64) -> Option<Vec<String>> {
    let span = to - from;
    if step == 0.0 || span * step < 0.0 {
        return None;
    }
    // A last value that misses the end only by rounding counts.
    let count = (span / step + 1e-9).floor().min(MAX_POINTS as f64) as usize + 1;
    // Twelve digits hide that 0.1 + 0.2 is not 0.3.
    let tidy = |value: f64| format!("{value:.11e}").parse::<f64>().unwrap_or(value);
    Some((0..count).map(|i| format!("{:?}", tidy(from + i as f64 * step))).collect())
}

/// A value of a list or a range, as a number if it is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Written {
    /// A whole number.
    Whole(i64),
    /// Any other finite number.
    Real(f64),
    /// A word, or a size.
    Text(String),
}

impl Written {
    /// Reads a text.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match (text.parse(), finite(text)) {
            (Ok(whole), _) => Self::Whole(whole),
            (_, Some(real)) => Self::Real(real),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(whole) => Some(*whole as f64),
            Self::Real(real) => Some(*real),
            Self::Text(_) => None,
        }
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_include_both_ends() {
        assert_eq!(points("epsilons", "0:2:5").unwrap(), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(points("epsilons", "1:3:1").unwrap(), [1.0]);
        assert_eq!(points("epsilons", "0.5, 1,8").unwrap(), [0.5, 1.0, 8.0]);
        for text in ["", "a", "0:1", "0:1:0", "0:1:-3", "0:1:1e9", "nan", "0:inf:3", "1:2:3:4"] {
            assert!(points("epsilons", text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_ranges_or_lists() {
        assert_eq!(values("crop", "50:200:50").unwrap(), ["50", "100", "150", "200"]);
        assert_eq!(values("noise-multiplier", "0.1:0.4:0.1").unwrap(), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(values("noise-multiplier", "4,4.5,5").unwrap(), ["4", "4.5", "5"]);
        assert_eq!(values("crop", "64x32, 128x64").unwrap(), ["64x32", "128x64"]);
        assert_eq!(values("epochs", "3:1:-1").unwrap(), ["3", "2", "1"]);
        assert_eq!(values("crop-scale", "0.1:1").unwrap(), ["0.1:1"]);
        for text in ["", "1,,2", "1:5:0", "1:5:-1", "a:b:c", "0:1:nan", "0:1000000000000:1"] {
            assert!(values("epochs", text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_a_number_where_it_is_one() {
        assert_eq!(Written::read("50"), Written::Whole(50));
        assert_eq!(Written::read("1e3"), Written::Real(1000.0));
        for word in ["inf", "64x32", "poisson", ""] {
            assert_eq!(Written::read(word), Written::Text(word.to_owned()));
        }
        assert_eq!(Written::read("4.5").number(), Some(4.5));
    }
}
