//! The page of the demonstration.

use dapple_plan::{PlanSpec, number};
use dapple_report::crop::crop_graphic;
use dapple_report::paint::method;
use dapple_report::{Axis, Chart, Dash, Figure, Headline, Page, Section};
use dapple_reproduce::experiment::means_line;

use super::{Arguments, Measured, garments, streets, table};
use crate::failure::Failure;
use crate::output;

/// The page: what came out, the idea, the two methods, and what each of them promises.
pub(super) fn page(arguments: &Arguments, methods: &[Measured], plan: &PlanSpec) -> Result<Page, Failure> {
    let headlines = methods.iter().map(|method| {
        let value = format!("{:.1}%", 100.0 * method.mean);
        let detail = method.deviation.map_or_else(String::new, |deviation| {
            format!("± {:.1} over {} runs", 100.0 * deviation, method.scores.len())
        });
        let headline = Headline::new(format!("{}, {} level", method.measure, method.method), value);
        headline.detail(detail).color(method::of_level(method.relation, method.sampling))
    });
    let epsilon = methods.iter().map(|method| method.epsilon).fold(0.0, f64::max);
    let shown = if arguments.garments { garments::data()? } else { streets::pictures(arguments)? };
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
    let of = if arguments.garments { "scenes of garments" } else { "streets" };
    let measure = methods.first().map_or("score", |method| method.measure);
    let mut came_out = Section::new("What came out")
        .figure(
            &figure(methods, measure),
            format!("The {measure} on {of} that were not trained on; bars are one standard deviation."),
        )
        .table(&table(methods)?, "Every run draws its own noise from the operating system.");
    if !arguments.garments {
        came_out = came_out.table(
            &streets::classes(methods)?,
            "The share of the pixels of each class that are found, averaged over runs. What is small and rare suffers most from noise.",
        );
    }
    let mut promises = Section::new("What each protects");
    for method in methods {
        promises = promises.paragraph(format!("**At {} level:** {}.", method.method, method.protects));
    }
    promises = promises.paragraph(
        "The two promises are not the same: the patch level says nothing about an image as a whole. It is the right one when the secret is \
         in the patch, and the wrong one when it is in the image.",
    );
    let rates = match arguments.garments {
        true => {
            "and the learning rate is the one that does best under more noise. Both rates were chosen on further scenes of the training garments, never on the test scenes"
        }
        false => {
            "and all else is the same. One learning rate serves both levels: for each it is the best of five that were tried on other streets, to train on and to judge by, and never on those of the test"
        }
    };
    Ok(Page::new("Privacy of patches and of whole records, side by side")
        .lead(format!(
            "The same model, data and crops, trained with epsilon {} at delta {} under two neighbouring relations.",
            number::up(epsilon, 4),
            methods.first().map_or_else(String::new, |method| number::brief(method.delta)),
        ))
        .section(Section::new("").headlines(headlines))
        .section(shown)
        .section(idea)
        .section(came_out)
        .section(promises)
        .section(
            Section::new("The plan")
                .paragraph(format!(
                    "This is the plan of the patch level. At record level the relation is `replace`, there is no patch, {rates}.",
                ))
                .code(plan.to_toml()),
        )
        .command(output::shown_command_line()))
}

fn figure(methods: &[Measured], measure: &str) -> Figure {
    let chart = Chart::new(format!("The {measure} by steps, at the same epsilon in the end"))
        .x(Axis::linear("step"))
        .y(Axis::linear(measure).range(0.0, 1.0));
    Figure::single(methods.iter().fold(chart, |chart, method| {
        let means: Vec<_> =
            method.curve.iter().map(|point| (point.step as f64, point.mean, point.deviation)).collect();
        let color = method::of_level(method.relation, method.sampling);
        means_line(chart, format!("{} level", method.method), (color, Dash::Solid), &means)
    }))
}
