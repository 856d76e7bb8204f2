//! Tests what follows from the declarations of keys.

use crate::PlanSpec;
use crate::spec::keys::{KEYS, Key, KeySection, Kind, SECTIONS, find};
use crate::spec::{ClippingKind, DataFormat, OptimiserKind, reference};

#[test]
fn training_sections_are_read_set_and_kept() {
    let mut spec = PlanSpec::from_toml(
        "[data]\nformat = \"image-folder\"\ntrain = \"photos\"\nmean = [0.5]\n\
         [model]\nname = \"small-cnn\"\ntrainable = [\"fc\"]\n\
         [optimiser]\nkind = \"adamw\"\nbetas = [0.9, 0.99]\n\
         [train]\nclipping = \"per-layer\"\n",
    )
    .unwrap();
    assert_eq!(spec.data.format, Some(DataFormat::ImageFolder));
    assert_eq!(spec.optimiser.kind, Some(OptimiserKind::Adamw));
    assert_eq!(spec.train.clipping, Some(ClippingKind::PerLayer));
    for (path, value) in [
        ("optimiser.learning_rate", "0.1"),
        ("optimiser.nesterov", "true"),
        ("data.train", "2024"),
        ("model.trainable", "[\"fc\", \"layer4\"]"),
    ] {
        spec.set(path, value).unwrap();
    }
    assert_eq!(spec.optimiser.learning_rate, Some(0.1));
    assert_eq!(spec.data.train.as_deref(), Some("2024"));
    assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
    let error = spec.set("optimiser.nesterov", "maybe").unwrap_err();
    assert!(error.hint().unwrap().contains("looks ahead"));
}

#[test]
fn every_format_is_written_as_it_is_called() {
    let key = crate::spec::keys::find("data.format").unwrap();
    assert_eq!(key.choices, DataFormat::ALL.map(DataFormat::name));
    for format in DataFormat::ALL {
        let spec = PlanSpec::from_toml(&format!("[data]\nformat = \"{}\"", format.name())).unwrap();
        assert_eq!(spec.data.format, Some(format));
    }
}

#[test]
fn the_digest_covers_everything_but_performance() {
    let plain = PlanSpec::default();
    let change = |path: &str, value: &str| {
        let mut spec = plain.clone();
        spec.set(path, value).unwrap();
        spec.digest()
    };
    assert_eq!(change("performance.threads", "7"), plain.digest());
    for (path, value) in [("optimiser.learning_rate", "0.1"), ("data.train", "a"), ("sampling.batch", "3")] {
        assert_ne!(change(path, value), plain.digest(), "{path}");
    }
}

/// The fields of the structs that TOML is read into are the declared keys, no more and no fewer: a key that does not exist makes the
/// reader name all fields.
#[test]
fn every_field_has_a_declaration() {
    for KeySection { name: section, keys, .. } in SECTIONS {
        let error = PlanSpec::from_toml(&format!("[{section}]\nno_such_key = 1")).unwrap_err().to_string();
        let named: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        let declared: Vec<&str> = keys.iter().map(Key::name).collect();
        assert_eq!(named, declared, "{error}");
    }
}

/// Keys without a default, grouped by the reason why they have none.
const WITHOUT_DEFAULT: &[(&str, &[&str])] = &[
    (
        "nothing can stand in for it: what needs it is refused without it",
        &[
            "privacy.delta",
            "privacy.noise_multiplier",
            "pipeline.image",
            "sampling.batch",
            "sampling.records",
            "sampling.epochs",
            "partition.blocks",
            "masked.public_clip",
            "data.train",
            "data.masks",
            "data.users",
            "model.name",
            "optimiser.learning_rate",
            "user.local_learning_rate",
        ],
    ),
    (
        "without it there is no such thing",
        &[
            "privacy.epsilon",
            "region.patch",
            "region.circle",
            "region.mask",
            "pipeline.operations",
            "mix.pool",
            "partition.submodels",
            "partition.mixture",
            "partition.dropout",
            "data.test",
            "data.class_names",
            "data.class_colours",
            "data.validation",
            "model.weights",
            "model.backbone_weights",
            "model.last",
            "train.seed",
        ],
    ),
    (
        "without it the records or the caller tell",
        &["data.format", "data.train_labels", "data.test_labels", "data.classes"],
    ),
    ("without it the size of the work decides", &["train.checkpoint_every", "performance.microbatch"]),
];

/// What a declaration says holds where the key is used: its example and its words are read from a file and by `--set` alike, the kind is
/// the type of the field, and everything but speed is part of the digest.
#[test]
fn declarations_hold() {
    let page = reference::markdown();
    for key in KEYS {
        let with = |value: &str| {
            let mut spec = PlanSpec::default();
            spec.set(key.path, value).unwrap();
            spec
        };
        let example = with(key.example);
        assert!(example.gives(key), "{}", key.path);
        let line = key.toml_example().replace('`', "");
        assert_eq!(PlanSpec::from_toml(&format!("[{}]\n{line}", key.section())).unwrap(), example);
        for word in key.choices {
            assert!(with(word).gives(key), "{} {word}", key.path);
        }
        let counts = example.digest() != PlanSpec::default().digest();
        assert_eq!(counts, key.section() != "performance", "{}", key.path);
        assert_eq!(PlanSpec::default().merge(&example), example);
        for other in key.instead_of.iter().map(|path| find(path).unwrap()) {
            assert!(other.instead_of.contains(&key.path), "{} and {}", key.path, other.path);
            let mut below = PlanSpec::default();
            below.set(other.path, other.example).unwrap();
            assert_eq!(below.merge(&example), example);
        }
        let mut named = Vec::new();
        example.clone().each_file(|key, name| named.push((key.path, name.clone())));
        let file = (key.kind == Kind::File).then(|| (key.path, key.example.to_owned()));
        assert_eq!(named, Vec::from_iter(file));
        assert!(!key.meaning.is_empty() && !key.meaning.ends_with('.'), "{}", key.path);
        // A key says what holds without it, or it is listed with the reason why nothing does.
        assert_ne!(key.default, Some(""), "{}", key.path);
        let listed = WITHOUT_DEFAULT.iter().flat_map(|(_, keys)| *keys).filter(|path| **path == key.path);
        assert_eq!(
            listed.count(),
            usize::from(key.default.is_none()),
            "{}: a default, or a reason",
            key.path
        );
        // A key has a row on the page of all keys, with its flag. A key without a flag is set only by `--set`.
        let flag = key.flag.map_or_else(String::new, |flag| format!("`--{flag} {}`", key.value));
        let row = format!("| `{}` | {flag} | ", key.name());
        let section = page.split("\n## ").find(|part| part.starts_with(&format!("`[{}]`", key.section())));
        assert!(section.is_some_and(|section| section.contains(&row)), "{}", key.path);
        // A flag belongs to one key only, and words are offered only where no other text will do.
        assert_eq!(
            KEYS.iter().filter(|other| other.flag.is_some() && other.flag == key.flag).count(),
            key.flag.iter().count()
        );
        assert!(key.choices.is_empty() || matches!(key.kind, Kind::Word | Kind::Text));
    }
}
