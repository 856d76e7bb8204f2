//! What the pixels of a label picture stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::id_picture;
use crate::formats::decode;
use crate::target::MAX_MAP_CLASSES;
use crate::{DataError, DataLimits, LabelMap, UNLABELLED, Values};

/// Red, green and blue.
pub type Colour = [u8; 3];

/// Says which class each pixel of a label picture stands for, and keeps the classes' names and colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassMap {
    classes: u32,
    names: Option<Vec<String>>,
    palette: Option<Vec<Colour>>,
    code: ClassCode,
}

/// How a label picture says the class of a pixel. A value that is not listed is a mistake in the picture and is never quietly ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClassCode {
    /// By number: the class of each number, or [`UNLABELLED`].
    Ids(BTreeMap<u8, u8>),
    /// By colour: the class of each colour, or [`UNLABELLED`].
    Colours(BTreeMap<Colour, u8>),
}

impl ClassMap {
    /// The map of pictures whose pixels are numbers. Class `c` is written as `ids[c]`, and the numbers in `ignored` count for nothing.
    ///
    /// # Errors
    /// No class, more than 255, a number above 255, or one that is given twice.
    pub fn of_ids(ids: &[u32], ignored: &[u32]) -> Result<Self, DataError> {
        let classes = count(ids.len())?;
        let mut code = BTreeMap::new();
        let classed = ids.iter().enumerate().map(|(class, id)| (id, class as u8, "data.class_ids"));
        let unlabelled = ignored.iter().map(|id| (id, UNLABELLED, "data.ignore"));
        for (&id, class, key) in classed.chain(unlabelled) {
            let wrong = |problem: String| DataError::setting(key, problem);
            let short = u8::try_from(id).map_err(|_| wrong(format!("{id} does not fit in 8 bits")))?;
            if code.insert(short, class).is_some() {
                return Err(wrong(format!("{id} is given twice, or is a class and ignored")));
            }
        }
        Ok(Self { classes, names: None, palette: None, code: ClassCode::Ids(code) })
    }

    /// The map of pictures whose pixels are colours. Colours of class [`UNLABELLED`] count for nothing.
    ///
    /// # Errors
    /// No class, or more than 255.
    pub(super) fn of_colours(classes: usize, code: BTreeMap<Colour, u8>) -> Result<Self, DataError> {
        let classes = count(classes)?;
        Ok(Self { classes, names: None, palette: None, code: ClassCode::Colours(code) })
    }

