//! What happens to the noisy gradient. Everything here is post-processing: it costs no privacy.

mod ema;

use std::ops::Range;

use dapple_engine::{Layout, UpdateNumbers, UpdateRule};
use dapple_graph::Parameters;

use crate::parallel::{self, PIECE};

pub use ema::Ema;

/// How a noisy gradient moves the parameters. The numbers have been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimiserSettings {
    /// The rule by which the gradient moves them.
    pub rule: UpdateRule,
    /// The share of each value, times the learning rate, that is taken off it before every update.
    pub weight_decay: f64,
    /// The decay of the running mean of the parameters, in [0, 1); `None` if no mean is kept.
    pub mean_decay: Option<f64>,
    /// The share of the learning rate by which each trainable parameter moves, in the order of the gradient. It is empty if all parameters
    /// move by the whole rate.
    pub rate_shares: Vec<f64>,
}

/// An optimiser with its state, which is up to two numbers for every trainable value.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimiser {
    rule: UpdateRule,
    weight_decay: f64,
    /// Where each trainable parameter lies among all values, in the order of the gradient.
    places: Vec<Range<usize>>,
    /// The group of each trainable parameter, which is the place of its share in `shares`.
    groups: Vec<usize>,
    /// The different shares of the learning rate.
    shares: Vec<f64>,
    state: OptimiserState,
}

/// What an optimiser remembers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OptimiserState {
    /// The number of updates so far.
    pub updates: u64,
    /// The momentum of SGD or the running mean of Adam's gradients; empty for SGD without momentum.
    pub first: Vec<f32>,
    /// The running mean of the gradients' squares; empty for SGD.
    pub second: Vec<f32>,
    /// The noise's part of that mean, which is the same for every value; zero for rules that take nothing off.
    pub noise: f64,
}

impl Optimiser {
    /// Makes an optimiser for the trainable values of a model.
    #[must_use]
    pub fn new(settings: &OptimiserSettings, layout: &Layout, parameters: &Parameters) -> Self {
        let OptimiserSettings { rule, weight_decay, ref rate_shares, .. } = *settings;
        let places: Vec<Range<usize>> =
            layout.entries().iter().map(|entry| parameters.range(entry.id)).collect();
        let (groups, shares) = grouped(rate_shares, places.len());
        let (first, second) = rule.state_len(layout.len());
        let state = OptimiserState {
            first: vec![0.0; first],
            second: vec![0.0; second],
            ..OptimiserState::default()
        };
        Self { rule, weight_decay, places, groups, shares, state }
    }

    /// What the optimiser remembers.
    #[must_use]
    pub fn state(&self) -> &OptimiserState {
        &self.state
    }

    /// Goes on from a state that was kept. If its size does not fit, nothing changes and the answer is false.
    pub fn restore(&mut self, state: OptimiserState) -> bool {
        let fits =
            state.first.len() == self.state.first.len() && state.second.len() == self.state.second.len();
        if fits {
            self.state = state;
        }
        fits
    }

    /// The rule by which the optimiser moves values.
    #[must_use]
    pub fn rule(&self) -> UpdateRule {
        self.rule
    }

    /// The group of each trainable parameter. The parameters of a group move by the same numbers.
    #[cfg(feature = "cuda")]
    pub(crate) fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// Counts one update and returns the numbers of each group, which divide the gradient by `batch`. Once it is divided, the gradient has
    /// noise of this variance in each coordinate.
    pub(crate) fn advance(&mut self, rate: f64, batch: u64, variance: f64) -> Vec<UpdateNumbers> {
        let Self { rule, weight_decay, shares, state, .. } = self;
        state.updates += 1;
        state.noise = rule.noise_part(state.noise, variance);
        let numbers =
            |share: &f64| rule.numbers(rate * share, *weight_decay, batch, state.updates, state.noise);
        shares.iter().map(numbers).collect()
    }

    /// Moves the parameters against a gradient that has already been divided by the expected batch, and has noise of this variance in each
    /// coordinate.
    pub fn update(&mut self, parameters: &mut Parameters, gradient: &[f32], rate: f64, variance: f64) {
        let (rule, numbers) = (self.rule, self.advance(rate, 1, variance));
        let (mut values, mut position) = (parameters.values_mut(), 0);
        let (mut gradient, mut first, mut second) =
            (gradient, &mut self.state.first[..], &mut self.state.second[..]);
        let mut pieces = Vec::new();
        for (place, &group) in self.places.iter().zip(&self.groups) {
            take(&mut values, place.start - position);
            let mut own = take(&mut values, place.len());
            position = place.end;
            while !own.is_empty() {
                let values = take(&mut own, PIECE);
                let (part, rest) = gradient.split_at(values.len().min(gradient.len()));
                gradient = rest;
                let len = values.len();
                pieces.push(Piece {
                    numbers: &numbers[group],
                    values,
                    gradient: part,
                    first: take(&mut first, len),
                    second: take(&mut second, len),
                });
            }
        }
        parallel::for_each(position, pieces, |piece| {
            let Piece { numbers, values, gradient, first, second } = piece;
            rule.update(numbers, values, gradient, first, second);
        });
    }
}

/// Gives parameters that have the same share the same group. Returns the group of each parameter, and the share of each group.
fn grouped(shares: &[f64], parameters: usize) -> (Vec<usize>, Vec<f64>) {
    if shares.is_empty() {
        return (vec![0; parameters], vec![1.0]);
    }
    let mut known: Vec<f64> = Vec::new();
    let mut group = |share: f64| {
        known.iter().position(|known| *known == share).unwrap_or_else(|| {
            known.push(share);
            known.len() - 1
        })
    };
    let groups = shares.iter().map(|&share| group(share)).collect();
    (groups, known)
}

/// Values that a thread changes, with their gradient and state. A state that the rule does not keep is empty.
struct Piece<'a> {
    numbers: &'a UpdateNumbers,
    values: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

/// Takes the next `len` values off `rest`, or all of them if there are fewer.
fn take<'a>(rest: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let whole = std::mem::take(rest);
    let (own, left) = whole.split_at_mut(len.min(whole.len()));
    *rest = left;
    own
}
