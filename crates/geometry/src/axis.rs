//! One axis of the spatial pipeline.
//!
//! Every operation here is separable: an output pixel (x, y) reads the product of a set of columns that depends on x and a
//! set of rows that depends on y. So a pipeline is two lists of one-dimensional steps.

use crate::PaddingMode;
use crate::footprint::Range;
use crate::windows::hulls;

/// A one-dimensional step.
#[derive(Debug, Clone)]
pub(crate) enum AxisStep {
    /// Adds `pad` pixels on both ends.
    Pad { pad: u32, mode: PaddingMode },
    /// Mirrors.
    Flip,
    /// Output `x` reads the inclusive input range `ranges[x]`; both ends grow with x.
    Ranges(Vec<Range>),
}

impl AxisStep {
    /// For a step that only copies: the input pixel of every output pixel (`None`: a constant).
    pub(crate) fn picks(&self, length: u32) -> Option<Vec<Option<u32>>> {
        let length = i64::from(length);
        match self {
            Self::Pad { pad, mode } => {
                let pad = i64::from(*pad);
                let pick = |index| mode.source(index, length).map(|(pixel, _)| pixel as u32);
                Some((-pad..length + pad).map(pick).collect())
            }
            Self::Flip => Some((0..length).rev().map(|index| Some(index as u32)).collect()),
            Self::Ranges(_) => None,
        }
    }
}

/// For each pixel of a processed axis, the interval of original pixels that it reads (`None`: it reads nothing).
///
/// Where a step skips pixels the interval is the hull of what is read, never less. On a `cyclic` axis intervals are
/// written on the unrolled line: coordinate `i + k * source` is the original pixel `i`.
#[derive(Debug, Clone)]
pub(crate) struct AxisReads {
    pub(crate) intervals: Vec<Option<(i64, i64)>>,
    pub(crate) source: u32,
    pub(crate) cyclic: bool,
    /// Whether the axis runs against the original's, so that the unrolled line continues downwards.
    mirrored: bool,
    /// Whether every hull taken so far was a union.
    unions: bool,
}

impl AxisReads {
    pub(crate) fn identity(length: u32) -> Self {
        let intervals = (0..i64::from(length)).map(|index| Some((index, index))).collect();
        Self { intervals, source: length, cyclic: false, mirrored: false, unions: true }
    }

    /// The axis after one more step.
    pub(crate) fn then(mut self, step: &AxisStep) -> Self {
        match step {
            AxisStep::Flip => {
                self.intervals.reverse();
                self.mirrored = !self.mirrored;
            }
            AxisStep::Pad { pad, mode } => {
                let (pad, length, source) =
                    (i64::from(*pad), self.intervals.len() as i64, i64::from(self.source));
                let round = if self.mirrored { -source } else { source };
                let padded = (-pad..length + pad).map(|index| {
                    let (pixel, turns) = mode.source(index, length)?;
                    let (first, last) = self.intervals[pixel as usize]?;
                    Some((first + turns * round, last + turns * round))
                });
                self.intervals = padded.collect();
                self.cyclic |= *mode == PaddingMode::Wrap && pad > 0;
            }
            AxisStep::Ranges(ranges) => {
                self.unions = self.is_exact();
                let ranges = ranges.iter().map(|&(first, last)| (first as usize, last as usize));
                self.intervals = hulls(&self.intervals, ranges);
            }
        }
        self
    }

    /// Whether the hull over any range of pixels is exactly what they read: neighbours overlap or touch, so that no gap is
    /// filled. Behind a down-scale that skips pixels it is not.
    pub(crate) fn is_exact(&self) -> bool {
        let mut intervals = self.intervals.iter().flatten();
        let Some(mut previous) = intervals.next() else { return self.unions };
        self.unions
            && intervals.all(|next| {
                let touching = next.0 <= previous.1 + 1 && previous.0 <= next.1 + 1;
                previous = next;
                touching
            })
    }
}
