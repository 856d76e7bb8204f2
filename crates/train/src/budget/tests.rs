//! A budget counts every run before it begins, whatever becomes of the run.

use std::fs;
use std::path::{Path, PathBuf};

use dapple_plan::Repetitions;
use dapple_plan::spec::Performance;

use super::account::Account;
use super::*;
use crate::test_data as common;
use crate::{
    Completed, RunOutcome, Silent, certify, complete, draw, reserve_choice, resume_within, start,
    start_within,
};

const PLAN: &str = "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n[sampling]\nbatch = 10\nsteps = 12\n\
    [performance]\ndevice = 'cpu'\n[train]\ncheckpoint_every = 1\n";
const POISSON: &str = "[privacy]\nnoise_multiplier = 4.0\ndelta = 1e-5\n";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        common::write_data(folder.path(), "train", 40, 6);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn within(&self, total: Option<f64>) -> Within {
        Within { file: self.path("records.budget"), total }
    }

    fn request(&self, more: &str) -> crate::Request {
        common::request(self.folder.path(), &format!("{PLAN}{more}"))
    }

    /// Trains, and stops after `stop` steps if that is given.
    fn train(
        &self,
        name: &str,
        more: &str,
        total: Option<f64>,
        stop: Option<u64>,
    ) -> Result<RunOutcome, TrainError> {
        let mut recorder = common::Recorder { stop_after: stop, ..common::Recorder::default() };
        start_within(&self.request(more), &self.path(name), Some(&self.within(total)), &mut recorder)
    }

    fn resume(&self, name: &str, stop: Option<u64>) -> Result<RunOutcome, TrainError> {
        let mut recorder = common::Recorder { stop_after: stop, ..common::Recorder::default() };
        resume_within(&self.path(name), &Performance::default(), None, &mut recorder)
    }

    fn statement(&self) -> BudgetStatement {
        budgets(&self.path("records.budget")).unwrap().remove(0)
    }

    /// Kind, status and steps of every entry.
    fn entries(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.statement().entries.iter().map(|entry| (entry.kind, entry.status, entry.steps)).collect()
    }

    fn epsilon(&self) -> f64 {
        self.statement().epsilon.upper
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

/// Leaves what a run leaves that is killed after `after` steps: its folder, the budget and what lies beside it, as they were while it
/// ran. Its folder after `before` steps is kept as `old`.
fn kill(place: &Place, name: &str, before: u64, after: u64) {
    struct Copies<'a>(&'a Place, &'a str, u64, u64);
    impl crate::Observer for Copies<'_> {
        fn notice(&mut self, event: &crate::Event<'_>) -> std::ops::ControlFlow<()> {
            let Self(place, name, before, after) = *self;
            let crate::Event::Step(report) = event else { return std::ops::ControlFlow::Continue(()) };
            if report.step == before {
                copy(&place.path(name), &place.path("old"));
            }
            if report.step == after {
                copy(&place.path(name), &place.path("then"));
                copy(&place.path("records.budget.running"), &place.path("then.running"));
                fs::copy(place.path("records.budget"), place.path("then.budget")).unwrap();
                return std::ops::ControlFlow::Break(());
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut observer = Copies(place, name, before, after);
    start_within(&place.request(POISSON), &place.path(name), Some(&place.within(None)), &mut observer)
        .unwrap();
    fs::remove_dir_all(place.path(name)).unwrap();
    fs::rename(place.path("then"), place.path(name)).unwrap();
    fs::rename(place.path("then.budget"), place.path("records.budget")).unwrap();
    fs::rename(place.path("then.running"), place.path("records.budget.running")).unwrap();
}

#[test]
fn runs_add_up_as_the_steps_of_one() {
    let place = Place::new();
    for name in ["a", "b"] {
        place.train(name, POISSON, None, None).unwrap();
    }
    assert_eq!(place.entries(), [("run", "settled", 12); 2]);
    let mut double = place.request(POISSON);
    double.spec.set("sampling.steps", "24").unwrap();
    let one = complete(&double).unwrap().certificate.epsilon;
    let both = place.statement().epsilon;
    assert!(both.lower.unwrap() <= one.upper && one.lower.unwrap() <= both.upper);
    let own = certify(&place.path("a")).unwrap().spent.unwrap().epsilon.upper;
    assert!(both.upper > own && both.upper < 2.0 * own);
}

#[test]
fn what_would_exceed_the_total_is_refused_and_leaves_no_trace() {
    let place = Place::new();
    let own = complete(&place.request(POISSON)).unwrap().certificate.epsilon.upper;
    let total = Some(1.2 * own);
    place.train("a", POISSON, total, None).unwrap();
    let before = fs::read(place.path("records.budget")).unwrap();
    for total in [total, None, Some(1.1 * own)] {
        let error = place.train("b", POISSON, total, None).unwrap_err();
        assert!(matches!(&error, TrainError::Budget { source: BudgetError::Exceeded { .. }, .. }), "{error}");
        assert!(!place.path("b").exists());
    }
    let error = place.train("b", POISSON, Some(9.0), None).unwrap_err();
    assert!(matches!(error, TrainError::Budget { source: BudgetError::Raised { .. }, .. }));
    assert_eq!(fs::read(place.path("records.budget")).unwrap(), before);
    state_total(&place.path("records.budget"), 9.0).unwrap();
    place.train("b", POISSON, None, None).unwrap();
    assert_eq!((place.entries().len(), place.statement().epsilon_total), (2, Some(9.0)));

    let other = Place::new();
    assert!(other.train("a", POISSON, Some(0.5 * own), None).is_err());
    assert!(!other.path("records.budget").exists() && !other.path("a").exists());
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = other.train("a", POISSON, Some(wrong), None).unwrap_err();
        assert!(matches!(error, TrainError::Budget { source: BudgetError::NoEpsilon(_), .. }), "{error}");
    }
}

#[test]
fn runs_that_begin_at_once_share_one_total() {
    let place = Place::new();
    let mut double = place.request(POISSON);
    double.spec.set("sampling.steps", "24").unwrap();
    let total = Some(1.01 * complete(&double).unwrap().certificate.epsilon.upper);
    let begun = std::thread::scope(|scope| {
        let begin = |name: &'static str| {
            let place = &place;
            scope.spawn(move || place.train(name, POISSON, total, None).is_ok())
        };
        let runs = ["a", "b", "c", "d"].map(begin);
        runs.map(|run| run.join().unwrap()).into_iter().filter(|begun| *begun).count()
    });
    assert_eq!((begun, place.entries()), (2, vec![("run", "settled", 12); 2]));
}

#[test]
fn a_region_by_a_mask_is_priced_again_from_the_budget_alone() {
    let place = Place::new();
    let mut request =
        place.request(&format!("{POISSON}[region]\nmask = 'mask.pgm'\n[pipeline]\ncrop = [3, 3]\n"));
    let size = dapple_geometry::Size::named("mask", 6, 6).unwrap();
    request.masks = vec![dapple_geometry::Mask::from_fn(size, |x, y| x + 2 * y == 4).unwrap()];
    let within = place.within(None);
    let outcome = start_within(&request, &place.path("a"), Some(&within), &mut Silent).unwrap();
    fs::remove_dir_all(place.path("a")).unwrap();
    let statement = place.statement();
    assert_eq!(statement.relation, "patch");
    assert_eq!(statement.epsilon.upper, outcome.certificate.spent.unwrap().epsilon.upper);
}

#[test]
fn a_run_that_ends_early_gives_back_the_rest_and_takes_it_again() {
    let place = Place::new();
    let stopped = place.train("a", POISSON, None, Some(3)).unwrap().certificate;
    assert_eq!(place.entries(), [("run", "settled", stopped.steps_spent)]);
    assert_eq!(place.epsilon(), stopped.spent.unwrap().epsilon.upper);
    // If another run takes what this one gave back, there is no room for this one to go on.
    let total = 1.01 * complete(&place.request(POISSON)).unwrap().certificate.epsilon.upper;
    state_total(&place.path("records.budget"), total).unwrap();
    let ledger = fs::read(place.path("a/ledger.jsonl")).unwrap();
    place.train("b", "[privacy]\nnoise_multiplier = 8.0\ndelta = 1e-5\n", None, None).unwrap();
    assert!(matches!(
        place.resume("a", None).unwrap_err(),
        TrainError::Budget { source: BudgetError::Exceeded { .. }, .. }
    ));
    assert_eq!(fs::read(place.path("a/ledger.jsonl")).unwrap(), ledger, "no step was promised");
    state_total(&place.path("records.budget"), 9.0).unwrap();
    place.resume("a", None).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12), ("run", "settled", 12)]);
    // A run that is finished has nothing to go on with.
    place.resume("a", None).unwrap();
    assert_eq!(place.entries().len(), 2);
}

