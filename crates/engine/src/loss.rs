//! Losses and their gradients, for any number type and memory layout.

use dapple_graph::{IGNORED, Loss};

use crate::batch::ViewTarget;

/// A type of numbers in which an executor computes.
pub(crate) trait Real: Copy {
    fn get(self) -> f64;
    fn of(value: f64) -> Self;
    /// `exp(self - other)`, to the precision of the type.
    fn exp_minus(self, other: Self) -> Self;
}

impl Real for f32 {
    fn get(self) -> f64 {
        f64::from(self)
    }
    fn of(value: f64) -> Self {
        value as f32
    }
    fn exp_minus(self, other: Self) -> Self {
        (self - other).exp()
    }
}

impl Real for f64 {
    fn get(self) -> f64 {
        self
    }
    fn of(value: f64) -> Self {
        value
    }
    fn exp_minus(self, other: Self) -> Self {
        (self - other).exp()
    }
}

/// Where in an output the value of a class at a position lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LossStrides {
    pub(crate) classes: usize,
    pub(crate) positions: usize,
    pub(crate) class_stride: usize,
    pub(crate) position_stride: usize,
}

/// Returns the loss of one view, and writes its gradient times `scale`. Targets are in row-major order whatever the strides are.
pub(crate) fn evaluate<T: Real>(
    loss: Loss,
    strides: LossStrides,
    output: &[T],
    target: ViewTarget<'_>,
    scale: f64,
    gradient: &mut [T],
) -> f64 {
    let LossStrides { classes, positions, class_stride, position_stride } = strides;
    match (loss, target) {
        (Loss::CrossEntropy { label_smoothing }, ViewTarget::Classes(labels)) => {
            let counted = labels.iter().filter(|&&label| label != IGNORED).count().max(1) as f64;
            let smoothing = f64::from(label_smoothing);
            let share = smoothing / classes as f64;
            let each = |position: usize| {
                let label = labels[position];
                (label != IGNORED).then_some(move |class: usize| {
                    share + if class == label as usize { 1.0 - smoothing } else { 0.0 }
                })
            };
            cross_entropy(strides, output, each, scale / counted, gradient) / counted
        }
        (Loss::CrossEntropy { label_smoothing }, ViewTarget::Probabilities(mass)) => {
            let smoothing = f64::from(label_smoothing);
            let share = smoothing / classes as f64;
            let each = |position: usize| {
                Some(move |class: usize| {
                    share + (1.0 - smoothing) * f64::from(mass[class * positions + position])
                })
            };
            cross_entropy(strides, output, each, scale / positions as f64, gradient) / positions as f64
        }
        (_, ViewTarget::Values(values)) => {
            let count = (classes * positions) as f64;
            let mut sum = 0.0;
            for class in 0..classes {
                for position in 0..positions {
                    let index = class * class_stride + position * position_stride;
                    let difference = output[index].get() - f64::from(values[class * positions + position]);
                    sum += difference * difference;
                    gradient[index] = T::of(2.0 * difference * scale / count);
                }
            }
            sum / count
        }
        // Batch::sizes refuses this pair.
        (Loss::SquaredError, ViewTarget::Classes(_) | ViewTarget::Probabilities(_)) => f64::NAN,
    }
}

/// The sum over positions of the cross-entropy with `target(position)(class)`. A position without a target adds nothing.
fn cross_entropy<T: Real, Mass: Fn(usize) -> f64>(
    strides: LossStrides,
    output: &[T],
    target: impl Fn(usize) -> Option<Mass>,
    scale: f64,
    gradient: &mut [T],
) -> f64 {
    let mut sum = 0.0;
    for position in 0..strides.positions {
        let index = |class: usize| class * strides.class_stride + position * strides.position_stride;
        let Some(mass) = target(position) else {
            for class in 0..strides.classes {
                gradient[index(class)] = T::of(0.0);
            }
            continue;
        };
        let classes = 0..strides.classes;
        let larger = |a: T, b: T| if b.get() > a.get() { b } else { a };
        let max = classes.clone().map(|class| output[index(class)]).reduce(larger).unwrap_or(T::of(0.0));
        let (mut total, mut all) = (0.0, 0.0);
        for class in classes.clone() {
            let share = output[index(class)].exp_minus(max);
            gradient[index(class)] = share;
            total += share.get();
            all += mass(class);
        }
        let log_total = max.get() + total.ln();
        let factor = scale * all / total;
        for class in classes {
            let wanted = mass(class);
            if wanted > 0.0 {
                sum += wanted * (log_total - output[index(class)].get());
            }
            let share = gradient[index(class)].get();
            gradient[index(class)] = T::of(factor * share - scale * wanted);
        }
    }
    sum
}
