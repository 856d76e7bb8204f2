//! Graphs with transposed convolutions. Some have few channels, so that their gradients are written down for each sample; others have many
//! channels over few positions, so that they are not.

use dapple_graph::{ConvSpec, Window};
use proptest::prelude::*;

use super::{Case, runs};
use crate::common::transposed_conv;

pub(crate) fn transposed_convolutions() -> impl Strategy<Value = Case> {
    let channels = (1usize..4, 1usize..9, 1usize..9);
    let windows = ((1usize..5, 1usize..4), 1usize..4, 0usize..2, 1usize..3);
    (channels, windows, (2usize..6, 2usize..6), (0usize..3, 0usize..3), any::<bool>(), runs()).prop_map(
        |(
            (groups, channels, out),
            ((tall, wide), stride, padding, dilation),
            (height, width),
            more,
            bias,
            run,
        )| {
            let mut window = Window::square(tall).stride(stride).dilation(dilation);
            window.kernel[1] = wide;
            window.padding = vec![padding.min(tall / 2), padding.min(wide / 2)];
            let mut spec = ConvSpec::new(out * groups, window).groups(groups);
            spec.bias = bias;
            let more = [more.0.min(stride - 1), more.1.min(stride - 1)];
            Case::new(transposed_conv(&[channels * groups, height, width], spec, &more).unwrap(), run)
        },
    )
}

pub(crate) fn wide_transposed_convolutions() -> impl Strategy<Value = Case> {
    let windows = (1usize..4, 1usize..3);
    ((40usize..90, 40usize..90), windows, (1usize..3, 1usize..3), (0usize..2, 0usize..2), runs()).prop_map(
        |((channels, out), (kernel, stride), (height, width), more, run)| {
            let spec = ConvSpec::new(out, Window::square(kernel).stride(stride)).bias();
            let more = [more.0.min(stride - 1), more.1.min(stride - 1)];
            Case::new(transposed_conv(&[channels, height, width], spec, &more).unwrap(), run)
        },
    )
}
