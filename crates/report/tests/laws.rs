//! Laws that hold for every figure: it is well-formed, finite, inside its sheet, and always the same.

use dapple_report::{
    Axis, BandPoint, Chart, CropPicture, Dash, ErrorPoint, Figure, LegendPlace, ReferenceLine, Series, Theme,
    crop::crop_graphic,
    graphic::{Graphic, GraphicShape, Rect},
};
use proptest::prelude::*;

/// Any number at all, and often the awkward ones.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..10.0f64,
        2 => (-320.0..308.0f64).prop_map(|exponent| 10f64.powf(exponent)),
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE]),
    ]
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z ]{0,12}",
        ".{0,80}",
        Just("</text><script>&\"'\u{0}\u{1b}\u{FFFF}]]>".to_owned()),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    (any::<bool>(), words(), prop::option::weighted(0.3, (number(), number()))).prop_map(
        |(log, label, range)| {
            let axis = if log { Axis::log(label) } else { Axis::linear(label) };
            range.into_iter().fold(axis, |axis, (low, high)| axis.range(low, high))
        },
    )
}

fn series() -> impl Strategy<Value = Series> {
    let points = prop::collection::vec((number(), number(), number(), number()), 0..12);
    (0..4u8, words(), points, 0..12usize).prop_map(|(kind, label, points, color)| {
        let series = match kind {
            0 => Series::line(label, points.into_iter().map(|p| (p.0, p.1))),
            1 => Series::line_points(label, points.into_iter().map(|p| (p.0, p.1))),
            2 => Series::error_points(
                label,
                points.into_iter().map(|(x, y, lower, upper)| ErrorPoint { x, y, lower, upper }),
            ),
            _ => Series::band(
                label,
                points.into_iter().map(|(x, lower, upper, _)| BandPoint { x, lower, upper }),
            ),
        };
        series.color(color).dash(if color % 2 == 0 { Dash::Dashed } else { Dash::Solid })
    })
}

fn chart() -> impl Strategy<Value = Chart> {
    let places = [LegendPlace::Auto, LegendPlace::Corner, LegendPlace::Above, LegendPlace::Hidden];
    let references = prop::collection::vec((any::<bool>(), number(), words()), 0..3);
    let parts = (words(), words(), axis(), axis(), prop::collection::vec(series(), 0..4), references);
    (parts, prop::sample::select(places.to_vec())).prop_map(
        |((title, subtitle, x, y, series, references), place)| {
            let chart = Chart::new(title).subtitle(subtitle).x(x).y(y).legend(place);
            let chart = series.into_iter().fold(chart, Chart::series);
            references.into_iter().fold(chart, |chart, (vertical, value, label)| {
                let line = if vertical {
                    ReferenceLine::vertical(value, label)
                } else {
                    ReferenceLine::horizontal(value, label)
                };
                chart.reference(line)
            })
        },
    )
}

fn figure() -> impl Strategy<Value = Figure> {
    let size = (prop_oneof![150.0..800.0f64, number()], prop_oneof![120.0..600.0f64, number()]);
    (words(), words(), prop::collection::vec(chart(), 0..4), 0..5usize, size, words()).prop_map(
        |(title, subtitle, charts, columns, (width, height), note)| {
            let figure =
                Figure::new(title).subtitle(subtitle).columns(columns).panel_size(width, height).note(note);
            charts.into_iter().fold(figure, Figure::panel)
        },
    )
}

/// The corners of everything drawn, text by the box it fills.
fn corners(shape: &GraphicShape) -> Vec<(f64, f64)> {
    let of_rect = |rect: &Rect| vec![(rect.x, rect.y), (rect.right(), rect.bottom())];
    match shape {
        GraphicShape::Line { points, .. } | GraphicShape::Polygon { points, .. } => points.clone(),
        GraphicShape::Rect { rect, .. } | GraphicShape::Photograph { rect, .. } => of_rect(rect),
        GraphicShape::Circle { center: (x, y), radius, .. } => {
            vec![(x - radius, y - radius), (x + radius, y + radius)]
        }
        GraphicShape::Text(text) => of_rect(&text.bounds()),
    }
}

