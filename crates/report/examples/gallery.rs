//! Writes a set of figures and a page into a folder, to look at after a change of the drawing code:
//! `cargo run -p dapple-report --example gallery -- FOLDER`.

use dapple_report::{
    Axis, BandPoint, Cell, Chart, Column, CropPicture, Dash, ErrorPoint, Figure, Headline, Page,
    ReferenceLine, Section, Series, Table, TextStyle, Theme, crop,
};
use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let crop_graphic = crop::crop_graphic(&CropPicture::default())?;
    for (name, graphic) in [
        ("profile", profile().graphic()),
        ("sweep", sweep().graphic()),
        ("audit", audit().graphic()),
        ("edge", edge_cases().graphic()),
        ("crop", crop_graphic.clone()),
    ] {
        fs::write(folder.join(format!("{name}.svg")), graphic.to_svg(Theme::Auto))?;
        fs::write(folder.join(format!("{name}-light.png")), graphic.to_png(Theme::Light, 2.0)?)?;
        fs::write(folder.join(format!("{name}-dark.png")), graphic.to_png(Theme::Dark, 2.0)?)?;
    }
    fs::write(folder.join("page.html"), page(&crop_graphic)?.to_html())?;
    fs::write(folder.join("table.txt"), table()?.to_text(TextStyle::default()))?;
    Ok(())
}

/// Points of a function at evenly spaced places.
fn curve(from: f64, to: f64, count: u32, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (0..=count).map(|i| from + (to - from) * f64::from(i) / f64::from(count)).map(|x| (x, value(x))).collect()
}

/// A shape like that of a privacy profile; the numbers mean nothing.
fn profile_shape(epsilon: f64, sigma: f64) -> f64 {
    0.4 / sigma * (-epsilon * sigma - 0.5 * (epsilon * sigma).powi(2)).exp()
}

fn profile() -> Figure {
    let line =
        |label: &str, sigma: f64| Series::line(label, curve(0.0, 4.0, 200, |e| profile_shape(e, sigma)));
    let chart = Chart::new("Privacy profile of the plan")
        .subtitle("1000 steps, batch 64 of 2975 records, crop 256 × 256, patch 32 × 32, σ = 2.0")
        .x(Axis::linear("ε"))
        .y(Axis::log("δ(ε)").range(1e-12, 1.0))
        .series(line("patch level, Poisson", 1.9))
        .series(line("patch level, without replacement", 1.4).dash(Dash::Dashed))
        .series(line("record level, Poisson", 0.95))
        .series(line("record level, without replacement", 0.7).dash(Dash::Dashed))
        .reference(ReferenceLine::horizontal(1e-5, "δ = 10⁻⁵"));
    Figure::single(chart).note("Each curve is the upper end of a certified bracket narrower than 0.1 %.")
}

fn sweep() -> Figure {
    let mut figure = Figure::new("What a smaller crop buys")
        .subtitle("ε at δ = 10⁻⁵ after 50 epochs, for three noise multipliers")
        .note(
            "Images of 2048 × 1024 pixels. Without replacement as in the paper, Poisson as in this program.",
        );
    for (patch, scale) in [("Patch 16 × 16", 0.6), ("Patch 64 × 64", 1.0), ("Patch 128 × 128", 1.5)] {
        let mut chart = Chart::new(patch)
            .x(Axis::linear("crop side in pixels"))
            .y(Axis::log("ε"))
            .reference(ReferenceLine::horizontal(1.0, "ε = 1"));
        for sigma in [4.0, 4.5, 5.0] {
            let points = (1..=14)
                .map(|i| f64::from(i) * 50.0)
                .map(|crop| (crop, scale * (crop / 350.0).powf(1.3) * 6.0 / sigma));
            chart = chart.series(Series::line_points(format!("σ = {sigma}"), points));
        }
        figure = figure.panel(chart);
    }
    figure
}

fn audit() -> Figure {
    let bound = |x: f64| 0.3 * x.sqrt();
    let band = (0..=50).map(|i| f64::from(i) * 2.0).map(|x| BandPoint {
        x,
        lower: 0.8 * bound(x),
        upper: 1.1 * bound(x),
    });
    let points = (1..10).map(|i| f64::from(i) * 10.0).map(|x| {
        let y = 0.7 * bound(x) * (1.0 + 0.08 * (x * 1.7).sin());
        ErrorPoint { x, y, lower: y - 0.25, upper: y + 0.2 }
    });
    let chart = Chart::new("Audited against certified ε")
        .x(Axis::linear("epoch"))
        .y(Axis::linear("ε"))
        .series(Series::band("certified bracket", band))
        .series(Series::line("certified, upper end", curve(0.0, 100.0, 100, |x| 1.1 * bound(x))).color(0))
        .series(Series::error_points("audited, 95 % interval", points).color(1))
        .reference(ReferenceLine::vertical(40.0, "learning rate drops"))
        .reference(ReferenceLine::horizontal(3.0, "budget"));
    Figure::single(chart)
}