#[test]
fn a_run_that_was_killed_counts_as_a_whole_until_it_ends_in_order() {
    let place = Place::new();
    kill(&place, "a", 1, 3);
    assert_eq!(place.entries(), [("run", "reserved", 12)]);
    // It goes on without reserving anew, because its ledger knows every promise that the budget's side knows.
    let spent = place.resume("a", Some(2)).unwrap().certificate.steps_spent;
    assert!(spent > 3 && spent < 12);
    assert_eq!(place.entries(), [("run", "settled", spent)]);
    place.resume("a", None).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12)]);
    assert_eq!(place.epsilon(), certify(&place.path("a")).unwrap().planned.unwrap().epsilon.upper);
    assert!(!place.path("records.budget.running").exists());
}

#[test]
fn an_older_state_of_a_killed_run_is_a_copy() {
    let place = Place::new();
    kill(&place, "a", 2, 6);
    fs::remove_dir_all(place.path("a")).unwrap();
    fs::rename(place.path("old"), place.path("a")).unwrap();
    // The steps from 2 to 6 were taken, and are taken again with other noise: they count twice.
    place.resume("a", Some(1)).unwrap();
    assert_eq!(place.entries()[0], ("run", "reserved", 12));
    assert_eq!(place.entries()[1].0, "copy");
}

