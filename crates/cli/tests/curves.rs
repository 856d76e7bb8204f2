//! `profile`, `sweep` and `inclusion`: what they print and the files they write.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FIGURE_2A, dapple, dapple_with, exact_snapshot, snapshot};
use image::{GrayImage, Luma};

#[test]
fn profiles() {
    snapshot("profile_json", &dapple(&format!("profile {FIGURE_2A} --epsilons 0:0.2:3 --json")).report());
    let run = dapple(&format!(
        "profile {FIGURE_2A} --epsilons 0.05,0.1 --csv p.csv --svg p.svg --png p.png --html p.html"
    ));
    snapshot("profile_files", &run.report());
    snapshot("profile_csv", &run.read("p.csv"));
    assert!(run.read("p.svg").starts_with("<svg"));
    assert!(run.read("p.html").contains("dapple profile"));
    let points = dapple(&format!("profile {FIGURE_2A} --json")).json();
    assert_eq!(points["points"].as_array().map(Vec::len), Some(41));
    // A profile does not depend on delta, so none need be given.
    let without = FIGURE_2A.replace("--delta 1e-5", "");
    assert_eq!(dapple(&format!("profile {without} --json --epsilons 0.1")).code, 0);
}

#[test]
fn advice() {
    let plan = "--image 200x200 --crop 40x40 --patch 10x10 --batch 50 --records 3000 --steps 600 --epsilon 2 --delta 1e-5";
    let run = dapple(&format!("advise {plan} --csv a.csv --svg a.svg --html a.html"));
    snapshot("advise_text", &run.report());
    assert!(run.read("a.svg").starts_with("<svg"));
    let answer = dapple(&format!("advise {plan} --json")).json();
    let own = answer["advice"].as_array().unwrap().iter().filter(|view| view["own"] == true).count();
    assert_eq!(own, 1);
    snapshot("advise_refused", &dapple(&format!("advise {plan} --work 0")).report());
    // More gradients than 64 bits count, and less than one gradient for the other numbers of views.
    for (records, steps) in [("1000000000000000000", 100), ("1", 1)] {
        let plan = format!("--batch {records} --records {records} --steps {steps} --epsilon 8 --delta 1e-5");
        assert_eq!(dapple(&format!("advise {plan}")).code, 0, "{plan}");
    }
}

#[test]
fn sweeps() {
    let run = dapple(&format!(
        "sweep {FIGURE_2A} --over crop=50:150:50 --over noise-multiplier=4,4.5 --json --csv s.csv --svg s.svg --html s.html"
    ));
    snapshot("sweep_json", &run.report());
    assert_eq!(run.read("s.csv").lines().count(), 7);
    let run =
        dapple(&format!("sweep {FIGURE_2A} --over sampling=poisson,without-replacement --over batch=50,100"));
    snapshot("sweep_text", &run.report());
    let run =
        dapple(&format!("sweep {FIGURE_2A} --over crop=100,200 --for noise-multiplier --epsilon 1 --json"));
    snapshot("sweep_solved", &run.report());
    // An epsilon that is too large to report is an empty cell, not a failure.
    let run =
        dapple(&format!("sweep {FIGURE_2A} --over noise-multiplier=0.05,1 --relation add-remove --json"));
    let json = run.json();
    assert!(json["rows"][0][1].is_null() && json["rows"][1][1].is_number());
}

#[test]
fn curves_of_balanced_sampling_and_submodels() {
    let base = "--records 600 --noise-multiplier 2 --delta 1e-5";
    let points = |flags: &str| {
        let json = dapple(&format!("profile {base} {flags} --epsilons 0.1,0.5,1 --json")).json();
        let points = json["points"].as_array().unwrap().clone();
        points.iter().map(|point| point["delta"].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let balanced = points("--sampling balanced --per-record 2 --steps 20");
    assert!(balanced.windows(2).all(|pair| pair[0] > pair[1]), "{balanced:?}");
    let split = points("--batch 60 --steps 20 --submodels 4");
    let whole = points("--batch 60 --steps 20");
    assert!(split.iter().zip(&whole).all(|(split, whole)| split < whole), "{split:?} {whole:?}");

    let column = |over: &str| {
        let json = dapple(&format!("sweep {base} {over} --json")).json();
        let rows = json["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row[1].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let rising = column("--over per-record=1,2,4 --sampling balanced --steps 20");
    assert!(rising.windows(2).all(|pair| pair[0] < pair[1]), "{rising:?}");
    let falling = column("--over submodels=1,2,8 --batch 60 --steps 20");
    assert!(falling.windows(2).all(|pair| pair[0] > pair[1]), "{falling:?}");
    // More submodels need less noise.
    let solved = column("--over submodels=1,2,8 --batch 60 --steps 20 --for noise-multiplier --epsilon 1");
    assert!(solved.windows(2).all(|pair| pair[0] > pair[1]), "{solved:?}");
}

#[test]
fn inclusions() {
    exact_snapshot(
        "inclusion_json",
        &dapple("inclusion --image 2048x1024 --crop 505 --patch 10 --json").report(),
    );
    let run = dapple("inclusion --image 300x200 --crop 100 --patch 5 --views 3 --heatmap h.png");
    exact_snapshot("inclusion_views", &run.report());
    let picture = image::open(run.folder.path().join("h.png")).unwrap();
    assert_eq!((picture.width(), picture.height()), (300, 200));
}

#[test]
fn masks_are_read() {
    let draw = |folder: &std::path::Path| {
        let mut picture = GrayImage::new(40, 30);
        picture.put_pixel(5, 7, Luma([255]));
        picture.put_pixel(6, 8, Luma([1]));
        picture.save(folder.join("mask.png")).unwrap();
    };
    let run = dapple_with("inclusion --crop 10 --region-mask mask.png --placement annotated --json", draw);
    exact_snapshot("inclusion_mask", &run.report());
    let annotated = run.json()["probability"].as_f64();
    let anywhere = dapple_with("inclusion --image 40x30 --crop 10 --region-mask mask.png --json", draw);
    assert!(anywhere.json()["probability"].as_f64() > annotated);
}
