//! ARCHITECTURE.md draws the crates as they are.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

const ARCHITECTURE: &str = include_str!("../../../ARCHITECTURE.md");

/// The crates of the workspace, each with those that it depends on outside its tests.
fn graph() -> BTreeMap<String, Vec<String>> {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let short = |value: &Value| value["name"].as_str().unwrap().strip_prefix("dapple-").map(str::to_owned);
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
            (short(package).unwrap(), normal.filter_map(short).collect())
        })
        .collect()
}

/// The drawing on the page: the name and description of each crate, in order.
fn drawn() -> Vec<(&'static str, &'static str)> {
    let crates = ARCHITECTURE.split("## Crates\n").nth(1).unwrap();
    let lines = crates.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.take_while(|line| line.starts_with("    "));
    lines
        .map(|line| {
            let (name, rest) = line.trim().split_once(' ').unwrap();
            (name, rest.split("->").next().unwrap().trim())
        })
        .collect()
}

/// The drawing as it should be. Crates that the page does not know come last.
fn right(drawn: &[(&str, &str)], graph: &BTreeMap<String, Vec<String>>) -> String {
    let missing =
        graph.keys().map(String::as_str).filter(|name| drawn.iter().all(|(other, _)| other != name));
    let known = drawn.iter().copied().filter(|(name, _)| graph.contains_key(*name));
    let all: Vec<(&str, &str)> = known.chain(missing.map(|name| (name, "?"))).collect();
    let place = |name: &String| all.iter().position(|(other, _)| other == name);
    let width = all.iter().map(|(_, words)| words.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, words) in &all {
        let mut arrows = graph[*name].clone();
        arrows.sort_by_key(place);
        let line = match arrows.is_empty() {
            true => format!("    {name:<10}  {words}"),
            false => format!("    {name:<10}  {words:<width$}  -> {}", arrows.join(", ")),
        };
        text.push_str(&format!("{line}\n"));
    }
    text
}

#[test]
fn arrows_are_the_dependencies() {
    let expected = right(&drawn(), &graph());
    assert!(ARCHITECTURE.contains(&format!("\n\n{expected}\n")), "ARCHITECTURE.md should draw\n\n{expected}");
}

#[test]
fn another_graph_is_another_drawing() {
    let drawn = [("low", "numbers"), ("gone", "nothing"), ("high", "words")];
    let edges = [("low", vec![]), ("high", vec!["new", "low"]), ("new", vec!["low"])];
    let graph = edges
        .into_iter()
        .map(|(name, arrows)| (name.to_owned(), arrows.into_iter().map(str::to_owned).collect()))
        .collect();
    let expected =
        "    low         numbers\n    high        words    -> low, new\n    new         ?        -> low\n";
    assert_eq!(right(&drawn, &graph), expected);
}

/// The command line is a thin layer over these crates, and over nothing below them.
#[test]
fn the_command_line_reaches_no_further() {
    let mut found = graph().remove("cli").unwrap();
    found.sort();
    assert_eq!(found, ["audit", "pages", "plan", "report", "reproduce", "serve", "train"]);
}

/// The tour leads through files that are there, and is short.
#[test]
fn the_tour_leads_through_files_that_are_there() {
    let tour = ARCHITECTURE.split("## A tour").nth(1).unwrap().split("\n## ").next().unwrap();
    let stops = tour.lines().filter_map(|line| line.split_once(". `")?.1.split_once('`'));
    let files: Vec<&str> = stops.map(|(file, _)| file).collect();
    assert!((10..25).contains(&files.len()), "{} files", files.len());
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let missing: Vec<&&str> = files.iter().filter(|file| !crates.join(file).is_file()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
