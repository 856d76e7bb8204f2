use crate::axis::AxisReads;
use crate::inclusion::{CropWindows, crop_origins};
use crate::region::RegionShape;
use crate::search::for_each_placement;
use crate::size_law::{Probability, SizeGroup, SizeLaw, tries};
use crate::windows::{interval_hits, windows};
use crate::{CropDistribution, GeometryError, Pipeline, Region, ResizedCrop, Size};

/// How likely a crop sees the region, for each place of the region.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// Size of the original image.
    pub size: Size,
    /// `[height, width]`: the inclusion probability of the region centred on each pixel. Where the region would leave
    /// the image there, that of the nearest place inside.
    pub values: Vec<f32>,
}

/// Sizes of a random resized crop are grouped into at most this many steps along each axis, for drawing only.
const STEPS: u32 = 32;

/// The inclusion probability of a region at each place of the image, for drawing.
///
/// Exact up to single precision where [`inclusion`](crate::inclusion()) is; otherwise from above (random resized crops are
/// priced in 32 steps of size along each axis).
pub fn heatmap(region: &Region, image: Size, pipeline: &Pipeline) -> Result<HeatMap, GeometryError> {
    let shape = region.shape()?;
    let extent = shape.extent();
    if !image.contains(extent) {
        return Err(GeometryError::RegionTooLarge { region: extent, image });
    }
    let mut canvas = PlacementValues::new(image, extent)?;
    let reaching = pipeline.size_before_crop(image)?;
    match pipeline.crop_distribution() {
        CropDistribution::Fixed(crop) => {
            if !reaching.contains(*crop) {
                return Err(GeometryError::CropTooLarge { crop: *crop, image: reaching });
            }
            let share = 1.0 / crop_origins(reaching, *crop) as f64;
            let axes = CropWindows::new(image, pipeline, *crop)?;
            if let RegionShape::Pixels(mask) = &shape
                && let Some((along_x, along_y)) = axes.families()
            {
                let mut line = Vec::new();
                for_each_placement(mask, image, &along_x, &along_y, |y, hits| {
                    line.clear();
                    line.extend(hits.iter().map(|&count| (count as f64 * share) as f32));
                    canvas.draw(y, &line);
                });
            } else {
                let (along_x, along_y) = axes.rectangle_hits(extent);
                for (y, &rows) in (0u32..).zip(&along_y) {
                    let scale = f64::from(rows) * share;
                    let line: Vec<f32> =
                        along_x.iter().map(|&columns| (f64::from(columns) * scale) as f32).collect();
                    canvas.draw(y, &line);
                }
            }
        }
        CropDistribution::Resized(crop) => resized(&mut canvas, extent, image, pipeline, crop)?,
    }
    Ok(canvas.finish())
}

fn resized(
    canvas: &mut PlacementValues,
    extent: Size,
    image: Size,
    pipeline: &Pipeline,
    crop: &ResizedCrop,
) -> Result<(), GeometryError> {
    let axes = pipeline.axes(image)?;
    let reaching = pipeline.size_before_crop(image)?;
    let law = SizeLaw::new(crop, reaching, STEPS);
    let (fallback_x, fallback_y, fallback_size) = crop.fallback(reaching)?;
    let (extent_x, extent_y) =
        if axes.swapped { (extent.height(), extent.width()) } else { (extent.width(), extent.height()) };
    // For each group, the share of origins that see each position; last, the single origin of the centre crop.
    let lines = |reads: &AxisReads, groups: &[SizeGroup], extent, fallback_crop, fallback_origin: u32| {
        let shares = |windows: &[_]| -> Vec<f32> {
            let hits = interval_hits(windows, reads.source, extent);
            hits.into_iter().map(|count| (f64::from(count) / windows.len() as f64) as f32).collect()
        };
        let mut lines: Vec<Vec<f32>> =
            groups.iter().map(|group| shares(&windows(reads, group.last))).collect();
        let central = windows(reads, fallback_crop);
        lines.push(shares(&central[fallback_origin as usize..][..1]));
        lines
    };
    let along_x = lines(&axes.x, &law.widths, extent_x, fallback_size.width(), fallback_x);
    let along_y = lines(&axes.y, &law.heights, extent_y, fallback_size.height(), fallback_y);

    let mut drawn = vec![vec![0.0f64; along_y.len()]; along_x.len()];
    let mut accepted = Probability::default();
    for (i, &width) in law.widths.iter().enumerate() {
        for (j, &height) in law.heights.iter().enumerate() {
            let probability = law.of_one_try(width, height);
            drawn[i][j] = probability.upper;
            accepted.lower += probability.lower;
            accepted.upper += probability.upper;
        }
    }
    let (factor, fallback) = tries(accepted);
    drawn.iter_mut().flatten().for_each(|probability| *probability *= factor.upper);
    drawn[law.widths.len()][law.heights.len()] = fallback.upper;

    // The axis of the original's columns first.
    let transposed;
    let (columns, rows, drawn) = if axes.swapped {
        transposed = (0..along_y.len()).map(|j| drawn.iter().map(|line| line[j]).collect()).collect();
        (along_y, along_x, transposed)
    } else {
        (along_x, along_y, drawn)
    };
    // mixed[j][x]: expectation over the group along x, given the group j along y.
    let mut mixed = vec![vec![0.0f32; columns[0].len()]; rows.len()];
    for (line, drawn) in columns.iter().zip(&drawn) {
        for (mixed, &probability) in mixed.iter_mut().zip(drawn) {
            for (slot, &share) in mixed.iter_mut().zip(line) {
                *slot += share * probability as f32;
            }
        }
    }
    let mut line = vec![0.0f32; columns[0].len()];
    for y in 0..rows[0].len() {
        line.fill(0.0);
        for (mixed, row) in mixed.iter().zip(&rows) {
            for (slot, &share) in line.iter_mut().zip(mixed) {
                *slot += share * row[y];
            }
        }
        line.iter_mut().for_each(|value| *value = value.min(1.0));
        canvas.draw(y as u32, &line);
    }
    Ok(())
}

/// Values by placement, spread over the image at the end.
struct PlacementValues {
    image: Size,
    extent: Size,
    values: Vec<f32>,
}

impl PlacementValues {
    fn new(image: Size, extent: Size) -> Result<Self, GeometryError> {
        Ok(Self { image, extent, values: vec![0.0; image.buffer_length()?] })
    }

    /// First image row shown by the placement row `y`.
    fn draw(&mut self, y: u32, line: &[f32]) {
        let width = self.image.width() as usize;
        let (lead_x, lead_y) = ((self.extent.width() - 1) / 2, (self.extent.height() - 1) / 2);
        let last = self.image.height() - self.extent.height();
        let first_row = if y == 0 { 0 } else { y + lead_y };
        let last_row = if y == last { self.image.height() - 1 } else { y + lead_y };
        for row in first_row..=last_row {
            let target = &mut self.values[row as usize * width..][..width];
            let (left, rest) = target.split_at_mut(lead_x as usize);
            let (middle, right) = rest.split_at_mut(line.len());
            middle.copy_from_slice(line);
            left.fill(line.first().copied().unwrap_or(0.0));
            right.fill(line.last().copied().unwrap_or(0.0));
        }
    }

    fn finish(self) -> HeatMap {
        HeatMap { size: self.image, values: self.values }
    }
}