#[test]
fn a_killed_run_that_nobody_knows_about_counts_anew() {
    let place = Place::new();
    kill(&place, "a", 1, 3);
    fs::remove_dir_all(place.path("records.budget.running")).unwrap();
    // Asking a second time does not help.
    state_total(&place.path("records.budget"), 1.01 * place.epsilon()).unwrap();
    for _ in 0..2 {
        assert!(matches!(
            place.resume("a", None).unwrap_err(),
            TrainError::Budget { source: BudgetError::Exceeded { .. }, .. }
        ));
    }
    state_total(&place.path("records.budget"), 9.0).unwrap();
    place.resume("a", None).unwrap();
    assert_eq!(place.entries(), [("run", "reserved", 12), ("copy", "settled", 12)]);
}

#[test]
fn a_crash_between_the_folder_and_the_budget_makes_no_copy() {
    let place = Place::new();
    place.train("a", POISSON, None, Some(2)).unwrap();
    let budget = fs::read(place.path("records.budget")).unwrap();
    place.resume("a", Some(2)).unwrap();
    let link: BudgetLink =
        serde_json::from_slice(&fs::read(place.path("a/private/budget.json")).unwrap()).unwrap();
    // The folder knew the next line, but the budget never got it.
    let old = Account::read(&budget).unwrap().unwrap().head;
    let torn = BudgetLink { turn: old, next: Some(link.turn.clone()), ..link };
    torn.write(&place.path("a")).unwrap();
    place.resume("a", Some(2)).unwrap();
    // The budget got the line, and the folder still knew both.
    let link = BudgetLink::read(&place.path("a")).unwrap().unwrap();
    BudgetLink { turn: "before".into(), next: Some(link.turn.clone()), ..link }
        .write(&place.path("a"))
        .unwrap();
    place.resume("a", None).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12)]);
}

#[test]
fn a_copy_that_goes_on_counts_anew() {
    let place = Place::new();
    place.train("a", POISSON, None, Some(2)).unwrap();
    copy(&place.path("a"), &place.path("b"));
    let alone = place.epsilon();
    place.resume("a", Some(2)).unwrap();
    assert_eq!(place.entries().len(), 1);
    // Whichever goes on second is the copy.
    let copied = place.resume("b", Some(2)).unwrap().certificate.steps_spent;
    assert_eq!(place.entries()[1], ("copy", "settled", copied));
    assert!(place.epsilon() > alone);
    place.resume("b", None).unwrap();
    place.resume("a", None).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12), ("copy", "settled", 12)]);
}

