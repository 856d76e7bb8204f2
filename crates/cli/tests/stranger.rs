//! A stranger's path: from a folder of photographs to a private model that anybody can verify, without a wrong turn; and the mistakes that
//! strangers make, each of which ends before anything is spent.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use image::{GrayImage, Luma, Rgb, RgbImage};
use tempfile::TempDir;

/// Where one stranger works.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a command as it is typed.
    fn dapple(&self, arguments: &str) -> (i32, String, String) {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .env_remove("COLUMNS")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn done(&self, arguments: &str) -> String {
        let (code, stdout, stderr) = self.dapple(arguments);
        assert_eq!(code, 0, "dapple {arguments}: {stdout}{stderr}");
        stdout
    }

    /// The command that an answer ends with.
    fn next(stdout: &str) -> String {
        stdout.lines().last().unwrap().trim().strip_prefix("dapple ").unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join(name)).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        self.write(name, text.replace(from, to));
    }
}

/// What is wrapped over several lines, as one.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sixty photographs of three sizes, of two kinds that anybody can tell apart.
fn photographs(folder: &Path) {
    for number in 0..60u32 {
        let (width, height) = [(96, 72), (72, 96), (120, 90)][(number % 3) as usize];
        let class = ["day", "night"][(number % 2) as usize];
        let light = if number % 2 == 0 { 190 } else { 40 };
        let picture = RgbImage::from_fn(width, height, |x, y| {
            let texture = (x * 7 + y * 13 + number * 29) % 40;
            Rgb([(light + texture) as u8, (light + texture / 2) as u8, light as u8])
        });
        fs::create_dir_all(folder.join(class)).unwrap();
        picture.save(folder.join(class).join(format!("{number:02}.jpg"))).unwrap();
    }
}

#[test]
fn from_photographs_to_a_verified_model() {
    let desk = Desk::new();
    photographs(&desk.path().join("photos"));
    let made =
        desk.done("new photos --protect face --pixels 6 --metres 10 --nearest 5 --epsilon 8 --device cpu");
    for words in
        ["a patch of 12x12 pixels", "of 72x72 to 120x96 pixels", "epsilon", "time", "for whole photographs"]
    {
        assert!(flat(&made).contains(words), "{words} in {made}");
    }
    // The one edit: fewer epochs, to be done sooner.
    desk.edit("plan.toml", "epochs = 20", "epochs = 4");
    let checked = desk.done(&Desk::next(&made));
    for words in
        ["images in photos", "day", "night", "72x96", "Nothing is in the way", "no guarantee covers them"]
    {
        assert!(flat(&checked).contains(words), "{words} in {checked}");
    }
    let train = Desk::next(&checked);
    assert_eq!(train, "train plan.toml --out runs/plan");
    desk.done(&format!("{train} --quiet"));
    let accuracy = desk.done("eval runs/plan --json");
    let accuracy: serde_json::Value = serde_json::from_str(&accuracy).unwrap();
    assert!(accuracy["records"].as_u64().unwrap() > 0, "{accuracy}");
    desk.done("predict runs/plan photos/day/00.jpg photos/night/01.jpg");
    let verdict: serde_json::Value = serde_json::from_str(&desk.done("verify runs/plan --json")).unwrap();
    assert_eq!(verdict["valid"], true);
    assert!(verdict["epsilon"]["upper"].as_f64().unwrap() <= 8.0);
    // A run folder is as good as its plan.
    desk.done("account runs/plan --quiet");
}

#[test]
fn whole_photographs_and_label_maps_are_planned_too() {
    let desk = Desk::new();
    photographs(&desk.path().join("photos"));
    let whole = desk.done("new photos --protect image --yes --out whole.toml");
    assert!(flat(&whole).contains("whether any one record is in the data set at all"), "{whole}");
    desk.done(&Desk::next(&whole));
    for name in ["streets/images", "streets/labels"] {
        fs::create_dir_all(desk.path().join(name)).unwrap();
    }
    for number in 0..20 {
        let name = format!("{number}.png");
        RgbImage::new(80, 64).save(desk.path().join("streets/images").join(&name)).unwrap();
        let map = GrayImage::from_fn(80, 64, |x, y| Luma([if x < 5 { 255 } else { ((x + y) % 3) as u8 }]));
        map.save(desk.path().join("streets/labels").join(&name)).unwrap();
    }
    let streets = desk.done("new streets --protect plate --pixels 8x4 --yes --out plans-of-streets.toml");
    let text = fs::read_to_string(desk.path().join("plans-of-streets.toml")).unwrap();
    assert!(text.contains("classes = 3") && text.contains("ignore = [255]"), "{text}");
    let checked = desk.done(&Desk::next(&streets));
    assert!(checked.contains("pixels by class"), "{checked}");
    // Made smaller, maps keep their numbers.
    let small = desk.done("prepare streets --size 40x32 --fit pad --out small");
    assert!(small.contains("20 of 40x32"), "{small}");
    desk.edit("plans-of-streets.toml", "\"streets\"", "\"small\"");
    desk.edit("plans-of-streets.toml", "image = [80, 64]", "image = [40, 32]");
    desk.done("check plans-of-streets.toml");
    let (code, _, stderr) = desk.dapple("prepare streets --size 40x32 --out small");
    assert!(code == 2 && stderr.contains("hint: give a new folder"), "{stderr}");
}

/// What a stranger did, the command, and what the answer must name.
type Mistake = (&'static str, fn(&Desk), &'static str, &'static [&'static str]);

