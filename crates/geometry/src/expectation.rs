//! Random resized crops: the inclusion probability as an expectation over the drawn size.
//!
//! Inclusion grows with the crop at every fixed place: a uniform origin of the smaller crop can be coupled with one of the
//! larger so that the smaller lies inside. So a group of sizes is bracketed by its smallest and its largest.

use crate::axis::AxisReads;
use crate::closed_form::{axis_hits, worst_position};
use crate::empty_windows::EmptyWindows;
use crate::inclusion::{Inclusion, placed};
use crate::region::RegionShape;
use crate::rounding::{ratio_down, ratio_up};
use crate::size_law::{MAX_GROUPS, Probability, SizeGroup, SizeLaw, tries};
use crate::windows::{interval_hits, windows};
use crate::{GeometryError, Mask, Pipeline, ResizedCrop, Size};

/// Nested sums of at most 4096 + 4096 non-negative terms, each rounded a few times, are off by less than this, relatively.
const SUMMATION: f64 = 1e-11;

/// Expectation of `inclusion` over the law of the size, where `centre` bounds the inclusion of the centre crop.
fn expectation(
    law: &SizeLaw,
    inclusion: impl Fn(usize, usize) -> Probability,
    centre: Probability,
) -> Probability {
    let mut accepted = Probability::default();
    let mut seen = Probability::default();
    for (i, &width) in law.widths.iter().enumerate() {
        let mut accepted_row = Probability::default();
        let mut seen_row = Probability::default();
        for (j, &height) in law.heights.iter().enumerate() {
            let drawn = law.of_one_try(width, height);
            if drawn.upper > 0.0 {
                let included = inclusion(i, j);
                accepted_row.lower += drawn.lower;
                accepted_row.upper += drawn.upper;
                seen_row.lower += drawn.lower * included.lower;
                seen_row.upper += drawn.upper * included.upper;
            }
        }
        accepted.lower += accepted_row.lower;
        accepted.upper += accepted_row.upper;
        seen.lower += seen_row.lower;
        seen.upper += seen_row.upper;
    }
    let (factor, fallback) = tries(Probability {
        lower: accepted.lower * (1.0 - SUMMATION),
        upper: accepted.upper * (1.0 + SUMMATION),
    });
    Probability {
        lower: (factor.lower * seen.lower + fallback.lower * centre.lower) * (1.0 - SUMMATION),
        upper: (factor.upper * seen.upper + fallback.upper * centre.upper) * (1.0 + SUMMATION),
    }
}

/// The expectation for an influence mask of the image that reaches the crop.
pub(crate) fn annotated(influence: &Mask, crop: &ResizedCrop) -> Result<Inclusion, GeometryError> {
    let image = influence.size();
    let law = SizeLaw::new(crop, image, MAX_GROUPS);
    let first = |groups: &[SizeGroup]| groups.first().map_or(1, |group| group.first);
    let empty = EmptyWindows::of(influence, Size::new(first(&law.widths), first(&law.heights))?);
    // Plain division: its rounding is far below what the summation is widened by.
    let share = |width: u32, height: u32| {
        let origins = u64::from(image.width() - width + 1) * u64::from(image.height() - height + 1);
        (origins - empty.count(width, height)) as f64 / origins as f64
    };
    let inclusion = |i: usize, j: usize| {
        let (width, height): (SizeGroup, SizeGroup) = (law.widths[i], law.heights[j]);
        let upper = share(width.last, height.last);
        let single = width.first == width.last && height.first == height.last;
        Probability { lower: if single { upper } else { share(width.first, height.first) }, upper }
    };
    let (x, y, size) = crop.fallback(image)?;
    let sees = influence.meets(x, y, size);
    let centre = Probability { lower: f64::from(sees), upper: f64::from(sees) };
    let found = expectation(&law, inclusion, centre);
    Ok(Inclusion::from_bounds(found.lower, found.upper, None))
}

