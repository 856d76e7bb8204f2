//! Compares the reference's gradients with central differences of its own loss.

use dapple_engine::Layout;
use dapple_engine::reference::ReferenceExecutor;

use crate::common::{Data, parameters, specimens};
use crate::graphs::{layer_scales, pooled_tokens};

#[test]
fn gradients_equal_central_differences() {
    let more = [("layer scales", layer_scales()), ("pooled tokens", pooled_tokens())];
    for (name, graph) in specimens().into_iter().chain(more) {
        let data = Data::new(&graph, 1, 2);
        let mut reference = ReferenceExecutor::new(&graph, &parameters(&graph)).unwrap();
        let (_, gradient) = reference.gradient(&data.batch(), 0).unwrap();
        let scale = gradient.iter().fold(0.0f64, |max, g| max.max(g.abs()));
        for entry in Layout::new(&graph).entries() {
            // Every parameter is checked, but no more than a dozen of its values, because the loss is computed twice for each.
            let step = entry.range.len().div_ceil(12);
            for index in (0..entry.range.len()).step_by(step) {
                let h = 1e-6;
                let mut loss_at = |shift: f64| {
                    reference.parameter_mut(entry.id)[index] += shift;
                    let loss = reference.gradient(&data.batch(), 0).unwrap().0;
                    reference.parameter_mut(entry.id)[index] -= shift;
                    loss
                };
                let difference = (loss_at(h) - loss_at(-h)) / (2.0 * h);
                let exact = gradient[entry.range.start + index];
                // Central differences err by h^2 f''' / 6 (about 1e-12), plus the rounding of the loss divided by h (about 1e-10).
                assert!(
                    (difference - exact).abs() <= 1e-6 * scale.max(exact.abs()).max(1e-2),
                    "{name} {}[{index}]: {difference} against {exact}",
                    entry.name
                );
            }
        }
    }
}
