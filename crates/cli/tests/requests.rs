//! Wrong requests: exit 2, one clear line, a hint, nothing written.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;
use std::fs;

use common::{FIGURE_2A, Run, dapple, dapple_with, exact_snapshot};

fn refused(run: &Run, what: &str) -> String {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{what}: {}", run.stderr);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{what}: {}", run.stderr);
    assert!(lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{what}: {}", run.stderr);
    run.stderr.clone()
}

#[test]
fn wrong_values() {
    let mut text = String::new();
    for flags in [
        "--crop 2000",
        "--crop 101x1001",
        "--patch 1001x1",
        "--circle 600 --patch 10",
        "--batch 3001",
        "--batch 1 --records 1000000000",
        "--batch 0",
        "--records 0",
        "--batch 0.5",
        "--batch many",
        "--delta 0",
        "--delta 1",
        "--delta 1.5",
        "--delta -1e-5",
        "--delta nan",
        "--delta 1e-300",
        "--delta 1/m",
        "--noise-multiplier 0",
        "--noise-multiplier -1",
        "--noise-multiplier nan",
        "--noise-multiplier inf",
        "--noise-multiplier 1e-9",
        "--steps 10",
        "--epochs 0",
        "--epochs 18446744073709551615",
        "--records 18446744073709551616",
        "--image 0x10",
        "--image 10px",
        "--image 4294967296x1",
        "--pad 4294967295",
        "--pad-mode mirror",
        "--views 0",
        "--crop-scale 0.5:2",
        "--relation pach",
        "--relation add-remove --sampling without-replacement",
        "--relation user --sampling without-replacement",
        "--relation masked --public-gradient coupled-clipped",
        "--relation masked --public-gradient coupled-clipped --public-clip 0",
        "--relation masked --public-clip 1",
        "--public-clip 1",
        "--self-mix 2",
        "--views 0 --synthetic 2",
        "--synthetic 100000",
        "--synthetic two",
        "--records-per-clip 0",
        "--records-per-clip 101",
        "--relation user --records-per-clip 2",
        "--relation masked --public-gradient coupled --sampling balanced",
        "--relation add-remove --sampling balanced --per-record 0",
        "--relation add-remove --sampling balanced --batch 3000 --per-record 2 --set sampling.steps=1",
        "--relation add-remove --sampling balanced --per-record 4 --batch 4000",
        "--relation add-remove --sampling balanced --set sampling.steps=1001",
        "--sampling shuffle",
        "--per-record 2",
        "--submodels 0",
        "--submodels two",
        "--submodels 2 --split-norm 1",
        "--submodels 2 --nonsplit-norm 1",
        "--submodels 2 --split-norm 0 --nonsplit-norm 1",
        "--submodels 2 --split-fraction 0",
        "--submodels 2 --split-fraction 0.5 --split-norm 1 --nonsplit-norm 1",
        "--split-fraction 0.5",
        "--split-norm 1 --nonsplit-norm 1",
        "--dropout 0.3",
        "--dropout 0.5 --submodels 2",
        "--submodels 2 --records-per-clip 2",
        "--relation add-remove --sampling balanced --submodels 2 --split-fraction 0.5",
        "--set partition.mixture=[[2,0.5]]",
        "--set partition.mixture=[2]",
        "--public-gradient coupled",
        "--placement annotated",
        "--epsilon 0",
        "--epsilon -1",
        "--set sampling.batchs=3",
        "--set batch",
        "--set batch=",
        "--set pipeline.operations=[\"equalize\"]",
        "--set pipeline.operations=[\"sparkle\"]",
        "--set nonsense.key=1",
        "--region-mask missing.png",
        "--plan missing.toml",
        "--unknown-flag",
        "--batch",
        "--json --statement",
        "--precision 0",
    ] {
        let run = dapple(&format!("account {FIGURE_2A} {flags}"));
        let _ = writeln!(text, "account .. {flags}\n{}", refused(&run, flags));
        assert!(run.files().is_empty());
    }
    exact_snapshot("wrong_values", &text);
}

