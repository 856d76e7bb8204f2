//! A computed figure as a picture.

use dapple_plan::{Scheme, number};
use dapple_report::paint::method;
use dapple_report::{Axis, Chart, Dash, Figure, LegendPlace, ReferenceLine, Series};

use super::catalogue::SweptSize;
use super::compute::{PanelHead, PatchCurve, PatchResults};
use super::setting::{DELTA, Mechanism, PatchSetting};

/// What a profile's axis of delta covers.
const DELTAS: (f64, f64) = (1e-10, 1.0);

/// Adds the charts to a figure.
pub(super) fn draw(results: &PatchResults, figure: Figure) -> Figure {
    match results.epsilons {
        Some(range) => profiles(figure, results, range),
        None => sweeps(figure, results),
    }
}

/// What all panels share, with sigma in both units.
pub(super) fn subtitle(results: &PatchResults) -> String {
    let bases: Vec<&PatchSetting> = results.panels.iter().map(|head| &head.base).collect();
    let Some(first) = bases.first() else { return String::new() };
    let mut sigmas: Vec<f64> = Vec::new();
    for curve in &results.curves {
        if !sigmas.contains(&curve.sigma) {
            sigmas.push(curve.sigma);
        }
    }
    let list =
        |values: &mut dyn Iterator<Item = f64>| values.map(number::exact).collect::<Vec<_>>().join(", ");
    let mut parts = vec![format!(
        "Paper's σ = {}: noise multiplier {}",
        list(&mut sigmas.iter().copied()),
        list(&mut sigmas.iter().map(|sigma| results.reading.multiplier(*sigma)))
    )];
    if results.epsilons.is_none() {
        parts.push("δ = 10⁻⁵".to_owned());
    }
    let common = |value: fn(&PatchSetting) -> String| {
        bases.iter().all(|base| value(base) == value(first)).then(|| value(first))
    };
    let varied = |over: SweptSize| results.panels.iter().any(|head| head.over == Some(over));
    parts.extend(common(|base| format!("image {} × {}", base.image.x, base.image.y)));
    if !varied(SweptSize::Crop) {
        parts.extend(common(|base| format!("crop {} × {}", base.crop, base.crop)));
    }
    if !varied(SweptSize::Patch) {
        parts.extend(common(|base| format!("patch {}", base.shape)).map(|text| text.replace('x', " × ")));
    }
    parts.extend(common(|base| {
        format!("batch {} of {}, {} epochs", super::setting::BATCH, base.records, super::setting::EPOCHS)
    }));
    parts.join("; ")
}

fn profiles(figure: Figure, results: &PatchResults, range: (f64, f64)) -> Figure {
    let columns = if results.panels.len() == 3 { 3 } else { 2 };
    let mut figure = figure.columns(columns).panel_size(if columns == 3 { 360.0 } else { 430.0 }, 300.0);
    for (panel, head) in results.panels.iter().enumerate() {
        let mut chart = Chart::new(&head.title)
            .subtitle(profile_subtitle(results, panel, head))
            .x(Axis::log("ε").range(range.0, range.1))
            .y(Axis::log("δ").range(DELTAS.0, DELTAS.1))
            .reference(ReferenceLine::horizontal(DELTA, "δ = 10⁻⁵"));
        for curve in results.curves.iter().filter(|curve| curve.panel == panel) {
            let (label, color, dash) = match curve.mechanism {
                Mechanism::Patch(Scheme::Poisson) => {
                    ("patch level, Poisson (here)", method::PATCH_POISSON, Dash::Dashed)
                }
                Mechanism::Patch(_) => {
                    ("patch level, without replacement (paper)", method::PATCH, Dash::Solid)
                }
                Mechanism::Minibatch(Scheme::Poisson) => {
                    ("minibatch, Poisson", method::RECORD_POISSON, Dash::Dashed)
                }
                Mechanism::Minibatch(_) => ("minibatch, without replacement", method::RECORD, Dash::Solid),
                Mechanism::DataLevel => ("data-level noise", method::NOISY_PIXELS, Dash::Solid),
            };
            chart = chart.series(line(label, curve).color(color).dash(dash));
        }
        figure = figure.panel(chart);
    }
    figure
}

