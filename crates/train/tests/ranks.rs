//! Runs that several ranks share, here threads of one process: they come to what one process comes to, whatever the plan.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, among, model_bytes, request, write_data, write_pairs, write_parted, write_pool};
use dapple_plan::PlanSpec;
use dapple_plan::spec::Performance;
use dapple_train::{
    Observer, Request, RunOutcome, Silent, Status, TrainError, Verdict, Warning, certify, resume,
    resume_among, start, start_among, verify,
};

fn start_on(
    ranks: usize,
    request: &Request,
    out: &Path,
    observer: &mut (dyn Observer + Send),
) -> Result<RunOutcome, TrainError> {
    let others = vec![Some(request.clone()); ranks - 1];
    among(&others, |group| start_among(group, request, out, None, observer))
}

fn resume_on(ranks: usize, out: &Path) -> Result<RunOutcome, TrainError> {
    among(&vec![None; ranks - 1], |group| {
        resume_among(group, out, &Performance::default(), None, &mut Silent)
    })
}

/// What a run leaves that says how it went.
fn left(run: &Path) -> (Vec<u8>, String) {
    (model_bytes(run), fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default())
}

/// A run on several ranks ends as one on a single process: with the same model and the same evaluations to the last bit, the same draws, the
/// same price. So does one that was stopped on some ranks and went on on others.
fn the_same_on_any_ranks(folder: &Path, request: &Request, numbers: &[usize]) {
    whole_runs_are_the_same(folder, request, numbers);
    let alone = folder.join("alone");
    let parts = folder.join("parts");
    start_on(3, request, &parts, &mut Recorder { stop_after: Some(2), ..Recorder::default() }).unwrap();
    assert_eq!(certify(&parts).unwrap().status, Status::Stopped);
    resume_on(2, &parts).unwrap();
    assert_eq!(left(&parts), left(&alone));
    let parts = folder.join("back");
    start_on(2, request, &parts, &mut Recorder { stop_after: Some(1), ..Recorder::default() }).unwrap();
    let outcome = resume(&parts, &mut Silent).unwrap();
    assert_eq!(left(&parts), left(&alone));
    let ranks: Vec<_> = outcome.certificate.machines.iter().map(|used| used.ranks).collect();
    assert_eq!(ranks, [Some(2), None]);
}

/// The same for runs that nothing stops.
fn whole_runs_are_the_same(folder: &Path, request: &Request, numbers: &[usize]) {
    let alone = folder.join("alone");
    let mut recorder = Recorder::default();
    let outcome = start(request, &alone, &mut recorder).unwrap();
    assert!(!outcome.certificate.warnings.contains(&Warning::Ranks));
    for &ranks in numbers {
        let shared = folder.join(format!("shared-{ranks}"));
        let mut others = Recorder::default();
        let together = start_on(ranks, request, &shared, &mut others).unwrap();
        assert_eq!(left(&shared), left(&alone), "{ranks} ranks");
        assert_eq!(others.drawn, recorder.drawn, "{ranks} ranks");
        assert_eq!(together.certificate.spent, outcome.certificate.spent);
        assert_eq!(together.certificate.machines[0].ranks, Some(ranks as u64));
        assert!(together.certificate.warnings.contains(&Warning::Ranks));
        assert!(matches!(verify(&shared, None).unwrap(), Verdict::Valid { .. }));
    }
}

const CLASSES: &str = "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[performance]\nthreads = 1\n\
    [train]\nseed = 3\ncheckpoint_every = 2\nevaluate_every = 2\n";

/// Runs a plan on small pictures, of which a part is split off for evaluation.
fn on_pictures(side: usize, numbers: &[usize], rest: &str) {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, side);
    write_data(folder.path(), "test", 11, side);
    write_pool(&folder.path().join("pool"), 9, side);
    the_same_on_any_ranks(folder.path(), &request(folder.path(), &format!("{CLASSES}{rest}")), numbers);
}

const NOISE: &str = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n";
const POISSON: &str = "[sampling]\nbatch = 9\nsteps = 5\n";

#[test]
fn every_scheme_of_sampling() {
    let optimisers = "[optimiser]\nlearning_rate = 0.1\nkind = 'adamw'\nnoise_correction = true\nema = 0.9\n";
    for sampling in [
        POISSON,
        // Some of these batches are empty, and most ranks have no record.
        "[sampling]\nbatch = 1\nsteps = 8\n",
        "relation = 'replace'\n[sampling]\nscheme = 'without-replacement'\nbatch = 8\nsteps = 5\n",
        "relation = 'replace'\n[sampling]\nscheme = 'balanced'\nper_record = 2\nsteps = 6\n",
    ] {
        on_pictures(28, &[2, 4], &format!("[model]\nname = 'small-cnn'\n{optimisers}{NOISE}{sampling}"));
    }
}

