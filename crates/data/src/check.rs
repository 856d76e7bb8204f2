//! Checks that find what is wrong with records before a step is spent on them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::keys::{MasterKey, Purpose};
use crate::open::Opened;
use crate::{DataError, Dataset, Target, Views};

impl Opened {
    /// Refuses a test set that shares records with the training set: the same files, or the same data set under another name.
    ///
    /// # Errors
    /// Both sets share a record, or a file cannot be read.
    pub fn check_disjoint(&self) -> Result<(), DataError> {
        let Some(test) = &self.test else { return Ok(()) };
        let shared = |what: String| Err(DataError::TestIsTrain { what });
        // One file may have several paths.
        let (trained, tested) = (files(&*self.train), files(&**test));
        if let Some(both) = tested.intersection(&trained).next() {
            return shared(format!("{} is trained on", both.display()));
        }
        if test.len() == self.train.len() && test.images_fingerprint()? == self.train.images_fingerprint()? {
            return shared("these are the records that are trained on".to_owned());
        }
        Ok(())
    }

    /// Refuses a pool that holds a record: what is shown beside all records must not be one of them, and what is evaluated on must not be
    /// trained on.
    ///
    /// # Errors
    /// A file is both in the pool and among the records.
    pub fn check_pool_apart(&self) -> Result<(), DataError> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let pictures = files(&**pool);
        for (data, what) in [(Some(&self.train), "to train on"), (self.test.as_ref(), "to evaluate on")] {
            let records = data.map_or_else(BTreeSet::new, |data| files(&**data));
            if let Some(both) = pictures.intersection(&records).next() {
                let problem = format!("{} is a record {what}", both.display());
                return Err(DataError::setting("mix.pool", problem));
            }
        }
        Ok(())
    }
}

/// The files that the records of a data set lie in, by where they really are, if each has its own.
fn files(data: &dyn Dataset) -> BTreeSet<PathBuf> {
    let named = (0..data.len()).filter(|&record| data.name(record).is_some());
    let place = |record| {
        let path = PathBuf::from(data.place(record));
        std::fs::canonicalize(&path).unwrap_or(path)
    };
    named.map(place).collect()
}

/// Reads every synthetic image once and shows it as training would in every phase.
///
/// # Errors
/// What is wrong with the first image that training could not use.
pub fn check_pool(pool: &dyn Dataset, views: &[Views], threads: usize) -> Result<(), DataError> {
    let key = MasterKey::from_seed(0).purpose(Purpose::Views).step(0);
    all(pool, threads, |number| {
        let image = pool.read(number)?;
        for views in views {
            let mut view = vec![0.0; views.view_length()];
            views.show_synthetic(&image, &mut key.stream(number as u64), &mut view)?;
        }
        Ok(())
    })
}

/// Reads every record once and makes its views as training would in every phase. What is shown beside them is not made.
///
/// # Errors
/// What is wrong with the first record that training could not use.
pub fn check_records(dataset: &dyn Dataset, views: &[Views], threads: usize) -> Result<(), DataError> {
    // These views are thrown away, so their key need not be secret.
    let key = MasterKey::from_seed(0).purpose(Purpose::Views).step(0);
    all(dataset, threads, |record| {
        let target = dataset.target(record)?;
        let image = dataset.read(record)?;
        for views in views {
            let random = &mut key.stream(record as u64);
            let mut output = vec![0.0; views.count() * views.input_length()];
            match &target {
                Target::Class(_) if views.show_part() => {
                    views.contribute(dataset, &[record], &key, &mut output)?;
                }
                Target::Class(_) => views.draw(&image, random, &mut output)?,
                Target::Map(map) => {
                    let mut labels = vec![0; views.count() * views.positions()];
                    views.draw_labelled(&image, map, random, &mut output, &mut labels)?;
                }
            }
        }
        Ok(())
    })
}

/// Reads every record of the test set once.
///
/// # Errors
/// What is wrong with the first record that cannot be evaluated.
pub fn check_test(dataset: &dyn Dataset, views: &Views, threads: usize) -> Result<(), DataError> {
    all(dataset, threads, |record| {
        let image = dataset.read(record)?;
        match dataset.target(record)? {
            Target::Class(_) => {
                let mut output = vec![0.0; views.evaluation_views(1) * views.view_length()];
                views.evaluate(&image, 1, &mut output)
            }
            Target::Map(map) if map.size() != image.size() => {
                let (place, found, expected) = (String::new(), map.size(), image.size());
                Err(DataError::LabelSize { place, found, expected })
            }
            Target::Map(_) => Ok(()),
        }
    })
}

/// Looks at every record on that many threads. Of several errors it returns the one of the first record, so that the answer is always the
/// same.
fn all(
    dataset: &dyn Dataset,
    threads: usize,
    look: impl Fn(usize) -> Result<(), DataError> + Sync,
) -> Result<(), DataError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| DataError::Threads { problem: error.to_string() })?;
    let one = |record: usize| look(record).map_err(|error| error.at(|| dataset.place(record))).err();
    let first = pool.install(|| (0..dataset.len()).into_par_iter().find_map_first(one));
    first.map_or(Ok(()), Err)
}
