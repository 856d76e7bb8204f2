//! The page of a run, made from what the run has released: its plan, its certificate and its evaluations, and where every pixel has a
//! class, its model on public images. What lies in the folder `private` is not read.

mod quality;
mod scenes;

use std::path::Path;

use dapple_plan::spec::Pixels;
use dapple_plan::{PlanSpec, number};
use dapple_report::crop::{CropPicture, crop_scene};
use dapple_report::{Card, Page, Section};
use dapple_train::{Evaluation, ModelDescription, TrainError};
use serde::Deserialize;

use crate::failure::Failure;
use crate::{load, output};

/// The parts of a run's certificate that the page shows.
#[derive(Deserialize)]
struct Certificate {
    private: bool,
    warnings: Vec<String>,
    steps_spent: u64,
    spent: Option<Price>,
    planned: Option<Price>,
    ledger: String,
}

#[derive(Deserialize)]
struct Price {
    epsilon: Epsilon,
    delta: f64,
    steps: u64,
    noise_multiplier: f64,
    sample_rate: f64,
    inclusion_probability: f64,
    protects: String,
    theorem: String,
    assumptions: Vec<String>,
}

#[derive(Deserialize)]
struct Epsilon {
    lower: Option<f64>,
    upper: f64,
}

/// A line of `metrics.jsonl`.
#[derive(Deserialize)]
pub(crate) struct Line {
    /// Steps taken.
    pub(crate) step: u64,
    /// How good the model was.
    #[serde(flatten)]
    pub(crate) evaluation: Evaluation,
}

/// The page of the run in a folder.
pub(crate) fn page(folder: &Path) -> Result<Page, Failure> {
    let plan = folder.join("plan.toml");
    if !plan.is_file() {
        return Err(TrainError::NoRun { folder: folder.to_owned() }.into());
    }
    let spec = load::read_plan(&plan)?;
    let certificate: Certificate = parse(&folder.join("certificate.json"))?;
    let lines = evaluations(folder)?;
    let name =
        folder.file_name().map_or_else(|| "Run".to_owned(), |name| name.to_string_lossy().into_owned());
    let lead = match &certificate.planned {
        Some(planned) => format!("Protects {}.", planned.protects),
        None => "This run was neither clipped nor noised: nothing is guaranteed.".to_owned(),
    };
    let mut page = Page::new(name).lead(lead).section(headline(&certificate, lines.last()));
    page = page.section(privacy(&certificate, &spec)?);
    // A run of an earlier version does not describe its model.
    let description = ModelDescription::read(folder).ok();
    let classes = description.as_ref().map_or(&[][..], |description| &description.classes);
    if let Some(section) = quality::section(&lines, classes)? {
        page = page.section(section);
    }
    if let Some(section) = scenes::section(folder, &spec, description.as_ref())? {
        page = page.section(section);
    }
    let plan = Section::new("The plan").code(spec.to_toml());
    Ok(page.section(plan).command(output::command_line()))
}

fn headline(certificate: &Certificate, last: Option<&Line>) -> Section {
    let mut cards = Vec::new();
    match (&certificate.spent, certificate.private) {
        (Some(spent), _) => {
            let epsilon = Card::new("epsilon spent, at most", number::up(spent.epsilon.upper, 4));
            cards.push(epsilon.detail(format!("at delta {}", number::brief(spent.delta))));
        }
        (None, true) => cards.push(Card::new("epsilon spent", "0")),
        (None, false) => cards.push(Card::new("epsilon", "none").detail("nothing is guaranteed")),
    }
    if let Some(line) = last {
        let score = line.evaluation.score();
        let card = Card::new(score.measure.words(), format!("{:.4}", score.value));
        let things = if line.evaluation.overlap.is_some() { "images" } else { "records" };
        cards.push(card.detail(format!("on {} {things} after step {}", line.evaluation.records, line.step)));
    }
    let steps = Card::new("steps", certificate.steps_spent.to_string());
    cards.push(match &certificate.planned {
        Some(planned) => steps.detail(format!("of {} planned", planned.steps)),
        None => steps,
    });
    certificate.warnings.iter().fold(Section::new("").cards(cards), |section, warning| {
        section.paragraph(format!("**Warning.** {warning}"))
    })
}

fn privacy(certificate: &Certificate, spec: &PlanSpec) -> Result<Section, Failure> {
    let mut section = Section::new("What was promised, and what was spent");
    let Some(planned) = &certificate.planned else {
        return Ok(section.paragraph("There was no privacy to account for."));
    };
    let bracket = |price: &Price| {
        let upper = number::up(price.epsilon.upper, 5);
        price.epsilon.lower.map_or_else(
            || format!("at most {upper}"),
            |lower| format!("between {} and {upper}", number::down(lower, 5)),
        )
    };
    let spent = certificate.spent.as_ref().map_or_else(|| "nothing".to_owned(), bracket);
    let mut facts = vec![
        ("epsilon spent".to_owned(), spent),
        ("epsilon of the whole plan".to_owned(), bracket(planned)),
        ("delta".to_owned(), number::exact(planned.delta)),
        ("noise multiplier".to_owned(), number::down(planned.noise_multiplier, 5)),
        ("a step draws a record with probability".to_owned(), number::up(planned.sample_rate, 4)),
        (
            "a drawn record shows what is private with probability".to_owned(),
            number::up(planned.inclusion_probability, 4),
        ),
        ("by".to_owned(), planned.theorem.clone()),
        ("last line of the ledger".to_owned(), certificate.ledger.clone()),
    ];
    facts.extend(planned.assumptions.iter().map(|words| ("assumed".to_owned(), words.clone())));
    if let Some(picture) = crop_of(spec) {
        let caption = match planned.inclusion_probability < 0.5 {
            true => "Most crops of an image do not show the private patch, wherever it lies.",
            false => "A crop of an image may miss the private patch.",
        };
        section = section.scene(&crop_scene(&picture)?, caption);
    }
    Ok(section.facts(facts))
}

/// The crop idea in the sizes of a plan, where it has a rectangle to protect.
pub(crate) fn crop_of(spec: &PlanSpec) -> Option<CropPicture> {
    let size = |pixels: Option<Pixels>| pixels.map(|Pixels { x, y }| (x, y));
    let (image, crop, patch) =
        (size(spec.pipeline.image)?, size(spec.pipeline.crop)?, size(spec.region.patch)?);
    // A place off the centre, where a plate or a face would be.
    let origin = |image: u32, patch: u32| image.checked_sub(patch).map(|room| room / 8 * 5);
    let patch_origin = (origin(image.0, patch.0)?, origin(image.1, patch.1)?);
    (crop.0 <= image.0 && crop.1 <= image.1).then_some(CropPicture { image, crop, patch, patch_origin })
}

/// The evaluations of a run, in order.
pub(crate) fn evaluations(folder: &Path) -> Result<Vec<Line>, Failure> {
    let text = read(&folder.join("metrics.jsonl"))?;
    // A run that was killed may have left half a line behind, which nobody was told of.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, Failure> {
    serde_json::from_str(&read(path)?).map_err(|error| {
        Failure::run(format!("{}: {error}", path.display())).with_hint("`dapple resume` writes the file anew")
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::request(format!("{}: {error}", path.display()), "give the folder of a run"))
}
