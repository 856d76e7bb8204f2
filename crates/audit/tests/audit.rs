//! Audits of whole plans: none contradicts an honest certificate, and false certificates are caught.
#![allow(clippy::unwrap_used)]

use dapple_audit::{Attack, Audit, AuditError, Options, Pattern, audit, audit_completed};
use dapple_geometry::{Mask, Size};
use dapple_plan::PlanSpec;
use dapple_plan::masked::claimed_epsilon;
use dapple_train::{Request, complete};

/// A plan of 1000 records and, unless it has phases, 40 steps. The seed makes every random number the same each time.
fn request(more: &str) -> Request {
    let mut spec = PlanSpec::from_toml(
        r"
        [privacy]
        noise_multiplier = 0.8
        delta = 1e-5
        [sampling]
        batch = 100
        records = 1000
        steps = 40
        [train]
        seed = 11
        ",
    )
    .unwrap();
    spec = spec.merge(&PlanSpec::from_toml(more).unwrap());
    Request { spec, base: ".".into(), masks: Vec::new() }
}

fn audited(more: &str) -> Audit {
    audit(&request(more), &Options::default(), &mut |_, _| {}).unwrap()
}

const PATCH: &str = "region.patch = [6, 6]\npipeline.image = [24, 20]\npipeline.crop = [12, 12]\n";

const MIXED: &str = "mix.synthetic = 2\nmix.self_mix = 3\n";

const USERS: &str = "privacy.relation = 'user'\n";

/// Each bound is above the truth with probability at most 0.05, and the certified epsilon is always above the truth; seeds are fixed. The
/// bound must not be small either: an attack that misread the run would show nothing.
#[test]
fn honest_certificates_hold_and_something_shows() {
    for (name, more) in [
        ("add or remove", String::new()),
        ("replace", "privacy.relation = 'replace'".to_owned()),
        (
            "without replacement",
            "privacy.relation = 'replace'\nsampling.scheme = 'without-replacement'".to_owned(),
        ),
        ("users", USERS.to_owned()),
        ("local steps", format!("{USERS}user.local_steps = 3\nuser.local_learning_rate = 0.1")),
        ("patch", PATCH.to_owned()),
        ("views", format!("{PATCH}pipeline.views = 3")),
        ("adapted clip norm", "privacy.clip_quantile = 0.3\nprivacy.count_noise = 1.0".to_owned()),
        ("mixtures", format!("{PATCH}pipeline.views = 2\nmix.self_mix = 3")),
        ("synthetic images", "mix.synthetic = 2".to_owned()),
        ("DP-Mix", format!("{PATCH}pipeline.views = 2\nmix.synthetic = 2\nmix.self_mix = 3")),
        (
            "phases",
            "[[phases]]\nsteps = 10\nnoise_multiplier = 1.0\n[[phases]]\nsteps = 20\nbatch = 150\n"
                .to_owned(),
        ),
        ("patch without replacement", format!("{PATCH}sampling.scheme = 'without-replacement'")),
        ("disc", "region.circle = 3.0\npipeline.image = [24, 20]\npipeline.crop = [12, 12]".to_owned()),
        ("padded", format!("{PATCH}pipeline.pad = 4\npipeline.pad_mode = 'reflect'")),
        (
            "resized crops",
            "region.circle = 2.0\npipeline.image = [24, 20]\npipeline.crop_scale = [0.1, 0.5]\n\
             pipeline.crop_ratio = [0.8, 1.25]\ndata.size = [12, 12]"
                .to_owned(),
        ),
        ("large values", "privacy.max_grad_norm = 1e9\ntrain.clipping = 'automatic'".to_owned()),
        ("small values", "privacy.max_grad_norm = 1e-9".to_owned()),
        ("automatic clipping", "train.clipping = 'automatic'\nprivacy.max_grad_norm = 0.1".to_owned()),
    ] {
        let audit = audited(&more);
        assert!(!audit.contradicts(), "{name}: {audit:?}");
        assert!(audit.epsilon_lower_bound > 1.0, "{name}: {audit:?}");
    }
}

const MASKED: &str = "privacy.relation = 'masked'\n";

