//! Parts of records that are always shown in the same way.

use std::sync::Arc;

use super::Views;
use super::part::ShownPart;
use crate::{DataError, Dataset, IGNORED, MasterKey, Purpose};

/// The private or the public part of every record of a data set, in views about which nothing is drawn.
#[derive(Clone)]
pub struct FixedParts {
    records: Arc<dyn Dataset>,
    views: Views,
    shown: ShownPart,
}

impl FixedParts {
    /// The parts that these views show; `None` if they show whole records, or if anything about them is drawn.
    #[must_use]
    pub fn new(records: Arc<dyn Dataset>, views: Views) -> Option<Self> {
        let shown = views.part.filter(|_| views.is_fixed())?;
        Some(Self { records, views, shown })
    }

    /// Number of records.
    #[must_use]
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Values that the model takes of a part.
    #[must_use]
    pub fn length(&self) -> usize {
        self.views.input_length()
    }

    /// Shows the part of a record as every step shows it, and returns whether there is anything of it to be seen.
    ///
    /// # Shapes
    /// `output` is `[length]`.
    ///
    /// # Guarantee
    /// That of [`Views::of_part`].
    ///
    /// # Errors
    /// A record that cannot be read or shown.
    pub fn show(&self, record: usize, output: &mut [f32]) -> Result<bool, DataError> {
        // Drawing a part takes a source of random numbers, of which fixed views use none.
        let mut unused = MasterKey::from_seed(0).purpose(Purpose::Views).step(0).stream(0);
        let mut classes = Vec::with_capacity(1);
        self.views.draw_part(self.shown, (&*self.records, record), &mut unused, output, &mut classes)?;
        Ok(classes != [IGNORED])
    }
}