const MISTAKES: [Mistake; 12] = [
    ("a folder that is not there", |_| (), "new fotos", &["fotos", "photos"]),
    (
        "pictures without classes",
        |desk| {
            let flat = desk.path().join("flat");
            fs::create_dir(&flat).unwrap();
            fs::copy(desk.path().join("photos/day/00.jpg"), flat.join("00.jpg")).unwrap();
        },
        "new flat",
        &["no folder of a class", "flat/cat"],
    ),
    ("a plan that is there already", |_| (), "new photos --yes", &["plan.toml already", "--out"]),
    (
        "a key with a slip",
        |desk| desk.edit("plan.toml", "batch =", "bach ="),
        "train plan.toml --out run",
        &["bach", "did you mean sampling.batch"],
    ),
    (
        "a model with a slip",
        |desk| desk.edit("plan.toml", "small-cnn", "small-cn"),
        "train plan.toml --out run",
        &["small-cn", "small-cnn"],
    ),
    (
        "a path with a slip",
        |desk| desk.edit("plan.toml", "\"photos\"", "\"photoz\""),
        "train plan.toml --out run",
        &["`data.train`", "photoz", "photos"],
    ),
    (
        "a file that was cut short",
        |desk| {
            let bytes = fs::read(desk.path().join("photos/day/04.jpg")).unwrap();
            desk.write("photos/day/04.jpg", &bytes[..bytes.len() / 3]);
            desk.write("photos/night/05.jpg", b"no picture");
        },
        "train plan.toml --out run",
        &["04.jpg", "05.jpg", "2 records"],
    ),
    (
        "an image of another size",
        |desk| RgbImage::new(200, 90).save(desk.path().join("photos/day/new.png")).unwrap(),
        "train plan.toml --out run",
        &["new.png", "72x72:200x96"],
    ),
    (
        "a crop larger than the images",
        |desk| desk.edit("plan.toml", "crop = [16, 16]", "crop = [320, 320]"),
        "train plan.toml --out run",
        &["pipeline.crop", "320x320"],
    ),
    (
        "a batch larger than the data",
        |desk| desk.edit("plan.toml", "batch = 8", "batch = 800"),
        "train plan.toml --out run",
        &["800", "hint"],
    ),
    (
        "epsilon forgotten",
        |desk| desk.edit("plan.toml", "epsilon = 8.0", ""),
        "train plan.toml --out run",
        &["privacy.noise_multiplier", "privacy.epsilon"],
    ),
    (
        "a device that is not there",
        |desk| desk.edit("plan.toml", "device = \"cpu\"", "device = \"gpu\""),
        "train plan.toml --out run",
        &["performance.device", "cuda"],
    ),
];

#[test]
fn mistakes_end_before_anything_is_spent_and_say_what_mends_them() {
    let first = Desk::new();
    photographs(&first.path().join("photos"));
    first.done("new photos --protect face --pixels 12 --yes --epsilon 8 --device cpu");
    let plan = fs::read(first.path().join("plan.toml")).unwrap();
    for (name, mistake, command, words) in MISTAKES {
        let desk = Desk::new();
        photographs(&desk.path().join("photos"));
        desk.write("plan.toml", &plan);
        mistake(&desk);
        let (code, stdout, stderr) = desk.dapple(command);
        assert_eq!((code, stdout.as_str()), (2, ""), "{name}: {stderr}");
        assert!(!desk.path().join("run").exists(), "{name}");
        assert!(stderr.contains("\nhint: ") || stderr.starts_with("hint: "), "{name}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{name}: {word} in\n{stderr}");
        }
    }
}

#[test]
fn a_check_tells_all_that_is_wrong_and_the_lines_that_mend_it() {
    let desk = Desk::new();
    for name in ["streets/images", "streets/labels"] {
        fs::create_dir_all(desk.path().join(name)).unwrap();
    }
    for number in 0..6u32 {
        let name = format!("{number}.png");
        let width = 40 + 8 * (number / 3);
        RgbImage::new(width, 32).save(desk.path().join("streets/images").join(&name)).unwrap();
        let map = GrayImage::from_fn(width, 32, |x, y| Luma([if x < 5 { 99 } else { ((x + y) % 2) as u8 }]));
        map.save(desk.path().join("streets/labels").join(&name)).unwrap();
    }
    desk.write("streets/images/2.png", b"no picture");
    desk.write(
        "plan.toml",
        "[privacy]\nepsilon = 8.0\ndelta = 1e-5\n[region]\npatch = [4, 4]\n[pipeline]\ncrop = [16, 16]\n\
         [sampling]\nbatch = 20\nsteps = 4\n[data]\nformat = \"image-pairs\"\ntrain = \"streets\"\nclasses = 2\n\
         [model]\nname = \"small-fcn\"\n[optimiser]\nlearning_rate = 0.1\n",
    );
    let (code, stdout, stderr) = desk.dapple("check plan.toml");
    assert_eq!(code, 2, "{stderr}");
    let shown = stdout.replace(&desk.path().display().to_string(), "FOLDER");
    common::exact_snapshot("check_wrong", &shown);
    let (_, json, _) = desk.dapple("check plan.toml --json");
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["ready"], false);
    assert_eq!(answer["problems"].as_array().unwrap().len(), 4);
    // The lines that it offers mend what a plan can mend.
    fs::remove_file(desk.path().join("streets/images/2.png")).unwrap();
    fs::remove_file(desk.path().join("streets/labels/2.png")).unwrap();
    desk.edit("plan.toml", "classes = 2", "classes = 2\nignore = [99]");
    desk.edit("plan.toml", "crop = [16, 16]", "crop = [16, 16]\nsizes = \"40x32:48x32\"");
    desk.edit("plan.toml", "batch = 20", "batch = 2");
    desk.done("check plan.toml");
}
