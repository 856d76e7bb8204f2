//! Synthetic images beside the views of a record (DP-Mix, section 3.1).

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use chacha20::rand_core::Rng;
use dapple_geometry::{Filter, Operation};
use sha2::{Digest, Sha256};

use super::mapping::Mapping;
use super::source::ViewSource;
use super::{Views, follow, size_of};
use crate::split::first_word;
use crate::{DataError, Dataset, Image, TargetKind};

/// How many images of a pool are shown beside the views of each record.
#[derive(Clone)]
pub(super) struct Synthetic {
    pool: Arc<dyn Dataset>,
    /// A number for each image that follows from its name, or from its place where images have no names.
    names: Arc<[u64]>,
    count: usize,
}

impl Synthetic {
    fn new(pool: Arc<dyn Dataset>, count: usize) -> Self {
        let name = |image| {
            let name = pool.name(image).unwrap_or_else(|| image.to_string());
            first_word(Sha256::new_with_prefix(name.as_bytes()))
        };
        let names = (0..pool.len()).map(name).collect();
        Self { pool, names, count }
    }

    /// Draws one image of the pool, uniform among all: the random words give every image a rank by its name, and the highest is taken. So
    /// an image that comes to the pool, goes or changes leaves all draws as they are but those that take it.
    fn draw(&self, random: &mut impl Rng) -> usize {
        let [one, other] = [(); 2].map(|()| random.next_u64());
        let rank = |name: &u64| scrambled(other ^ scrambled(one ^ name));
        let ranks = self.names.iter().map(rank).enumerate();
        ranks.max_by_key(|&(image, rank)| (rank, Reverse(image))).map_or(0, |(image, _)| image)
    }
}

/// The finaliser of SplitMix64, used as a hash. It is good enough to choose among synthetic images, and no privacy claim rests on it.
fn scrambled(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl fmt::Debug for Synthetic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {} synthetic images", self.count, self.pool.len())
    }
}

impl Views {
    /// The same views, with that many images of a pool beside those of each record, which must have one class. None are shown if the
    /// number is 0.
    ///
    /// # Guarantee
    /// Which images are shown, and where they are cropped, follows from random numbers that depend on no data.
    ///
    /// # Errors
    /// There is no pool, records have label maps, or there would be more values than memory can hold.
    pub fn with_synthetic(
        mut self,
        count: u32,
        pool: Option<&Arc<dyn Dataset>>,
        of: TargetKind,
    ) -> Result<Self, DataError> {
        if count == 0 {
            return Ok(self);
        }
        let missing = || DataError::missing("mix.pool", "mix.synthetic draws images from this folder");
        let pool = Arc::clone(pool.ok_or_else(missing)?);
        let setting = |problem: String| DataError::setting("mix.synthetic", problem);
        if of == TargetKind::LabelMap {
            return Err(setting("synthetic images have no label maps".to_owned()));
        }
        self.synthetic = Some(Synthetic::new(pool, count as usize));
        if self.exceed_memory() {
            return Err(setting(format!(
                "{} views and {count} synthetic images of {}",
                self.views, self.output
            )));
        }
        Ok(self)
    }

    /// Synthetic images beside the views of each record.
    pub(super) fn synthetic_count(&self) -> usize {
        self.synthetic.as_ref().map_or(0, |synthetic| synthetic.count)
    }

    /// Draws the synthetic images of one record, and adds their classes.
    ///
    /// # Shapes
    /// `output` is `[synthetic images, channels, height, width]`.
    pub(super) fn draw_synthetic(
        &self,
        random: &mut impl Rng,
        output: &mut [f32],
        classes: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let Some(synthetic) = &self.synthetic else { return Ok(()) };
        let pool = &synthetic.pool;
        for view in output.chunks_exact_mut(self.view_length()) {
            let number = synthetic.draw(random);
            classes.push(pool.label(number)?);
            let image = pool.read(number)?;
            self.show_synthetic(&image, random, view).map_err(|error| error.at(|| pool.place(number)))?;
        }
        Ok(())
    }

    /// Shows a synthetic image like a record: brought to the size of the records where they all have one, then cropped, mirrored and
    /// augmented at random.
    pub(crate) fn show_synthetic(
        &self,
        image: &Image,
        random: &mut impl Rng,
        view: &mut [f32],
    ) -> Result<(), DataError> {
        self.check_channels(image)?;
        let size = self.image.unwrap_or(image.size());
        let resize = Operation::Resize { to: size, filter: Filter::Bilinear, antialias: true };
        let resize = if size == image.size() { vec![] } else { vec![resize] };
        follow(&self.before, size).map_err(DataError::geometry("an image"))?;
        let (source, mapping) =
            self.run(&resize, ViewSource::Image(image), Mapping::identity(image.size()))?;
        let (source, mapping) = self.run(&self.before, source, mapping)?;
        let shown = self.place(size_of(&mapping)?, random)?;
        self.finish(&source, &mapping, shown.place, shown.flip, view)?;
        self.change(random, view, |_, _| {});
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::formats::PackedImages;
    use crate::statistics::{ALPHA, chi_square_accepts};
    use dapple_geometry::Size;

    #[test]
    fn draws_are_uniform_and_independent() {
        let size = Size::new(1, 1).unwrap();
        let pool = PackedImages::new("pool".as_ref(), size, 1, vec![0; 7], vec![0; 7], 1).unwrap();
        let synthetic = Synthetic::new(Arc::new(pool), 2);
        let mut counts = [0u64; 49];
        for number in 0..49_000 {
            let random = &mut random(number);
            let [one, other] = [(); 2].map(|()| synthetic.draw(random));
            counts[7 * one + other] += 1;
        }
        assert!(chi_square_accepts(&counts, &[1000.0; 49], ALPHA), "{counts:?}");
    }
}
