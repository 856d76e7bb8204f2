//! Graphs with norms over any axes of an image, with and without a mean.

use dapple_graph::op::NormAxes;
use proptest::prelude::*;

use super::{Case, image, runs};

pub(crate) fn norms_over_axes() -> impl Strategy<Value = Case> {
    let axes = prop::sample::select(vec![
        NormAxes::Last(1),
        NormAxes::Last(2),
        NormAxes::Last(3),
        NormAxes::Channels,
    ]);
    // After a norm, rows of one or two values are nearly the same whatever they were before.
    (prop::array::uniform3(3usize..9), axes, any::<bool>(), runs()).prop_map(|(shape, over, centred, run)| {
        let graph = image(&shape, |b, x| match centred {
            true => b.layer_norm_over("norm", x, over, 1e-5).unwrap(),
            false => b.rms_norm("norm", x, over, 1e-5).unwrap(),
        });
        Case::new(graph, run)
    })
}