#[test]
fn a_copy_made_while_the_run_goes_on_counts_anew() {
    struct Forks<'a>(&'a Place, bool);
    impl crate::Observer for Forks<'_> {
        fn notice(&mut self, event: &crate::Event<'_>) -> std::ops::ControlFlow<()> {
            if let crate::Event::Checkpoint { step: 4 } = event
                && !self.1
            {
                self.1 = true;
                copy(&self.0.path("a"), &self.0.path("b"));
                self.0.resume("b", Some(1)).unwrap();
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let place = Place::new();
    let mut observer = Forks(&place, false);
    start_within(&place.request(POISSON), &place.path("a"), Some(&place.within(None)), &mut observer)
        .unwrap();
    assert!(observer.1);
    let entries = place.entries();
    assert_eq!((entries.len(), entries[0], entries[1].0), (2, ("run", "settled", 12), "copy"));
}

#[test]
fn an_older_state_of_a_folder_is_a_copy() {
    let place = Place::new();
    place.train("a", POISSON, None, Some(2)).unwrap();
    copy(&place.path("a"), &place.path("backup"));
    place.resume("a", Some(3)).unwrap();
    let settled = place.entries();
    fs::remove_dir_all(place.path("a")).unwrap();
    fs::rename(place.path("backup"), place.path("a")).unwrap();
    place.resume("a", Some(1)).unwrap();
    // The steps of the lost state stay counted.
    assert_eq!(place.entries()[0], settled[0]);
    assert_eq!(place.entries()[1].0, "copy");
}

#[test]
fn a_copy_of_a_balanced_run_is_refused() {
    let place = Place::new();
    let balanced = "[privacy]\nnoise_multiplier = 4.0\ndelta = 1e-5\n";
    let plan = PLAN.replace("batch = 10\n", "scheme = 'balanced'\nper_record = 3\n");
    let request = common::request(place.folder.path(), &format!("{plan}{balanced}"));
    let mut stop = common::Recorder { stop_after: Some(2), ..common::Recorder::default() };
    start_within(&request, &place.path("a"), Some(&place.within(None)), &mut stop).unwrap();
    // Which steps a record joins was drawn at the start, so the first step costs as much as all.
    assert_eq!(place.epsilon(), complete(&request).unwrap().certificate.epsilon.upper);
    copy(&place.path("a"), &place.path("b"));
    place.resume("a", Some(1)).unwrap();
    assert!(matches!(
        place.resume("b", None).unwrap_err(),
        TrainError::Budget { source: BudgetError::SharedAllocation, .. }
    ));
}

#[test]
fn every_run_is_priced_for_the_neighbours_of_the_first() {
    let place = Place::new();
    let patch = "[region]\npatch = [2, 2]\n[pipeline]\ncrop = [3, 3]\n";
    place.train("a", POISSON, None, None).unwrap();
    let record = place.epsilon();
    place.train("b", &format!("{POISSON}{patch}"), None, None).unwrap();
    let statement = place.statement();
    assert_eq!(statement.relation, "add-remove");
    // The second run promised less, and costs as much as the first.
    assert_eq!(statement.entries[0].epsilon, statement.entries[1].epsilon);
    assert!(statement.epsilon.upper > 1.2 * record);
    let fixed = "[privacy]\nnoise_multiplier = 4.0\ndelta = 1e-5\nrelation = 'replace'\n";
    let mut request = place.request(fixed);
    request.spec.set("sampling.scheme", "without-replacement").unwrap();
    let error = start_within(&request, &place.path("c"), Some(&place.within(None)), &mut Silent).unwrap_err();
    let refused = matches!(&error, TrainError::Budget { source: BudgetError::NotComposed { .. }, .. });
    assert!(refused && error.to_string().contains("no theorem"), "{error}");
    assert!(!place.path("c").exists());
}

#[test]
fn other_records_have_another_budget() {
    let place = Place::new();
    place.train("a", POISSON, None, None).unwrap();
    common::write_data(place.folder.path(), "train", 41, 6);
    let error = place.train("b", POISSON, None, None).unwrap_err();
    assert!(matches!(error, TrainError::Budget { source: BudgetError::OtherRecords, .. }), "{error}");
    // In a folder of budgets, each set of records finds its own.
    fs::create_dir(place.path("budgets")).unwrap();
    let within = Within { file: place.path("budgets"), total: None };
    for (name, records) in [("c", 41), ("d", 40), ("e", 41)] {
        common::write_data(place.folder.path(), "train", records, 6);
        start_within(&place.request(POISSON), &place.path(name), Some(&within), &mut Silent).unwrap();
    }
    let found = budgets(&place.path("budgets")).unwrap();
    assert_eq!(
        found.iter().map(|found| (found.records, found.entries.len())).collect::<Vec<_>>(),
        [(41, 2), (40, 1)]
    );
}

#[test]
fn a_run_without_privacy_or_an_edited_budget_is_refused() {
    let place = Place::new();
    let mut request = place.request(POISSON);
    request.spec.train.private = Some(false);
    let error = start_within(&request, &place.path("a"), Some(&place.within(None)), &mut Silent).unwrap_err();
    assert!(matches!(error, TrainError::Budget { source: BudgetError::NotPrivate, .. }), "{error}");
    assert!(!place.path("records.budget").exists());

    place.train("a", POISSON, None, None).unwrap();
    let whole = fs::read_to_string(place.path("records.budget")).unwrap();
    let edited = whole.replace("noise_multiplier = 4.0", "noise_multiplier = 9.0");
    assert_ne!(edited, whole);
    fs::write(place.path("records.budget"), &edited).unwrap();
    assert!(matches!(
        place.train("b", POISSON, None, None).unwrap_err(),
        TrainError::Budget { source: BudgetError::Broken(_), .. }
    ));
    // A line that a crash cut off was never acted upon.
    let cut = &whole[..whole.len() - 20];
    fs::write(place.path("records.budget"), cut).unwrap();
    assert_eq!(place.entries(), [("run", "reserved", 12)]);
    place.train("b", POISSON, None, None).unwrap();
    assert_eq!(place.entries(), [("run", "reserved", 12), ("run", "settled", 12)]);
    // The budget shows nothing about a record openly, and only its owner may read it.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(place.path("records.budget")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_run_begun_without_a_budget_can_be_added_once() {
    let place = Place::new();
    start(&place.request(POISSON), &place.path("a"), &mut Silent).unwrap();
    add_run(&place.within(None), &place.path("a")).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12)]);
    assert_eq!(budget_of_run(&place.path("a")).unwrap(), Some(place.path("records.budget")));
    let error = add_run(&place.within(None), &place.path("a")).unwrap_err();
    assert!(matches!(error, TrainError::Budget { source: BudgetError::Known, .. }));
    // When a run without a budget is resumed, a budget may be named.
    let mut stop = common::Recorder { stop_after: Some(2), ..common::Recorder::default() };
    start(&place.request(POISSON), &place.path("b"), &mut stop).unwrap();
    resume_within(&place.path("b"), &Performance::default(), Some(&place.within(None)), &mut Silent).unwrap();
    assert_eq!(place.entries(), [("run", "settled", 12), ("run", "settled", 12)]);
    // A budget that was moved must be named again. One that is gone stops the run.
    fs::rename(place.path("records.budget"), place.path("moved.budget")).unwrap();
    let mut stop = common::Recorder { stop_after: Some(2), ..common::Recorder::default() };
    let moved = Within { file: place.path("moved.budget"), total: None };
    start_within(&place.request(POISSON), &place.path("c"), Some(&moved), &mut stop).unwrap();
    fs::rename(place.path("moved.budget"), place.path("again.budget")).unwrap();
    let error = resume_within(&place.path("c"), &Performance::default(), None, &mut Silent).unwrap_err();
    assert!(matches!(error, TrainError::Budget { source: BudgetError::Missing, .. }), "{error}");
    let moved = Within { file: place.path("again.budget"), total: None };
    resume_within(&place.path("c"), &Performance::default(), Some(&moved), &mut Silent).unwrap();
    assert_eq!(budgets(&place.path("again.budget")).unwrap()[0].entries.len(), 3);
}