    /// The same map with a name for each class.
    ///
    /// # Errors
    /// Not as many names as classes.
    pub fn with_names<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Result<Self, DataError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.check("data.class_names", "names", names.len())?;
        Ok(Self { names: Some(names), ..self })
    }

    /// The same map with a colour for each class, in which the class is shown.
    ///
    /// # Errors
    /// Not as many colours as classes.
    pub fn with_palette(self, palette: &[Colour]) -> Result<Self, DataError> {
        self.check("data.class_colours", "colours", palette.len())?;
        Ok(Self { palette: Some(palette.to_vec()), ..self })
    }

    fn check(&self, key: &'static str, what: &str, found: usize) -> Result<(), DataError> {
        if found == self.classes as usize {
            return Ok(());
        }
        Err(DataError::setting(key, format!("{found} {what} for {} classes", self.classes)))
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// Names of the classes, where they are known.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// Colours in which the classes are shown, where they are known.
    #[must_use]
    pub fn palette(&self) -> Option<&[Colour]> {
        self.palette.as_deref()
    }

    /// Decodes a label picture in memory; `path` stands for it in messages.
    ///
    /// # Errors
    /// A picture that does not decode, is of another kind or is too large, or a pixel that is neither a class nor ignored.
    pub fn read(&self, bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<LabelMap, DataError> {
        let damaged = || DataError::malformed(path, "it has no pixels");
        let (size, labels) = match &self.code {
            ClassCode::Ids(code) => {
                let (size, ids) = id_picture::decode(bytes, path, limits)?;
                let known: [Option<u8>; 256] = std::array::from_fn(|id| code.get(&(id as u8)).copied());
                (size, look_up(&ids, |&id| known[usize::from(id)]))
            }
            ClassCode::Colours(code) => {
                let picture = decode(bytes, path, limits)?;
                let Values::Bytes(values) = picture.values() else { return Err(damaged()) };
                let mut last = None;
                let (colours, _) = values.as_chunks::<3>();
                let class = |colour: &Colour| match last {
                    // Neighbouring pixels mostly show the same colour.
                    Some((same, class)) if same == *colour => class,
                    _ => {
                        let class = code.get(colour).copied();
                        last = Some((*colour, class));
                        class
                    }
                };
                (picture.size(), look_up(colours, class))
            }
        };
        let labels = labels.map_err(|(pixel, found)| {
            let wide = size.width() as usize;
            DataError::LabelId { path: path.to_owned(), x: pixel % wide, y: pixel / wide, found }
        })?;
        LabelMap::new(size, labels).ok_or_else(damaged)
    }

    /// Every value of a label picture that is neither a class nor ignored.
    ///
    /// # Errors
    /// As [`ClassMap::read`], but for such values.
    pub(crate) fn strange_values(
        &self,
        bytes: &[u8],
        path: &Path,
        limits: &DataLimits,
    ) -> Result<BTreeSet<String>, DataError> {
        Ok(match &self.code {
            ClassCode::Ids(code) => {
                let found: BTreeSet<u8> = id_picture::decode(bytes, path, limits)?.1.into_iter().collect();
                found.iter().filter(|id| !code.contains_key(id)).map(PixelText::shown).collect()
            }
            ClassCode::Colours(code) => {
                let picture = decode(bytes, path, limits)?;
                let Values::Bytes(values) = picture.values() else { return Ok(BTreeSet::new()) };
                let (colours, _) = values.as_chunks::<3>();
                let found: BTreeSet<&Colour> = colours.iter().collect();
                found.into_iter().filter(|colour| !code.contains_key(*colour)).map(PixelText::shown).collect()
            }
        })
    }

    /// Adds everything that decides what pictures mean to a fingerprint.
    pub(crate) fn hash(&self, hash: &mut Sha256) {
        hash.update(self.classes.to_le_bytes());
        let mut entry = |key: &[u8], class: u8| {
            hash.update([key.len() as u8]);
            hash.update(key);
            hash.update([class]);
        };
        match &self.code {
            ClassCode::Ids(code) => code.iter().for_each(|(&id, &class)| entry(&[id], class)),
            ClassCode::Colours(code) => code.iter().for_each(|(colour, &class)| entry(colour, class)),
        }
    }
}

fn count(classes: usize) -> Result<u32, DataError> {
    u32::try_from(classes).ok().filter(|classes| (1..=MAX_MAP_CLASSES).contains(classes)).ok_or_else(|| {
        let problem = format!("{classes} classes where label maps tell from 1 to {MAX_MAP_CLASSES} apart");
        DataError::setting("data.classes", problem)
    })
}

/// The class of each pixel, or else the first pixel that has none and what it shows.
fn look_up<T: PixelText>(
    pixels: &[T],
    mut class: impl FnMut(&T) -> Option<u8>,
) -> Result<Vec<u8>, (usize, String)> {
    let one = |(index, pixel): (usize, &T)| class(pixel).ok_or_else(|| (index, pixel.shown()));
    pixels.iter().enumerate().map(one).collect()
}

/// A pixel as messages show it.
trait PixelText {
    fn shown(&self) -> String;
}

impl PixelText for u8 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl PixelText for Colour {
    fn shown(&self) -> String {
        let [red, green, blue] = self;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// A colour written as `#rrggbb`.
#[must_use]
pub fn parse_colour(text: &str) -> Option<Colour> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    // A sign would be read as part of a number.
    if digits.contains(['+', '-']) {
        return None;
    }
    Some([byte(0)?, byte(2)?, byte(4)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_as_they_are_shown() {
        for colour in [[0, 0, 0], [255, 70, 185], [1, 35, 255]] {
            assert_eq!(parse_colour(&colour.shown()), Some(colour));
        }
        for wrong in ["ff0000", "#ff00", "#ff00000", "#gg0000", "#+1+2+3", "#ééé", ""] {
            assert_eq!(parse_colour(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn maps_that_make_no_sense_are_refused() {
        let problem = |ids: &[u32], ignored: &[u32]| ClassMap::of_ids(ids, ignored).unwrap_err().to_string();
        assert!(problem(&[], &[]).contains("0 classes"));
        assert!(problem(&[0; 256], &[]).contains("256 classes"));
        assert!(problem(&[0, 1, 0], &[]).contains("0 is given twice"));
        assert!(problem(&[0, 1], &[1]).contains("data.ignore"));
        assert!(problem(&[256], &[]).contains("8 bits"));
        let map = ClassMap::of_ids(&[0, 1], &[]).unwrap();
        assert!(map.clone().with_names(["a"]).unwrap_err().to_string().contains("1 names for 2 classes"));
        assert!(map.with_palette(&[[0; 3]; 3]).unwrap_err().to_string().contains("class_colours"));
    }
}