/// The expectation for a region that may lie anywhere, with the worst case of each size. For rectangles behind plain padding
/// all sizes share the centre as the worst place, and the bound is exact.
pub(crate) fn anywhere(
    shape: &RegionShape,
    image: Size,
    pipeline: &Pipeline,
    crop: &ResizedCrop,
) -> Result<Inclusion, GeometryError> {
    let reaching = pipeline.size_before_crop(image)?;
    let law = SizeLaw::new(crop, reaching, MAX_GROUPS);
    let extent = shape.extent();
    let centre =
        (worst_position(image.width(), extent.width()), worst_position(image.height(), extent.height()));
    let plain = pipeline.plain_padding();
    let (along_x, along_y) = match plain {
        Some(plain) => {
            let x =
                PlainAxis { length: image.width(), pad: plain.x, patch: extent.width(), position: centre.0 };
            let y = PlainAxis {
                length: image.height(),
                pad: plain.y,
                patch: extent.height(),
                position: centre.1,
            };
            let (x, y) = if plain.swapped { (y, x) } else { (x, y) };
            (x.shares(&law.widths), y.shares(&law.heights))
        }
        None => {
            let axes = pipeline.axes(image)?;
            let (x, y) = (extent.width(), extent.height());
            let (x, y) = if axes.swapped { (y, x) } else { (x, y) };
            (shares(&axes.x, x, &law.widths), shares(&axes.y, y, &law.heights))
        }
    };
    let inclusion = |i: usize, j: usize| Probability {
        lower: (along_x[i].lower * along_y[j].lower).next_down().max(0.0),
        upper: (along_x[i].upper * along_y[j].upper).next_up(),
    };
    // Behind plain padding the central patch always meets the central crop.
    let fallback = Probability { lower: f64::from(plain.is_some()), upper: 1.0 };
    let found = expectation(&law, inclusion, fallback);
    let exact = plain.is_some() || pipeline.axes(image)?.are_exact();
    let lower = if exact { found.lower } else { 0.0 };
    Ok(match shape {
        RegionShape::Rectangle(_) => Inclusion::from_bounds(lower, found.upper, plain.map(|_| centre)),
        RegionShape::Pixels(_) => {
            // The enclosing rectangle bounds from above; the region itself at the centre from below, where it fits in memory.
            let lower =
                placed(shape, centre.0, centre.1, image, pipeline).map_or(0.0, |there| there.lower_bound());
            Inclusion::from_bounds(lower, found.upper, None)
        }
    })
}

/// An axis that is only padded with a constant.
struct PlainAxis {
    length: u32,
    pad: u32,
    patch: u32,
    position: u32,
}

impl PlainAxis {
    /// Share of the origins that see the patch, for the smallest and the largest crop of each group.
    fn shares(&self, groups: &[SizeGroup]) -> Vec<Probability> {
        let share = |crop: u32| {
            let origins = u64::from(self.length) + 2 * u64::from(self.pad) - u64::from(crop) + 1;
            (axis_hits(self.length, self.pad, crop, self.patch, self.position), origins)
        };
        groups
            .iter()
            .map(|group| {
                let (least, most) = (share(group.first), share(group.last));
                Probability { lower: ratio_down(least.0, least.1), upper: ratio_up(most.0, most.1) }
            })
            .collect()
    }
}

/// The same shares for any axis: from below at the central position, from above at the worst one.
fn shares(reads: &AxisReads, extent: u32, groups: &[SizeGroup]) -> Vec<Probability> {
    let middle = worst_position(reads.source, extent) as usize;
    let hits = |crop: u32| {
        let windows = windows(reads, crop);
        (interval_hits(&windows, reads.source, extent), windows.len() as u64)
    };
    groups
        .iter()
        .map(|group| {
            let (most, origins) = hits(group.last);
            let worst = most.iter().copied().max().unwrap_or(0);
            let (least, least_origins) =
                if group.first == group.last { (most, origins) } else { hits(group.first) };
            Probability {
                lower: ratio_down(least[middle].into(), least_origins),
                upper: ratio_up(worst.into(), origins),
            }
        })
        .collect()
}
