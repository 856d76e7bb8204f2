//! What the paper's text says about a figure, checked against what is computed here.

use dapple_plan::{Scheme, number};

use super::compute::{PatchCurve, PatchPoint, PatchResults};
use super::setting::{Mechanism, PatchSetting};
use crate::claim::{ClaimVerdict, Statement};
use crate::error::Result;

/// The sampling that the statements are about.
const PAPER: Scheme = Scheme::WithoutReplacement;

pub(super) const BELOW_MINIBATCH: Statement<PatchResults> = Statement {
    says: "patch level leaks less than minibatch sampling alone",
    check: |results| Ok(below(results, Mechanism::Minibatch(PAPER))),
};
pub(super) const BELOW_DATA_LEVEL: Statement<PatchResults> = Statement {
    says: "data-level noise is less private than patch level at every ε",
    check: |results| Ok(below(results, Mechanism::DataLevel)),
};
pub(super) const RISES_ACROSS_PANELS: Statement<PatchResults> = Statement {
    says: "patch level moves up towards minibatch sampling from panel to panel",
    check: |results| Ok(across(results, "<", |before, after| before < after)),
};
pub(super) const FALLS_ACROSS_PANELS: Statement<PatchResults> = Statement {
    says: "patch level gains from panel to panel",
    check: |results| Ok(across(results, ">", |before, after| before > after)),
};
pub(super) const SATURATES: Statement<PatchResults> = Statement {
    says: "curves end at the minibatch baseline once every crop sees the patch",
    check: saturates,
};
pub(super) const NEVER_SATURATES: Statement<PatchResults> = Statement {
    says: "in 1000 × 2000 images patch level keeps its advantage throughout",
    check: |results| Ok(never_saturates(results)),
};
pub(super) const LINEAR: Statement<PatchResults> =
    Statement { says: "ε grows nearly linearly with the patch side", check: |results| Ok(linear(results)) };

/// Where the paper's patch-level profile lies below another mechanism's.
fn below(results: &PatchResults, other: Mechanism) -> ClaimVerdict {
    let (mut compared, mut lower) = (0usize, 0usize);
    let mut exceptions = Vec::new();
    for (panel, head) in results.panels.iter().enumerate() {
        let sigma = head.base.sigma;
        let (Some(patch), Some(other)) = (results.paper(panel), results.curve(panel, sigma, other)) else {
            continue;
        };
        // Both start at the same epsilon; the one that ends first is below the other from there on.
        let worse = |index: usize, point: &PatchPoint| {
            other.points.get(index).is_none_or(|other| point.delta.least() > other.delta.upper)
        };
        let lost: Vec<&PatchPoint> = patch
            .points
            .iter()
            .enumerate()
            .filter(|(index, point)| worse(*index, point))
            .map(|(_, point)| point)
            .collect();
        let drawn = patch.points.len().max(other.points.len());
        compared += drawn;
        lower += drawn - lost.len();
        if let Some(first) = lost.first() {
            let (epsilon, delta) = (number::down(first.x, 3), number::up(first.delta.upper, 3));
            exceptions.push(format!("{}: not from ε = {epsilon} (δ = {delta}) on", head.title));
        }
    }
    let mut here = format!("at {lower} of {compared} points drawn");
    if !exceptions.is_empty() {
        here = format!("{here}; {}", exceptions.join("; "));
    }
    (here, lower == compared)
}

/// Epsilon of the paper's patch level from panel to panel.
fn across(results: &PatchResults, sign: &str, ordered: impl Fn(f64, f64) -> bool) -> ClaimVerdict {
    let epsilons: Vec<f64> = (0..results.panels.len())
        .filter_map(|panel| results.paper(panel)?.summary.map(|epsilon| epsilon.upper))
        .collect();
    let holds = epsilons.windows(2).all(|pair| ordered(pair[0], pair[1]));
    let sign = if holds { format!(" {sign} ") } else { ", ".to_owned() };
    let list: Vec<String> = epsilons.iter().map(|epsilon| number::up(*epsilon, 4)).collect();
    (format!("ε at δ = 1e-5: {}", list.join(&sign)), holds)
}