/// Every rank learns the same scales from the same releases.
#[test]
fn gradients_that_are_scaled_first() {
    let optimiser = "[optimiser]\nlearning_rate = 0.05\nkind = 'adam'\nscale_first = true\n";
    on_pictures(28, &[2, 3], &format!("[model]\nname = 'small-cnn'\n{optimiser}{NOISE}{POISSON}"));
}

/// Filters are projected in the whole sum, and the weights of a wide network are standardised.
#[test]
fn standardised_weights_and_views() {
    on_pictures(
        16,
        &[3],
        &format!(
            "[model]\nname = 'wrn-16-4'\n[optimiser]\nlearning_rate = 0.1\nmomentum = 0.9\n{NOISE}\
             [sampling]\nbatch = 4\nsteps = 4\n[pipeline]\ncrop = [8, 8]\nviews = 2\n[region]\npatch = [2, 2]\n"
        ),
    );
}

#[test]
fn clip_norms_that_follow_a_quantile_and_groups_with_synthetic_images() {
    on_pictures(
        28,
        &[2, 4],
        &format!(
            "[model]\nname = 'small-cnn'\n[optimiser]\nlearning_rate = 0.1\n{NOISE}clip_quantile = 0.5\n{POISSON}"
        ),
    );
    on_pictures(
        28,
        &[2, 4],
        &format!(
            "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.1\n{NOISE}records_per_clip = 3\n{POISSON}\
             [mix]\npool = 'pool'\nsynthetic = 1\nself_mix = 1\n"
        ),
    );
}

/// Every rank has the sums of the steps before, and knows the group of each record. A run that goes on has no sums, so it ends with another model,
/// and with the same price.
#[test]
fn noise_that_cancels_across_steps() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 28);
    write_data(folder.path(), "test", 11, 28);
    let rest = "[model]\nname = 'small-cnn'\n[optimiser]\nlearning_rate = 0.1\nmomentum = 0.5\n";
    let bands = "[sampling]\nbatch = 9\nsteps = 8\n[noise]\nbands = 3\n";
    let request = request(folder.path(), &format!("{CLASSES}{rest}{NOISE}{bands}"));
    whole_runs_are_the_same(folder.path(), &request, &[2, 3]);
    let parts = folder.path().join("parts");
    start_on(3, &request, &parts, &mut Recorder { stop_after: Some(4), ..Recorder::default() }).unwrap();
    let outcome = resume_on(2, &parts).unwrap();
    assert_eq!(outcome.certificate.spent, outcome.certificate.planned);
    assert!(matches!(verify(&parts, None).unwrap(), Verdict::Valid { .. }));
}

/// A rank may draw no record of a submodel that others do.
#[test]
fn submodels_and_dropout_that_splits() {
    on_pictures(
        8,
        &[2, 4],
        &format!(
            "[model]\nname = 'small-hybrid'\n[optimiser]\nlearning_rate = 0.1\n{NOISE}[sampling]\nbatch = 6\nsteps = 5\n\
             [partition]\nblocks = ['blocks.0..blocks.3']\nsubmodels = 3\nsplit_fraction = 0.9\n"
        ),
    );
    on_pictures(
        28,
        &[2, 4],
        &format!(
            "[model]\nname = 'small-cnn'\nhead_dropout = 0.5\n[optimiser]\nlearning_rate = 0.1\n{NOISE}{POISSON}\
             [partition]\ndropout = 0.5\nsplit_fraction = 0.6\n"
        ),
    );
}

/// More records than numbers of 32 bits hold, on one rank or on all of them together.
#[test]
fn batches_beyond_what_narrow_numbers_hold() {
    for batch in [1000, 1600, 3500] {
        let folder = tempfile::tempdir().unwrap();
        write_data(folder.path(), "train", 4000, 4);
        let text = format!(
            "[performance]\nthreads = 1\n[train]\nseed = 3\ncheckpoint_every = 2\n[model]\nname = 'linear'\n\
             [optimiser]\nlearning_rate = 0.1\n{NOISE}[sampling]\nbatch = {batch}\nsteps = 4\n"
        );
        the_same_on_any_ranks(folder.path(), &request(folder.path(), &text), &[2, 4]);
    }
}

#[test]
fn private_and_public_parts_that_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    write_parted(folder.path(), 16, 16, (1, 2));
    let text = "[data]\nformat = 'image-folder'\ntrain = 'train'\nmasks = 'masks'\nmean = [0.4]\nstd = [0.25]\nsize = [16, 16]\nvalidation = 0.2\n\
         [model]\nname = 'vit-ti-8'\n[optimiser]\nlearning_rate = 0.01\n[sampling]\nbatch = 4\nsteps = 4\n\
         [privacy]\nrelation = 'masked'\nmax_grad_norm = 1.0\nnoise_multiplier = 2.0\ndelta = 1e-5\n[performance]\nthreads = 1\n\
         [masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 1.5\n[train]\nseed = 7\ncheckpoint_every = 2\n";
    let request = Request {
        spec: PlanSpec::from_toml(text).unwrap(),
        base: folder.path().to_owned(),
        masks: Vec::new(),
    };
    the_same_on_any_ranks(folder.path(), &request, &[3]);
}

