//! The hash tells plans with different guarantees apart, key by key.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

use dapple_geometry::Size;
use dapple_plan::spec::keys::KEYS;
use dapple_plan::{Mask, Plan, PlanSpec};

/// Sections that say what is trained and how fast. Nothing in them changes the guarantee, and nothing in them is hashed.
const UNPRICED: [&str; 6] = ["data", "model", "optimiser", "train", "user", "performance"];

/// Keys of the other sections that are not hashed, with the reason.
const LEFT_OUT: [(&str, &str); 10] = [
    ("privacy.epsilon", "a target: the same plan may be held to another"),
    ("privacy.accountant", "who answers, not what is asked"),
    ("region.mask", "the name of a file, whose pixels are hashed"),
    ("mix.pool", "the name of a folder, of which only a claim is priced: that of mix.synthetic"),
    ("mix.pool_class", "what the images of that folder are taken for"),
    ("partition.blocks", "which parameters are split: any that are, at the price of their clip norm"),
    ("partition.predict", "what the released weights are used for"),
    ("masked.pass", "how a part is seen alone: it sees nothing of the other part either way"),
    ("masked.public_weight", "the weight of what is public, or of what is not bounded in any case"),
    ("mix.allow", "lets a plan through, whose other keys say what it does"),
];

const RECORDS: &str =
    "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 20\n";
const IMAGES: &str = "[region]\npatch = [2, 2]\n[pipeline]\nimage = [20, 20]\ncrop = [8, 8]\n";
const SIZES: &str = "[region]\npatch = [2, 2]\n[pipeline]\nsizes = '20x20:30x30'\ncrop = [8, 8]\n";
const WINDOW: &str = "[region]\npatch = [2, 2]\nduration = 5\n\
    [pipeline]\nimage = [20, 20]\ncrop = [8, 8]\nframes = 32\nwindow = 8\n";
const VIEWS: &str = "[region]\npatch = [2, 2]\n[pipeline]\nimage = [20, 20]\ncrop = [8, 8]\nviews = 2\n";
const PADDED: &str = "[region]\npatch = [2, 2]\n[pipeline]\nimage = [20, 20]\ncrop = [8, 8]\npad = 4\n";
const MASK: &str = "[region]\nmask = 'mask.png'\n[pipeline]\nimage = [20, 20]\ncrop = [8, 8]\n";
const REPLACED: &str = "[privacy]\nrelation = 'replace'\n";
const BALANCED: &str = "[sampling]\nscheme = 'balanced'\nepochs = 3\n";
const SPLIT: &str = "[partition]\nsubmodels = 2\n";
const NORMS: &str = "[partition]\nsubmodels = 2\nsplit_norm = 1.0\nnonsplit_norm = 0.5\n";
const MASKED: &str = "[privacy]\nrelation = 'masked'\n";
const USERS: &str = "[privacy]\nrelation = 'user'\n";
const CLIPPED: &str =
    "[privacy]\nrelation = 'masked'\n[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 1.0\n";

const BANDED: &str = "[noise]\nbands = 6\n";
const ADAPTED: &str = "[privacy]\nclip_quantile = 0.5\n";

