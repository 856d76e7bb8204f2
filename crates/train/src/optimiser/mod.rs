//! What happens to the noisy gradient. Everything here is post-processing: it costs no privacy.

mod ema;
mod rule;

use std::ops::Range;

use dapple_engine::Layout;
use dapple_graph::Parameters;
use dapple_plan::spec::OptimiserSpec;

use crate::error::TrainError;
use crate::parallel::{self, PIECE};

pub use ema::Ema;
pub use rule::Rule;
pub(crate) use rule::Step;

/// An optimiser with its state: one number, or two, for every trainable value.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimiser {
    rule: Rule,
    weight_decay: f64,
    /// Where each trainable parameter lies among all values, in the order of the gradient.
    places: Vec<Range<usize>>,
    state: State,
}

/// What an optimiser remembers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Updates so far.
    pub updates: u64,
    /// Running mean of gradients.
    pub first: Vec<f32>,
    /// Running mean of their squares; empty for SGD.
    pub second: Vec<f32>,
}

impl Optimiser {
    /// The optimiser of a plan for the trainable values of a model.
    ///
    /// # Errors
    /// Settings outside their range.
    pub fn new(spec: &OptimiserSpec, layout: &Layout, parameters: &Parameters) -> Result<Self, TrainError> {
        let (rule, weight_decay) = Rule::new(spec)?;
        let places = layout.entries().iter().map(|entry| parameters.range(entry.id)).collect();
        let (first, second) = rule.state_len(layout.len());
        let state = State { updates: 0, first: vec![0.0; first], second: vec![0.0; second] };
        Ok(Self { rule, weight_decay, places, state })
    }

    /// What it remembers.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Goes on from what was remembered; false if it does not fit.
    pub fn restore(&mut self, state: State) -> bool {
        let fits =
            state.first.len() == self.state.first.len() && state.second.len() == self.state.second.len();
        if fits {
            self.state = state;
        }
        fits
    }

    /// Counts an update, and gives its numbers: what weight decay leaves of a value, and the rule.
    pub(crate) fn advance(&mut self, rate: f64) -> (f32, Step) {
        self.state.updates += 1;
        ((1.0 - rate * self.weight_decay) as f32, self.rule.step(rate, self.state.updates))
    }

    /// Moves the parameters against the gradient. Weight decay is decoupled, `w (1 - rate decay)` before the update: it never enters
    /// a clipped gradient, where it would be clipped and noised with it.
    pub fn update(&mut self, parameters: &mut Parameters, gradient: &[f32], rate: f64) {
        let (keep, step) = self.advance(rate);
        let (mut values, mut position) = (parameters.values_mut(), 0);
        let (mut gradient, mut first, mut second) =
            (gradient, &mut self.state.first[..], &mut self.state.second[..]);
        let mut pieces = Vec::new();
        for place in &self.places {
            take(&mut values, place.start - position);
            let mut own = take(&mut values, place.len());
            position = place.end;
            while !own.is_empty() {
                let values = take(&mut own, PIECE);
                let (part, rest) = gradient.split_at(values.len().min(gradient.len()));
                gradient = rest;
                let len = values.len();
                pieces.push(Piece {
                    values,
                    gradient: part,
                    first: take(&mut first, len),
                    second: take(&mut second, len),
                });
            }
        }
        parallel::for_each(position, pieces, |piece| step.update(keep, piece));
    }
}

/// Values that a thread changes, with their gradient and state; a state that the rule does not have is empty.
struct Piece<'a> {
    values: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

/// The next `len` values, or as many as there are.
fn take<'a>(rest: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let whole = std::mem::take(rest);
    let (own, left) = whole.split_at_mut(len.min(whole.len()));
    *rest = left;
    own
}