#[test]
fn label_maps_and_their_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    // The last image has no labelled pixel in some part of it.
    write_pairs(
        &folder.path().join("pairs"),
        13,
        |record, pixel| if record % 5 == 1 { 255 } else { (pixel / 7 % 3) as u8 },
    );
    let text = "[data]\nformat = 'image-pairs'\ntrain = 'pairs'\nclasses = 3\nvalidation = 0.4\nmean = [0.5]\nstd = [0.25]\n\
         [model]\nname = 'small-fcn'\n[optimiser]\nlearning_rate = 0.5\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n\
         [region]\npatch = [8, 8]\n[pipeline]\nimage = [20, 20]\ncrop = [16, 16]\n[sampling]\nbatch = 4\nsteps = 4\n\
         [train]\nseed = 3\ncheckpoint_every = 2\nevaluate_every = 2\n[performance]\nthreads = 1\n";
    let request = Request {
        spec: PlanSpec::from_toml(text).unwrap(),
        base: folder.path().to_owned(),
        masks: Vec::new(),
    };
    the_same_on_any_ranks(folder.path(), &request, &[3]);
}

/// Without clipping nothing is whole, so sums of ranks round in another order: a step's gradient by a few roundoffs, which five steps of a
/// small model do not amplify to a thousandth of a weight.
#[test]
fn without_privacy_models_agree_to_rounding() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    write_data(folder.path(), "test", 11, 8);
    let text = format!(
        "{CLASSES}private = false\n[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.1\n{POISSON}"
    );
    let request = request(folder.path(), &text);
    start(&request, &folder.path().join("alone"), &mut Silent).unwrap();
    start_on(3, &request, &folder.path().join("shared"), &mut Silent).unwrap();
    let values = |name: &str| -> Vec<f32> {
        let bytes = model_bytes(&folder.path().join(name));
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut names = file.names();
        names.sort();
        let of = |name: &str| file.tensor(name).unwrap().data().to_vec();
        let bytes: Vec<u8> = names.into_iter().flat_map(of).collect();
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    for (one, other) in values("alone").iter().zip(values("shared")) {
        assert!((one - other).abs() <= 1e-3 * one.abs().max(1e-3), "{one} {other}");
    }
}

/// Keys are fresh in every run, so models differ; what was spent does not.
#[test]
fn without_a_seed_ledgers_and_certificates_agree() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    let text = format!(
        "[performance]\nthreads = 1\n[train]\ncheckpoint_every = 2\n[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.1\n{NOISE}{POISSON}"
    );
    let request = request(folder.path(), &text);
    let (alone, shared) = (folder.path().join("alone"), folder.path().join("shared"));
    let alone_spent = start(&request, &alone, &mut Silent).unwrap().certificate;
    let shared_spent = start_on(3, &request, &shared, &mut Silent).unwrap().certificate;
    assert_eq!((alone_spent.spent, alone_spent.steps_spent), (shared_spent.spent, shared_spent.steps_spent));
    assert_ne!(model_bytes(&alone), model_bytes(&shared));
    // A run that is complete is left as it is, by any ranks.
    let model = model_bytes(&shared);
    assert_eq!(resume_on(2, &shared).unwrap().certificate.status, Status::Finished);
    assert_eq!(model_bytes(&shared), model);
}

#[test]
fn ranks_with_another_plan_are_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    let plan = |batch: u64| {
        let text = format!(
            "[performance]\nthreads = 1\n[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.1\n{NOISE}[sampling]\nbatch = {batch}\nsteps = 4\n"
        );
        request(folder.path(), &text)
    };
    let out = folder.path().join("run");
    let (own, other) = (plan(8), plan(9));
    let others = [Some(own.clone()), Some(other)];
    let error = among(&others, |group| start_among(group, &own, &out, None, &mut Silent)).unwrap_err();
    assert_eq!(error.to_string(), "rank 2: the plan differs from that of rank 0");
    assert!(error.hint().is_some() && !out.exists());
    // A plan that the first rank cannot prepare is told by it alone.
    let broken = plan(1000);
    let error = start_on(3, &broken, &out, &mut Silent).unwrap_err();
    assert!(!error.to_string().contains("rank") && !out.exists(), "{error}");
    let gpu = Performance { device: Some("cuda:99".parse().unwrap()), ..Performance::default() };
    let mut on_gpu = own.clone();
    on_gpu.spec.performance = on_gpu.spec.performance.merge(&gpu);
    let error = start_on(2, &on_gpu, &out, &mut Silent).unwrap_err();
    let words = "performance.device: rank 0: there is no cuda:99 for it (";
    assert!(error.to_string().starts_with(words) && !out.exists(), "{error}");
    start_on(2, &own, &out, &mut Silent).unwrap();
    let error = start_on(2, &own, &out, &mut Silent).unwrap_err();
    assert!(matches!(error, TrainError::Exists { .. }), "{error}");
}
