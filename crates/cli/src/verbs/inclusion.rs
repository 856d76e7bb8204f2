//! `dapple inclusion`: how likely a crop is to see the private region.

use std::io::Cursor;
use std::path::PathBuf;

use clap::Args;
use dapple_plan::{HeatMap, PlanError, Seen, Spatial, number};
use image::{ImageFormat, Rgb, RgbImage};

use crate::args::Common;
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;

/// Larger heat maps are thinned out to at most this many pixels along each side.
const MAX_SIDE: u32 = 2048;

/// Tells how likely a crop is to see the private region at the region's worst place
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple inclusion --image 2048x1024 --crop 505x505 --circle 12 --heatmap seen.png")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Draws the probability for each place of the region
    #[arg(long, value_name = "FILE.png", help_heading = "Files")]
    heatmap: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.heatmap {
        output::check_target("heatmap", path)?;
    }
    let PricingRequest { spec, masks } = PricingRequest::spatial(&arguments.common)?;
    let spatial = Spatial::check(&spec, &masks)?;
    let seen = match Seen::new(&spatial) {
        // Flags that name no region or no crop lack one. A whole plan may do without, and then it has an answer.
        Err(PlanError::Missing { .. }) if arguments.common.plan().is_some() => Seen::always(&spatial),
        seen => seen?,
    };
    if let Some(path) = &arguments.heatmap {
        let map = spatial.heatmap()?;
        let most = map.values.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        output::write_file(path, &picture(&map, most)?, arguments.common.output.quiet)?;
        output::say(arguments.common.output.quiet, &format!("dark is 0, light is {most:.4}, for one view"));
    }
    if arguments.common.output.json {
        return output::print_json(&seen);
    }
    output::print(&text(&seen))
}

fn text(answer: &Seen) -> String {
    let mut lines = vec![("probability", number::up(answer.probability, 7))];
    if let Some(why) = answer.why {
        lines.push(("", why.to_owned()));
    }
    if answer.views > 1 {
        lines.push(("of one view", number::up(answer.probability_of_one_view, 7)));
        lines.push(("views", answer.views.to_string()));
    }
    if let Some((x, y)) = answer.worst_origin {
        lines.push(("worst origin", format!("{x}, {y}")));
    }
    if let (Some(hits), Some(origins)) = (answer.hits, answer.crop_origins) {
        lines.push(("crop origins", origins.to_string()));
        lines.push(("hits", hits.to_string()));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<16}  {value}\n")).collect()
}

/// Colours from dark to light, readable without colour and by the colour-blind (the viridis scale).
const SCALE: [[f32; 3]; 9] = [
    [68.0, 1.0, 84.0],
    [71.0, 44.0, 122.0],
    [59.0, 81.0, 139.0],
    [44.0, 113.0, 142.0],
    [33.0, 144.0, 141.0],
    [39.0, 173.0, 129.0],
    [92.0, 200.0, 99.0],
    [170.0, 220.0, 50.0],
    [253.0, 231.0, 37.0],
];

fn colour(value: f32) -> Rgb<u8> {
    let place = value.clamp(0.0, 1.0) * (SCALE.len() - 1) as f32;
    let index = (place as usize).min(SCALE.len() - 2);
    let share = place - index as f32;
    let [from, to] = [SCALE[index], SCALE[index + 1]];
    Rgb([0, 1, 2].map(|channel| (from[channel] + (to[channel] - from[channel]) * share).round() as u8))
}

/// The map as a PNG, from 0 (dark) to its largest value (light).
fn picture(map: &HeatMap, most: f32) -> Result<Vec<u8>, Failure> {
    let (width, height) = (map.size.width(), map.size.height());
    let step = width.max(height).div_ceil(MAX_SIDE);
    let picture = RgbImage::from_fn(width.div_ceil(step), height.div_ceil(step), |x, y| {
        let index = (y * step) as usize * width as usize + (x * step) as usize;
        colour(map.values.get(index).copied().unwrap_or(0.0) / most)
    });
    let mut bytes = Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| Failure::run(format!("the heat map could not be encoded: {error}")))?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_runs_from_dark_to_light() {
        assert_eq!(colour(0.0), Rgb([68, 1, 84]));
        assert_eq!(colour(1.0), Rgb([253, 231, 37]));
        assert_eq!(colour(0.5), Rgb([33, 144, 141]));
    }
}
