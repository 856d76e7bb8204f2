//! What a run promised and spent, at each level.

use dapple_plan::{Bracket, Relation, number};
use dapple_report::graphic::Graphic;
use dapple_report::paint::method;
use dapple_report::{
    Axis, BudgetBar, Chart, Column, Figure, LegendPlace, ReportError, Section, Series, Table, budget_bars,
};
use dapple_train::{BudgetStatement, LabelStatus, RunCertificate, SpendingPoint};

/// A level at which the run has a price.
pub(crate) struct PromisedLevel {
    pub(crate) relation: Relation,
    /// The place in a chart's colours.
    pub(crate) color: usize,
    pub(crate) spent: Option<Bracket>,
    pub(crate) planned: Option<Bracket>,
}

impl PromisedLevel {
    /// The plan's own level, and that of whole records where the plan protects less.
    pub(crate) fn all(certificate: &RunCertificate) -> Vec<Self> {
        let color = |relation: Relation| {
            let sampling = certificate.planned.as_ref().map_or("", |planned| planned.sampling.name());
            method::of_level(relation.name(), sampling)
        };
        let own = certificate.planned.as_ref().map(|planned| Self {
            relation: planned.relation,
            color: color(planned.relation),
            spent: certificate.spent.as_ref().map(|spent| spent.epsilon),
            planned: Some(planned.epsilon),
        });
        let whole = certificate.record_level.map(|level| Self {
            relation: level.relation,
            color: color(level.relation),
            spent: level.spent,
            planned: level.planned,
        });
        own.into_iter().chain(whole).collect()
    }

    /// The level in a few words.
    pub(crate) fn words(&self) -> &'static str {
        level_words(self.relation)
    }
}

/// What a level protects, in a few words.
#[must_use]
pub fn level_words(relation: Relation) -> &'static str {
    match relation {
        Relation::Patch => "the private patch",
        Relation::Replace => "a whole record",
        Relation::AddRemove => "whether a record is there",
        Relation::Masked => "the private tokens",
        Relation::User => "a whole user",
    }
}

/// An epsilon with both of its ends, as far as both are known.
pub(crate) fn bracket_words(epsilon: Bracket) -> String {
    let upper = number::up(epsilon.upper, 4);
    match epsilon.lower {
        Some(lower) => format!("at most {upper} (bracket {} to {upper})", number::down(lower, 4)),
        None => format!("at most {upper}"),
    }
}

/// The share of each level's budget that is spent, and beneath it what all runs together have spent of a budget that counts them.
pub(crate) fn bars(levels: &[PromisedLevel], runs: Option<BudgetBar>) -> Graphic {
    let bar = |level: &PromisedLevel| {
        let planned = level.planned?;
        let spent = level.spent.map_or(0.0, |spent| spent.upper);
        let share = if planned.upper > 0.0 { spent / planned.upper } else { 0.0 };
        let spent =
            if spent > 0.0 { format!("at most {}", number::up(spent, 4)) } else { "nothing".to_owned() };
        Some(BudgetBar {
            name: format!("epsilon for {}", level.words()),
            color: level.color,
            share,
            words: format!("{spent} spent of {} planned", number::up(planned.upper, 4)),
        })
    };
    budget_bars(&levels.iter().filter_map(bar).chain(runs).collect::<Vec<_>>())
}

/// What all runs in a budget cost together, as a bar if the budget has a total, and in a sentence.
pub(crate) fn across_runs(
    budget: &BudgetStatement,
    certificate: &RunCertificate,
) -> (Option<BudgetBar>, String) {
    let upper = number::up(budget.epsilon.upper, 4);
    let sampling = certificate.planned.as_ref().map_or("", |planned| planned.sampling.name());
    let bar = budget.epsilon_total.map(|total| BudgetBar {
        name: "epsilon for all runs in the budget".to_owned(),
        color: method::of_level(budget.relation, sampling),
        share: budget.epsilon.upper / total,
        words: format!("at most {upper} taken of {}", number::exact(total)),
    });
    let protects =
        budget.protects.as_ref().map_or_else(String::new, |protects| format!(" It protects {protects}."));
    let counted = match budget.entries.len() {
        1 => "this run alone".to_owned(),
        several => format!("{several} runs, this one among them"),
    };
    let words = format!(
        "The budget counted {counted}, when this page was written: an epsilon of at most {upper} at delta {}, with everything that is set aside for runs that go on.{protects}",
        number::brief(budget.delta),
    );
    (bar, words)
}