/// Private tokens of other content, or of none, beside public ones that come from a batch of their own or tell which steps drew a record.
#[test]
fn masked_runs_are_audited() {
    let clipped = "masked.public_gradient = 'coupled-clipped'\nmasked.public_clip = 2.0\n";
    for (name, mode, least) in [
        ("decoupled", "", 1.0),
        ("clipped", clipped, 1.0),
        ("coupled", "masked.public_gradient = 'coupled'\n", 2.0),
    ] {
        for content in ["substitute", "remove"] {
            for (sampling, more) in [
                ("poisson", ""),
                ("without-replacement", "pipeline.views = 2\n"),
                ("poisson", "pipeline.image = [11, 7]\npipeline.crop = [4, 5]\npipeline.views = 2\n"),
            ] {
                let audit = audited(&format!(
                    "{MASKED}{mode}{more}masked.content = '{content}'\nsampling.scheme = '{sampling}'"
                ));
                assert!(!audit.contradicts(), "{name}, {content}, {sampling}: {audit:?}");
                // Nothing instead of the opposite is half as far, and seen about half as well.
                let least = if content == "remove" { 0.4 * least } else { least };
                assert!(audit.epsilon_lower_bound > least, "{name}, {content}, {sampling}: {audit:?}");
            }
        }
    }
    let balanced = "sampling.scheme = 'balanced'\nsampling.per_record = 4\nmasked.content = 'remove'";
    let audit = audited(&format!("{MASKED}{balanced}"));
    assert!(!audit.contradicts() && audit.epsilon_lower_bound > 0.4, "{audit:?}");
}

/// The masked paper prices its algorithm as if public gradients told nothing and private ones moved by one clip norm: attacked, it gives
/// away more. So does a run whose public batches are those of the private parts, if it is certified as one whose batches are independent.
#[test]
fn coupled_public_gradients_contradict_what_is_claimed_for_them() {
    let more = "privacy.noise_multiplier = 1.0\nsampling.batch = 20\nsampling.steps = 30\n";
    let coupled = request(&format!("{MASKED}{more}masked.public_gradient = 'coupled'"));
    let mut completed = complete(&coupled).unwrap();
    let claimed = claimed_epsilon(&completed.plan);
    let honest = audit_completed(&completed, &Options::default(), &mut |_, _| {}).unwrap();
    assert!(!honest.contradicts(), "{honest:?}");
    assert!(honest.epsilon_lower_bound > claimed, "{claimed} is claimed: {honest:?}");
    completed.certificate = complete(&request(&format!("{MASKED}{more}"))).unwrap().certificate;
    let false_one = audit_completed(&completed, &Options::default(), &mut |_, _| {}).unwrap();
    assert!(false_one.contradicts(), "{false_one:?}");
}

/// Noise that cancels across steps: records are drawn several times, and what each draw moved is put together from successive releases. The last
/// chance of some groups is cut off by the end.
#[test]
fn noise_across_steps_is_audited() {
    for (name, more) in [
        ("add or remove", "noise.bands = 4".to_owned()),
        ("cut off", "noise.bands = 7\nnoise.coefficients = 'square-root'".to_owned()),
        ("replace", "noise.bands = 3\nprivacy.relation = 'replace'".to_owned()),
        ("patch", format!("{PATCH}noise.bands = 4")),
        ("mixtures", format!("{PATCH}{MIXED}pipeline.views = 2\nnoise.bands = 4")),
        ("users", format!("{USERS}noise.bands = 4")),
        ("submodels", "noise.bands = 4\npartition.submodels = 2".to_owned()),
        ("dropout", "noise.bands = 4\npartition.dropout = 0.5".to_owned()),
    ] {
        let audit = audited(&more);
        assert!(!audit.contradicts(), "{name}: {audit:?}");
        assert!(audit.epsilon_lower_bound > 0.8, "{name}: {audit:?}");
    }
}

/// A draw moves several releases. Whoever counts one of them, or forgets that coefficients make a draw move more than a clip norm, is caught.
#[test]
fn noise_across_steps_without_its_coefficients_is_caught() {
    // Forty groups of a hundred records, of which each is drawn for sure in two of eighty steps.
    let run = "sampling.records = 4000\nprivacy.delta = 0.05\nprivacy.noise_multiplier = 1.5\n";
    let banded = format!("{run}noise.bands = 40\nsampling.batch = 100\nsampling.steps = 80");
    let options = Options { canaries: Some(4000), ..Options::default() };
    let mut completed = complete(&request(&banded)).unwrap();
    let honest = audit_completed(&completed, &options, &mut |_, _| {}).unwrap();
    assert!(!honest.contradicts(), "{honest:?}");
    let draws = format!("{run}sampling.batch = 4000\nsampling.steps = 2");
    completed.certificate = complete(&request(&draws)).unwrap().certificate;
    let false_one = audit_completed(&completed, &options, &mut |_, _| {}).unwrap();
    assert!(false_one.contradicts(), "{} {false_one:?}", honest.epsilon_certified);
}