#[test]
fn a_choice_is_counted_once_and_costs_more_than_a_run() {
    let place = Place::new();
    let law = Repetitions::negative_binomial(1.0, 5.0).unwrap();
    let mut candidates: Vec<Completed> = Vec::new();
    for rate in ["0.1", "0.5"] {
        let mut request = place.request(POISSON);
        request.spec.set("optimiser.learning_rate", rate).unwrap();
        candidates.push(complete(&request).unwrap());
    }
    fs::create_dir_all(place.path("choice/private")).unwrap();
    reserve_choice(&place.within(None), &candidates, law, &place.path("choice")).unwrap();
    let priced = crate::choose_price(&candidates, law).unwrap();
    assert_eq!(place.entries(), [("choice", "reserved", 12)]);
    assert_eq!(place.epsilon(), priced.epsilon);
    let one = candidates[0].certificate.epsilon.upper;
    assert!(priced.epsilon > one && priced.epsilon_of_one == one);
    assert!(draw(law, 2).unwrap().iter().all(|drawn| *drawn < 2));
    let error = reserve_choice(&place.within(Some(priced.epsilon)), &candidates, law, &place.path("choice"));
    assert!(matches!(error, Err(TrainError::Budget { source: BudgetError::Exceeded { .. }, .. })));
    common::write_data(place.folder.path(), "other", 40, 7);
    let mut other = place.request(POISSON);
    other.spec.set("data.train", "other.npy").unwrap();
    candidates.push(complete(&other).unwrap());
    assert!(reserve_choice(&place.within(None), &candidates, law, &place.path("choice")).is_err());
}
