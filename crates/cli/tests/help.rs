//! The help of every verb, word by word.

mod common;

use common::{dapple, exact_snapshot};

#[test]
fn help_of_every_verb() {
    exact_snapshot("help", &dapple("--help").report());
    for verb in [
        "account",
        "calibrate",
        "profile",
        "sweep",
        "inclusion",
        "demo",
        "train",
        "sweep-train",
        "resume",
        "eval",
        "predict",
        "report",
        "reproduce",
        "completions",
        "man",
    ] {
        exact_snapshot(&format!("help_{verb}"), &dapple(&format!("{verb} --help")).report());
    }
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = dapple(&format!("completions {shell}"));
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("noise-multiplier") && run.stderr.is_empty());
    }
    let run = dapple("man pages --quiet");
    assert_eq!((run.code, run.stderr.as_str(), run.files()), (0, "", vec!["pages".to_owned()]));
    let page = run.read("pages/dapple-account.1");
    assert!(page.contains("noise\\-multiplier"), "{page}");
    assert!(run.read("pages/dapple.1").contains("account"));
}