/// The attack does not choose who is clipped together with a canary, so it shows less; what it shows is within the certificate.
#[test]
fn records_clipped_together_are_audited() {
    let audit = audited("privacy.records_per_clip = 2");
    assert!(!audit.contradicts(), "{audit:?}");
    assert!(audit.epsilon_lower_bound > 0.5, "{audit:?}");
}

/// A record that is drawn may take another's place, and records that are clipped together share a bound. How often evidence passes a threshold then bounds
/// no probability, and guesses alone count, at a delta at which rates show more elsewhere.
#[test]
fn canaries_that_depend_on_each_other_are_guessed_alone() {
    let delta = "privacy.delta = 0.05\n";
    assert!(matches!(audited(delta).attack, Attack::Rates(_)));
    for more in ["sampling.max_batch = 101", "privacy.records_per_clip = 2"] {
        let audit = audited(&format!("{delta}{more}"));
        assert!(matches!(audit.attack, Attack::Guesses(_)) && !audit.contradicts(), "{audit:?}");
        assert!(audit.assumptions.iter().all(|words| !words.contains("independently")), "{audit:?}");
    }
}

/// Views cancel in a layer whose gradients are never written down, with pixels of a million. If clipping used a norm that loses what is
/// left, hundreds of clip norms would pass and this audit would measure far more than is certified. Computed correctly, a canary adds one
/// clip norm.
#[test]
fn views_that_cancel_show_no_more_than_is_certified() {
    let options = Options { canaries: Some(500), pattern: Pattern::Cancelling, ..Options::default() };
    for (name, more) in [
        ("two views", "pipeline.views = 2"),
        ("four views", "pipeline.views = 4"),
        ("automatic clipping", "pipeline.views = 2\ntrain.clipping = 'automatic'"),
        ("per layer", "pipeline.views = 2\ntrain.clipping = 'per-layer'"),
        ("synthetic images", "pipeline.views = 2\nmix.synthetic = 1"),
    ] {
        for relation in ["add-remove", "replace"] {
            let more = format!(
                "privacy.relation = '{relation}'\nprivacy.noise_multiplier = 4.0\n\
                 pipeline.image = [65, 1]\npipeline.crop = [64, 1]\n{more}"
            );
            let audit = audit(&request(&more), &options, &mut |_, _| {}).unwrap();
            assert!(!audit.contradicts(), "{name}, {relation}: {audit:?}");
        }
    }
}

/// A split model: all of it, a part of it, a mixture of partitions, in balanced steps, and where the hidden submodel is not counted.
#[test]
fn split_models_are_audited() {
    for (name, more) in [
        ("submodels", "partition.submodels = 4"),
        (
            "partly split",
            "partition.submodels = 3\npartition.split_norm = 0.8\npartition.nonsplit_norm = 0.6",
        ),
        (
            "mixture",
            "partition.mixture = [[2, 0.5], [4, 0.5]]\npartition.split_norm = 0.8\npartition.nonsplit_norm = 0.6",
        ),
        (
            "balanced",
            "partition.submodels = 4\nsampling.scheme = 'balanced'\nsampling.per_record = 4\nprivacy.noise_multiplier = 0.6",
        ),
        ("replace", "partition.submodels = 2\nprivacy.relation = 'replace'"),
        ("dropout", "partition.dropout = 0.5"),
        (
            "dropout of a part",
            "partition.dropout = 0.5\npartition.split_norm = 0.8\npartition.nonsplit_norm = 0.6\npipeline.views = 2",
        ),
        (
            "dropout in balanced steps",
            "partition.dropout = 0.5\nsampling.scheme = 'balanced'\nsampling.per_record = 4\nprivacy.noise_multiplier = 0.6",
        ),
    ] {
        let audit = audited(more);
        assert!(!audit.contradicts(), "{name}: {audit:?}");
        assert!(audit.epsilon_lower_bound > 0.3, "{name}: {audit:?}");
    }
}

/// Whoever is told the submodels learns more than a certificate allows that counts on their being hidden. So the attack above would notice
/// if they were not.
#[test]
fn an_attacker_who_is_told_the_submodels_is_not_covered() {
    let more = "partition.submodels = 16\nprivacy.noise_multiplier = 2.0\nprivacy.delta = 0.01\nsampling.batch = 1000\nsampling.steps = 24";
    let options = |tells_submodels| Options { tells_submodels, ..Options::default() };
    let [hidden, told] =
        [false, true].map(|told| audit(&request(more), &options(told), &mut |_, _| {}).unwrap());
    assert!(!hidden.contradicts() && hidden.epsilon_lower_bound > 0.2, "{hidden:?}");
    assert!(told.contradicts(), "{told:?}");
    assert!(told.assumptions.iter().any(|line| line.contains("told which submodel")));
    let error = audit(&request(""), &options(true), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, AuditError::Split { .. }) && error.hint().is_some());
    let cancelling = Options { pattern: Pattern::Cancelling, ..Options::default() };
    let error = audit(&request("partition.submodels = 2"), &cancelling, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, AuditError::Split { .. }));
}

