//! Sliding windows as settings of an operator.

use dapple_graph::Window;

use crate::file::Attribute;

/// The settings that say how a window slides. Its zeros lie on both sides alike.
pub(crate) fn sliding(window: &Window) -> Vec<(&'static str, Attribute)> {
    vec![
        ("kernel_shape", Attribute::sizes(&window.kernel)),
        ("strides", Attribute::sizes(&window.stride)),
        ("pads", Attribute::sizes(&window.padding.repeat(2))),
    ]
}

/// The same, with the distance between the taps of a window.
pub(crate) fn dilated(window: &Window) -> Vec<(&'static str, Attribute)> {
    let mut settings = sliding(window);
    settings.push(("dilations", Attribute::sizes(&window.dilation)));
    settings
}
