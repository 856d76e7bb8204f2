//! Minimises smooth functions, in the same way everywhere.

use std::collections::VecDeque;

/// How many changes of the slope are remembered.
const REMEMBERED: usize = 8;
/// The most steps.
const MOST_STEPS: usize = 300;
/// The least share of the value that ten steps together must win to go on.
const WORTH: f64 = 1e-9;

/// A step that was taken, the change of the slope on the way, and one over their product.
struct RememberedStep {
    moved: Vec<f64>,
    bent: Vec<f64>,
    curvature: f64,
}

/// A point near `start` at which a function has a small value, by the method of limited memory of Broyden, Fletcher, Goldfarb and Shanno.
/// `slope` tells value and gradient.
pub(super) fn minimise(start: &[f64], slope: impl Fn(&[f64]) -> (f64, Vec<f64>)) -> Vec<f64> {
    let mut place = start.to_vec();
    let (mut value, mut gradient) = slope(&place);
    let mut memory: VecDeque<RememberedStep> = VecDeque::new();
    let mut before = value;
    for step in 1..=MOST_STEPS {
        let direction = direction(&memory, &gradient);
        let falls = dot(&direction, &gradient);
        // The slope is zero, or rounding hides which way is down.
        if falls >= 0.0 || falls.is_nan() {
            break;
        }
        let Some((next, lower, bent)) = lower(&place, value, &direction, falls, &slope) else { break };
        let moved: Vec<f64> = next.iter().zip(&place).map(|(to, from)| to - from).collect();
        let change: Vec<f64> = bent.iter().zip(&gradient).map(|(to, from)| to - from).collect();
        let product = dot(&moved, &change);
        if product > 0.0 {
            memory.truncate(REMEMBERED - 1);
            memory.push_front(RememberedStep { moved, bent: change, curvature: 1.0 / product });
        }
        (place, value, gradient) = (next, lower, bent);
        if step % 10 == 0 {
            if before - value <= WORTH * before {
                break;
            }
            before = value;
        }
    }
    place
}

/// Walks down a direction until the value has fallen by a share of what the slope promises; `None` if it never does.
fn lower(
    place: &[f64],
    value: f64,
    direction: &[f64],
    falls: f64,
    slope: &impl Fn(&[f64]) -> (f64, Vec<f64>),
) -> Option<(Vec<f64>, f64, Vec<f64>)> {
    let mut length = 1.0;
    for _ in 0..60 {
        let next: Vec<f64> = place.iter().zip(direction).map(|(x, d)| x + length * d).collect();
        let (lower, gradient) = slope(&next);
        if lower <= value + 1e-4 * length * falls {
            return Some((next, lower, gradient));
        }
        length /= 2.0;
    }
    None
}

/// Minus the gradient, bent by what the steps before have shown of the curvature.
fn direction(memory: &VecDeque<RememberedStep>, gradient: &[f64]) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(memory.len());
    for taken in memory {
        let share = taken.curvature * dot(&taken.moved, &direction);
        add(&mut direction, -share, &taken.bent);
        shares.push(share);
    }
    let scale = match memory.front() {
        Some(newest) => 1.0 / (newest.curvature * dot(&newest.bent, &newest.bent)),
        // The first step is about as long as the point itself is far from zero.
        None => (1.0 / dot(gradient, gradient).sqrt()).min(1.0),
    };
    direction.iter_mut().for_each(|d| *d *= scale);
    for (taken, share) in memory.iter().zip(shares).rev() {
        let back = taken.curvature * dot(&taken.bent, &direction);
        add(&mut direction, share - back, &taken.moved);
    }
    direction
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], times: f64, other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(a, b)| *a += times * b);
}
