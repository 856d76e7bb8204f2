//! How likely crops see each place of the image, for drawing over a photograph.

use serde::Serialize;

use crate::asked::{Asked, Explorer};
use crate::error::ServeError;

/// The most columns and rows of the map that the page draws.
const MOST: u32 = 96;

/// A coarse heat map.
#[derive(Debug, Serialize)]
pub(crate) struct CoverageAnswer {
    /// The size of the image.
    image: [u32; 2],
    columns: u32,
    rows: u32,
    /// The largest probability.
    most: f32,
    /// Row by row, the largest probability in each cell, where 255 is the largest of all.
    values: Vec<u8>,
}

impl Explorer {
    /// The inclusion probability of the region over the image. A cell shows the largest one in it.
    pub(crate) fn coverage(&self, asked: &Asked) -> Result<CoverageAnswer, ServeError> {
        let map = self.plan(asked)?.plan.spatial().heatmap()?;
        let (width, height) = (map.size.width(), map.size.height());
        let (columns, rows) = (width.min(MOST), height.min(MOST));
        let mut largest = vec![0.0f32; (columns * rows) as usize];
        for (y, line) in (0u64..).zip(map.values.chunks_exact(width as usize)) {
            let row = (y * u64::from(rows) / u64::from(height)) * u64::from(columns);
            for (x, &value) in (0u64..).zip(line) {
                let cell = (row + x * u64::from(columns) / u64::from(width)) as usize;
                largest[cell] = largest[cell].max(value);
            }
        }
        let most = largest.iter().copied().fold(0.0, f32::max);
        let shade = |value: &f32| if most > 0.0 { (value / most * 255.0).round() as u8 } else { 0 };
        Ok(CoverageAnswer {
            image: [width, height],
            columns,
            rows,
            most,
            values: largest.iter().map(shade).collect(),
        })
    }
}