/// For every hashed key, a plan as layers over the one on records, and a value of the key that makes it another plan.
const CHANGES: [(&str, &str, &str); 46] = [
    ("privacy.relation", "", "replace"),
    ("privacy.delta", "", "1e-6"),
    ("privacy.noise_multiplier", "", "2.0"),
    ("privacy.max_grad_norm", "", "2.0"),
    ("privacy.clip_quantile", "", "0.5"),
    ("privacy.clip_rate", ADAPTED, "0.3"),
    ("privacy.count_noise", ADAPTED, "7.0"),
    ("privacy.records_per_clip", "", "2"),
    ("region.patch", IMAGES, "3x3"),
    ("region.circle", IMAGES, "3"),
    ("region.travel", IMAGES, "3x1"),
    ("region.duration", WINDOW, "3"),
    ("pipeline.frames", WINDOW, "31"),
    ("pipeline.window", WINDOW, "7"),
    ("region.placement", MASK, "annotated"),
    ("pipeline.image", IMAGES, "21x20"),
    ("pipeline.sizes", SIZES, "20x20:30x31"),
    ("pipeline.operations", IMAGES, "[\"resize 16x16 bilinear\"]"),
    ("pipeline.pad", IMAGES, "1"),
    ("pipeline.pad_mode", PADDED, "reflect"),
    ("pipeline.crop", IMAGES, "7x8"),
    ("pipeline.crop_scale", IMAGES, "0.1:1"),
    ("pipeline.crop_ratio", IMAGES, "0.5:2"),
    ("pipeline.pixel_noise", IMAGES, "2.0"),
    ("pipeline.views", IMAGES, "2"),
    ("mix.self_mix", VIEWS, "2"),
    ("mix.synthetic", VIEWS, "2"),
    ("sampling.scheme", REPLACED, "without-replacement"),
    ("sampling.batch", "", "11"),
    ("sampling.records", "", "101"),
    ("sampling.max_batch", "", "20"),
    ("noise.bands", "", "2"),
    ("noise.coefficients", BANDED, "square-root"),
    ("noise.iterates", BANDED, "last"),
    ("sampling.per_record", BALANCED, "2"),
    ("sampling.epochs", "", "3"),
    ("sampling.steps", "", "21"),
    ("partition.submodels", SPLIT, "3"),
    ("partition.mixture", "", "[[2, 0.5], [4, 0.5]]"),
    ("partition.split_fraction", SPLIT, "0.5"),
    ("partition.dropout", "", "0.5"),
    ("partition.split_norm", NORMS, "0.5"),
    ("partition.nonsplit_norm", NORMS, "0.25"),
    ("masked.content", MASKED, "remove"),
    ("masked.public_gradient", MASKED, "coupled"),
    ("masked.public_clip", CLIPPED, "0.5"),
];

fn spec(layers: &[&str]) -> PlanSpec {
    layers.iter().fold(PlanSpec::default(), |base, text| base.merge(&PlanSpec::from_toml(text).unwrap()))
}

fn changed(base: &PlanSpec, key: &str, value: &str) -> PlanSpec {
    let mut over = PlanSpec::default();
    over.set(key, value).unwrap();
    base.merge(&over)
}

/// The hash of a plan whose mask, if it names one, has private pixels in this many columns.
fn hash(spec: &PlanSpec, columns: u32) -> String {
    let mask = || Mask::from_fn(Size::new(20, 20).unwrap(), |x, y| x < columns && y < 2).unwrap();
    let masks: Vec<Mask> = spec.region.mask.iter().map(|_| mask()).collect();
    let plan = Plan::check_with_masks(spec, &masks);
    plan.unwrap_or_else(|error| panic!("{error}:\n{}", spec.to_toml())).hash().to_owned()
}

/// A key that is declared but neither hashed nor left out for a reason fails here.
#[test]
fn every_key_that_changes_the_guarantee_changes_the_hash() {
    for key in KEYS {
        let left_out = LEFT_OUT.iter().any(|(path, _)| *path == key.path);
        let change = CHANGES.iter().find(|(path, ..)| *path == key.path);
        if UNPRICED.contains(&key.section()) || left_out {
            assert!(change.is_none(), "{}", key.path);
            if key.path != "region.mask" {
                // Some keys have a meaning under one relation only.
                let layer = match key.section() {
                    "masked" => MASKED,
                    "user" => USERS,
                    _ => "",
                };
                let base = spec(&[RECORDS, layer]);
                assert_eq!(hash(&base, 2), hash(&changed(&base, key.path, key.example), 2), "{}", key.path);
            }
            continue;
        }
        let (_, layer, value) = change.unwrap_or_else(|| panic!("{} is not among the changes", key.path));
        let base = spec(&[RECORDS, layer]);
        assert_ne!(hash(&base, 2), hash(&changed(&base, key.path, value), 2), "{}", key.path);
    }
}

#[test]
fn pixels_of_a_mask_are_hashed_and_its_name_is_not() {
    let base = spec(&[RECORDS, MASK]);
    assert_ne!(hash(&base, 2), hash(&base, 3));
    assert_eq!(hash(&base, 2), hash(&changed(&base, "region.mask", "other.png"), 2));
}
