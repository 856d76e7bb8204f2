//! The page of the demonstration.

use std::io::Cursor;

use dapple_plan::{PlanSpec, number};
use dapple_report::crop::crop_graphic;
use dapple_report::paint::method;
use dapple_report::{Axis, Chart, Figure, Headline, Page, Section};
use dapple_reproduce::experiment::means_line;
use dapple_train::data::scenes::{FashionScenes, SCENE_SIDE, ScenePart};
use image::{GrayImage, ImageFormat, Luma};

use super::{Measured, table};
use crate::failure::Failure;
use crate::output;

/// How many scenes are shown.
const SHOWN: u32 = 6;
/// Pixels between two scenes.
const GAP: u32 = 8;

/// The page: the idea, the two methods, and what each of them promises.
pub(super) fn page(methods: &[Measured], plan: &PlanSpec) -> Result<Page, Failure> {
    let headlines = methods.iter().map(|method| {
        let value = format!("{:.1}%", 100.0 * method.mean);
        let detail = method.deviation.map_or_else(String::new, |deviation| {
            format!("± {:.1} over {} runs", 100.0 * deviation, method.accuracies.len())
        });
        Headline::new(format!("accuracy, {} level", method.method), value).detail(detail)
    });
    let epsilon = methods.iter().map(|method| method.epsilon).fold(0.0, f64::max);
    let mut idea = Section::new("The idea")
        .paragraph(
            "Training looks at one small crop of an image at a time. If what is to be protected is a patch of the image (a face, a plate, a \
             label), most crops do not show it, and what a crop does not show cannot leak. Counting that chance lets the same promise hold \
             with less noise.",
        );
    if let Some(picture) = dapple_pages::crop_of(plan) {
        idea = idea.graphic(
            &crop_graphic(&picture)?,
            "An image, its crops, and the patch that is protected, in the sizes of this run.",
        );
    }
    let data = Section::new("The data").png(
        &scenes()?,
        "Scenes of garments",
        "Scenes composed from real garments (Fashion-MNIST, MIT licence). The label is the class of most garments in a scene.",
    );
    let mut promises = Section::new("What each protects");
    for method in methods {
        promises = promises.paragraph(format!("**At {} level:** {}.", method.method, method.protects));
    }
    promises = promises.paragraph(
        "The two promises are not the same: the patch level says nothing about an image as a whole. It is the right one when the secret is \
         in the patch, and the wrong one when it is in the image.",
    );
    Ok(Page::new("Patch-level and record-level privacy, side by side")
        .lead(format!(
            "The same model, data and crops, trained with epsilon {} at delta {} under two neighbouring relations.",
            number::up(epsilon, 4),
            methods.first().map_or_else(String::new, |method| number::brief(method.delta)),
        ))
        .section(Section::new("").headlines(headlines))
        .section(idea)
        .section(data)
        .section(
            Section::new("What came out")
                .figure(&figure(methods), "Accuracy on scenes of garments that were not trained on; bars are one standard deviation.")
                .table(&table(methods)?, "Every run draws its own noise from the operating system."),
        )
        .section(promises)
        .section(
            Section::new("The plan")
                .paragraph(
                    "This is the plan of the patch level. At record level the relation is `replace`, there is no patch, and the learning rate is \
                     the one that does best under more noise. Both rates were chosen on further scenes of the training garments, never on the test scenes.",
                )
                .code(plan.to_toml()),
        )
        .command(output::shown_command_line()))
}

fn figure(methods: &[Measured]) -> Figure {
    let chart = Chart::new("Accuracy by steps, at the same epsilon in the end")
        .x(Axis::linear("step"))
        .y(Axis::linear("accuracy").range(0.0, 1.0));
    Figure::single(methods.iter().fold(chart, |chart, method| {
        let means: Vec<_> =
            method.curve.iter().map(|point| (point.step as f64, point.mean, point.deviation)).collect();
        means_line(chart, format!("{} level", method.method), method::of_relation(method.relation), &means)
    }))
}

/// The first scenes in a row, as a PNG.
fn scenes() -> Result<Vec<u8>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::run(format!("cannot draw the scenes: {error}"));
    let scenes = FashionScenes::new(ScenePart::Train, SHOWN as usize).map_err(|error| failed(&error))?;
    let mut sheet = GrayImage::from_pixel(SHOWN * (SCENE_SIDE + GAP) - GAP, SCENE_SIDE, Luma([255]));
    for number in 0..SHOWN {
        let scene = scenes.scene(number as usize).map_err(|error| failed(&error))?;
        for (place, &value) in (0_u32..).zip(&scene.pixels) {
            let (x, y) = (place % SCENE_SIDE, place / SCENE_SIDE);
            sheet.put_pixel(number * (SCENE_SIDE + GAP) + x, y, Luma([value]));
        }
    }
    let mut bytes = Cursor::new(Vec::new());
    sheet.write_to(&mut bytes, ImageFormat::Png).map_err(|error| failed(&error))?;
    Ok(bytes.into_inner())
}
