//! What the demonstration shows of streets: the truth beside what both levels find.

use dapple_pages::label_pictures;
use dapple_report::{Cell, Column, Picture, ReportError, Section, Table};
use dapple_train::data::street::{CLASS_NAMES, street_scenes};
use dapple_train::data::{Dataset, Target};
use dapple_train::{Look, Prediction, Predictor};

use super::{Arguments, LEVELS, Measured, run_name};
use crate::failure::Failure;

/// The streets that are shown: the first of the test, whatever they are like.
const SHOWN: usize = 4;
/// How many times larger than they are pictures are drawn.
const ENLARGED: u32 = 3;

/// The section of the pictures. The models are those of the first seed, which nobody chose by how well they do.
pub(super) fn pictures(arguments: &Arguments) -> Result<Section, Failure> {
    let (_, test) = street_scenes()?;
    let mut predictors = LEVELS
        .map(|level| {
            let folder = arguments.out.join(run_name(level, 1));
            let performance = arguments.machine.performance();
            Predictor::open(&folder, Look::default(), &performance)
        })
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let classes = predictors.first().map(|predictor| predictor.description().classes.clone());
    let classes = classes.unwrap_or_default();
    let palette = label_pictures::palette(&classes);
    let mut section = Section::new("What each finds in streets that it never saw").paragraph(
        "A model says for every pixel whether it is road, pavement, building, sky, a car or a person. Cars carry number plates and people have \
         faces: these are what the patch level protects, wherever they lie. The streets are drawn by the program, so that everybody can look at them.",
    );
    section = section.legend(
        classes.iter().zip(&palette).map(|(class, &colour)| (colour, class.name.clone())).collect::<Vec<_>>(),
    );
    for record in 0..SHOWN.min(test.len()) {
        let image = test.read(record)?;
        let mut shown = vec![("the street", enlarged(&label_pictures::photograph(&image)?)?)];
        if let Target::Map(truth) = test.target(record)? {
            shown.push(("the truth", enlarged(&label_pictures::map(&truth, &palette)?.colours())?));
        }
        for (predictor, name) in predictors.iter_mut().zip(["found at record level", "found at patch level"])
        {
            if let Prediction::Map(said) = predictor.predict(&image, &test.place(record))? {
                shown.push((name, enlarged(&label_pictures::map(&said, &palette)?.colours())?));
            }
        }
        section = section.gallery(
            shown.iter().map(|(name, bytes)| (*name, bytes.as_slice())),
            format!("Street {} of the test.", record + 1),
        );
    }
    Ok(section)
}

/// The picture as a PNG, each pixel as a square.
fn enlarged(picture: &Picture) -> Result<Vec<u8>, ReportError> {
    let ((width, height), pixels) = (picture.size(), picture.pixels());
    let (wide, high) = (width * ENLARGED, height * ENLARGED);
    let pixel = |x: u32, y: u32| pixels[(y / ENLARGED * width + x / ENLARGED) as usize];
    let squares = (0..high).flat_map(|y| (0..wide).map(move |x| pixel(x, y))).collect();
    Picture::new(wide, high, squares)?.to_png()
}

/// How much of each class both levels find.
pub(super) fn classes(methods: &[Measured]) -> Result<Table, ReportError> {
    let levels = methods.iter().map(|method| Column::number(format!("{} level", method.method)));
    let mut table = Table::new(std::iter::once(Column::text("class")).chain(levels));
    for (class, name) in CLASS_NAMES.iter().enumerate() {
        let found = methods.iter().map(|method| match method.per_class.get(class).copied().flatten() {
            Some(share) => Cell::Text(format!("{:.1} %", 100.0 * share)),
            None => Cell::Empty,
        });
        table.push(std::iter::once(Cell::from(*name)).chain(found).collect::<Vec<_>>())?;
    }
    Ok(table)
}
