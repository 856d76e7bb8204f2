//! Every key of a plan, and ways to find one.

use strsim::osa_distance;

pub use super::key::{Key, KeySection, Kind};

/// The sections of a plan, in order.
pub const SECTIONS: &[KeySection] = super::SECTIONS;

/// How many keys there are.
const COUNT: usize = {
    let (mut count, mut section) = (0, 0);
    while section < SECTIONS.len() {
        count += SECTIONS[section].keys.len();
        section += 1;
    }
    count
};

/// All keys, section by section.
pub const KEYS: &[Key] = &{
    let mut all = [SECTIONS[0].keys[0]; COUNT];
    let (mut at, mut section) = (0, 0);
    while section < SECTIONS.len() {
        let keys = SECTIONS[section].keys;
        let mut own = 0;
        while own < keys.len() {
            all[at] = keys[own];
            (at, own) = (at + 1, own + 1);
        }
        section += 1;
    }
    all
};

/// The key of a dotted path. An index such as `pipeline.crop[0]` belongs to its key.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    let path = path.split('[').next().unwrap_or(path);
    KEYS.iter().find(|key| key.path == path)
}

/// The key of a dotted path or of a flag name (`batch`, `--batch`, `sampling.batch`).
#[must_use]
pub fn resolve(name: &str) -> Option<&'static Key> {
    let flag = name.trim_start_matches("--");
    find(name).or_else(|| KEYS.iter().find(|key| key.flag == Some(flag)))
}

/// A key as errors name it: the dotted path, and the flag if there is one.
#[must_use]
pub fn place(path: &str) -> String {
    match find(path).and_then(|key| key.flag) {
        Some(flag) => format!("{path} (--{flag})"),
        None => path.to_owned(),
    }
}

/// Names of the sections of a plan, with the phases.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    SECTIONS.iter().map(|section| section.name).chain(["phases"]).collect()
}

/// At most three keys that look most like `name`.
#[must_use]
pub fn near(name: &str) -> Vec<&'static str> {
    // No key is this long, and what is typed may be anything.
    if name.len() > 64 {
        return Vec::new();
    }
    let last = name.rsplit('.').next().unwrap_or(name).replace('-', "_");
    let mut found: Vec<(usize, &str)> = KEYS
        .iter()
        .filter_map(|key| {
            let leaf = key.name();
            let by_flag = key.flag.map_or(usize::MAX, |flag| osa_distance(&last, &flag.replace('-', "_")));
            let distance = osa_distance(name, key.path).min(osa_distance(&last, leaf)).min(by_flag);
            (distance <= leaf.len() / 3 + 1).then_some((distance, key.path))
        })
        .collect();
    found.sort();
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found.into_iter().filter(|(distance, _)| *distance == best).take(3).map(|(_, path)| path).collect()
}

/// At most three of these words that look most like the one that was typed.
#[must_use]
pub fn near_words<'w>(words: impl IntoIterator<Item = &'w str>, typed: &str) -> Vec<&'w str> {
    // No word is this long, and what is typed may be anything.
    if typed.is_empty() || typed.len() > 64 {
        return Vec::new();
    }
    let typed = typed.to_lowercase().replace('_', "-");
    let mut found: Vec<(usize, &str)> = words
        .into_iter()
        .map(|word| (osa_distance(&typed, word), word))
        .filter(|(distance, word)| *distance <= word.len() / 3)
        .collect();
    // The words of a key have an order of their own, which a stable sort keeps.
    found.sort_by_key(|(distance, _)| *distance);
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found.into_iter().filter(|(distance, _)| *distance == best).take(3).map(|(_, word)| word).collect()
}

/// The question whether one of these was meant; `None` if there are none.
#[must_use]
pub fn meant(near: &[&str]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_spellings_are_found() {
        assert_eq!(near("sampling.batchs"), ["sampling.batch"]);
        assert_eq!(near("pipeline.batch_size"), Vec::<&str>::new());
        // Two letters that changed places are one mistake.
        assert_eq!(near("corp"), ["pipeline.crop"]);
        assert_eq!(near("noise-multiplyer"), ["privacy.noise_multiplier"]);
        assert!(near("zzzzzzzz").is_empty() && near("nonsense.key").is_empty());
    }

    #[test]
    fn near_words_are_found() {
        let near = |key: &str, typed: &str| near_words(find(key).unwrap().choices.iter().copied(), typed);
        assert_eq!(near("model.name", "resnet-81"), ["resnet-18"]);
        assert_eq!(near("model.name", "ViT_B_16"), ["vit-b-16"]);
        assert_eq!(near("data.format", "fashon-scenes"), ["fashion-scenes"]);
        assert_eq!(near("optimiser.kind", "sdg"), ["sgd"]);
        assert_eq!(near("model.name", "zzzzzzzz"), Vec::<&str>::new());
        assert_eq!(near("model.name", ""), Vec::<&str>::new());
        assert_eq!(meant(&["one", "other"]).as_deref(), Some("did you mean one or other?"));
        assert_eq!(meant(&[]), None);
    }

    #[test]
    fn flags_and_paths_resolve() {
        assert_eq!(resolve("crop").map(|key| key.path), Some("pipeline.crop"));
        assert_eq!(resolve("--crop").map(|key| key.path), Some("pipeline.crop"));
        assert_eq!(resolve("pipeline.crop").map(|key| key.flag), Some(Some("crop")));
        assert_eq!(place("privacy.max_grad_norm"), "privacy.max_grad_norm");
        assert_eq!(place("sampling.batch"), "sampling.batch (--batch)");
    }
}
