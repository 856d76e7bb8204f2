//! What the README shows is what the program does.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use dapple_report::{CropPicture, crop_picture};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The fenced blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Runs a command line of the README in `folder` and returns its standard output.
fn run(line: &str, folder: &Path) -> String {
    let words = line.split_once("dapple-cli -- ").or_else(|| line.split_once("dapple ")).unwrap().1;
    let output = Command::cargo_bin("dapple")
        .unwrap()
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The text without spaces at the ends of lines and without accuracies, because noise is drawn anew in every run.
fn comparable(text: &str) -> String {
    let line = |line: &str| match line.split_once("accuracy  ") {
        Some((before, after)) => {
            let digits = |letter: char| letter.is_ascii_digit() || letter == '.';
            format!("{before}accuracy  {}", after.trim_start().trim_start_matches(digits))
        }
        None => line.trim_end().to_owned(),
    };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn shown_commands_print_what_is_shown() {
    let text = readme();
    let folder = tempfile::tempdir().unwrap();
    for plan in blocks(&text, "toml") {
        let name = plan.lines().next().unwrap().trim_start_matches("# ");
        std::fs::write(folder.path().join(name), plan).unwrap();
    }
    let shown = blocks(&text, "console");
    assert!(shown.len() >= 5);
    for block in shown {
        let (command, expected) = block.split_once('\n').unwrap();
        let printed = run(command.strip_prefix("$ ").unwrap(), folder.path());
        assert_eq!(comparable(&printed), comparable(expected), "{command}");
    }
}

#[test]
fn the_two_commands_are_real() {
    let text = readme();
    let commands = blocks(&text, "sh");
    assert_eq!(commands.len(), 2);
    // Runs the same with fewer steps.
    let folder = tempfile::tempdir().unwrap();
    let demo = run(&format!("{} --seeds 1 --steps 2", commands[0].trim()), folder.path());
    assert!(demo.contains("patch level"));
    // The second command is this very test suite. Continuous integration must run exactly this command.
    let test = commands[1].trim();
    assert!(root().join(test).is_file());
    let integration = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(integration.lines().any(|line| line == test));
}

#[test]
fn the_picture_of_the_crop_idea_is_current() {
    let shown = std::fs::read_to_string(root().join("docs/pictures/crop.svg")).unwrap();
    assert_eq!(shown, crop_picture(&CropPicture::default()).unwrap());
}

#[test]
fn links_lead_somewhere() {
    let text = readme();
    for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        let (file, heading) =
            link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
        assert!(root().join(file).exists(), "{link}");
        if let Some(heading) = heading {
            let page = std::fs::read_to_string(root().join(file)).unwrap();
            let headings = page.lines().filter(|line| line.starts_with('#'));
            assert!(
                headings.map(|line| anchor(line.trim_start_matches('#'))).any(|other| other == heading),
                "{link}"
            );
        }
    }
}

/// How pages are linked to by their headings: in small letters, without punctuation, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim().chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}
