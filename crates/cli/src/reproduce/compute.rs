//! Answers every question of a figure, on all cores.

use std::io::IsTerminal;

use dapple_plan::{Bracket, PlanError, Precision, Scheme};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;

use super::catalogue::{Body, Over, Spec};
use super::setting::{DELTA, Mechanism, Priced, Reading, Run, Setting};
use crate::failure::Failure;

/// Profiles end where delta falls below this: smaller deltas are not drawn, and cost more than all others together.
pub(super) const LEAST_DELTA: f64 = 1e-12;
/// The epsilons of a profile where nobody asks for fewer.
const PROFILE_POINTS: usize = 200;

/// What may be changed about a figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) reading: Reading,
    pub(super) records: Option<u64>,
    pub(super) points: Option<usize>,
    pub(super) quiet: bool,
}

/// A computed figure.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) curves: Vec<Curve>,
    pub(super) panels: Vec<PanelHead>,
    /// The epsilons that profiles cover; `None` for sweeps.
    pub(super) epsilons: Option<(f64, f64)>,
}

/// A panel of the paper's figure.
#[derive(Debug, Clone)]
pub(super) struct PanelHead {
    pub(super) title: String,
    pub(super) base: Setting,
    /// What varies along the x axis; `None` where it is epsilon.
    pub(super) over: Option<Over>,
}

/// One line of a figure.
#[derive(Debug)]
pub(super) struct Curve {
    /// Index into the panels.
    pub(super) panel: usize,
    pub(super) mechanism: Mechanism,
    pub(super) sigma: f64,
    /// Epsilon at the delta of the figures, for profiles.
    pub(super) summary: Option<Bracket>,
    pub(super) points: Vec<Point>,
}

/// One answered question.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) setting: Setting,
    pub(super) run: Option<Run>,
    pub(super) epsilon: Bracket,
    pub(super) delta: Bracket,
}

impl Curve {
    /// The value a figure shows at a point: the upper end of what was asked for.
    pub(super) fn shown(&self, point: &Point) -> f64 {
        if self.summary.is_some() { point.delta.upper } else { point.epsilon.upper }
    }
}

impl Results {
    /// The line of a panel at a sigma.
    pub(super) fn curve(&self, panel: usize, sigma: f64, mechanism: Mechanism) -> Option<&Curve> {
        self.curves
            .iter()
            .find(|curve| curve.panel == panel && curve.sigma == sigma && curve.mechanism == mechanism)
    }

    /// The paper's own line of a panel.
    pub(super) fn paper(&self, panel: usize) -> Option<&Curve> {
        let own = Mechanism::Patch(Scheme::WithoutReplacement);
        self.curves.iter().find(|curve| curve.panel == panel && curve.mechanism == own)
    }
}

/// Computes a figure.
pub(super) fn compute(spec: &Spec, options: Options) -> Result<Results, Failure> {
    match &spec.body {
        Body::Profiles(_) => profiles(spec, options),
        Body::Sweeps(_) => sweeps(spec, options),
    }
}

fn adjusted(setting: Setting, options: Options) -> Setting {
    Setting { records: options.records.unwrap_or(setting.records), ..setting }
}

fn profiles(spec: &Spec, options: Options) -> Result<Results, Failure> {
    let Body::Profiles(panels) = &spec.body else { return Err(Failure::run("not a figure of profiles")) };
    let heads: Vec<PanelHead> = panels
        .iter()
        .map(|panel| PanelHead {
            title: panel.title.clone(),
            base: adjusted(panel.setting, options),
            over: None,
        })
        .collect();
    let lines: Vec<(usize, Mechanism)> = (0..heads.len())
        .flat_map(|panel| {
            Mechanism::TRAINING.into_iter().chain([Mechanism::DataLevel]).map(move |line| (panel, line))
        })
        .collect();
    let bar = bar(2 * lines.len(), options.quiet);
    // Epsilon at the delta of the sweeps first: it says which epsilons are worth drawing.
    let priced: Vec<(Priced, Bracket, f64)> = lines
        .par_iter()
        .map(|(panel, mechanism)| {
            let priced = mechanism.price(&heads[*panel].base, options.reading)?;
            let epsilon = priced.pld.epsilon(DELTA, Precision::default()).map_err(PlanError::from)?;
            let end = priced.pld.epsilon_upper(LEAST_DELTA, Precision::default()).map_err(PlanError::from)?;
            bar.inc(1);
            Ok((priced, epsilon, end))
        })
        .collect::<Result<_, Failure>>()?;
    let range = epsilon_range(priced.iter().map(|(_, epsilon, _)| epsilon.upper));
    let epsilons = logarithmic(range, options.points.unwrap_or(PROFILE_POINTS));
    let curves = lines
        .par_iter()
        .zip(&priced)
        .map(|(&(panel, mechanism), (priced, summary, end))| {
            let setting = heads[panel].base;
            // One more than the last of interest, so that a line leaves the picture.
            let wanted = epsilons.partition_point(|epsilon| epsilon <= end) + 1;
            let epsilons = &epsilons[..wanted.min(epsilons.len())];
            let deltas = priced.pld.profile(epsilons, Precision::default()).map_err(PlanError::from)?;
            bar.inc(1);
            let points = epsilons.iter().zip(deltas).map(|(&x, delta)| Point {
                x,
                setting,
                run: priced.run,
                epsilon: Bracket::exact(x),
                delta,
            });
            let points = points.collect();
            Ok(Curve { panel, mechanism, sigma: setting.sigma, summary: Some(*summary), points })
        })
        .collect::<Result<_, Failure>>()?;
    bar.finish_and_clear();
    Ok(Results { curves, panels: heads, epsilons: Some(range) })
}

