//! Groups of runs as a table and a chart.

use dapple_plan::number;
use dapple_report::{Axis, Cell, Chart, Column, Dash, ErrorPoint, ReportError, Series, Table};
use dapple_train::Measure;

use super::{Method, RunGroup};

/// The means in percent, for people.
pub fn sweep_table(measure: Measure, groups: &[RunGroup<'_>]) -> Result<Table, ReportError> {
    let mut table = Table::new([
        Column::number("ε"),
        Column::text("method"),
        Column::number("noise multiplier"),
        Column::number(measure.words()),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    let percent = |share: f64| Cell::from(format!("{:.1}%", 100.0 * share));
    for group in groups {
        table.push([
            group.epsilon().map(number::exact).into(),
            group.method().words().into(),
            group.noise_multiplier().map(|noise| Cell::Number(noise, 4)).into(),
            percent(group.mean),
            group.deviation.map(percent).into(),
            Cell::Integer(group.runs as i64),
        ])?;
    }
    Ok(table)
}

/// A line through the budgets of each method; what is not private is a level of its own.
pub fn sweep_chart(title: &str, measure: Measure, groups: &[RunGroup<'_>]) -> Chart {
    let quality = Axis::linear(measure.words());
    let quality = match measure {
        Measure::Accuracy | Measure::ClassAccuracy => quality.range(0.0, 1.0),
        // Far from 1 where classes are rare: the chart finds its own range.
        Measure::MeanIou => quality,
    };
    let chart = Chart::new(title).x(Axis::log("ε")).y(quality);
    let mut methods: Vec<Method> = groups.iter().map(RunGroup::method).collect();
    methods.sort_by_key(|method| method.color());
    methods.dedup();
    methods.into_iter().fold(chart, |chart, method| {
        let own = || groups.iter().filter(move |group| group.method() == method);
        let at = |group: &RunGroup<'_>| Some((group.epsilon()?, group.mean, group.deviation));
        let means: Vec<_> = own().filter_map(at).collect();
        let label = method.words().to_owned();
        match own().next() {
            Some(open) if means.is_empty() => {
                let level = groups.iter().filter_map(RunGroup::epsilon).map(|epsilon| (epsilon, open.mean));
                chart.series(Series::line(label, level).color(method.color()).dash(Dash::Dotted))
            }
            _ => means_line(chart, label, (method.color(), Dash::Solid), &means),
        }
    })
}

/// A line of this colour through means, with bars of one standard deviation.
pub fn means_line(
    chart: Chart,
    label: String,
    (color, dash): (usize, Dash),
    means: &[(f64, f64, Option<f64>)],
) -> Chart {
    let bars = means.iter().map(|&(x, y, deviation)| {
        let deviation = deviation.unwrap_or(0.0);
        ErrorPoint { x, y, lower: y - deviation, upper: y + deviation }
    });
    chart
        .series(Series::line(label, means.iter().map(|&(x, mean, _)| (x, mean))).color(color).dash(dash))
        .series(Series::error_points("", bars).color(color))
}