/// Epsilon over the steps; `None` if there is no line to draw.
pub(crate) fn spending(points: &[SpendingPoint], levels: &[PromisedLevel]) -> Option<Figure> {
    if points.len() < 2 {
        return None;
    }
    let mut chart = Chart::new("Epsilon over the steps")
        .x(Axis::linear("step"))
        .y(Axis::log("epsilon, upper end"))
        .legend(LegendPlace::Above);
    for (index, level) in levels.iter().enumerate() {
        let value = |point: &SpendingPoint| match index {
            0 => Some(point.epsilon),
            _ => point.record_level,
        };
        let line = points.iter().filter_map(|point| Some((point.step as f64, value(point)?.upper)));
        let series = Series::line_points(level.words(), line);
        chart = chart.series(series.color(level.color));
    }
    Some(Figure::single(chart).panel_size(400.0, 260.0))
}

/// The certificate: what is spent at each level, and the facts that it rests on.
pub(crate) fn certificate(found: &RunCertificate, levels: &[PromisedLevel]) -> Result<Section, ReportError> {
    let section = Section::new("The certificate");
    let Some(planned) = &found.planned else {
        return Ok(section.paragraph("There was no privacy to account for."));
    };
    let mut table = Table::new([
        Column::text("protected"),
        Column::text("epsilon spent"),
        Column::text("epsilon of the whole plan"),
    ]);
    for level in levels {
        let spent = match (level.spent, found.steps_spent) {
            (Some(spent), _) => bracket_words(spent),
            (None, 0) => "nothing".to_owned(),
            (None, _) => "too large to tell".to_owned(),
        };
        let planned = level.planned.map_or_else(|| "too large to tell".to_owned(), bracket_words);
        table.push([level.words().into(), spent.into(), planned.into()])?;
    }
    let mut facts = vec![
        ("delta".to_owned(), number::exact(planned.delta)),
        ("protects".to_owned(), planned.protects.clone()),
        ("noise multiplier".to_owned(), number::down(planned.noise_multiplier, 5)),
        ("a step draws a record with probability".to_owned(), number::up(planned.sample_rate, 4)),
        (
            "a drawn record shows what is private with probability".to_owned(),
            number::up(planned.inclusion_probability, 4),
        ),
        ("by".to_owned(), planned.theorem.clone()),
    ];
    facts.extend(found.clip_norm.map(|norm| {
        let adapted =
            planned.adaptive_clip.map_or_else(String::new, |clip| format!(", then {}", clip.words()));
        ("clip norm".to_owned(), format!("{}{adapted}", number::exact(norm)))
    }));
    facts.extend(found.rounding.as_ref().map(|rounding| {
        let words = format!("{} clip norms: {}", number::exact(rounding.rho), rounding.because);
        ("rounding adds".to_owned(), words)
    }));
    facts.extend(found.labels.map(|labels| ("labels".to_owned(), label_words(labels).to_owned())));
    facts.extend(found.model_sha256.clone().map(|hash| ("SHA-256 of the model".to_owned(), hash)));
    facts.push(("last line of the ledger".to_owned(), found.ledger.clone()));
    Ok(section
        .table(&table, "What the steps taken so far cost, and all steps of the plan, at each level. Every figure is an upper bound.")
        .facts(facts))
}

/// Everything that the certificate assumes.
pub(crate) fn assumptions(found: &RunCertificate) -> Option<Section> {
    let planned = found.planned.as_ref()?;
    Some(Section::new("What must hold").list(planned.assumptions.iter().map(String::as_str)))
}

fn label_words(labels: LabelStatus) -> &'static str {
    match labels {
        LabelStatus::ClassPublic => "the class of an image is taken as public, and not protected",
        LabelStatus::ClassProtected => "the class of an image is protected with its record",
        LabelStatus::PixelsProtected => "the class of a pixel is protected where the pixel is",
    }
}
