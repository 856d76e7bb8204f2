//! What it means for a subject to agree with an oracle.

use dapple_engine::ClippingRule;

use crate::subject::{Step, Subject};

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(1e-30, |largest, value| largest.max(value.abs()))
}

/// Asserts that every value is within a share of the largest one, plus `more`, of what is wanted.
pub(crate) fn close(title: &str, got: &[f64], want: &[f64], share: f64, more: f64) {
    assert_eq!(got.len(), want.len(), "{title}");
    let (scale, mut far) = (largest(want), None);
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (got - want).abs();
        // What is not a number counts as too far away.
        if (difference.is_nan() || difference > share * scale + more) && far.is_none() {
            far = Some((index, *got, *want));
        }
    }
    assert!(far.is_none(), "{title}: (index, got, wanted) {far:?}, the largest is {scale}");
}

/// Asserts that a step agrees with an oracle's in losses, norms and the sum, each to the subject's tolerance.
pub(crate) fn agree(title: &str, subject: Subject, got: &Step, want: &Step, rule: &ClippingRule) {
    let tolerance = subject.tolerance();
    let samples = want.stats.losses.len();
    assert_eq!((got.stats.losses.len(), got.stats.norms.len()), (samples, want.stats.norms.len()), "{title}");
    for (got, want) in got.stats.losses.iter().zip(&want.stats.losses) {
        let difference = (f64::from(*got) - f64::from(*want)).abs();
        let allowed = tolerance.plain * f64::from(*want).max(1e-2);
        assert!(difference <= allowed, "{title}: loss {got}, not {want}");
    }
    // If a norm is rounded up, the gradient is clipped by as much more.
    let clipped = rule.unit().map_or(0.0, |_| tolerance.raised);
    let grain = rule.unit().map_or(0.0, |unit| tolerance.units * unit * (samples + 1) as f64);
    close(&format!("{title}, sum"), &got.gradient, &want.gradient, tolerance.plain + clipped, grain);
    if rule.unit().is_some() {
        let most = want.stats.norms.iter().fold(0f32, |most, norm| most.max(*norm));
        for (got, want) in got.stats.norms.iter().zip(&want.stats.norms) {
            let (got, want) = (f64::from(*got), f64::from(*want));
            let enclosed = got >= want - tolerance.lowered * want.max(1e-3)
                && got <= want + tolerance.raised * f64::from(most) + 1e-8;
            assert!(enclosed, "{title}: norm {got}, not {want}");
        }
    }
}
