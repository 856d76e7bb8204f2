//! Sums of more samples than whole numbers of 32 bits hold.

use super::declare::{Count, In, Long, Out, kernels};
use crate::cuda::launch::LaunchGrid;

kernels! {
    /// Carries whole numbers over, and shifts the result up by `digits` binary digits.
    Carry = "carry" { sum: Out<i32>[n], carried: Out<i64>[n], digits: Count[digits < 64], n: Long }
        over LaunchGrid::each(n);

    /// Takes the part along the standardised filters off a sum of whole numbers.
    ProjectFilters = "project_filters" { d: Out<i64>[filters * n], used: In<f32>[filters * n], n: Count }
        given { filters: usize } over LaunchGrid::blocks(filters, 128);

    /// Converts whole numbers to what they stand for, in single precision.
    ToSingle = "to_single" { sum: Out<f32>[n], carried: In<i64>[n], unit: f64, n: Long } over LaunchGrid::each(n);
}
