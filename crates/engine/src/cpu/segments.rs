//! Decides where a schedule with checkpoints is cut. Values that cross a cut are kept, and the others are computed a second time.

use std::ops::Range;

use super::step::CpuSteps;

/// The segments into which steps are cut, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) ranges: Vec<Range<usize>>,
    /// For every step, whether its value is kept because a later segment or a loss reads it.
    pub(crate) kept: Vec<bool>,
}

impl Segments {
    /// All steps as one segment.
    pub(crate) fn whole(steps: &CpuSteps) -> Self {
        let count = steps.steps.len();
        Self { ranges: std::iter::once(0..count).collect(), kept: vec![false; count] }
    }

    /// The cuts with which the least memory is held at once, counting what is kept and all of the largest segment.
    pub(crate) fn choose(steps: &CpuSteps) -> Self {
        let lengths: Vec<usize> = steps.steps.iter().map(|step| step.form.len()).collect();
        let total: usize = lengths.iter().sum();
        let mut last_reader: Vec<usize> = (0..lengths.len()).collect();
        for (index, step) in steps.steps.iter().enumerate() {
            step.inputs.iter().for_each(|&input| last_reader[input] = index);
        }
        steps.outputs().for_each(|output| last_reader[output] = lengths.len());
        let candidates = (2..=16).map(|parts| Self::cut(&lengths, &last_reader, total / parts));
        let held = |segments: &Self| {
            let kept: usize = (0..lengths.len()).filter(|&s| segments.kept[s]).map(|s| lengths[s]).sum();
            let largest = segments.ranges.iter().map(|range| lengths[range.clone()].iter().sum::<usize>());
            kept + largest.max().unwrap_or(0)
        };
        candidates.min_by_key(held).unwrap_or_else(|| Self::whole(steps))
    }

    /// Cuts segments of about `size` numbers. Each cut is where the fewest numbers cross it that are not kept already.
    fn cut(lengths: &[usize], last_reader: &[usize], size: usize) -> Self {
        let count = lengths.len();
        let mut segments = Self { ranges: Vec::new(), kept: vec![false; count] };
        let mut start = 0;
        loop {
            let mut held = 0;
            let mut best: Option<(usize, usize)> = None;
            for step in start..count {
                held += lengths[step];
                if 2 * held < size {
                    continue;
                }
                if 2 * held > 3 * size && best.is_some() {
                    break;
                }
                let crossing = segments.crossing(last_reader, step).map(|earlier| lengths[earlier]).sum();
                if best.is_none_or(|(least, _)| crossing < least) {
                    best = Some((crossing, step));
                }
            }
            // What is left becomes the last segment if cutting once more would not pay.
            let rest: usize = lengths[start..].iter().sum();
            match best {
                Some((_, step)) if 2 * rest > 3 * size && step + 1 < count => {
                    let crossing: Vec<usize> = segments.crossing(last_reader, step).collect();
                    crossing.into_iter().for_each(|earlier| segments.kept[earlier] = true);
                    segments.ranges.push(start..step + 1);
                    start = step + 1;
                }
                _ => {
                    segments.ranges.push(start..count);
                    return segments;
                }
            }
        }
    }

    /// The values up to a step that are read after it and are not kept yet.
    fn crossing(&self, last_reader: &[usize], step: usize) -> impl Iterator<Item = usize> {
        (0..=step).filter(move |&earlier| last_reader[earlier] > step && !self.kept[earlier])
    }
}

#[cfg(test)]
mod tests {
    use dapple_graph::zoo::{Backbone, Norm, OutputStride, ResNet, deeplab_v3_plus, psp_net};

    use super::super::step::lower;
    use super::*;

    #[test]
    fn what_crosses_a_cut_is_kept() {
        let shape = [3, 65, 65];
        let backbone = Backbone::ResNet(ResNet::R18);
        let deeplab = deeplab_v3_plus(backbone, OutputStride::Sixteen, &shape, 5, Norm::Group(32)).unwrap();
        for graph in [deeplab, psp_net(ResNet::R18, &shape, 5, Norm::Frozen).unwrap()] {
            let steps = lower(&graph, true);
            let segments = Segments::choose(&steps);
            assert!(segments.ranges.len() > 2);
            assert_eq!(
                segments.ranges.iter().flat_map(Clone::clone).collect::<Vec<_>>(),
                (0..steps.steps.len()).collect::<Vec<_>>()
            );
            let segment = |step: usize| segments.ranges.iter().position(|range| range.contains(&step));
            for (index, step) in steps.steps.iter().enumerate() {
                for &input in &step.inputs {
                    assert!(segment(input) == segment(index) || segments.kept[input], "{}", step.name);
                }
            }
            // A loss reads its value after all segments, for which nothing of the last segment has to be kept.
            let last = segments.ranges.len() - 1;
            assert!(steps.outputs().all(|output| segments.kept[output] || segment(output) == Some(last)));
            let kept = segments.kept.iter().filter(|&&kept| kept).count();
            assert!(kept < steps.steps.len() / 4, "{kept}");
        }
    }
}
