//! Drawing a figure, a table and a page.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_report::{
    Axis, Cell, Chart, Column, CropPicture, Figure, Page, Section, Series, Table, TextStyle, Theme,
    crop_picture,
};

fn figure() -> Figure {
    let points = |k: u32| {
        (0..200).map(move |i| (f64::from(i) * 0.05, (-f64::from(i * k) * 0.01).exp())).collect::<Vec<_>>()
    };
    let mut chart = Chart::new("privacy profiles").x(Axis::linear("epsilon")).y(Axis::log("delta"));
    for k in 1..=4 {
        chart = chart.series(Series::line(format!("mechanism {k}"), points(k)));
    }
    Figure::single(chart)
}

fn table() -> Table {
    let mut table = Table::new([Column::number("crop"), Column::number("epsilon")]);
    for i in 0..200_i32 {
        table.push([Cell::Integer(i.into()), Cell::Number(0.01 * f64::from(i), 4)]).unwrap();
    }
    table
}

fn drawing(c: &mut Criterion) {
    let (figure, table) = (figure(), table());
    c.bench_function("figure to svg", |b| b.iter(|| figure.to_svg(Theme::Auto)));
    c.bench_function("figure to png", |b| b.iter(|| figure.to_png(Theme::Light, 2.0)));
    c.bench_function("table to text", |b| b.iter(|| table.to_text(TextStyle::default())));
    c.bench_function("table to csv", |b| b.iter(|| table.to_csv()));
    c.bench_function("crop picture", |b| b.iter(|| crop_picture(&CropPicture::default())));
    c.bench_function("page", |b| {
        b.iter(|| Page::new("a page").section(Section::new("results").figure(&figure, "profiles")).to_html());
    });
}

criterion_group!(benches, drawing);
criterion_main!(benches);
