//! A rehearsal takes the same steps as a run.
#![allow(clippy::unwrap_used)]

mod common;

use dapple_data::open;
use dapple_graph::{Parameters, weights, zoo};
use dapple_train::{Rehearsal, Silent, complete, start};

/// With the same seed, records and first weights, the weights at the end have the same bits.
#[test]
fn a_rehearsal_ends_where_a_run_does() {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 60, 28);
    common::write_small_cnn(folder.path());
    let mut request = common::request(
        folder.path(),
        "[model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\n\
         [optimiser]\nlearning_rate = 0.5\n\
         [privacy]\nepsilon = 3.0\ndelta = 1e-3\n\
         [sampling]\nbatch = 12\nsteps = 5\n\
         [train]\nseed = 4\n",
    );
    // A rehearsal does not normalise.
    (request.spec.data.mean, request.spec.data.std) = (None, None);
    let run = folder.path().join("run");
    start(&request, &run, &mut Silent).unwrap();
    let completed = complete(&request).unwrap();
    assert!(completed.certificate.epsilon.upper <= 3.0);
    let records = open(&completed.data, folder.path()).unwrap().train;
    let small_cnn = |shape: &[usize]| {
        let graph = zoo::small_cnn(shape, 4)?;
        let first = common::filled(&graph);
        Ok((graph, first))
    };
    let mut rehearsal = Rehearsal::new(&completed, records, None, 0.5, small_cnn).unwrap();
    let mut last: Option<Parameters> = None;
    while let Some(weights) = rehearsal.step().unwrap() {
        last = Some(weights.clone());
    }
    let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
    let rehearsed = weights::write(&graph, &last.unwrap()).unwrap();
    assert_eq!(rehearsed, common::model_bytes(&run));
}