fn paper_curves(results: &PatchResults) -> impl Iterator<Item = &PatchCurve> {
    results.curves.iter().filter(|curve| curve.mechanism == Mechanism::Patch(PAPER))
}

fn inclusion(point: &PatchPoint) -> f64 {
    point.run.map_or(1.0, |run| run.inclusion_probability)
}

/// The least size from which every crop sees the patch, and how far curves are from the baseline there.
fn saturates(results: &PatchResults) -> Result<ClaimVerdict> {
    let mut parts = Vec::new();
    let mut holds = true;
    for (panel, head) in results.panels.iter().enumerate() {
        let Some(over) = head.over else { continue };
        let Some(first) = saturation(results, panel)? else {
            parts.push(format!("no {} that is drawn reaches inclusion 1", over.name()));
            holds = false;
            continue;
        };
        let mut gap = 0.0_f64;
        for curve in paper_curves(results).filter(|curve| curve.panel == panel) {
            let Some(baseline) = results.curve(panel, curve.sigma, Mechanism::Minibatch(PAPER)) else {
                continue;
            };
            for (point, level) in curve.points.iter().zip(&baseline.points) {
                if inclusion(point) == 1.0 {
                    gap = gap.max((point.epsilon.upper / level.epsilon.upper - 1.0).abs());
                }
            }
        }
        // Both are the same mechanism, each within its own bracket.
        holds &= gap <= 1e-3;
        parts.push(format!("inclusion is 1 from {} side {first} on", over.name()));
    }
    Ok((parts.join("; "), holds))
}

/// The least size between the ends of a sweep whose inclusion probability is 1.
fn saturation(results: &PatchResults, panel: usize) -> Result<Option<u32>> {
    let (Some(head), Some(curve)) = (results.panels.get(panel), results.paper(panel)) else {
        return Ok(None);
    };
    let (Some(over), Some(first), Some(last)) = (head.over, curve.points.first(), curve.points.last()) else {
        return Ok(None);
    };
    for value in first.x as u32..=last.x as u32 {
        let setting: PatchSetting = over.apply(head.base, value);
        if setting.plan(results.reading, PAPER)?.inclusion_probability() == 1.0 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn never_saturates(results: &PatchResults) -> ClaimVerdict {
    let largest = paper_curves(results).flat_map(|curve| &curve.points).map(inclusion).fold(0.0, f64::max);
    (format!("the largest inclusion probability drawn is {}", number::up(largest, 4)), largest < 1.0)
}

/// The least share of variance that a straight line explains, over patch sides below saturation.
fn linear(results: &PatchResults) -> ClaimVerdict {
    let over_patch = |curve: &&PatchCurve| {
        results
            .panels
            .get(curve.panel)
            .is_some_and(|head| head.over == Some(super::catalogue::SweptSize::Patch))
    };
    let shares = paper_curves(results).filter(over_patch).map(|curve| {
        let rising = curve.points.iter().filter(|point| inclusion(point) < 1.0);
        explained(&rising.map(|point| (point.x, point.epsilon.upper)).collect::<Vec<_>>())
    });
    let least = shares.fold(1.0, f64::min);
    // "Nearly": a straight line leaves less than a hundredth of the variance.
    (format!("a straight line explains at least {least:.4} of the variance below saturation"), least > 0.99)
}

/// The coefficient of determination of the least-squares line.
fn explained(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let moment = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| value(x - x_mean, y - y_mean)).sum()
    };
    let (xx, xy, yy) = (moment(&|x, _| x * x), moment(&|x, y| x * y), moment(&|_, y| y * y));
    if points.len() < 3 || xx * yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn a_line_is_explained_and_a_parabola_is_not() {
        let line: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 3.0 - 2.0 * f64::from(x))).collect();
        // Exact in small integers.
        assert!((explained(&line) - 1.0).abs() < 1e-12);
        // x^2 on -2..2 has no linear part.
        let parabola: Vec<(f64, f64)> = (-2..=2).map(|x| (f64::from(x), f64::from(x * x))).collect();
        assert!(explained(&parabola).abs() < 1e-12);
    }
}
