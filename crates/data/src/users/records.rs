//! Records together with their users.

use std::sync::{Arc, OnceLock};

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::Users;
use crate::dataset::as_its_records;
use crate::formats::hash_text;
use crate::{DataError, Dataset, Image};

/// A data set whose records tell their users.
pub(crate) struct UserRecords {
    whole: Arc<dyn Dataset>,
    users: Users,
    fingerprint: OnceLock<String>,
}

impl UserRecords {
    pub(crate) fn new(whole: Arc<dyn Dataset>, users: Users) -> Self {
        Self { whole, users, fingerprint: OnceLock::new() }
    }
}

impl Dataset for UserRecords {
    as_its_records!(whole);

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.whole.read(record)
    }

    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        self.whole.mask(record, size)
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        self.whole.frame_masks(record, size)
    }

    fn users(&self) -> Option<&Users> {
        Some(&self.users)
    }

    fn is_whole(&self) -> bool {
        self.whole.is_whole()
    }

    /// Of the records and of whose they are.
    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        hash_text(&mut hash, self.whole.fingerprint()?.as_bytes());
        self.users.hash(&mut hash);
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }
}
