//! The page of a run, made from what the run has released: its plan, its certificate and its evaluations, and for its pictures public images of
//! its test set. Of what lies in the folder `private`, only the name of a budget is read.

use std::path::Path;

use dapple_plan::{DataPlan, PlanError, number};
use dapple_report::graphic::Graphic;
use dapple_report::{Headline, Page, Section, Theme};
use dapple_train::{
    BudgetStatement, EvaluationLine, ModelDescription, RunCertificate, plan_of_run, spending,
};

use crate::error::PageError;
use crate::promise::PromisedLevel;
use crate::test_images::TestImages;
use crate::{crops, figures, paths, promise, quality, scenes};

/// The points of the curve of epsilon over the steps.
const POINTS: u64 = 9;

/// The page of a run, and its figures one by one.
#[derive(Debug, Clone)]
pub struct RunPage {
    /// The page.
    pub page: Page,
    /// Its figures, in the order of the page.
    pub figures: Vec<RunFigure>,
}

/// A figure of a page that can be written to a file of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigure {
    /// A name for the file, without an ending.
    pub name: &'static str,
    pub(crate) whole: Graphic,
    pub(crate) bare: Graphic,
}

impl RunFigure {
    /// The figure as a list of shapes, without titles if it is to be bare.
    #[must_use]
    pub fn graphic(&self, bare: bool) -> &Graphic {
        if bare { &self.bare } else { &self.whole }
    }
}

impl RunPage {
    /// The page of the run in a folder, with this certificate.
    ///
    /// # Guarantee
    /// The page shows what the run has released, and images of its test set only if they have files of their own. It names no folder of this
    /// machine. Of a budget that counts the run it shows what all runs in it cost, which follows from their plans and their numbers of steps.
    ///
    /// # Errors
    /// A folder without a run, a ledger that cannot be trusted, a test image that cannot be read.
    pub fn of(folder: &Path, certificate: &RunCertificate) -> Result<Self, PageError> {
        let spec = plan_of_run(folder)?;
        let data = DataPlan::check(&spec).map_err(PlanError::from)?;
        let lines = dapple_train::evaluations(folder)?;
        let levels = PromisedLevel::all(certificate);
        let test = TestImages::of(&data);
        // Runs of earlier versions do not describe their model.
        let description = ModelDescription::read(folder).ok();
        let classes = description.as_ref().map_or(&[][..], |description| &description.classes);
        let mut made = Self { page: Page::new(name_of(folder)).lead(lead(certificate)), figures: Vec::new() };
        made.add(headline(certificate, &levels, lines.last()));
        if !levels.is_empty() {
            let budget = budget_of(folder);
            let (bar, words) = match &budget {
                Some(budget) => promise::across_runs(budget, certificate),
                None => (None, String::new()),
            };
            let bars = figures::picture("budget", promise::bars(&levels, bar));
            let caption = format!("What is spent of what the plan may spend. All are upper bounds. {words}");
            made.with(Section::new(""), vec![(bars, caption.trim_end().to_owned())]);
        }
        if let Some(section) = scenes::section(folder, &test, description.as_ref())? {
            made.add(section);
        }
        let mut curves = quality::curves(&lines);
        let points = spending(folder, POINTS)?;
        curves.extend(promise::spending(&points, &levels).map(|figure| {
            let caption = "Epsilon of the steps up to each, as the accountant prices them.";
            (figures::chart("epsilon", figure), caption.to_owned())
        }));
        if !curves.is_empty() {
            made.with(Section::new("Over the steps"), curves);
        }
        if let Some(last) = lines.last() {
            let (section, shown) = quality::classes(&last.evaluation, classes)?;
            made.with(section, shown);
            made.add(quality::confusions(&last.evaluation, classes)?);
        }
        made.add(promise::certificate(certificate, &levels)?);
        if let Some((graphic, on_photograph)) = crops::picture(&spec, &test)? {
            let rarely =
                certificate.planned.as_ref().is_some_and(|planned| planned.inclusion_probability < 0.5);
            let words = match rarely {
                true => "Most crops of an image do not show the private patch, wherever it lies.",
                false => "A crop of an image may miss the private patch.",
            };
            let place = match on_photograph {
                true => " Drawn on a public image of the test set; where the patch lies is made up.",
                false => "",
            };
            made.with(
                Section::new(""),
                vec![(figures::picture("crops", graphic), format!("{words}{place}"))],
            );
        }
        if let Some(section) = promise::assumptions(certificate) {
            made.add(section);
        }
        made.add(Section::new("The plan").code(paths::shown_plan(&spec)));
        Ok(made)
    }

    fn add(&mut self, section: Section) {
        let page = std::mem::replace(&mut self.page, Page::new(""));
        self.page = page.section(section);
    }

    /// Adds a section with figures side by side.
    fn with(&mut self, section: Section, shown: Vec<(RunFigure, String)>) {
        let drawn = shown.iter().map(|(figure, caption)| (figure.whole.to_svg(Theme::Auto), caption.clone()));
        self.add(section.drawings(drawn.collect::<Vec<_>>()));
        self.figures.extend(shown.into_iter().map(|(figure, _)| figure));
    }
}

/// The budget that counts the run, if it is at hand. A page is no place to complain of one that was moved: `dapple budget` does.
fn budget_of(folder: &Path) -> Option<BudgetStatement> {
    let file = dapple_train::budget_of_run(folder).ok()??;
    dapple_train::budgets(&file).ok()?.pop()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(|| "Run".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn lead(certificate: &RunCertificate) -> String {
    match &certificate.planned {
        Some(planned) => format!("Protects {}.", planned.protects),
        None => "This run was neither clipped nor noised: nothing is guaranteed.".to_owned(),
    }
}

fn headline(
    certificate: &RunCertificate,
    levels: &[PromisedLevel],
    last: Option<&EvaluationLine>,
) -> Section {
    let own = |headline: Headline| match levels.first() {
        Some(level) => headline.color(level.color),
        None => headline,
    };
    let mut headlines = Vec::new();
    if let Some(line) = last {
        let score = line.evaluation.score();
        let headline = Headline::new(score.measure.words(), format!("{:.4}", score.value));
        let things = if line.evaluation.overlap.is_some() { "images" } else { "records" };
        headlines.push(
            headline.detail(format!("on {} {things} after step {}", line.evaluation.records, line.step)),
        );
    }
    match (&certificate.spent, certificate.private) {
        (Some(spent), _) => {
            let epsilon = Headline::new("epsilon spent, at most", number::up(spent.epsilon.upper, 4));
            headlines.push(own(epsilon.detail(format!("at delta {}", number::brief(spent.delta)))));
        }
        (None, true) => headlines.push(own(Headline::new("epsilon spent", "0"))),
        (None, false) => headlines.push(Headline::new("epsilon", "none").detail("nothing is guaranteed")),
    }
    let steps = Headline::new("steps", certificate.steps_spent.to_string());
    headlines.push(match &certificate.planned {
        Some(planned) => steps.detail(format!("of {} planned", planned.steps)),
        None => steps,
    });
    certificate.warnings.iter().fold(Section::new("").headlines(headlines), |section, warning| {
        section.paragraph(format!("**Warning.** {warning}"))
    })
}
