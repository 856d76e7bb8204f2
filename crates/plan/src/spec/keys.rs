//! Every key of a plan: its dotted path, its flag, and what it means in a few words.

/// A key of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Dotted path in the file.
    pub path: &'static str,
    /// Name of the flag, without dashes.
    pub flag: Option<&'static str>,
    /// What stands behind the flag.
    pub value: &'static str,
    /// The words it may be; none where it is not a word.
    pub choices: &'static [&'static str],
    /// What it is, to be read after "it is".
    pub meaning: &'static str,
    /// A value, as written behind the flag.
    pub example: &'static str,
    /// What holds where it is not given.
    pub default: Option<&'static str>,
}

impl Key {
    /// The key with a value, as a line of a plan.
    #[must_use]
    pub fn toml_example(&self) -> String {
        let name = self.path.rsplit('.').next().unwrap_or(self.path);
        let value = self.example;
        let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok() || value.starts_with('[');
        if bare { format!("`{name} = {value}`") } else { format!("`{name} = \"{value}\"`") }
    }

    const fn words(self, choices: &'static [&'static str]) -> Self {
        Self { choices, ..self }
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

const fn key(
    path: &'static str,
    flag: &'static str,
    value: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { path, flag: Some(flag), value, choices: &[], meaning, example, default: None }
}

const fn file_only(path: &'static str, example: &'static str, meaning: &'static str) -> Key {
    Key { path, flag: None, value: "VALUE", choices: &[], meaning, example, default: None }
}

/// All keys, section by section.
pub const KEYS: &[Key] = &[
    key("privacy.relation", "relation", "NAME", "patch", "the neighbouring relation, what may differ")
        .words(&["add-remove", "replace", "patch", "masked", "user"])
        .or("patch if a region is given, else add-remove"),
    key("privacy.delta", "delta", "D", "1e-5", "the failure probability, a number between 0 and 1, or 1/n"),
    key("privacy.epsilon", "epsilon", "E", "8", "the epsilon to reach, a positive number"),
    key(
        "privacy.noise_multiplier",
        "noise-multiplier",
        "S",
        "1.0",
        "the noise's standard deviation in units of the clip norm",
    ),
    file_only("privacy.max_grad_norm", "1.0", "the clip norm, a positive number"),
    key(
        "privacy.records_per_clip",
        "records-per-clip",
        "B",
        "1",
        "the number of records averaged and clipped together, a microbatch",
    )
    .or("1"),
    key("privacy.accountant", "accountant", "NAME", "pld", "the accountant that answers")
        .words(&["pld", "rdp"])
        .or("pld"),
    key("region.patch", "patch", "WxH", "10x10", "the private rectangle in whole pixels, WIDTHxHEIGHT"),
    key("region.circle", "circle", "RADIUS", "12", "the radius of the private disc in pixels"),
    key(
        "region.mask",
        "region-mask",
        "FILE.png",
        "mask.png",
        "the name of a picture in which white is private",
    ),
    key("region.placement", "placement", "WHERE", "anywhere", "where the region may lie")
        .words(&["anywhere", "annotated"])
        .or("anywhere"),
    key("pipeline.image", "image", "WxH", "1000x1000", "the size of an image in whole pixels, WIDTHxHEIGHT"),
    file_only(
        "pipeline.operations",
        "[\"resize 512x256 bilinear\"]",
        "a list of operations before padding and crop",
    ),
    key("pipeline.pad", "pad", "PX[xPY]", "4", "the pixels added on each side, PX or PXxPY").or("0"),
    key("pipeline.pad_mode", "pad-mode", "MODE", "zero", "what the padding shows")
        .words(&["zero", "reflect", "replicate", "wrap"])
        .or("zero"),
    key("pipeline.crop", "crop", "WxH", "100x100", "the size of a crop in whole pixels, WIDTHxHEIGHT")
        .or("no crop"),
    key(
        "pipeline.crop_scale",
        "crop-scale",
        "A:B",
        "0.08:1",
        "the share of the area a random resized crop takes",
    )
    .or("0.08:1 if --crop-ratio is given"),
    key(
        "pipeline.crop_ratio",
        "crop-ratio",
        "A:B",
        "0.75:1.3333",
        "the width of a random resized crop over its height",
    )
    .or("3/4 to 4/3 if --crop-scale is given"),
    key("pipeline.views", "views", "K", "1", "the number of views of a record averaged before clipping")
        .or("1"),
    key("mix.self_mix", "self-mix", "K", "18", "the number of mixtures of two of a record's own views")
        .or("0"),
    key(
        "mix.synthetic",
        "synthetic",
        "K",
        "2",
        "the number of synthetic images beside each record, from a model not trained on the data set",
    )
    .or("0"),
    key("sampling.scheme", "sampling", "SCHEME", "poisson", "how a step draws its records")
        .words(&["poisson", "without-replacement", "balanced"])
        .or("poisson"),
    key("sampling.batch", "batch", "B", "100", "the number of records a step takes, a whole number"),
    key("sampling.records", "records", "N", "3000", "the number of records in the data set, a whole number"),
    key(
        "sampling.per_record",
        "per-record",
        "K",
        "1",
        "the number of steps of an epoch each record joins, for balanced sampling",
    )
    .or("1 for balanced sampling"),
    key("sampling.epochs", "epochs", "E", "100", "the number of passes over the data set, a whole number"),
    key("sampling.steps", "steps", "T", "3000", "the number of steps of all epochs, a whole number")
        .or("epochs * ceil(records / batch), for balanced sampling times per-record"),
    key(
        "partition.submodels",
        "submodels",
        "D",
        "2",
        "the number of disjoint submodels, of which each record updates one a step",
    ),
    file_only(
        "partition.mixture",
        "[[2, 0.5], [4, 0.5]]",
        "a list of [submodels, probability], partitions of which each record draws one a step",
    ),
    key(
        "partition.split_fraction",
        "split-fraction",
        "F",
        "0.5",
        "the share of the trained parameters that is split; sets both clip norms",
    )
    .or("1 for a split model"),
    key("partition.dropout", "dropout", "RATE", "0.5", "the dropout rate that splits the model, 0.5"),
    key("partition.split_norm", "split-norm", "C", "1.0", "the clip norm of the split part, in clip norms")
        .or("1 for a split model"),
    key(
        "partition.nonsplit_norm",
        "nonsplit-norm",
        "C",
        "0.5",
        "the clip norm of the part that is not split, in clip norms",
    )
    .or("0 for a split model"),
    key(
        "masked.public_gradient",
        "public-gradient",
        "MODE",
        "decoupled",
        "where the gradient of public tokens comes from",
    )
    .words(&["decoupled", "coupled-clipped", "coupled"])
    .or("decoupled for the masked relation"),
    key(
        "masked.public_clip",
        "public-clip",
        "CU",
        "1.0",
        "the clip norm of public gradients in private clip norms, for coupled-clipped",
    ),
    file_only("data.format", "image-folder", "how the records are stored").words(&[
        "image-folder",
        "idx",
        "cifar",
        "npy",
        "fashion-scenes",
        "image-pairs",
        "cityscapes",
        "a2d2",
        "street-scenes",
    ]),
    file_only("data.train", "photos/train", "the folder or file of the records to train on"),
    file_only(
        "data.train_labels",
        "train-labels.npy",
        "the file of their labels, or the folder of their label maps",
    ),
    file_only("data.test", "photos/test", "the folder or file of the records to evaluate on"),
    file_only(
        "data.test_labels",
        "test-labels.npy",
        "the file of their labels, or the folder of their label maps",
    ),
    file_only("data.classes", "10", "the number of classes the data set must have"),
    file_only("data.class_ids", "[0, 1, 2]", "the number of each class in label maps, for image-pairs")
        .or("0, 1, 2, ..."),
    file_only("data.ignore", "[255]", "the numbers in label maps that count for nothing, for image-pairs")
        .or("255"),
    file_only("data.class_names", "[\"road\", \"sky\"]", "the names of the classes, for image-pairs"),
    file_only(
        "data.class_colours",
        "[\"#804080\", \"#4682b4\"]",
        "the colours in which classes are shown, for image-pairs",
    ),
    file_only("data.train_sessions", "[\"20180807_145028\"]", "the sessions of A2D2 to train on")
        .or("11 of them"),
    file_only("data.test_sessions", "[\"20180925_101535\"]", "the sessions of A2D2 to evaluate on")
        .or("3 others"),
    file_only("data.validation", "0.1", "the share of the records split off where no test set is given"),
    file_only("data.split_seed", "0", "the seed of that split").or("0"),
    file_only("data.max_pixels", "67108864", "the most pixels an image may have").or("67108864 (8192x8192)"),
    file_only("data.max_bytes", "2147483648", "the most bytes a file may take in memory, unpacked")
        .or("2147483648 (2 GiB)"),
    file_only("data.check", "false", "whether every record is read once before a run begins").or("true"),
    file_only("data.mean", "[0.5]", "what is subtracted from each channel, of values from 0 to 1"),
    file_only("data.std", "[0.25]", "what each channel is divided by, of values from 0 to 1"),
    file_only("data.size", "[32, 32]", "the size to which views are brought for the model")
        .or("the size of the crop, or of the image"),
    file_only("data.flip", "true", "whether views are mirrored at random, after the crop").or("false"),
    file_only("model.name", "small-cnn", "the name of a model").words(&[
        "linear",
        "small-cnn",
        "wrn-16-4",
        "wrn-40-4",
        "resnet-18",
        "resnet-34",
        "resnet-50",
        "resnet-101",
        "vgg-11",
        "vgg-16",
        "mobilenet-v2",
        "small-fcn",
        "deeplab-v3-plus-resnet-18",
        "deeplab-v3-plus-resnet-34",
        "deeplab-v3-plus-resnet-50",
        "deeplab-v3-plus-resnet-101",
        "deeplab-v3-plus-mobilenet-v2",
        "psp-net-resnet-18",
        "psp-net-resnet-34",
        "psp-net-resnet-50",
        "psp-net-resnet-101",
    ]),
    file_only("model.norm", "group", "what stands in the place of batch norm")
        .words(&["group", "frozen", "removed"])
        .or("group"),
    file_only(
        "model.output_stride",
        "16",
        "the number of pixels, 8 or 16, between positions of the last features of deeplab-v3-plus",
    )
    .or("16"),
    file_only("model.weights", "pretrained.safetensors", "the file of the initial weights"),
    file_only(
        "model.backbone_weights",
        "resnet18.safetensors",
        "the file of a classifier that gives the initial weights of the backbone",
    ),
    file_only("model.trainable", "[\"fc\"]", "a list of prefixes of the parameters that train").or("all"),
    file_only("model.seed", "0", "the seed of initial weights that no file gives").or("0"),
    file_only("optimiser.kind", "sgd", "the rule of the optimiser")
        .words(&["sgd", "adam", "adamw"])
        .or("sgd"),
    file_only("optimiser.learning_rate", "0.1", "the largest learning rate, a positive number"),
    file_only("optimiser.momentum", "0.9", "the momentum of sgd, from 0 to below 1").or("0"),
    file_only("optimiser.nesterov", "true", "whether the momentum looks ahead").or("false"),
    file_only("optimiser.betas", "[0.9, 0.999]", "the decay of the two moments of adam").or("[0.9, 0.999]"),
    file_only("optimiser.eps", "1e-8", "what adam adds to the root of its second moment").or("1e-8"),
    file_only("optimiser.weight_decay", "0.01", "the decoupled weight decay").or("0, for adamw 0.01"),
    file_only("optimiser.schedule", "cosine", "how the learning rate changes over the run")
        .words(&["constant", "cosine", "poly"])
        .or("constant"),
    file_only("optimiser.poly_power", "1.0", "the power of the poly schedule").or("1"),
    file_only("optimiser.warmup", "100", "the number of steps in which the learning rate rises").or("0"),
    file_only("optimiser.ema", "0.999", "the decay of the running mean of the weights").or("no mean"),
    file_only("train.clipping", "flat", "how a record's gradient is bounded")
        .words(&["flat", "automatic", "per-layer"])
        .or("flat"),
    file_only(
        "train.seed",
        "1",
        "the seed of all randomness, for tests only: whoever knows it is promised nothing",
    ),
    file_only("train.evaluate_every", "100", "the number of steps between two evaluations")
        .or("only at the end"),
    file_only(
        "train.evaluation_grid",
        "4",
        "the number of crops along each side of an image whose answers are averaged in evaluation",
    )
    .or("1"),
    file_only("train.evaluation", "sliding", "how images with label maps are looked at in evaluation")
        .words(&["whole", "sliding"])
        .or("whole"),
    file_only(
        "train.evaluation_stride",
        "0.5",
        "the step from one window to the next, as a share of the window, for sliding evaluation",
    )
    .or("2/3"),
    file_only("train.checkpoint_every", "100", "the number of steps between two checkpoints"),
    file_only("train.until_budget", "true", "whether to train until privacy.epsilon is spent").or("false"),
    file_only("train.label_smoothing", "0.1", "the weight of the uniform distribution in the labels").or("0"),
    file_only("train.private", "true", "whether gradients are clipped and noised").or("true"),
    file_only("performance.threads", "2", "the number of worker threads"),
    file_only("performance.microbatch", "16", "the number of records computed at once"),
    file_only("performance.prefetch", "2", "the number of batches decoded ahead"),
    file_only(
        "performance.device",
        "cuda:0",
        "where gradients are computed: auto, cpu, cuda, cuda:N, several cards cuda:N,M.. or cuda:all",
    )
    .or("auto: a GPU where one can be used"),
    file_only("performance.precision", "f32", "how a GPU rounds the factors of products")
        .words(&["f32", "tf32", "bf16"])
        .or("f32"),
];

/// The key of a dotted path; an index such as `pipeline.crop[0]` belongs to its key.
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

/// A key as errors name it: the dotted path, and the flag where there is one.
#[must_use]
pub fn place(path: &str) -> String {
    match find(path).and_then(|key| key.flag) {
        Some(flag) => format!("{path} (--{flag})"),
        None => path.to_owned(),
    }
}

/// The sections of a plan.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KEYS.iter().filter_map(|key| key.path.split('.').next()).collect();
    sections.dedup();
    sections.push("phases");
    sections
}

