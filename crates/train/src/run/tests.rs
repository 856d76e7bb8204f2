//! A device that fails in the middle of a run.

use super::*;
use crate::certify;
use crate::observer::Silent;
use crate::test_data as common;

const PLAN: &str = "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\nmomentum = 0.9\nema = 0.9\n\
    [privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nsteps = 12\n\
    [performance]\ndevice = 'cpu'\n";

/// What a device's failure after so many steps leaves: the error, what the folder certifies, and the outcome of going on.
fn fail(seed: &str, after: u64) -> (TrainError, RunCertificate, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 40, 6);
    let request = common::request(folder.path(), &format!("{PLAN}[train]\ncheckpoint_every = 3\n{seed}"));
    let out = folder.path().join("run");
    let mut run = Run::create(Prepared::new(&request).unwrap(), &out).unwrap();
    run.trainer.fail_after(after);
    let error = run.carry_through(&mut Silent).unwrap_err();
    (error, certify(&out).unwrap(), resume(&out, &mut Silent).unwrap())
}

#[test]
fn what_was_spent_before_a_device_failed_stays_spent() {
    for after in [0, 1, 4, 11] {
        let (error, certificate, outcome) = fail("", after);
        assert_eq!(error.to_string(), format!("step {}: cpu: out of memory, for a test", after + 1));
        assert!(matches!(error, TrainError::Step { .. }));
        // The step that failed had been promised; its block may hold more.
        assert!(certificate.steps_spent > after, "{after}: {}", certificate.steps_spent);
        assert!(certificate.spent.is_some());
        let certified = outcome.certificate;
        assert_eq!((certified.status, certified.steps_spent), (Status::Finished, 12));
        // Nothing that was spent is taken again, so no more than the plan is ever spent.
        assert!(outcome.updates < 12);
        assert_eq!(certified.spent, certified.planned);
    }
}

#[test]
fn with_a_seed_a_run_whose_device_failed_takes_every_step() {
    let (_, certificate, outcome) = fail("seed = 4", 7);
    assert!(certificate.steps_spent > 7);
    assert_eq!((outcome.updates, outcome.certificate.status), (12, Status::Finished));
}
