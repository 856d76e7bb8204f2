//! Where an axis is marked, and what the marks say.

use super::scale::{AxisScale, ScaleKind};
use dapple_number::{group_digits, power_of_ten, pretty, superscript};

/// A labelled mark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    /// Place as a share of the axis.
    pub(crate) share: f64,
    pub(crate) label: String,
}

/// The marks of an axis: labelled ones, and unlabelled ones in between.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Ticks {
    pub(crate) major: Vec<Tick>,
    pub(crate) minor: Vec<f64>,
}

/// Marks for a scale, about `count` of them labelled.
pub(crate) fn ticks(scale: &AxisScale, count: usize) -> Ticks {
    let count = count.max(1);
    match scale.kind {
        ScaleKind::Linear => {
            Ticks { major: place(scale, linear(scale.low, scale.high, count)), minor: Vec::new() }
        }
        ScaleKind::Log => log(scale, count),
    }
}

/// The largest number of marks, starting from `count`, whose labels keep clear of each other.
pub(crate) fn fitting(
    scale: &AxisScale,
    count: usize,
    length: f64,
    label_length: impl Fn(&str) -> f64,
) -> Ticks {
    for count in (2..=count.max(2)).rev() {
        let ticks = ticks(scale, count);
        let clear = ticks.major.windows(2).all(|pair| {
            let needed = (label_length(&pair[0].label) + label_length(&pair[1].label)) / 2.0 + 16.0;
            (pair[1].share - pair[0].share) * length >= needed
        });
        if clear {
            return ticks;
        }
    }
    let mut sparse = ticks(scale, 1);
    sparse.major.truncate(1);
    sparse
}

fn place(scale: &AxisScale, labelled: Vec<(f64, String)>) -> Vec<Tick> {
    labelled
        .into_iter()
        .filter_map(|(value, label)| Some(Tick { share: scale.share(value)?, label }))
        // A mark on the very end may fall outside by rounding.
        .filter(|tick| (-1e-9..=1.0 + 1e-9).contains(&tick.share))
        .map(|tick| Tick { share: tick.share.clamp(0.0, 1.0), ..tick })
        .collect()
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / count as f64;
    let exponent = rough.log10().floor() as i32;
    let factor = rough / 10f64.powi(exponent);
    let (factor, exponent) = match factor {
        f if f <= 1.0 => (1.0, exponent),
        f if f <= 2.0 => (2.0, exponent),
        f if f <= 5.0 => (5.0, exponent),
        _ => (1.0, exponent + 1),
    };
    let step = factor * 10f64.powi(exponent);
    if !step.is_normal() {
        return Vec::new();
    }
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let largest = low.abs().max(high.abs());
    (0..=(last - first).clamp(0.0, 100.0) as usize)
        .map(|index| (first + index as f64) * step)
        .map(|value| (value, linear_label(value, exponent, largest)))
        .collect()
}

/// As many digits as the step needs; powers of ten when the axis is far from one.
fn linear_label(value: f64, step_exponent: i32, largest: f64) -> String {
    if value.abs() < 10f64.powi(step_exponent) / 2.0 {
        return "0".to_owned();
    }
    if !(2e-3..1e6).contains(&largest) {
        let digits = value.abs().log10().floor() as i32 - step_exponent + 1;
        return power_of_ten(value, usize::try_from(digits).unwrap_or(1));
    }
    let decimals = usize::try_from(-step_exponent).unwrap_or(0);
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let sign = if value < 0.0 { "−" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{}.{fraction}", group_digits(whole)),
        None => format!("{sign}{}", group_digits(whole)),
    }
}

fn log(scale: &AxisScale, count: usize) -> Ticks {
    let (first, last) = ((scale.low - 1e-9).ceil() as i32, (scale.high + 1e-9).floor() as i32);
    let decades = last - first + 1;
    if decades < 3
        && let Some(ticks) = narrow_log(scale, count)
    {
        return ticks;
    }
    let step = [1, 2, 3, 5, 10, 20, 50, 100]
        .into_iter()
        .find(|step| usize::try_from(decades / step).is_ok_and(|marks| marks <= count))
        .unwrap_or(200);
    let plain = first >= -3 && last <= 4;
    let major = (first..=last)
        .filter(|exponent| exponent % step == 0)
        .map(|exponent| (10f64.powi(exponent), power_label(exponent, plain)))
        .collect();
    let minor = if step == 1 && decades <= 7 {
        (first - 1..=last)
            .flat_map(|exponent| (2..10).map(move |m| f64::from(m) * 10f64.powi(exponent)))
            .collect()
    } else if step > 1 && step <= 3 {
        (first..=last).filter(|exponent| exponent % step != 0).map(|exponent| 10f64.powi(exponent)).collect()
    } else {
        Vec::new()
    };
    let minor = minor
        .into_iter()
        .filter_map(|value: f64| scale.share(value))
        .filter(|share| (0.0..=1.0).contains(share))
        .collect();
    Ticks { major: place(scale, major), minor }
}

