//! How far the loader works ahead.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{plan, view_plan};
use dapple_data::{DataError, Dataset, Image, Loader, LoaderOptions, Target, Values, Views};
use dapple_geometry::Size;

const RECORDS: usize = 60;

/// A data set of images of 4x4 that counts how often images are read.
struct Counted {
    size: Size,
    reads: AtomicUsize,
}

impl Dataset for Counted {
    fn len(&self) -> usize {
        RECORDS
    }

    fn classes(&self) -> u32 {
        RECORDS as u32
    }

    fn channels(&self) -> usize {
        1
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        Ok(Target::Class(record as u32))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Ok(Image::new(self.size, 1, Values::Bytes(vec![record as u8; 16])).unwrap())
    }

    fn place(&self, record: usize) -> String {
        format!("record {record}")
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok(String::new())
    }
}

#[test]
fn as_many_microbatches_are_made_ahead_as_asked_for_and_no_more() {
    let microbatch = 4;
    for (prefetch, given_back) in [(1, true), (2, false), (3, true), (usize::MAX, false)] {
        let dataset = Arc::new(Counted { size: Size::new(4, 4).unwrap(), reads: AtomicUsize::new(0) });
        let plan = plan("[sampling]\nbatch = 4\nrecords = 60\nsteps = 1");
        let views =
            Views::new(plan.spatial(), &view_plan("[data]\nmean = [0.0]\nstd = [1.0]"), &*dataset).unwrap();
        let options = LoaderOptions { threads: 2, prefetch, microbatch, ..LoaderOptions::default() };
        let mut loader = Loader::evaluate(Arc::clone(&dataset) as _, views, 1, options).unwrap();
        let mut labels = Vec::new();
        let mut taken = 0;
        while let Some(next) = loader.next() {
            taken += 1;
            // Microbatches that were handed out, the last of which is in use, and those made ahead.
            let most = prefetch.saturating_add(taken).saturating_mul(microbatch).min(RECORDS);
            while dataset.reads.load(Ordering::SeqCst) < most {
                std::thread::yield_now();
            }
            let next = next.unwrap();
            labels.extend_from_slice(next.labels.classes().unwrap());
            // Gives the loader time to read too many, if it is wrong.
            (0..100).for_each(|_| std::thread::yield_now());
            assert_eq!(dataset.reads.load(Ordering::SeqCst), most);
            if given_back {
                loader.recycle(next);
            }
        }
        assert_eq!(labels, (0..RECORDS as u32).collect::<Vec<_>>());
    }
}
