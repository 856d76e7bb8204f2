//! Public images with their labels and what the model of a run says about them.

use std::path::Path;

use dapple_plan::DataPlan;
use dapple_plan::spec::Performance;
use dapple_report::{Section, class_colour};
use dapple_train::data::{Dataset, Target, open};
use dapple_train::{Answers, Look, ModelDescription, Prediction, Predictor};

use crate::failure::Failure;
use crate::label_pictures;

/// How many images the page shows.
const IMAGES: usize = 4;
/// Pixels of the longer side of an image on the page.
const SIDE: u32 = 480;

/// The section, or `None` if the model gives one class to an image or no weights are written yet. Images that were split off the private
/// ones are never shown, because nothing protects them and the page is made to be passed on.
pub(super) fn section(
    folder: &Path,
    data: &DataPlan,
    description: Option<&ModelDescription>,
) -> Result<Option<Section>, Failure> {
    let Some(description) = description.filter(|found| found.answers == Answers::LabelMap) else {
        return Ok(None);
    };
    let section = Section::new("What the model sees");
    if data.origin.splits_records_off() {
        let words = "The model was evaluated on records split off the private ones. They are not shown here.";
        return Ok(Some(section.paragraph(words)));
    }
    let Ok(mut predictor) = Predictor::open(folder, Look::default(), &Performance::default()) else {
        return Ok(None);
    };
    let test = match open(data, Path::new("")) {
        Ok(opened) => opened.test,
        // The page can also be made on a machine without the data.
        Err(error) => return Ok(Some(section.paragraph(format!("The test set is not at hand: {error}.")))),
    };
    let Some(test) = test else { return Ok(None) };
    let palette = label_pictures::palette(&description.classes);
    let mut shown = section;
    for record in spread(test.len()) {
        shown = show(shown, &*test, record, &mut predictor, &palette)?;
    }
    let names = description.classes.iter().enumerate().map(|(number, class)| {
        (palette.get(number).copied().unwrap_or_else(|| class_colour(number)), class.name.clone())
    });
    Ok(Some(shown.legend(names)))
}

/// Records from the first to the last, evenly spread.
fn spread(records: usize) -> Vec<usize> {
    let count = records.min(IMAGES);
    (0..count).map(|index| index * (records - 1) / (count - 1).max(1)).collect()
}

fn show(
    section: Section,
    test: &dyn Dataset,
    record: usize,
    predictor: &mut Predictor,
    palette: &[dapple_report::Rgb],
) -> Result<Section, Failure> {
    let image = test.read(record)?;
    let place = test.place(record);
    let (Target::Map(truth), Prediction::Map(said)) =
        (test.target(record)?, predictor.predict(&image, &place)?)
    else {
        return Ok(section);
    };
    let small = |picture: dapple_report::Picture| picture.shrunk(SIDE).to_png();
    let pictures = [
        ("image", small(label_pictures::photograph(&image)?)?),
        ("truth", small(label_pictures::map(&truth, palette)?.colours())?),
        ("prediction", small(label_pictures::map(&said, palette)?.colours())?),
    ];
    let name =
        Path::new(&place).file_name().map_or(place.clone(), |name| name.to_string_lossy().into_owned());
    let caption =
        format!("Record {record} of the test set ({name}). Pixels without a label are black in the truth.");
    Ok(section.gallery(pictures.iter().map(|(name, bytes)| (*name, bytes.as_slice())), caption))
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn records_are_spread_over_the_set() {
        assert_eq!(spread(0), Vec::<usize>::new());
        assert_eq!(spread(1), [0]);
        assert_eq!(spread(3), [0, 1, 2]);
        assert_eq!(spread(101), [0, 33, 66, 100]);
    }
}