#[test]
fn missing_values() {
    let mut text = String::new();
    for left_out in [
        "--batch 100",
        "--records 3000",
        "--epochs 100",
        "--noise-multiplier 1",
        "--delta 1e-5",
        "--image 1000x1000",
    ] {
        let run = dapple(&format!("account {}", FIGURE_2A.replace(left_out, "")));
        let _ = writeln!(text, "account without {left_out}\n{}", refused(&run, left_out));
    }
    for arguments in [
        "account --relation patch --batch 1 --records 10 --steps 1 --noise-multiplier 1 --delta 1e-5",
        "inclusion --image 10x10 --crop 5",
        "inclusion --image 10x10 --patch 5",
        "calibrate --for noise-multiplier --batch 1 --records 10 --steps 1 --delta 1e-5",
        "calibrate --batch 1",
        "sweep --batch 1",
        "completions",
        "completions tcsh",
        "frobnicate",
        "",
    ] {
        let _ = writeln!(text, "{arguments}\n{}", refused(&dapple(arguments), arguments));
    }
    exact_snapshot("missing_values", &text);
}

#[test]
fn nothing_is_written_by_a_wrong_curve_or_sweep() {
    let mut text = String::new();
    for arguments in [
        "sweep --over crop=500:1500:500 --csv s.csv --svg s.svg --html s.html",
        "sweep --over corp=1:2:1 --csv s.csv",
        "sweep --over crop=1:2:0 --csv s.csv",
        "sweep --over crop=1,2 --over crop=3 --csv s.csv",
        "sweep --over batch=1:1000:1 --over steps=1:1000:1 --csv s.csv",
        "sweep --over crop=100 --csv nowhere/s.csv",
        "profile --epsilons 0:1 --csv p.csv",
        "profile --epsilons -1:1:3 --csv p.csv",
        "profile --epsilons nan --csv p.csv",
        "profile --accountant rdp --csv p.csv",
        "profile --sampling balanced --csv p.csv",
        "profile --epsilons 1 --svg .",
        "inclusion --crop 2000 --heatmap h.png",
        "calibrate --for noise-multiplier --epsilon 1e-9 --relation replace --delta 1e-15",
    ] {
        // Of a flag that is given twice, the last value counts.
        let (verb, flags) = arguments.split_once(' ').unwrap();
        let run = dapple(&format!("{verb} {FIGURE_2A} {flags}"));
        let _ = writeln!(text, "{arguments}\n{}", refused(&run, arguments));
        assert!(run.files().is_empty(), "{arguments}");
    }
    exact_snapshot("wrong_curves", &text);
}

#[test]
fn broken_files_are_named() {
    let mut text = String::new();
    for (name, content) in [
        ("unknown key", "[sampling]\nbatchs = 3\n"),
        ("unknown section", "[sampler]\nbatch = 3\n"),
        ("wrong type", "[sampling]\nrecords = 10\nbatch = \"many\"\n"),
        ("no toml", "batch: 3\n"),
        ("wrong word", "[privacy]\nrelation = \"pixel\"\n"),
        ("twice", "[sampling]\nbatch = 1\nbatch = 2\n"),
        ("unknown key of a phase", "[[phases]]\nbatchs = 1\n"),
        ("wrong value in a phase", "[[phases]]\nsteps = 1\n[[phases]]\nsteps = \"many\"\n"),
        ("one table of phases", "[phases]\nsteps = 1\n"),
        (
            "wrong phase",
            "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nrecords = 10\nbatch = 5\n[[phases]]\nsteps = 1\n[[phases]]\nsteps = 1\nbatch = 11\n",
        ),
    ] {
        let run = dapple_with("account --plan plan.toml", |folder| {
            fs::write(folder.join("plan.toml"), content).unwrap()
        });
        let _ = writeln!(text, "{name}\n{}", refused(&run, name));
    }
    let masks: [(&str, Vec<u8>); 3] =
        [("empty file", vec![]), ("not a picture", b"hello".to_vec()), ("black", black())];
    for (name, bytes) in masks {
        let arguments = "inclusion --image 100x100 --crop 10 --region-mask mask.png --heatmap h.png";
        let run = dapple_with(arguments, |folder| fs::write(folder.join("mask.png"), bytes).unwrap());
        let _ = writeln!(text, "mask: {name}\n{}", refused(&run, name));
        assert_eq!(run.files(), ["mask.png"]);
    }
    exact_snapshot("broken_files", &text);
}

/// A picture without a white pixel.
fn black() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::GrayImage::new(8, 8).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}