fn check(graphic: &Graphic) -> Result<(), TestCaseError> {
    let sheet = Rect::new(0.0, 0.0, graphic.width, graphic.height);
    for shape in &graphic.shapes {
        for (x, y) in corners(shape) {
            prop_assert!(x.is_finite() && y.is_finite(), "{:?}", shape);
            // Half a unit of slack for the roundings of a layout.
            prop_assert!(sheet.grown(0.5).contains((x, y)), "({x}, {y}) is outside {sheet:?}: {shape:?}");
        }
    }
    let svg = graphic.to_svg(Theme::Auto);
    let document =
        roxmltree::Document::parse(&svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let names = ["svg", "title", "desc", "style", "rect", "polyline", "polygon", "circle", "text"];
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        prop_assert!(
            names.contains(&element.tag_name().name()),
            "an element slipped in: {:?}",
            element.tag_name()
        );
    }
    let measures = [
        "x",
        "y",
        "cx",
        "cy",
        "r",
        "rx",
        "width",
        "height",
        "points",
        "viewBox",
        "font-size",
        "stroke-width",
    ];
    for attribute in document.descendants().flat_map(|node| node.attributes()) {
        if measures.contains(&attribute.name()) {
            for part in attribute.value().split([' ', ',']) {
                prop_assert!(part.parse().is_ok_and(f64::is_finite), "{attribute:?}");
            }
        }
    }
    prop_assert_eq!(document.root_element().attribute("role"), Some("img"));
    prop_assert_eq!(svg, graphic.to_svg(Theme::Auto));
    Ok(())
}

proptest! {
    // Cases that once failed have tests of their own; a file of seeds would go stale.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_well_formed_and_inside_its_sheet(figure in figure()) {
        check(&figure.graphic())?;
    }

    #[test]
    fn every_crop_picture_is_well_formed_and_inside_its_sheet(
        image in (1u32..3000, 1u32..3000),
        shares in prop::array::uniform6(0.0..1.0f64),
    ) {
        let within = |limit: u32, share: f64| ((f64::from(limit) * share) as u32).clamp(1, limit);
        let crop = (within(image.0, shares[0]), within(image.1, shares[1]));
        let patch = (within(image.0, shares[2]), within(image.1, shares[3]));
        let start = |image: u32, patch: u32, share: f64| (f64::from(image - patch) * share) as u32;
        let patch_origin = (start(image.0, patch.0, shares[4]), start(image.1, patch.1, shares[5]));
        let graphic = crop_graphic(&CropPicture { image, crop, patch, patch_origin }).expect("sizes fit");
        check(&graphic)?;
    }
}

fn small_figure() -> Figure {
    let chart = Chart::new("Profile")
        .x(Axis::linear("ε"))
        .y(Axis::log("δ"))
        .series(Series::line("Poisson", [(0.0, 1e-1), (1.0, 1e-3), (2.0, 1e-6)]))
        .series(Series::points("measured", [(0.5, 1e-2), (1.5, 0.0)]))
        .reference(ReferenceLine::horizontal(1e-5, "δ = 10⁻⁵"));
    Figure::single(chart).panel_size(300.0, 200.0)
}

#[test]
fn a_small_figure_stays_as_it_is() {
    insta::assert_snapshot!(small_figure().to_svg(Theme::Auto));
}

#[test]
fn png_is_the_same_every_time_and_as_large_as_asked() {
    let figure = small_figure();
    let graphic = figure.graphic();
    for theme in [Theme::Light, Theme::Dark] {
        let bytes = figure.to_png(theme, 2.0).expect("drawn");
        assert_eq!(bytes, figure.to_png(theme, 2.0).expect("drawn"));
        let side =
            |at: usize| f64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        assert_eq!((side(16), side(20)), ((graphic.width * 2.0).round(), (graphic.height * 2.0).round()));
    }
    assert_ne!(figure.to_png(Theme::Light, 1.0), figure.to_png(Theme::Dark, 1.0));
}
