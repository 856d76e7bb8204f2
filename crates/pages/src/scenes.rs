//! Public images and what the model of a run says about them.

use std::path::Path;

use dapple_plan::spec::{EvaluationKind, Performance};
use dapple_report::{Picture, Rgb, Section, class_colour};
use dapple_train::data::{Dataset, Target};
use dapple_train::{Answers, Look, ModelDescription, Prediction, Predictor};

use crate::error::PageError;
use crate::label_pictures;
use crate::test_images::{TestImages, spread};

/// How many images with label maps the page shows.
const MAPS: usize = 4;
/// How many images with one class the page shows.
const IMAGES: usize = 8;
/// Pixels of the longer side of an image on the page.
const SIDE: u32 = 480;
/// The least pixels of the longer side of an image with one class, which may be tiny.
const LEAST_SIDE: u32 = 96;

/// The section, or `None` if there is nothing to say or no weights are written yet.
pub(crate) fn section(
    folder: &Path,
    test: &TestImages,
    description: Option<&ModelDescription>,
) -> Result<Option<Section>, PageError> {
    let Some(description) = description.filter(|found| found.frames.is_none()) else { return Ok(None) };
    let section = Section::new("What the model sees");
    if let Some(words) = test.absence() {
        return Ok(Some(section.paragraph(words)));
    }
    let TestImages::Public(test) = test else { return Ok(None) };
    let maps = description.answers == Answers::LabelMap;
    // Windows that overlap leave no seams. A model whose images are no larger than its crops sees them at once.
    let kind = maps.then_some(EvaluationKind::Sliding);
    let performance = Performance::default();
    let (opened, windows) = match Predictor::open(folder, Look { kind, ..Look::default() }, &performance) {
        Ok(predictor) => (Ok(predictor), maps),
        Err(_) => (Predictor::open(folder, Look::default(), &performance), false),
    };
    let Ok(mut predictor) = opened else { return Ok(None) };
    let section = match windows {
        true => section.paragraph("Images are seen in windows of the size of a crop, which overlap."),
        false => section,
    };
    match maps {
        true => label_maps(section, &**test, &mut predictor, description).map(Some),
        false => single_classes(section, &**test, &mut predictor, description).map(Some),
    }
}

fn label_maps(
    section: Section,
    test: &dyn Dataset,
    predictor: &mut Predictor,
    description: &ModelDescription,
) -> Result<Section, PageError> {
    let palette = label_pictures::palette(&description.classes);
    let mut shown = section;
    for record in spread(test.len(), MAPS) {
        shown = label_map(shown, test, record, predictor, &palette)?;
    }
    let names = description.classes.iter().enumerate().map(|(number, class)| {
        (palette.get(number).copied().unwrap_or_else(|| class_colour(number)), class.name.clone())
    });
    Ok(shown.legend(names))
}

fn label_map(
    section: Section,
    test: &dyn Dataset,
    record: usize,
    predictor: &mut Predictor,
    palette: &[Rgb],
) -> Result<Section, PageError> {
    let image = test.read(record)?;
    let place = test.place(record);
    let (Target::Map(truth), Prediction::Map(said)) =
        (test.target(record)?, predictor.predict(&image, &place)?)
    else {
        return Ok(section);
    };
    let small = |picture: Picture| picture.shrunk(SIDE).to_png();
    let pictures = [
        ("image", small(label_pictures::photograph(&image)?)?),
        ("truth", small(label_pictures::map(&truth, palette)?.colours())?),
        ("prediction", small(label_pictures::map(&said, palette)?.colours())?),
    ];
    let caption = format!(
        "{} of the test set. Pixels without a label are black in the truth.",
        name_of(&place, record)
    );
    Ok(section.gallery(pictures.iter().map(|(name, bytes)| (*name, bytes.as_slice())), caption))
}

fn single_classes(
    section: Section,
    test: &dyn Dataset,
    predictor: &mut Predictor,
    description: &ModelDescription,
) -> Result<Section, PageError> {
    let name = |class: usize| {
        description.classes.get(class).map_or_else(|| class.to_string(), |class| class.name.clone())
    };
    let mut pictures = Vec::new();
    for record in spread(test.len(), IMAGES) {
        let image = test.read(record)?;
        let Prediction::Class(probabilities) = predictor.predict(&image, &test.place(record))? else {
            continue;
        };
        let said = (0..probabilities.len()).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
        let (Some(said), class) = (said, test.label(record)? as usize) else { continue };
        let percent = 100.0 * probabilities[said];
        let words = match said == class {
            true => format!("{} ({percent:.0} %)", name(said)),
            false => format!("said {} ({percent:.0} %), is {}", name(said), name(class)),
        };
        let picture = label_pictures::photograph(&image)?.shrunk(SIDE);
        pictures.push((words, picture.grown(LEAST_SIDE).to_png()?));
    }
    if pictures.is_empty() {
        return Ok(section.paragraph("The test set has no images."));
    }
    let shown = pictures.iter().map(|(words, bytes)| (words.clone(), bytes.as_slice()));
    Ok(section.gallery(
        shown,
        "Images of the test set with the class that the model finds the likeliest, and its probability.",
    ))
}

fn name_of(place: &str, record: usize) -> String {
    match Path::new(place).file_name() {
        Some(name) => format!("Record {record} ({})", name.to_string_lossy()),
        None => format!("Record {record}"),
    }
}
