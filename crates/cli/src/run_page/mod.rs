//! The page of a run, made from what the run has released: its plan, its certificate and its evaluations, and for a model of label maps
//! also what it says about public images. What lies in the folder `private` is not read.

mod quality;
mod scenes;

use std::path::Path;

use dapple_plan::spec::Pixels;
use dapple_plan::{Bracket, DataPlan, PlanError, PlanSpec, number};
use dapple_report::crop::{CropPicture, crop_graphic};
use dapple_report::{Headline, Page, Section};
use dapple_train::{EvaluationLine, LabelStatus, ModelDescription, RunCertificate};

use crate::failure::Failure;
use crate::{load, output};

/// The page of the run in a folder, with this certificate.
pub(crate) fn page(folder: &Path, certificate: &RunCertificate) -> Result<Page, Failure> {
    let spec = load::read_plan(&folder.join("plan.toml"))?;
    let data = DataPlan::check(&spec).map_err(PlanError::from)?;
    let lines = evaluations(folder)?;
    let name =
        folder.file_name().map_or_else(|| "Run".to_owned(), |name| name.to_string_lossy().into_owned());
    let lead = match &certificate.planned {
        Some(planned) => format!("Protects {}.", planned.protects),
        None => "This run was neither clipped nor noised: nothing is guaranteed.".to_owned(),
    };
    let mut page = Page::new(name).lead(lead).section(headline(certificate, lines.last()));
    page = page.section(privacy(certificate, &spec)?);
    // Runs of earlier versions do not describe their model.
    let description = ModelDescription::read(folder).ok();
    let classes = description.as_ref().map_or(&[][..], |description| &description.classes);
    if let Some(section) = quality::section(&lines, classes)? {
        page = page.section(section);
    }
    if let Some(section) = scenes::section(folder, &data, description.as_ref())? {
        page = page.section(section);
    }
    let plan = Section::new("The plan").code(spec.to_toml());
    Ok(page.section(plan).command(output::command_line()))
}

fn headline(certificate: &RunCertificate, last: Option<&EvaluationLine>) -> Section {
    let mut headlines = Vec::new();
    match (&certificate.spent, certificate.private) {
        (Some(spent), _) => {
            let epsilon = Headline::new("epsilon spent, at most", number::up(spent.epsilon.upper, 4));
            headlines.push(epsilon.detail(format!("at delta {}", number::brief(spent.delta))));
        }
        (None, true) => headlines.push(Headline::new("epsilon spent", "0")),
        (None, false) => headlines.push(Headline::new("epsilon", "none").detail("nothing is guaranteed")),
    }
    if let Some(line) = last {
        let score = line.evaluation.score();
        let headline = Headline::new(score.measure.words(), format!("{:.4}", score.value));
        let things = if line.evaluation.overlap.is_some() { "images" } else { "records" };
        headlines.push(
            headline.detail(format!("on {} {things} after step {}", line.evaluation.records, line.step)),
        );
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

fn privacy(certificate: &RunCertificate, spec: &PlanSpec) -> Result<Section, Failure> {
    let mut section = Section::new("What was promised, and what was spent");
    let Some(planned) = &certificate.planned else {
        return Ok(section.paragraph("There was no privacy to account for."));
    };
    let bracket = |epsilon: Bracket| {
        let upper = number::up(epsilon.upper, 5);
        epsilon.lower.map_or_else(
            || format!("at most {upper}"),
            |lower| format!("between {} and {upper}", number::down(lower, 5)),
        )
    };
    let spent =
        certificate.spent.as_ref().map_or_else(|| "nothing".to_owned(), |price| bracket(price.epsilon));
    let mut facts = vec![
        ("epsilon spent".to_owned(), spent),
        ("epsilon of the whole plan".to_owned(), bracket(planned.epsilon)),
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
    if let Some(level) = &certificate.record_level {
        let words = level.spent.map_or_else(|| "too large to tell, or nothing".to_owned(), bracket);
        facts.push(("epsilon spent, for a whole record substituted".to_owned(), words));
    }
    facts.extend(certificate.clip_norm.map(|norm| {
        let adapted =
            planned.adaptive_clip.map_or_else(String::new, |clip| format!(", then {}", clip.words()));
        ("clip norm".to_owned(), format!("{}{adapted}", number::exact(norm)))
    }));
    facts.extend(certificate.rounding.as_ref().map(|rounding| {
        let words = format!("{} clip norms: {}", number::exact(rounding.rho), rounding.because);
        ("rounding adds".to_owned(), words)
    }));
    facts.extend(certificate.labels.map(|labels| ("labels".to_owned(), label_words(labels).to_owned())));
    facts.extend(certificate.model_sha256.clone().map(|hash| ("SHA-256 of the model".to_owned(), hash)));
    facts.extend(planned.assumptions.iter().map(|words| ("assumed".to_owned(), words.clone())));
    if let Some(picture) = crop_of(spec) {
        let caption = match planned.inclusion_probability < 0.5 {
            true => "Most crops of an image do not show the private patch, wherever it lies.",
            false => "A crop of an image may miss the private patch.",
        };
        section = section.graphic(&crop_graphic(&picture)?, caption);
    }
    Ok(section.facts(facts))
}

fn label_words(labels: LabelStatus) -> &'static str {
    match labels {
        LabelStatus::ClassPublic => "the class of an image is taken as public, and not protected",
        LabelStatus::ClassProtected => "the class of an image is protected with its record",
        LabelStatus::PixelsProtected => "the class of a pixel is protected where the pixel is",
    }
}

/// The sizes of a plan for a picture that explains crops, if the plan protects a rectangle.
pub(crate) fn crop_of(spec: &PlanSpec) -> Option<CropPicture> {
    let size = |pixels: Option<Pixels>| pixels.map(|Pixels { x, y }| (x, y));
    let (image, crop, patch) =
        (size(spec.pipeline.image)?, size(spec.pipeline.crop)?, size(spec.region.patch)?);
    // Puts the patch off the centre, as a plate or a face would be.
    let origin = |image: u32, patch: u32| image.checked_sub(patch).map(|room| room / 8 * 5);
    let patch_origin = (origin(image.0, patch.0)?, origin(image.1, patch.1)?);
    (crop.0 <= image.0 && crop.1 <= image.1).then_some(CropPicture { image, crop, patch, patch_origin })
}

/// The evaluations of a run, in order.
pub(crate) fn evaluations(folder: &Path) -> Result<Vec<EvaluationLine>, Failure> {
    dapple_train::evaluations(folder)
        .map_err(|error| Failure::request(error.to_string(), "give the folder of a run"))
}