/// The same for masks of dropout. Two submodels hide less than many, so it takes more canaries and a larger delta to tell the two attackers apart.
#[test]
fn an_attacker_who_is_told_the_masks_is_not_covered() {
    let more = "partition.dropout = 0.5\nprivacy.noise_multiplier = 2.0\nprivacy.delta = 0.1\nsampling.batch = 5000\nsampling.records = 5000\nsampling.steps = 6";
    let options = |tells_submodels| Options { tells_submodels, canaries: Some(5_000), ..Options::default() };
    let [hidden, told] =
        [false, true].map(|told| audit(&request(more), &options(told), &mut |_, _| {}).unwrap());
    assert!(!hidden.contradicts() && hidden.epsilon_lower_bound > 0.2, "{hidden:?}");
    assert!(told.contradicts(), "{told:?}");
}

/// Catches certificates for more noise than is added, and for a smaller patch than is protected.
#[test]
fn false_certificates_are_caught() {
    let noisy = "privacy.noise_multiplier = 2.0";
    let patch = |side: u32| {
        format!("region.patch = [{side}, {side}]\npipeline.image = [60, 60]\npipeline.crop = [12, 12]\n")
    };
    let lies = [
        (String::new(), noisy.to_owned()),
        (PATCH.to_owned(), format!("{PATCH}{noisy}")),
        (MIXED.to_owned(), format!("{MIXED}{noisy}")),
        (patch(50), patch(1)),
    ];
    for (done, said) in lies {
        let mut completed = complete(&request(&done)).unwrap();
        completed.certificate = complete(&request(&said)).unwrap().certificate;
        let audit = audit_completed(&completed, &Options::default(), &mut |_, _| {}).unwrap();
        assert!(audit.contradicts(), "{said}: {audit:?}");
    }
}

#[test]
fn wrong_requests_are_named() {
    let refused = |options: Options, more: &str| audit(&request(more), &options, &mut |_, _| {}).unwrap_err();
    let options = Options::default();
    for canaries in [0, 1001] {
        let error = refused(Options { canaries: Some(canaries), ..options }, "");
        assert!(matches!(error, AuditError::Canaries { most: 1000, .. }) && error.hint().is_some());
    }
    for confidence in [0.0, 1.0, f64::NAN] {
        let error = refused(Options { confidence, ..options }, "");
        assert!(matches!(error, AuditError::Confidence(_)) && error.hint().is_some());
    }
    for more in ["pipeline.crop = [12, 12]", "pipeline.crop = [12, 12]\npipeline.image = [100000, 100000]"] {
        let error = refused(options, more);
        assert!(matches!(error, AuditError::Image { .. }) && error.hint().is_some());
    }
    assert!(matches!(refused(options, "train.private = false"), AuditError::Train(_)));
    let cancelling = Options { pattern: Pattern::Cancelling, ..options };
    let phases = "[[phases]]\nsteps = 10\n[[phases]]\nsteps = 20\nbatch = 150\n";
    assert!(matches!(refused(cancelling, phases), AuditError::Image { .. }));
}

/// Progress is told of every step.
#[test]
fn every_step_is_told() {
    let mut steps = Vec::new();
    let options = Options { canaries: Some(10), ..Options::default() };
    let audit = audit(&request(""), &options, &mut |step, all| steps.push((step, all))).unwrap();
    assert_eq!(steps, (1..=40).map(|step| (step, 40)).collect::<Vec<_>>());
    assert_eq!((audit.canaries, audit.steps), (10, 40));
}

/// Where a region was drawn into the image, a canary is red or blue exactly there.
#[test]
fn annotated_regions_are_attacked() {
    let size = Size::new(24, 20).unwrap();
    let mask = Mask::from_fn(size, |x, y| (15..19).contains(&x) && (3..18).contains(&y) && x != y).unwrap();
    let mut request = request("region.placement = 'annotated'\npipeline.crop = [12, 12]");
    request.spec.region.mask = Some("faces.png".to_owned());
    request.masks = vec![mask];
    let audit = audit(&request, &Options::default(), &mut |_, _| {}).unwrap();
    assert!(audit.epsilon_lower_bound > 1.0 && !audit.contradicts(), "{audit:?}");
}
