//! Answers every question of a figure, on all cores.

use dapple_plan::Bracket;
use rayon::prelude::*;

use super::figures::{PanelQuestion, PartitionFigure, PartitionLine, PartitionPanel};
use super::price::{PartitionPricing, PartitionRun, RecordSampling};
use crate::error::Result;
use crate::grid::thinned;

/// A computed figure.
pub(super) struct PartitionResults {
    pub(super) panels: Vec<PartitionPanel>,
    pub(super) lines: Vec<PartitionLine>,
    pub(super) curves: Vec<PartitionCurve>,
}

/// One line of one panel.
pub(super) struct PartitionCurve {
    pub(super) panel: usize,
    pub(super) line: PartitionLine,
    pub(super) points: Vec<PartitionPoint>,
}

/// One answered question.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionPoint {
    pub(super) x: f64,
    /// With the noise that was solved for, where that is the question.
    pub(super) run: PartitionRun,
    /// What is drawn; without a lower end where only an upper bound is known.
    pub(super) value: Bracket,
}

/// Computes a figure.
pub(super) fn compute(figure: &PartitionFigure, points: Option<usize>) -> Result<PartitionResults> {
    let lines: Vec<(usize, &PartitionPanel, PartitionLine)> = figure
        .panels
        .iter()
        .enumerate()
        .flat_map(|(index, panel)| figure.lines.iter().map(move |line| (index, panel, *line)))
        .collect();
    let curves = lines
        .par_iter()
        .map(|&(panel, head, line)| {
            let points = answers(head, line, &thinned(&head.values, points))?;
            Ok(PartitionCurve { panel, line, points })
        })
        .collect::<Result<_>>()?;
    Ok(PartitionResults { panels: figure.panels.clone(), lines: figure.lines.clone(), curves })
}

fn answers(panel: &PartitionPanel, line: PartitionLine, values: &[f64]) -> Result<Vec<PartitionPoint>> {
    let sampling = line.sampling(panel.rate);
    if let (
        PanelQuestion::DivergenceOverOrder { steps, noise_multiplier },
        PartitionPricing::Published(bound),
    ) = (panel.question, line.price)
    {
        // One set of divergences answers all orders; those out of reach are not drawn.
        let run = PartitionRun { sampling, steps, noise_multiplier };
        let rdp = run.rdp(bound)?;
        let divergences = values.iter().map(|&x| (x, rdp.divergence(x)));
        let points = divergences.filter(|(_, divergence)| divergence.is_finite());
        return Ok(points
            .map(|(x, upper)| PartitionPoint { x, run, value: Bracket::above(upper) })
            .collect());
    }
    values.par_iter().map(|&x| answer(panel.question, line, sampling, x)).collect()
}

fn answer(
    question: PanelQuestion,
    line: PartitionLine,
    sampling: RecordSampling,
    x: f64,
) -> Result<PartitionPoint> {
    let run = |steps: u64, noise_multiplier: f64| PartitionRun { sampling, steps, noise_multiplier };
    let (run, value) = match question {
        PanelQuestion::EpsilonOverNoise { steps, delta } => {
            let run = run(steps, x);
            (run, run.epsilon(line.price, delta)?)
        }
        PanelQuestion::NoiseOverSteps { epsilon, delta } => {
            let noise =
                PartitionRun::noise(sampling, x as u64, line.price, epsilon, delta)?.unwrap_or(f64::INFINITY);
            (run(x as u64, noise), Bracket::above(noise))
        }
        PanelQuestion::DeltaOverSteps { noise_multiplier, epsilon } => {
            let run = run(x as u64, noise_multiplier);
            (run, run.delta(line.price, epsilon)?)
        }
        PanelQuestion::DivergenceOverOrder { steps, noise_multiplier } => {
            let run = run(steps, noise_multiplier);
            (run, Bracket::above(f64::INFINITY))
        }
    };
    Ok(PartitionPoint { x, run, value })
}
