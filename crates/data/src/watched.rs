//! Records that somebody watches being read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dapple_geometry::{Mask, Size};

use crate::dataset::as_its_records;
use crate::{DataError, Dataset, Image, Users};

/// What is told whenever an image was read: how many were, and how many there are.
pub type ReadingObserver = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// A data set that tells of every image that is read. In everything else it is the one that it was made of.
pub struct WatchedRecords {
    whole: Arc<dyn Dataset>,
    observer: ReadingObserver,
    read: AtomicUsize,
}

impl WatchedRecords {
    /// The same records, watched.
    pub fn new(whole: Arc<dyn Dataset>, observer: ReadingObserver) -> Self {
        Self { whole, observer, read: AtomicUsize::new(0) }
    }
}

impl Dataset for WatchedRecords {
    as_its_records!(whole);

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let image = self.whole.read(record);
        (self.observer)(self.read.fetch_add(1, Ordering::Relaxed) + 1, self.whole.len());
        image
    }

    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        self.whole.mask(record, size)
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        self.whole.frame_masks(record, size)
    }

    fn users(&self) -> Option<&Users> {
        self.whole.users()
    }

    fn is_whole(&self) -> bool {
        self.whole.is_whole()
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        self.whole.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::street::StreetScenes;

    #[test]
    fn every_reading_is_told_and_nothing_else_changes() {
        let streets = Arc::new(StreetScenes::new(5, 3).unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let observer: ReadingObserver = Arc::new(move |read, of| heard.lock().unwrap().push((read, of)));
        let watched = WatchedRecords::new(streets.clone(), observer);
        for record in [2, 0] {
            assert_eq!(watched.read(record).unwrap(), streets.read(record).unwrap());
            assert_eq!(watched.target(record).unwrap(), streets.target(record).unwrap());
        }
        assert_eq!(*told.lock().unwrap(), [(1, 3), (2, 3)]);
        assert_eq!(watched.fingerprint().unwrap(), streets.fingerprint().unwrap());
        assert_eq!((watched.units(), watched.class_names()), (3, streets.class_names()));
    }
}
