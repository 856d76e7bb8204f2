//! Answers every question of a figure, on all cores.

use dapple_plan::Bracket;
use rayon::prelude::*;

use super::figures::{Line, Panel, Question, Spec};
use super::price::{Price, Run, Sampling};
use crate::error::Result;
use crate::grid::thinned;

/// One line of one panel.
pub(super) struct Curve {
    pub(super) panel: usize,
    pub(super) line: Line,
    pub(super) points: Vec<Point>,
}

/// One answered question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    /// With the noise that was solved for, where that is the question.
    pub(super) run: Run,
    /// What is drawn; the lower end is not a number where only an upper bound is known.
    pub(super) value: Bracket,
}

/// Computes a figure.
pub(super) fn compute(spec: &Spec, points: Option<usize>) -> Result<Vec<Curve>> {
    let lines: Vec<(usize, &Panel, Line)> = spec
        .panels
        .iter()
        .enumerate()
        .flat_map(|(index, panel)| spec.lines.iter().map(move |line| (index, panel, *line)))
        .collect();
    lines
        .par_iter()
        .map(|&(panel, head, line)| {
            let points = answers(head, line, &thinned(&head.values, points))?;
            Ok(Curve { panel, line, points })
        })
        .collect()
}

fn answers(panel: &Panel, line: Line, values: &[f64]) -> Result<Vec<Point>> {
    let sampling = line.sampling(panel.rate);
    if let (Question::DivergenceOverOrder { steps, noise_multiplier }, Price::Published(bound)) =
        (panel.question, line.price)
    {
        // One set of divergences answers all orders; those out of reach are not drawn.
        let run = Run { sampling, steps, noise_multiplier };
        let rdp = run.rdp(bound)?;
        let divergences = values.iter().map(|&x| (x, rdp.divergence(x)));
        let points = divergences.filter(|(_, divergence)| divergence.is_finite());
        return Ok(points
            .map(|(x, upper)| Point { x, run, value: Bracket { lower: f64::NAN, upper } })
            .collect());
    }
    values.par_iter().map(|&x| answer(panel.question, line, sampling, x)).collect()
}

fn answer(question: Question, line: Line, sampling: Sampling, x: f64) -> Result<Point> {
    let run = |steps: u64, noise_multiplier: f64| Run { sampling, steps, noise_multiplier };
    let (run, value) = match question {
        Question::EpsilonOverNoise { steps, delta } => {
            let run = run(steps, x);
            (run, run.epsilon(line.price, delta)?)
        }
        Question::NoiseOverSteps { epsilon, delta } => {
            let noise = Run::noise(sampling, x as u64, line.price, epsilon, delta)?.unwrap_or(f64::INFINITY);
            (run(x as u64, noise), Bracket { lower: f64::NAN, upper: noise })
        }
        Question::DeltaOverSteps { noise_multiplier, epsilon } => {
            let run = run(x as u64, noise_multiplier);
            (run, run.delta(line.price, epsilon)?)
        }
        Question::DivergenceOverOrder { steps, noise_multiplier } => {
            let run = run(steps, noise_multiplier);
            (run, Bracket { lower: f64::NAN, upper: f64::INFINITY })
        }
    };
    Ok(Point { x, run, value })
}
