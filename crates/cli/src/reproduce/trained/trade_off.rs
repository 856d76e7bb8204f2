//! Quality over the privacy budget, patch level against record level: what P Figures 5 and 13 show.

use dapple_plan::number;
use dapple_report::Figure;
use dapple_train::Measure;

use super::super::{Listed, claims::Finding, outcome::Outcome};
use crate::experiment::{self, Group, Measured, Method, sweep_chart, sweep_table};
use crate::failure::Failure;

/// A figure of this kind.
pub(super) struct TradeOff<'a> {
    pub(super) listed: &'a Listed,
    /// Its name in the paper.
    pub(super) number: &'static str,
    pub(super) runs: &'a [Measured],
    /// What is trained, in words.
    pub(super) task: String,
    pub(super) notes: Vec<String>,
}

/// How much better patch level is than record level at one budget, drawn alike.
pub(super) struct Gain {
    method: Method,
    pub(super) epsilon: f64,
    pub(super) gain: f64,
    error: Option<f64>,
    /// In record level's means.
    pub(super) relative: f64,
}

impl TradeOff<'_> {
    /// The figure with the statements of the paper that follow from the gains.
    pub(super) fn shown(self, findings: impl FnOnce(&[Gain]) -> Vec<Finding>) -> Result<Outcome, Failure> {
        let Self { listed, number: name, runs, task, notes } = self;
        let Some(first) = runs.first() else { return Err(Failure::run("nothing was trained")) };
        let groups = experiment::groups(runs);
        let heading = format!("{name}: {}", listed.title);
        let delta = first.spent.as_ref().map_or_else(String::new, |spent| number::brief(spent.delta));
        let batch = first.spent.as_ref().map_or(0, |spent| spent.batch);
        let subtitle = format!("{task}; {} steps of batch {batch}, δ = {delta}", first.steps);
        let chart = sweep_chart(&heading, first.measure, &groups).subtitle(subtitle.as_str());
        let figure = notes.iter().fold(Figure::single(chart), |figure, note| figure.note(note.clone()));
        Ok(Outcome {
            id: listed.id,
            title: listed.title,
            heading,
            subtitle,
            digest: sweep_table(first.measure, &groups)?,
            digest_says: match first.measure {
                Measure::Accuracy => {
                    "accuracy on the test images, mean and standard deviation of single runs"
                }
                Measure::MeanIou => {
                    "mean intersection over union on the test images, mean and standard deviation of single runs"
                }
            },
            numbers: experiment::run_rows(runs, first.measure),
            summary: Some(experiment::group_rows(&groups)),
            findings: findings(&gains(&groups)),
            findings_say: "What the paper says of it",
            figure,
            notes,
        })
    }
}

fn gains(groups: &[Group<'_>]) -> Vec<Gain> {
    let gain = |patch: &Group<'_>| {
        let method = patch.method();
        let (counterpart, epsilon) = (method.counterpart()?, patch.epsilon()?);
        let record =
            groups.iter().find(|group| group.method() == counterpart && group.epsilon() == Some(epsilon))?;
        let (gain, error) = patch.gain_over(record);
        Some(Gain { method, epsilon, gain, error, relative: gain / record.mean })
    };
    groups.iter().filter_map(gain).collect()
}

/// Gains in points, with their standard errors where there are several runs.
pub(super) fn in_points(gains: &[Gain]) -> String {
    let several = gains.iter().any(|gain| gain.error.is_some());
    let points = told(gains, |gain| {
        let error = gain.error.map_or_else(String::new, |error| format!(" ± {:.1}", 100.0 * error));
        format!("{:+.1}{error}", 100.0 * gain.gain)
    });
    format!("by points, {}: {points}", if several { "with standard error" } else { "of single runs" })
}

/// Gains as shares of what record level reaches.
pub(super) fn in_shares(gains: &[Gain]) -> String {
    told(gains, |gain| format!("{:+.0}%", 100.0 * gain.relative))
}

fn told(gains: &[Gain], value: impl Fn(&Gain) -> String) -> String {
    let mut methods: Vec<Method> = Vec::new();
    for gain in gains {
        if !methods.contains(&gain.method) {
            methods.push(gain.method);
        }
    }
    let of = |method: &Method| {
        let own = gains.iter().filter(|gain| gain.method == *method);
        let values: Vec<String> =
            own.map(|gain| format!("{} at ε = {}", value(gain), number::exact(gain.epsilon))).collect();
        let name = if methods.len() > 1 { format!("{}: ", method.drawn()) } else { String::new() };
        format!("{name}{}", values.join(", "))
    };
    methods.iter().map(of).collect::<Vec<_>>().join("; ")
}