/// Noise multiplier, inclusion probability, pixel noise.
fn profile_subtitle(results: &PatchResults, panel: usize, head: &PanelHead) -> String {
    let seen = results
        .paper(panel)
        .and_then(|curve| curve.points.first()?.run)
        .map_or_else(String::new, |run| format!("inclusion {}, ", number::up(run.inclusion_probability, 3)));
    let multiplier = number::exact(results.reading.multiplier(head.base.sigma));
    let pixels = number::exact(head.base.pixel_sigma);
    format!("noise multiplier {multiplier}, {seen}pixel noise {pixels}")
}

fn sweeps(figure: Figure, results: &PatchResults) -> Figure {
    // Three panels of the paper become one row for each sampling scheme; one or two become one row each, schemes side by side.
    let by_scheme = results.panels.len() > 2;
    let mut order: Vec<(usize, Scheme)> = Vec::new();
    for (panel, _) in results.panels.iter().enumerate() {
        order.extend([(panel, Scheme::WithoutReplacement), (panel, Scheme::Poisson)]);
    }
    if by_scheme {
        order.sort_by_key(|(_, scheme)| *scheme == Scheme::Poisson);
    }
    let mut figure = figure
        .columns(if by_scheme { 3 } else { 2 })
        .panel_size(if by_scheme { 330.0 } else { 430.0 }, if by_scheme { 270.0 } else { 300.0 });
    for (panel, scheme) in order {
        let Some(head) = results.panels.get(panel) else { continue };
        figure = figure.panel(sweep_chart(results, panel, head, scheme));
    }
    figure
}

fn sweep_chart(results: &PatchResults, panel: usize, head: &PanelHead, scheme: Scheme) -> Chart {
    let side = match scheme {
        Scheme::Poisson => "Poisson sampling (here)",
        _ => "sampling without replacement (paper)",
    };
    // Panels over the same size and sigmas share their axis, so that they can be compared by eye.
    let sigmas = sigmas_of(results, panel);
    let alike = |curve: &&PatchCurve| {
        let same_size = results.panels.get(curve.panel).is_some_and(|other| other.over == head.over);
        same_size && sigmas_of(results, curve.panel) == sigmas
    };
    let (low, high) = results
        .curves
        .iter()
        .filter(alike)
        .flat_map(|curve| curve.points.iter().map(|point| point.epsilon.upper))
        .fold((f64::INFINITY, 0.0_f64), |(low, high), epsilon| (low.min(epsilon), high.max(epsilon)));
    let y = if high > 20.0 * low {
        Axis::log("ε").range(0.8 * low, 1.25 * high)
    } else {
        Axis::linear("ε").range(0.0, 1.05 * high)
    };
    let x = Axis::linear(head.over.map_or("", SweptSize::label));
    // One legend for all panels where they agree, else one above each.
    let agree = (0..results.panels.len()).all(|other| sigmas_of(results, other) == sigmas);
    let legend = if agree { LegendPlace::Auto } else { LegendPlace::Above };
    let mut chart = Chart::new(&head.title).subtitle(side).x(x).y(y).legend(legend);
    let mechanisms = [Mechanism::Patch(scheme), Mechanism::Minibatch(scheme)];
    for mechanism in mechanisms {
        let curves =
            results.curves.iter().filter(|curve| curve.panel == panel && curve.mechanism == mechanism);
        for (color, curve) in curves.enumerate() {
            let sigma = number::exact(curve.sigma);
            let (label, dash) = match mechanism {
                Mechanism::Patch(_) => {
                    let multiplier = number::exact(results.reading.multiplier(curve.sigma));
                    (format!("σ = {sigma} (multiplier {multiplier})"), Dash::Solid)
                }
                _ => (format!("minibatch, σ = {sigma}"), Dash::Dotted),
            };
            chart = chart.series(line(&label, curve).color(color).dash(dash));
        }
    }
    chart
}

/// The sigmas of a panel, in order.
fn sigmas_of(results: &PatchResults, panel: usize) -> Vec<f64> {
    let mut sigmas: Vec<f64> =
        results.curves.iter().filter(|curve| curve.panel == panel).map(|curve| curve.sigma).collect();
    sigmas.dedup();
    sigmas
}

fn line(label: &str, curve: &PatchCurve) -> Series {
    // A log axis has no place for a delta of zero; what lies far below the axis is as good.
    let points = curve.points.iter().map(|point| (point.x, curve.shown(point).max(1e-30)));
    Series::line(label, points)
}