fn edge_cases() -> Figure {
    let steep = Chart::new("Log against log").x(Axis::log("noise multiplier")).y(Axis::log("ε")).series(
        Series::line(
            "tight",
            curve(-1.3, 4.0, 60, |e| 10f64.powf(-1.4 * e + 1.0)).into_iter().map(|(e, y)| (10f64.powf(e), y)),
        ),
    );
    let zeros = Chart::new("Zeros and gaps").y(Axis::log("δ")).series(Series::line_points(
        "some zero",
        [(0.0, 1e-2), (1.0, 0.0), (2.0, 1e-5), (3.0, f64::NAN), (4.0, 1e-7)],
    ));
    let empty = Chart::new("Empty").x(Axis::linear("ε")).y(Axis::linear("δ"));
    let one = Chart::new("One point").series(Series::points("measured", [(3.0, 0.25)]));
    let small = Chart::new("Small numbers").series(Series::line("y", curve(0.0, 1e-5, 10, |x| x * x * 1e7)));
    let large = Chart::new("Large numbers").x(Axis::linear("steps")).series(Series::line(
        "a label that is far too long to stand inside the plot beside its data",
        curve(0.0, 4e5, 10, |x| x * 2.0),
    ));
    Figure::new("Edge cases").panel(steep).panel(zeros).panel(empty).panel(one).panel(small).panel(large)
}

fn table() -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new([
        Column::text("sampling"),
        Column::number("crop"),
        Column::number("noise multiplier"),
        Column::number("inclusion probability"),
        Column::number("ε"),
        Column::number("δ"),
    ]);
    for (index, sampling) in ["Poisson", "without replacement", "balanced"].iter().enumerate() {
        for crop in [128, 256, 512] {
            let share = f64::from(crop) / 1024.0;
            let epsilon = share * 3.1 * (index as f64 + 1.0);
            table.push([
                Cell::from(*sampling),
                Cell::Integer(crop.into()),
                Cell::Number(4.5, 2),
                Cell::Number(share * share, 3),
                Cell::Number(epsilon, 4),
                Cell::Number(1e-5, 3),
            ])?;
        }
    }
    Ok(table)
}

fn page(crop_graphic: &dapple_report::graphic::Graphic) -> Result<Page, Box<dyn Error>> {
    let summary = Section::new("").headlines([
        Headline::new("ε at patch level", "0.192").detail("certified between 0.1919 and 0.1920"),
        Headline::new("ε at record level", "2.737").detail("the same run, ordinary accounting"),
        Headline::new("δ", "10⁻⁵").detail("fixed by the plan"),
        Headline::new("noise multiplier", "4.5").detail("of the clip norm"),
    ]);
    let result = Section::new("What the plan guarantees")
        .paragraph(
            "An adversary who sees **every model of the run** and knows all other pixels learns little about the private \
             patch: the profile below bounds how much. The plan was read from `street.toml`.",
        )
        .figure(&profile(), "Privacy profile at patch and at record level. The dashed line marks the δ of the plan.")
        .facts([
            ("relation", "one patch of 72 × 24 pixels anywhere in one image, substituted"),
            ("sampling", "Poisson, rate 0.0215, 1000 steps"),
            ("pipeline", "crop 224 × 224 of 1024 × 576, zero padding of 0"),
        ]);
    let sweep_section = Section::new("Which crop pays")
        .paragraph("Smaller crops see the patch less often. Beyond a point they cost accuracy; privacy alone always prefers the smaller one.")
        .figure(&sweep(), "Sweep over the side of the crop for three patches.")
        .table(&table()?, "The same sweep in numbers.");
    let how = Section::new("How a crop protects")
        .graphic(crop_graphic, "Random crops and a private patch, drawn to scale.")
        .png(
            &audit().to_png(Theme::Light, 1.0)?,
            "A chart of audited against certified epsilon",
            "An embedded image.",
        )
        .details(
            "The plan in full",
            Section::new("")
                .code("[privacy]\ndelta = 1e-5\nnoise_multiplier = 4.5\n\n[pipeline]\ncrop = [224, 224]"),
        );
    Ok(Page::new("Patch-level privacy of a street-scene model")
        .lead("A report on one training plan: what it protects, from whom, and how much a different crop would change.")
        .section(summary)
        .section(result)
        .section(sweep_section)
        .section(how)
        .command("dapple sweep --plan street.toml --over crop=50:700:50 --over noise-multiplier=4,4.5,5 --html sweep.html"))
}
