//! Scores of windows, averaged where the windows overlap.

use dapple_geometry::Size;

use super::EvaluationWindow;

/// Scores of windows, added up where they lie.
pub(super) struct Sum {
    size: Size,
    // [classes, height, width]
    values: Vec<f32>,
    // [height, width]
    seen: Vec<u32>,
}

impl Sum {
    pub(super) fn new(classes: usize, size: Size) -> Self {
        let positions = size.pixels() as usize;
        Self { size, values: vec![0.0; classes * positions], seen: vec![0; positions] }
    }

    pub(super) fn add(&mut self, window: &EvaluationWindow, output: &[f32]) {
        let (wide, high) = (self.size.width() as usize, self.size.height() as usize);
        let [x, y] = window.origin.map(|origin| origin as usize);
        let (columns, rows) = (window.size.width() as usize, window.size.height() as usize);
        // Where a window reaches beyond a small image, its scores are dropped.
        let (width, height) = (columns.min(wide.saturating_sub(x)), rows.min(high.saturating_sub(y)));
        for row in 0..height {
            let at = (y + row) * wide + x;
            self.seen[at..at + width].iter_mut().for_each(|seen| *seen += 1);
            let planes = self.values.chunks_exact_mut(wide * high).zip(output.chunks_exact(columns * rows));
            for (plane, answer) in planes {
                let target = plane[at..at + width].iter_mut();
                target.zip(&answer[row * columns..]).for_each(|(sum, &score)| *sum += score);
            }
        }
    }

    pub(super) fn mean(mut self) -> Vec<f32> {
        if self.seen.iter().any(|&seen| seen > 1) {
            for plane in self.values.chunks_exact_mut(self.seen.len()) {
                plane.iter_mut().zip(&self.seen).for_each(|(sum, &seen)| *sum /= seen.max(1) as f32);
            }
        }
        self.values
    }
}
