//! Answers every question of a figure, on all cores.

use dapple_accounting::limits::MAX_EPSILON;
use dapple_plan::{Bracket, BracketPrecision, Scheme};
use rayon::prelude::*;

use super::catalogue::{Body, PatchFigure, ProfilePanel, Sweep, SweptSize};
use super::setting::{DELTA, Mechanism, PatchSetting, PricedMechanism, Reading, RunSampling};
use crate::error::Result;
use crate::grid::{logarithmic, thinned};
use crate::{ReproductionOptions, Watch};

/// Profiles end where delta falls below this: smaller deltas are not drawn, and cost more than all others together.
pub(super) const LEAST_DELTA: f64 = 1e-12;
/// The epsilons of a profile where nobody asks for fewer.
const PROFILE_POINTS: usize = 200;

/// A computed figure.
#[derive(Debug)]
pub(super) struct PatchResults {
    pub(super) curves: Vec<PatchCurve>,
    pub(super) panels: Vec<PanelHead>,
    /// The epsilons that profiles cover; `None` for sweeps.
    pub(super) epsilons: Option<(f64, f64)>,
    /// What sigma stands for.
    pub(super) reading: Reading,
    /// How many records were asked for in place of the paper's.
    pub(super) records: Option<u64>,
}

/// A panel of the paper's figure.
#[derive(Debug, Clone)]
pub(super) struct PanelHead {
    pub(super) title: String,
    pub(super) base: PatchSetting,
    /// What varies along the x axis; `None` where it is epsilon.
    pub(super) over: Option<SweptSize>,
}

/// One line of a figure.
#[derive(Debug)]
pub(super) struct PatchCurve {
    /// Index into the panels.
    pub(super) panel: usize,
    pub(super) mechanism: Mechanism,
    pub(super) sigma: f64,
    /// Epsilon at the delta of the figures, for profiles.
    pub(super) summary: Option<Bracket>,
    pub(super) points: Vec<PatchPoint>,
}

/// One answered question.
#[derive(Debug, Clone)]
pub(super) struct PatchPoint {
    pub(super) x: f64,
    pub(super) setting: PatchSetting,
    pub(super) run: Option<RunSampling>,
    pub(super) epsilon: Bracket,
    pub(super) delta: Bracket,
}

impl PatchCurve {
    /// The value a figure shows at a point: the upper end of what was asked for.
    pub(super) fn shown(&self, point: &PatchPoint) -> f64 {
        if self.summary.is_some() { point.delta.upper } else { point.epsilon.upper }
    }
}

impl PatchResults {
    /// The line of a panel at a sigma.
    pub(super) fn curve(&self, panel: usize, sigma: f64, mechanism: Mechanism) -> Option<&PatchCurve> {
        self.curves
            .iter()
            .find(|curve| curve.panel == panel && curve.sigma == sigma && curve.mechanism == mechanism)
    }

    /// The paper's own line of a panel.
    pub(super) fn paper(&self, panel: usize) -> Option<&PatchCurve> {
        let own = Mechanism::Patch(Scheme::WithoutReplacement);
        self.curves.iter().find(|curve| curve.panel == panel && curve.mechanism == own)
    }
}

/// Computes a figure.
pub(super) fn compute(
    figure: &PatchFigure,
    options: &ReproductionOptions,
    watch: &dyn Watch,
) -> Result<PatchResults> {
    match &figure.body {
        Body::Profiles(panels) => profiles(panels, options, watch),
        Body::Sweeps(panels) => sweeps(panels, options, watch),
    }
}

fn adjusted(setting: PatchSetting, options: &ReproductionOptions) -> PatchSetting {
    PatchSetting { records: options.records.unwrap_or(setting.records), ..setting }
}

fn profiles(
    panels: &[ProfilePanel],
    options: &ReproductionOptions,
    watch: &dyn Watch,
) -> Result<PatchResults> {
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
    watch.begin(2 * lines.len());
    // Epsilon at the delta of the sweeps first: it says which epsilons are worth drawing.
    let priced: Vec<(PricedMechanism, Bracket, f64)> = lines
        .par_iter()
        .map(|(panel, mechanism)| {
            let priced = mechanism.price(&heads[*panel].base, options.sigma_is)?;
            let epsilon = priced.pld.epsilon(DELTA, BracketPrecision::default())?;
            let end = priced.pld.epsilon_upper(LEAST_DELTA, BracketPrecision::default())?;
            watch.answered();
            Ok((priced, epsilon, end))
        })
        .collect::<Result<_>>()?;
    let range = epsilon_range(priced.iter().map(|(_, epsilon, _)| epsilon.upper));
    let epsilons = logarithmic(range, options.points().unwrap_or(PROFILE_POINTS));
    let curves = lines
        .par_iter()
        .zip(&priced)
        .map(|(&(panel, mechanism), (priced, summary, end))| {
            let setting = heads[panel].base;
            // One more than the last of interest, so that a line leaves the picture.
            let wanted = epsilons.partition_point(|epsilon| epsilon <= end) + 1;
            let epsilons = &epsilons[..wanted.min(epsilons.len())];
            let deltas = priced.pld.profile(epsilons, BracketPrecision::default())?;
            watch.answered();
            let points = epsilons.iter().zip(deltas).map(|(&x, delta)| PatchPoint {
                x,
                setting,
                run: priced.run,
                epsilon: Bracket::exact(x),
                delta,
            });
            let points = points.collect();
            Ok(PatchCurve { panel, mechanism, sigma: setting.sigma, summary: Some(*summary), points })
        })
        .collect::<Result<_>>()?;
    watch.end();
    let ReproductionOptions { sigma_is: reading, records, .. } = *options;
    Ok(PatchResults { curves, panels: heads, epsilons: Some(range), reading, records })
}

fn sweeps(sweeps: &[Sweep], options: &ReproductionOptions, watch: &dyn Watch) -> Result<PatchResults> {
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
    let values: Vec<Vec<u32>> = sweeps.iter().map(|sweep| thinned(&sweep.values, options.points())).collect();
    let questions = lines.iter().map(|&(panel, _, mechanism)| match mechanism {
        Mechanism::Patch(_) => values[panel].len(),
        Mechanism::Minibatch(_) | Mechanism::DataLevel => 1,
    });
    watch.begin(questions.sum());
    let answer = |mechanism: Mechanism, setting: PatchSetting| -> Result<(Option<RunSampling>, Bracket)> {
        let priced = mechanism.price(&setting, options.sigma_is)?;
        let epsilon = priced.pld.epsilon(DELTA, BracketPrecision::default())?;
        watch.answered();
        Ok((priced.run, epsilon))
    };
    let curves = lines
        .par_iter()
        .map(|&(panel, sigma, mechanism)| {
            let base = PatchSetting { sigma, ..heads[panel].base };
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
                    Ok(PatchPoint {
                        x: f64::from(value),
                        setting,
                        run,
                        epsilon,
                        delta: Bracket::exact(DELTA),
                    })
                })
                .collect::<Result<_>>()?;
            Ok(PatchCurve { panel, mechanism, sigma, summary: None, points })
        })
        .collect::<Result<_>>()?;
    watch.end();
    let ReproductionOptions { sigma_is: reading, records, .. } = *options;
    Ok(PatchResults { curves, panels: heads, epsilons: None, reading, records })
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
    (round(0.5 * smallest, false), round(2.0 * largest, true).min(MAX_EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_rounded_outwards() {
        assert_eq!(epsilon_range([0.192, 97.7].into_iter()), (0.05, 200.0));
    }
}
