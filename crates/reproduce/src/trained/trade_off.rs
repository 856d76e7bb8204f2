//! Quality over the privacy budget, patch level against record level: what Figures 5 and 13 of the patch-level paper show.

use dapple_plan::number;
use dapple_report::{Figure, TableRows};
use dapple_train::Measure;

use crate::claim::{Claim, ClaimVerdict, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{
    MeasuredRun, Method, RunGroup, group_rows, groups, run_rows, sweep_chart, sweep_table,
};
use crate::options::Training;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionKind, ReproductionOptions, Watch};

/// A figure of quality over the budget.
pub(super) struct TradeOff {
    pub(super) entry: CatalogueEntry,
    pub(super) train: fn(&Training, &dyn Watch) -> Result<TradeOffRuns>,
    /// The paper's statements about the gains.
    pub(super) claims: &'static [Statement<[Gain]>],
}

/// What was trained.
pub(super) struct TradeOffRuns {
    /// The runs, of which there is at least one.
    pub(super) runs: Vec<MeasuredRun>,
    /// The task in words.
    pub(super) task: String,
    pub(super) notes: Vec<String>,
}

impl TradeOffRuns {
    /// One of the runs, for what they share.
    fn first(&self) -> &MeasuredRun {
        &self.runs[0]
    }
}

/// How much better patch level is than record level at one budget, drawn alike.
pub(super) struct Gain {
    method: Method,
    pub(super) epsilon: f64,
    pub(super) gain: f64,
    error: Option<f64>,
    /// The gain as a share of record level's mean.
    pub(super) relative: f64,
}

impl Reproduction for TradeOff {
    type Results = TradeOffRuns;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained { pool: false }
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<TradeOffRuns> {
        let trained = (self.train)(&options.training, watch)?;
        match trained.runs.is_empty() {
            true => Err(ReproduceError::failed("nothing was trained")),
            false => Ok(trained),
        }
    }

    fn subtitle(&self, trained: &TradeOffRuns) -> String {
        let first = trained.first();
        let delta = first.spent.as_ref().map_or_else(String::new, |spent| number::brief(spent.delta));
        let batch = first.spent.as_ref().map_or(0, |spent| spent.batch);
        format!("{}; {} steps of batch {batch}, δ = {delta}", trained.task, first.steps)
    }

    fn digest(&self, trained: &TradeOffRuns) -> Result<Digest> {
        let measure = trained.first().measure;
        let says = match measure {
            Measure::Accuracy => "accuracy on the test images, mean and standard deviation of single runs",
            Measure::ClassAccuracy => {
                "mean accuracy on the classes of the test images, mean and standard deviation of single runs"
            }
            Measure::MeanIou => {
                "mean intersection over union on the test images, mean and standard deviation of single runs"
            }
        };
        Ok(Digest { table: sweep_table(measure, &groups(&trained.runs))?, says })
    }

    fn numbers(&self, trained: &TradeOffRuns) -> TableRows {
        run_rows(&trained.runs, trained.first().measure)
    }

    fn summary(&self, trained: &TradeOffRuns) -> Option<TableRows> {
        Some(group_rows(&groups(&trained.runs)))
    }

    fn claims(&self, _: &TradeOffRuns) -> Vec<Claim<'_, TradeOffRuns>> {
        let claim = |&Statement { says, check }: &Statement<[Gain]>| {
            Claim::new(says, move |trained: &TradeOffRuns| check(&gains(&groups(&trained.runs))))
        };
        self.claims.iter().map(claim).collect()
    }

    fn draw(&self, trained: &TradeOffRuns, figure: Figure) -> Figure {
        let chart = sweep_chart("", trained.first().measure, &groups(&trained.runs));
        figure.subtitle(self.subtitle(trained)).large(chart)
    }

    fn notes(&self, trained: &TradeOffRuns) -> Vec<String> {
        trained.notes.clone()
    }
}

fn gains(groups: &[RunGroup<'_>]) -> Vec<Gain> {
    let gain = |patch: &RunGroup<'_>| {
        let method = patch.method();
        let (counterpart, epsilon) = (method.counterpart()?, patch.epsilon()?);
        let record =
            groups.iter().find(|group| group.method() == counterpart && group.epsilon() == Some(epsilon))?;
        let (gain, error) = patch.gain_over(record);
        Some(Gain { method, epsilon, gain, error, relative: gain / record.mean })
    };
    groups.iter().filter_map(gain).collect()
}

/// Whether patch level is better at every budget.
pub(super) fn always_gains(gains: &[Gain]) -> Result<ClaimVerdict> {
    Ok((in_points(gains), gains.iter().all(|gain| gain.gain > 0.0)))
}

/// Gains in points, with their standard errors where there are several runs.
fn in_points(gains: &[Gain]) -> String {
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
