//! Sums of successive steps, which are released together.

use super::declare::{Count, In, Long, Maybe, Out, kernels};
use crate::cuda::launch::LaunchGrid;

kernels! {
    /// Adds the whole numbers of this step and of those before it, times their coefficients, and keeps those of this step.
    AddSteps = "add_steps" {
        together: Out<i64>[n],
        sums: Out<i64>[rows * n],
        carried: Maybe<In<i64>>[n],
        coefficients: In<i32>[before + 1],
        before: Count[before < rows],
        row: Count[row < rows],
        rows: Count,
        n: Long,
        failed: Out<i32>[1],
    } over LaunchGrid::each(n);

    /// Takes what was learned before off what was released, and keeps the rest.
    TakeOffLearned = "take_off_learned" {
        released: Out<f32>[n],
        gradients: Out<f32>[rows * n],
        coefficients: In<i32>[before + 1],
        unit: f64,
        before: Count[before <= rows],
        row: Count[row < rows],
        rows: Count,
        n: Long,
    } over LaunchGrid::each(n);
}
