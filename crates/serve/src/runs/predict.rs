//! What the model of a run says about a picture from the browser.

use std::path::Path;
use std::sync::PoisonError;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dapple_pages::label_pictures;
use dapple_plan::spec::Performance;
use dapple_train::data::formats;
use dapple_train::{Look, Prediction, Predictor};
use serde::Serialize;

use super::RunDesk;
use crate::error::ServeError;

/// The most pixels of a picture from the browser.
const MOST_PIXELS: u64 = 50_000_000;
/// How many classes are named.
const NAMED: usize = 5;

/// What a model says.
#[derive(Debug, Serialize)]
#[serde(tag = "answers", rename_all = "kebab-case")]
pub(crate) enum PredictionAnswer {
    /// The likeliest classes.
    Class { classes: Vec<PredictedClass> },
    /// The class of each pixel, as a PNG over the picture in base64, and the classes that cover most of it.
    LabelMap { overlay: String, classes: Vec<PredictedClass> },
}

/// A class with its probability, or with the share of pixels that it covers.
#[derive(Debug, Serialize)]
pub(crate) struct PredictedClass {
    name: String,
    share: f64,
    colour: Option<String>,
}

impl RunDesk {
    /// Asks the model of a run about a picture, which is read within the limits of the run's plan, and never written anywhere.
    pub(crate) fn predict(&self, name: &str, picture: &[u8]) -> Result<PredictionAnswer, ServeError> {
        let folder = self.folders.folder(name)?;
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut predictor = Predictor::open(&folder, Look::default(), &Performance::default())?;
        let description = predictor.description().clone();
        if description.frames.is_some() {
            let hint = Some("ask about clips with `dapple predict`");
            return Err(ServeError::refused("the model sees clips, and this is a picture".to_owned(), hint));
        }
        let mut limits = predictor.plan().data.limits;
        limits.pixels = limits.pixels.min(MOST_PIXELS);
        let place = "the picture";
        let image = formats::decode(picture, Path::new(place), &limits)?;
        let named = |class: usize, share: f64, colour| PredictedClass {
            name: description
                .classes
                .get(class)
                .map_or_else(|| class.to_string(), |class| class.name.clone()),
            share,
            colour,
        };
        Ok(match predictor.predict(&image, place)? {
            Prediction::Class(probabilities) => {
                let likeliest = likeliest(&probabilities).into_iter();
                PredictionAnswer::Class {
                    classes: likeliest.map(|(class, share)| named(class, share, None)).collect(),
                }
            }
            Prediction::Map(map) => {
                let palette = label_pictures::palette(&description.classes);
                let over = label_pictures::map(&map, &palette)?.over(&label_pictures::photograph(&image)?)?;
                let mut shares = vec![0.0; description.classes.len()];
                for &label in map.labels() {
                    if let Some(share) = shares.get_mut(usize::from(label)) {
                        *share += 1.0 / map.labels().len() as f64;
                    }
                }
                let colour = |class: usize| palette.get(class).map(|colour| colour.hex());
                let classes =
                    likeliest(&shares).into_iter().map(|(class, share)| named(class, share, colour(class)));
                PredictionAnswer::LabelMap {
                    overlay: STANDARD.encode(over.to_png()?),
                    classes: classes.collect(),
                }
            }
        })
    }
}

/// The largest shares, in order; classes with none are left out.
fn likeliest(shares: &[f64]) -> Vec<(usize, f64)> {
    let mut order: Vec<(usize, f64)> =
        shares.iter().copied().enumerate().filter(|(_, share)| *share > 0.0).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.truncate(NAMED);
    order
}
