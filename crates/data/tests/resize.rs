//! Tests operations on images against torch and Pillow.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;

use common::{plan, view_plan};
use dapple_data::formats::PackedImages;
use dapple_data::{Image, MasterKey, Purpose, Values, Views};
use dapple_geometry::Size;
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    size: [u32; 2],
    image: Vec<f32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    operation: String,
    size: [usize; 2],
    values: Vec<f32>,
}

/// Planes to pixels: `[channels, height, width]` to `[height, width, channels]`.
fn pixels(planes: &[f32], channels: usize) -> Vec<f32> {
    let plane = planes.len() / channels;
    (0..planes.len()).map(|value| planes[value % channels * plane + value / channels]).collect()
}

#[test]
fn resizes_and_blurs_are_those_of_torch_and_pillow() {
    let goldens: Goldens = serde_json::from_str(include_str!("goldens/resize.json")).unwrap();
    let [width, height] = goldens.size;
    let size = Size::new(width, height).unwrap();
    let image = Image::new(size, 2, Values::Floats(pixels(&goldens.image, 2))).unwrap();
    // This data set only gives the shape; the image itself holds floats.
    let bytes = vec![0; (2 * size.pixels()) as usize];
    let dataset = PackedImages::new(Path::new("golden"), size, 2, bytes, vec![0], 1).unwrap();
    for Case { operation, size: [to_width, to_height], values } in &goldens.cases {
        let sampling = "[sampling]\nbatch = 1\nrecords = 10\nsteps = 1";
        let plan = plan(&format!("{sampling}\n[pipeline]\noperations = [\"{operation}\"]"));
        let views = Views::new(plan.spatial(), &view_plan(""), &dataset).unwrap();
        assert_eq!(views.shape(), [2, *to_height, *to_width], "{operation}");
        let mut drawn = vec![0.0; views.view_length()];
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Views).step(0).stream(0);
        views.draw(&image, &mut random, &mut drawn).unwrap();
        for (ours, theirs) in drawn.iter().zip(values) {
            // Sums of at most 42 products of weights below 1.3 and values below 1 in single precision, on both sides.
            assert!((ours - theirs).abs() < 5e-6, "{operation}: {ours} {theirs}");
        }
        let mut evaluated = vec![0.0; views.view_length()];
        views.evaluate(&image, 1, &mut evaluated).unwrap();
        assert_eq!(evaluated, drawn, "{operation}");
    }
    assert_eq!(goldens.cases.len(), 4 * 11 + 3);
}
