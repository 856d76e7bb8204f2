//! Looks at every record of a data set and tells all that training would stumble over, instead of stopping at the first.

use std::collections::{BTreeMap, BTreeSet};

use dapple_geometry::Size;
use rayon::prelude::*;

use crate::{DataError, Dataset, Target, UNLABELLED};

/// How closely records are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closeness {
    /// The headers of images, and all labels. A file that is cut short passes.
    Headers,
    /// Every pixel, as training will read it.
    Pixels,
}

/// What is in a data set. All of it comes from the records and nothing protects it: it is for the eyes of whoever may see the records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inspection {
    /// Records.
    pub records: usize,
    /// How many images have each size, the most frequent first.
    pub sizes: Vec<(Size, usize)>,
    /// Records of each class, or labelled pixels where every pixel has a class.
    pub classes: Vec<u64>,
    /// Records that cannot be used, in order: where they are, and why.
    pub faults: Vec<(String, String)>,
    /// Values in label maps that are neither a class nor ignored, each with the number of maps that show it.
    pub strange_labels: BTreeMap<String, usize>,
}

/// What one record is like.
#[derive(Debug, Default)]
struct Looked {
    size: Option<Size>,
    classes: BTreeMap<usize, u64>,
    strange: BTreeSet<String>,
    fault: Option<(String, String)>,
}

/// Looks at all records on all cores. `seen` is called once for each.
#[must_use]
pub fn inspect(dataset: &dyn Dataset, closeness: Closeness, seen: &(dyn Fn() + Sync)) -> Inspection {
    let looked: Vec<Looked> = (0..dataset.len())
        .into_par_iter()
        .map(|record| {
            let looked = look(dataset, record, closeness);
            seen();
            looked
        })
        .collect();
    let mut found = Inspection {
        records: dataset.len(),
        classes: vec![0; dataset.classes() as usize],
        ..Inspection::default()
    };
    let mut sizes: BTreeMap<(u32, u32), (Size, usize)> = BTreeMap::new();
    for record in looked {
        if let Some(size) = record.size {
            sizes.entry((size.width(), size.height())).or_insert((size, 0)).1 += 1;
        }
        for (class, count) in record.classes {
            if let Some(all) = found.classes.get_mut(class) {
                *all += count;
            }
        }
        for value in record.strange {
            *found.strange_labels.entry(value).or_default() += 1;
        }
        found.faults.extend(record.fault);
    }
    found.sizes = sizes.into_values().collect();
    // Sorting keeps the order of sizes that are equally frequent.
    found.sizes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found
}

fn look(dataset: &dyn Dataset, record: usize, closeness: Closeness) -> Looked {
    let mut looked = Looked::default();
    if let Err(error) = look_into(dataset, record, closeness, &mut looked) {
        let place = dataset.place(record);
        let error = error.at(|| place.clone()).to_string();
        looked.fault = Some((place, error));
    }
    looked
}

fn look_into(
    dataset: &dyn Dataset,
    record: usize,
    closeness: Closeness,
    looked: &mut Looked,
) -> Result<(), DataError> {
    let size = match closeness {
        Closeness::Headers => dataset.size_of(record)?,
        Closeness::Pixels => Some(dataset.read(record)?.size()),
    };
    looked.size = size;
    match dataset.target(record) {
        Ok(Target::Class(class)) => *looked.classes.entry(class as usize).or_default() += 1,
        Ok(Target::Map(map)) => {
            let mut counts = [0u64; 256];
            map.labels().iter().for_each(|&label| counts[usize::from(label)] += 1);
            let counted = (0..usize::from(UNLABELLED)).map(|class| (class, counts[class]));
            looked.classes.extend(counted.filter(|(_, count)| *count > 0));
            if let Some(expected) = size.filter(|size| *size != map.size()) {
                return Err(DataError::LabelSize { place: String::new(), found: map.size(), expected });
            }
        }
        Err(DataError::LabelId { found, .. }) => {
            looked.strange = dataset.strange_labels(record)?;
            looked.strange.insert(found);
        }
        Err(other) => return Err(other),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataLimits;
    use crate::formats::ImageFolder;
    use crate::segmentation::{ClassMap, Pairs};
    use image::{GrayImage, Luma, RgbImage};
    use std::fs;

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for (name, width) in [("a/1.png", 20), ("a/2.png", 20), ("b/1.png", 30)] {
            fs::create_dir_all(place(name).parent().unwrap()).unwrap();
            RgbImage::new(width, 10).save(place(name)).unwrap();
        }
        fs::write(place("b/2.png"), b"no picture").unwrap();
        // Cut short behind its header.
        let whole = fs::read(place("b/1.png")).unwrap();
        fs::write(place("b/3.png"), &whole[..whole.len() - 20]).unwrap();
        let images = ImageFolder::open(folder.path(), &DataLimits::default()).unwrap();
        let headers = inspect(&images, Closeness::Headers, &|| {});
        assert_eq!(headers.records, 5);
        assert_eq!(headers.classes, [2, 2]);
        assert_eq!(headers.sizes.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(headers.faults.len(), 1);
        let pixels = inspect(&images, Closeness::Pixels, &|| {});
        let places: Vec<&str> = pixels.faults.iter().map(|(place, _)| place.as_str()).collect();
        assert!(places.len() == 2 && places[0].ends_with("b/2.png") && places[1].ends_with("b/3.png"));
        assert_eq!(pixels.classes, [2, 1]);
    }

    #[test]
    fn labels_outside_the_classes_are_all_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["images", "labels"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for record in 0..3u32 {
            RgbImage::new(4, 2).save(folder.path().join(format!("images/{record}.png"))).unwrap();
            // Classes 0 and 1; two of the maps show 255, one 7 as well.
            let label = |x: u32, y: u32| match (x, y) {
                (0, 0) if record > 0 => Luma([255]),
                (1, 0) if record > 1 => Luma([7]),
                _ => Luma([(x % 2) as u8]),
            };
            let map = GrayImage::from_fn(4, 2, label);
            map.save(folder.path().join(format!("labels/{record}.png"))).unwrap();
        }
        let [images, labels] = ["images", "labels"].map(|name| folder.path().join(name));
        let map = ClassMap::of_ids(&[0, 1], &[]).unwrap();
        let pairs = Pairs::open(&images, &labels, map, &DataLimits::default()).unwrap();
        let found = inspect(&pairs, Closeness::Pixels, &|| {});
        assert_eq!(found.strange_labels, BTreeMap::from([("255".to_owned(), 2), ("7".to_owned(), 1)]));
        assert!(found.faults.is_empty());
        assert_eq!(found.classes, [4, 4]);
    }
}