/// Keys that look like `name`, the nearest first, at most three.
#[must_use]
pub fn near(name: &str) -> Vec<&'static str> {
    // Long keys are few; what is typed may be anything.
    if name.len() > 64 {
        return Vec::new();
    }
    let last = name.rsplit('.').next().unwrap_or(name).replace('-', "_");
    let mut found: Vec<(usize, &str)> = KEYS
        .iter()
        .filter_map(|key| {
            let leaf = key.path.rsplit('.').next().unwrap_or(key.path);
            let by_flag = key.flag.map_or(usize::MAX, |flag| edits(&last, &flag.replace('-', "_")));
            let distance = edits(name, key.path).min(edits(&last, leaf)).min(by_flag);
            (distance <= leaf.len() / 3 + 1).then_some((distance, key.path))
        })
        .collect();
    found.sort();
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found.into_iter().filter(|(distance, _)| *distance == best).take(3).map(|(_, path)| path).collect()
}

/// The least number of characters to insert, delete or exchange, or of neighbours to swap, to turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Rows of the table for the last prefixes of `from`: two before, one before, this one.
    let mut older: Vec<usize> = Vec::new();
    let mut old: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut cost = (old[j] + usize::from(a != b)).min(old[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(older[j - 1] + 1);
            }
            row.push(cost);
        }
        (older, old) = (old, row);
    }
    old[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_single_changes() {
        for (from, to, count) in
            [("", "", 0), ("batch", "batch", 0), ("bach", "batch", 1), ("corp", "crop", 1)]
        {
            assert_eq!(edits(from, to), count);
        }
        assert_eq!(edits("", "abc"), 3);
    }

    #[test]
    fn near_spellings_are_found() {
        assert_eq!(near("sampling.batchs"), ["sampling.batch"]);
        assert_eq!(near("pipeline.batch_size"), Vec::<&str>::new());
        assert_eq!(near("noise-multiplyer"), ["privacy.noise_multiplier"]);
        assert!(near("zzzzzzzz").is_empty() && near("nonsense.key").is_empty());
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
