//! Tests changes of views against torchvision and scipy.

use std::collections::BTreeMap;

use dapple_geometry::Size;
use serde::Deserialize;

use super::super::tests::random;
use super::rand_augment::RandAugmentChange;
use super::{ViewChange, ViewPlanes, Warp};

#[derive(Deserialize)]
struct Goldens {
    images: BTreeMap<String, GoldenImage>,
    cases: Vec<GoldenCase>,
}

#[derive(Deserialize)]
struct GoldenImage {
    // Channels, height, width.
    shape: [u32; 3],
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct GoldenCase {
    name: String,
    arguments: Vec<f64>,
    image: String,
    values: Vec<f32>,
}

impl GoldenCase {
    /// The change; `None` leaves the view as it is.
    fn change(&self, view: Size) -> Option<ViewChange> {
        Some(match (self.name.as_str(), self.arguments.as_slice()) {
            ("brightness", &[factor]) => ViewChange::Brightness(factor as f32),
            ("contrast", &[factor]) => ViewChange::Contrast(factor as f32),
            ("saturation", &[factor]) => ViewChange::Saturation(factor as f32),
            ("hue", &[turn]) => ViewChange::Hue(turn as f32),
            ("greyscale", &[]) => ViewChange::Greyscale,
            ("invert", &[]) => ViewChange::Invert,
            ("posterize", &[bits]) => ViewChange::Posterize { bits: bits as u32 },
            ("solarize", &[threshold]) => ViewChange::Solarize { threshold: threshold as f32 },
            ("autocontrast", &[]) => ViewChange::AutoContrast,
            ("equalize", &[]) => ViewChange::Equalize,
            ("blur", &[radius, deviation]) => ViewChange::Blur { radius: radius as u32, deviation },
            ("sharpness", &[factor]) => ViewChange::Sharpness(factor as f32),
            ("sobel", &[]) => ViewChange::Sobel,
            ("warp", &[angle, right, down, scale, shear_x, shear_y]) => {
                ViewChange::Warp(Warp::new(angle, (right, down), scale, (shear_x, shear_y), (0.0, 0.0)))
            }
            ("rand-augment", &[number, magnitude, sign]) => {
                let change = RandAugmentChange::ALL[number as usize];
                return change.at(magnitude as u32, sign < 0.0, view);
            }
            other => panic!("{other:?}"),
        })
    }
}

#[test]
fn changes_are_those_of_torchvision_and_scipy() {
    let text = include_str!("../../../tests/goldens/augment.json");
    let goldens: Goldens = serde_json::from_str(text).unwrap();
    for case in &goldens.cases {
        let GoldenImage { shape: [_, height, width], values } = &goldens.images[&case.image];
        let size = Size::new(*width, *height).unwrap();
        let mut ours = values.clone();
        if let Some(change) = case.change(size) {
            ViewPlanes { values: &mut ours, size, frames: 1 }.apply(&change, |_| 0.0, &mut random(0));
        }
        for (ours, theirs) in ours.iter().zip(&case.values) {
            // Values up to 1 in single precision, after a few dozen operations; torchvision rounds the places of warps, up to 10
            // pixels, to single precision too.
            assert!((ours - theirs).abs() < 5e-6, "{} {:?}: {ours} {theirs}", case.name, case.arguments);
        }
    }
    let names: std::collections::BTreeSet<&str> =
        goldens.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), 15);
}