fn sweeps(spec: &Spec, options: Options) -> Result<Results, Failure> {
    let Body::Sweeps(sweeps) = &spec.body else { return Err(Failure::run("not a figure of sweeps")) };
    let heads: Vec<PanelHead> = sweeps
        .iter()
        .map(|sweep| PanelHead {
            title: sweep.title.clone(),
            base: adjusted(sweep.base, options),
            over: Some(sweep.over),
        })
        .collect();
    let mut lines: Vec<(usize, f64, Mechanism)> = Vec::new();
    for (panel, sweep) in sweeps.iter().enumerate() {
        for &sigma in sweep.sigmas {
            lines.extend(Mechanism::TRAINING.map(|mechanism| (panel, sigma, mechanism)));
        }
    }
    let values: Vec<Vec<u32>> = sweeps.iter().map(|sweep| thinned(&sweep.values, options.points)).collect();
    let questions = lines.iter().map(|&(panel, _, mechanism)| match mechanism {
        Mechanism::Patch(_) => values[panel].len(),
        Mechanism::Minibatch(_) | Mechanism::DataLevel => 1,
    });
    let bar = bar(questions.sum(), options.quiet);
    let answer = |mechanism: Mechanism, setting: Setting| -> Result<(Option<Run>, Bracket), Failure> {
        let priced = mechanism.price(&setting, options.reading)?;
        let epsilon = priced.pld.epsilon(DELTA, Precision::default()).map_err(PlanError::from)?;
        bar.inc(1);
        Ok((priced.run, epsilon))
    };
    let curves = lines
        .par_iter()
        .map(|&(panel, sigma, mechanism)| {
            let base = Setting { sigma, ..heads[panel].base };
            let over = sweeps[panel].over;
            // What protects whole records does not depend on sizes within an image: one answer for all.
            let common = match mechanism {
                Mechanism::Patch(_) => None,
                Mechanism::Minibatch(_) | Mechanism::DataLevel => Some(answer(mechanism, base)?),
            };
            let points = values[panel]
                .par_iter()
                .map(|&value| {
                    let setting = over.apply(base, value);
                    let (run, epsilon) = match common {
                        Some(common) => common,
                        None => answer(mechanism, setting)?,
                    };
                    Ok(Point { x: f64::from(value), setting, run, epsilon, delta: Bracket::exact(DELTA) })
                })
                .collect::<Result<_, Failure>>()?;
            Ok(Curve { panel, mechanism, sigma, summary: None, points })
        })
        .collect::<Result<_, Failure>>()?;
    bar.finish_and_clear();
    Ok(Results { curves, panels: heads, epsilons: None })
}

/// A bar on stderr where a person looks.
fn bar(length: usize, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(length as u64), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// From half the smallest to twice the largest, rounded outwards to 1, 2 or 5 times a power of ten.
fn epsilon_range(epsilons: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let smallest = epsilons.clone().fold(f64::INFINITY, f64::min).max(1e-6);
    let largest = epsilons.fold(0.0, f64::max).max(smallest);
    let round = |value: f64, up: bool| {
        let decade = 10f64.powf(value.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let below = steps.iter().rev().find(|step| **step <= value);
        let above = steps.iter().find(|step| **step >= value);
        (if up { above } else { below }).copied().unwrap_or(decade)
    };
    // The accountant reports epsilons up to its limit only.
    (round(0.5 * smallest, false), round(2.0 * largest, true).min(dapple_accounting::limits::MAX_EPSILON))
}

/// `count` values whose ratios are equal.
fn logarithmic((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let count = count.max(2);
    let ratio = (high / low).ln() / (count - 1) as f64;
    (0..count).map(|index| (low * (ratio * index as f64).exp()).min(high)).collect()
}

/// At most `count` of the values, evenly picked, both ends among them.
pub(super) fn thinned<T: Clone>(values: &[T], count: Option<usize>) -> Vec<T> {
    match count {
        Some(count) if count < values.len() && count >= 2 => {
            let last = (values.len() - 1) as f64;
            let place = |index: usize| (index as f64 * last / (count - 1) as f64).round() as usize;
            (0..count).filter_map(|index| values.get(place(index)).cloned()).collect()
        }
        _ => values.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_keep_their_ends() {
        assert_eq!(thinned(&[1, 2, 3, 4, 5], Some(3)), [1, 3, 5]);
        assert_eq!(thinned(&[1, 2, 3], Some(9)), [1, 2, 3]);
        let epsilons = logarithmic((0.01, 100.0), 5);
        // Exponentials of rounded logarithms.
        assert!(epsilons.iter().zip([0.01, 0.1, 1.0, 10.0, 100.0]).all(|(a, b)| (a / b - 1.0).abs() < 1e-12));
        assert_eq!(epsilon_range([0.192, 97.7].into_iter()), (0.05, 200.0));
    }
}
