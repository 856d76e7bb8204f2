//! Tests of devices that fail, and of runs that go on on another machine.

use dapple_engine::{ClippingRule, Layout, StepStats};
use dapple_graph::Parameters;
use dapple_private::{Executor, Forward, Learned, Microbatches, StepError, Update};

use super::*;
use crate::certify;
use crate::ledger::UsedMachine;
use crate::observer::Silent;
use crate::test_data as common;

const PLAN: &str = "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\nmomentum = 0.9\nema = 0.9\n\
    [privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nsteps = 12\n\
    [performance]\ndevice = 'cpu'\n";

/// A device that fails after a number of steps.
#[derive(Debug)]
struct Failing {
    device: Box<dyn Executor>,
    steps: u64,
}

impl Executor for Failing {
    fn layout(&self) -> &Layout {
        self.device.layout()
    }

    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError> {
        let problem = "out of memory, for a test".to_owned();
        let failed = StepError::Device { device: "cpu".to_owned(), problem, hint: None };
        self.steps = self.steps.checked_sub(1).ok_or(failed)?;
        self.device.clipped_sum(learned, microbatches, rule)
    }

    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError> {
        self.device.update(learned, update)
    }

    fn fetch(&mut self, learned: &mut Learned) -> Result<(), StepError> {
        self.device.fetch(learned)
    }

    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError> {
        self.device.load(parameters)
    }
}

/// Lets a device fail after some steps. Returns the error, what the folder certifies then, and the outcome of going on.
fn fail(seed: &str, after: u64) -> (TrainError, RunCertificate, RunOutcome) {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 40, 6);
    let request = common::request(folder.path(), &format!("{PLAN}[train]\ncheckpoint_every = 3\n{seed}"));
    let out = folder.path().join("run");
    let mut run = Run::create(Prepared::new(&request).unwrap(), &out, None).unwrap();
    run.trainer.replace_device(|device| Box::new(Failing { device, steps: after }));
    let error = run.carry_through(&mut Silent).unwrap_err();
    (error, certify(&out).unwrap(), resume(&out, &mut Silent).unwrap())
}

#[test]
fn what_was_spent_before_a_device_failed_stays_spent() {
    for after in [0, 1, 4, 11] {
        let (error, certificate, outcome) = fail("", after);
        assert_eq!(error.to_string(), format!("step {}: cpu: out of memory, for a test", after + 1));
        assert!(matches!(error, TrainError::Step { .. }));
        // The step that failed had been promised, and its block may contain more steps.
        assert!(certificate.steps_spent > after, "{after}: {}", certificate.steps_spent);
        assert!(certificate.spent.is_some());
        let certified = outcome.certificate;
        assert_eq!((certified.status, certified.steps_spent), (Status::Finished, 12));
        // No spent step is taken again, so never more than the plan is spent.
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

#[test]
fn a_run_may_go_on_on_another_machine_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 40, 6);
    let out = folder.path().join("run");
    let mut stopped = common::Recorder { stop_after: Some(2), ..common::Recorder::default() };
    crate::start(&common::request(folder.path(), PLAN), &out, &mut stopped).unwrap();
    let begun = certify(&out).unwrap();
    assert_eq!(begun.machines, [UsedMachine { step: 0, machine: "cpu".into(), ranks: None }]);

    for device in ["cuda:99", "cuda:98,99"] {
        let missing = Performance { device: Some(device.parse().unwrap()), ..Performance::default() };
        let error = resume_with(&out, &missing, &mut Silent).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{device}: ")) && error.hint().is_some(), "{error}");
        assert_eq!(certify(&out).unwrap().ledger, begun.ledger, "a device that is not there leaves no trace");
    }

    let spent = begun.steps_spent;
    let elsewhere = UsedMachine { step: spent, machine: "cuda:0 (a card, f32)".into(), ranks: None };
    let entry = LedgerEntry::Machine { step: spent, machine: elsewhere.machine.clone(), ranks: None };
    Ledger::open(&out.join("ledger.jsonl")).unwrap().append(&entry).unwrap();
    let mut recorder = common::Recorder::default();
    let outcome = resume(&out, &mut recorder).unwrap();
    assert_eq!(recorder.warnings, ["the run began on cuda:0 (a card, f32) and goes on on cpu"]);
    assert_eq!(outcome.certificate.machines[1], elsewhere);
    assert_eq!(
        outcome.certificate.machines[2],
        UsedMachine { step: spent, machine: "cpu".into(), ranks: None }
    );
}

#[test]
fn what_only_a_gpu_heeds_is_told() {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 40, 6);
    let mut recorder = common::Recorder::default();
    let request = common::request(folder.path(), &format!("{PLAN}precision = 'tf32'\n"));
    crate::start(&request, &folder.path().join("run"), &mut recorder).unwrap();
    assert_eq!(
        recorder.warnings,
        ["performance.precision = tf32 is for GPUs; the processor computes in f32"]
    );
}
