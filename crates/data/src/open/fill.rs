//! Fills in what a plan leaves to its records: how many there are, and how large their images are.

use std::path::Path;

use dapple_plan::spec::{Pixels, PlacementSpec, PlanSpec};
use dapple_plan::{DataPlan, RecordOrigin};
use rayon::prelude::*;

use crate::{DataError, Dataset};

/// Fills in what a plan leaves open, from its records: their number, the frames of clips, and the size of images where the price of a
/// crop needs it. Every header is read then, so that no image of another size passes unseen.
///
/// # Errors
/// Images of several sizes where one is needed, or a file whose header cannot be read.
pub fn fill_in(spec: &mut PlanSpec, records: &dyn Dataset) -> Result<(), DataError> {
    spec.sampling.records = spec.sampling.records.or(Some(records.len() as u64));
    if spec.pipeline.window.is_some() {
        let frames = records.frames().and_then(|frames| u32::try_from(frames).ok());
        spec.pipeline.frames = spec.pipeline.frames.or(frames);
    }
    if spec.pipeline.image.is_none() {
        let size = match (records.image_size(), needs_size(spec)) {
            (None, true) => one_size(records)?,
            (size, _) => size,
        };
        spec.pipeline.image = size.map(|size| Pixels { x: size.width(), y: size.height() });
    }
    Ok(())
}

/// As [`fill_in`], but opens the data only if the plan names some and leaves something to it. Paths are relative to `base`.
///
/// # Errors
/// As [`crate::open`] and [`fill_in`].
pub fn fill_in_from(spec: &mut PlanSpec, base: &Path) -> Result<(), DataError> {
    if spec.data.format.is_none() || left_to_data(spec).is_empty() {
        return Ok(());
    }
    let plan = DataPlan::check(spec)?;
    match plan.origin {
        RecordOrigin::Caller => Ok(()),
        _ => fill_in(spec, &*super::open(&plan, base)?.train),
    }
}

/// The keys that a price needs and that a plan leaves to its data.
#[must_use]
pub fn left_to_data(spec: &PlanSpec) -> Vec<&'static str> {
    let mut keys = Vec::new();
    if spec.sampling.records.is_none() {
        keys.push("sampling.records");
    }
    if spec.pipeline.window.is_some() && spec.pipeline.frames.is_none() {
        keys.push("pipeline.frames");
    }
    if spec.pipeline.image.is_none() && needs_size(spec) {
        keys.push("pipeline.image");
    }
    keys
}

/// Whether a crop is priced, which takes the size of the image that it is cut from. A mask that marks places has that size.
fn needs_size(spec: &PlanSpec) -> bool {
    let PlanSpec { region, pipeline, .. } = spec;
    let marked = region.mask.is_some() && region.placement == Some(PlacementSpec::Annotated);
    let region = region.patch.is_some() || region.circle.is_some() || region.mask.is_some();
    let crop = pipeline.crop.is_some() || pipeline.crop_scale.is_some() || pipeline.crop_ratio.is_some();
    region && crop && !marked
}

/// The size of all images, by their headers; `None` if the format does not tell sizes without decoding.
fn one_size(records: &dyn Dataset) -> Result<Option<dapple_geometry::Size>, DataError> {
    let sizes = (0..records.len())
        .into_par_iter()
        .map(|record| records.size_of(record))
        .collect::<Result<Option<Vec<_>>, _>>()?;
    let Some(sizes) = sizes else { return Ok(None) };
    let Some(&first) = sizes.first() else { return Ok(None) };
    match sizes.iter().position(|size| *size != first) {
        None => Ok(Some(first)),
        Some(other) => Err(DataError::MixedSizes {
            one: records.place(0),
            size: first,
            other: records.place(other),
            found: sizes[other],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::RgbImage;

    fn spec(text: &str) -> PlanSpec {
        PlanSpec::from_toml(&format!("[data]\nformat = 'image-folder'\ntrain = 'photos'\n{text}")).unwrap()
    }

    const PATCH: &str = "[region]\npatch = [4, 4]\n[pipeline]\ncrop = [8, 8]\n";

    #[test]
    fn number_and_size_come_from_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join("photos").join(name);
        for (class, name) in [("cat", "1.png"), ("cat", "2.png"), ("dog", "1.png")] {
            std::fs::create_dir_all(place(class)).unwrap();
            RgbImage::new(20, 10).save(place(class).join(name)).unwrap();
        }
        let mut plan = spec(PATCH);
        assert_eq!(left_to_data(&plan), ["sampling.records", "pipeline.image"]);
        fill_in_from(&mut plan, folder.path()).unwrap();
        assert_eq!(plan.sampling.records, Some(3));
        assert_eq!(plan.pipeline.image, Some(Pixels { x: 20, y: 10 }));
        assert!(left_to_data(&plan).is_empty());
        // What is given stays, and then the files need not be there.
        let mut given = spec(&format!("{PATCH}image = [30, 30]\n[sampling]\nrecords = 7\n"));
        let before = given.clone();
        fill_in_from(&mut given, Path::new("nowhere")).unwrap();
        assert_eq!(given, before);
        // Without a crop, nobody asks for a size.
        let mut whole = spec("[region]\npatch = [4, 4]\n");
        fill_in_from(&mut whole, folder.path()).unwrap();
        assert_eq!(whole.pipeline.image, None);
        RgbImage::new(10, 20).save(place("dog").join("2.png")).unwrap();
        let error = fill_in_from(&mut spec(PATCH), folder.path()).unwrap_err();
        assert!(matches!(error, DataError::MixedSizes { .. }) && error.hint().is_some(), "{error}");
        assert!(fill_in_from(&mut spec(PATCH), Path::new("nowhere")).is_err());
    }
}
