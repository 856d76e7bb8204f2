//! Checks that the certificate in a folder is the one that its ledger gives.

use dapple_plan::Certificate;
use serde_json::Value;

use crate::certificate::{RunCertificate, SCHEMA, Status, Warning};
use crate::files;
use crate::folder::Folder;
use crate::recover::Recovered;

const NAME: &str = "certificate.json";
/// The largest relative difference of equal numbers. The same program computes the same number, except that the exponential function may
/// differ in its last digits on another machine.
const SAME: f64 = 1e-9;

/// Reads the certificate in a folder; `None` if there is none.
pub(super) fn read(folder: &Folder) -> Result<Option<RunCertificate>, String> {
    let path = folder.certificate();
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_text(&path).map_err(|error| error.to_string())?;
    let certificate = RunCertificate::from_json(&text).map_err(|error| format!("{NAME}: {error}"))?;
    if certificate.schema > SCHEMA {
        return Err(format!("{NAME}: schema {} is of a later version", certificate.schema));
    }
    // Others would read a field that this program does not write as if it were certified.
    let whole: Option<Value> = serde_json::from_str(&text).ok();
    if is_own(&certificate) && whole != serde_json::to_value(&certificate).ok() {
        return Err(format!("{NAME} holds what this program does not write"));
    }
    Ok(Some(certificate))
}

/// Compares a certificate with the plan and the ledger.
pub(super) fn compare(stored: Option<&RunCertificate>, run: &Recovered) -> Result<(), String> {
    let history = &run.history;
    let Some(stored) = stored else {
        // The certificate is written right after the first line of the ledger, and before the first promise.
        return if history.spent() == 0 { Ok(()) } else { Err(format!("{NAME} is gone")) };
    };
    let spent = history.spent();
    if stored.steps_spent < spent {
        let counted = stored.steps_spent;
        return Err(format!(
            "{NAME} counts {counted} steps, and the ledger {spent}: resume the run to write it anew"
        ));
    }
    // A run that was killed between its last line and its last certificate counts as going on too.
    let going_on = stored.status == Status::Running;
    if !going_on {
        let named = (stored.status, stored.steps_spent, stored.ledger.as_str());
        let found = (Status::of(history), spent, history.position().1);
        if named != found {
            return Err(format!(
                "{NAME} is not of the ledger's last line: {named:?}, by the ledger {found:?}"
            ));
        }
    }
    let mut expected =
        run.certificate_of(stored.status, stored.steps_spent).map_err(|error| error.to_string())?;
    let mut stored = stored.clone();
    if going_on {
        // When the certificate was written, the ledger was shorter, so compare with what it could say then.
        expected.ledger.clone_from(&stored.ledger);
        expected.machines.truncate(stored.machines.len());
        expected.model_sha256 = expected.model_sha256.filter(|_| stored.model_sha256.is_some());
        if stored.machines.iter().all(|used| used.ranks.is_none()) {
            expected.warnings.retain(|warning| *warning != Warning::Ranks);
        }
        for certificate in [&mut expected, &mut stored] {
            certificate.warnings.retain(|warning| *warning != Warning::CutLedger);
        }
    }
    // Programs before this warning did not write it, and no price depends on it.
    if !stored.warnings.contains(&Warning::LostSteps) {
        expected.warnings.retain(|warning| *warning != Warning::LostSteps);
    }
    if is_own(&stored) {
        expected.date.clone_from(&stored.date);
        let value = |certificate: &RunCertificate| {
            serde_json::to_value(certificate).expect("numbers, words and lists of them")
        };
        return difference(NAME, &value(&stored), &value(&expected)).map_or(Ok(()), Err);
    }
    // Another version may use other words and narrower or wider brackets, but its epsilon must agree.
    if (stored.private, &stored.spec) != (expected.private, &expected.spec) {
        return Err(format!("{NAME} is of another plan"));
    }
    agree("spent", stored.spent.as_ref(), expected.spent.as_ref())?;
    agree("planned", stored.planned.as_ref(), expected.planned.as_ref())
}

/// Whether this version of the program wrote a certificate.
fn is_own(certificate: &RunCertificate) -> bool {
    certificate.schema == SCHEMA && certificate.program_version == crate::certificate::VERSION
}

/// Whether two versions of the program can both be right about a price.
fn agree(name: &str, stored: Option<&Certificate>, expected: Option<&Certificate>) -> Result<(), String> {
    let numbers = |price: &Certificate| (price.delta, price.relation, price.steps, price.noise_multiplier);
    let right = match (stored, expected) {
        (Some(stored), Some(expected)) => {
            numbers(stored) == numbers(expected) && stored.epsilon.overlaps(expected.epsilon)
        }
        (stored, expected) => stored.is_none() && expected.is_none(),
    };
    if right { Ok(()) } else { Err(format!("{NAME}: `{name}` is not what plan and ledger give")) }
}

/// The first place where two values differ, in words.
fn difference(place: &str, stored: &Value, expected: &Value) -> Option<String> {
    match (stored, expected) {
        (Value::Object(stored), Value::Object(expected)) => expected.iter().find_map(|(key, value)| {
            let found = stored.get(key).unwrap_or(&Value::Null);
            difference(&format!("{place}: {key}"), found, value)
        }),
        (Value::Array(stored), Value::Array(expected)) if stored.len() == expected.len() => {
            stored.iter().zip(expected).find_map(|(stored, expected)| difference(place, stored, expected))
        }
        (Value::Number(a), Value::Number(b)) if close(a.as_f64(), b.as_f64()) => None,
        (stored, expected) if stored == expected => None,
        (stored, expected) => Some(format!("{place} is {stored}, by plan and ledger {expected}")),
    }
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= SAME * b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named() {
        let expected = json!({ "a": 1.0, "b": [1, { "c": "x" }], "d": null });
        assert_eq!(difference("f", &expected, &expected), None);
        assert_eq!(difference("f", &json!({ "a": 1.0 + 1e-12, "b": [1, { "c": "x" }] }), &expected), None);
        for (stored, words) in [
            (json!({ "a": 0.999, "b": [1, { "c": "x" }] }), "f: a is 0.999, by plan and ledger 1.0"),
            (json!({ "a": 1, "b": [1, { "c": "y" }] }), "f: b: c is \"y\", by plan and ledger \"x\""),
            (json!({ "b": [1, { "c": "x" }] }), "f: a is null, by plan and ledger 1.0"),
            (json!({ "a": 1, "b": [] }), "f: b is [], by plan and ledger [1,{\"c\":\"x\"}]"),
        ] {
            assert_eq!(difference("f", &stored, &expected).as_deref(), Some(words));
        }
    }
}