fn power_label(exponent: i32, plain: bool) -> String {
    match exponent {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ if plain && exponent < 0 => {
            format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent))
        }
        _ if plain => group_digits(&format!("{:.0}", 10f64.powi(exponent))),
        _ => format!("10{}", superscript(exponent)),
    }
}

/// Few powers of ten in sight: multiples of them if these give enough marks, linear ones if there is no power.
fn narrow_log(scale: &AxisScale, count: usize) -> Option<Ticks> {
    let (low, high) = (10f64.powf(scale.low), 10f64.powf(scale.high));
    let start = scale.low.floor() as i32;
    let multiples = |factors: &[f64]| -> Vec<f64> {
        (start..=start + 4)
            .flat_map(|exponent| factors.iter().map(move |factor| factor * 10f64.powi(exponent)))
            .filter(|value| (low..=high).contains(value))
            .collect()
    };
    let minor = multiples(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let minor = minor.into_iter().filter_map(|value| scale.share(value)).collect();
    let enough = 3..=count + 2;
    let labelled = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0][..]]
        .into_iter()
        .map(multiples)
        .find(|values| enough.contains(&values.len()))
        .map(|values| values.into_iter().map(|value| (value, pretty(value, 1))).collect::<Vec<_>>());
    let labelled = match labelled {
        Some(labelled) => labelled,
        None if scale.high - scale.low < 1.0 => {
            linear(low, high, count).into_iter().filter(|(value, _)| *value > 0.0).collect()
        }
        None => return None,
    };
    Some(Ticks { major: place(scale, labelled), minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: ScaleKind, low: f64, high: f64, count: usize) -> Vec<String> {
        ticks(&AxisScale { kind, low, high }, count).major.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_marks_are_round() {
        assert_eq!(
            labels(ScaleKind::Linear, 0.0, 1.0, 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"].map(|s| if s == "0.0" { "0" } else { s })
        );
        assert_eq!(labels(ScaleKind::Linear, -10.0, 10.0, 4), ["−10", "−5", "0", "5", "10"]);
        assert_eq!(
            labels(ScaleKind::Linear, 0.0, 40_000.0, 4),
            ["0", "10,000", "20,000", "30,000", "40,000"]
        );
        assert_eq!(labels(ScaleKind::Linear, 0.0, 4e-5, 4), ["0", "10⁻⁵", "2×10⁻⁵", "3×10⁻⁵", "4×10⁻⁵"]);
    }

    #[test]
    fn log_marks_are_powers() {
        assert_eq!(labels(ScaleKind::Log, -5.0, 0.0, 8), ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]);
        assert_eq!(labels(ScaleKind::Log, -15.0, 0.0, 6), ["10⁻¹⁵", "10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "1"]);
        assert_eq!(labels(ScaleKind::Log, -1.0, 2.0, 8), ["0.1", "1", "10", "100"]);
    }

    #[test]
    fn a_narrow_log_axis_still_has_marks() {
        assert!(labels(ScaleKind::Log, -0.3, -0.1, 6).len() >= 3);
        assert_eq!(labels(ScaleKind::Log, 0.0, 0.9, 6), ["1", "2", "5"]);
    }

    #[test]
    fn fitting_labels_do_not_touch() {
        let scale = AxisScale { kind: ScaleKind::Linear, low: 0.0, high: 1e5 };
        let ticks = fitting(&scale, 20, 200.0, |label| label.chars().count() as f64 * 7.0);
        assert!((2..=5).contains(&ticks.major.len()));
    }

    proptest::proptest! {
        #[test]
        fn marks_are_in_order_and_inside(low in -1e6..1e6f64, span in 1e-3..1e6f64, count in 1usize..12) {
            let scale = AxisScale { kind: ScaleKind::Linear, low, high: low + span };
            let marks = ticks(&scale, count).major;
            proptest::prop_assert!(marks.len() <= count + 2);
            proptest::prop_assert!(marks.windows(2).all(|pair| pair[0].share < pair[1].share));
            proptest::prop_assert!(marks.iter().all(|mark| (0.0..=1.0).contains(&mark.share)));
        }
    }
}
