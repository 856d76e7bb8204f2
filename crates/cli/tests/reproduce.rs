//! Figures of the papers: their list, their shape, and their numbers against independent references.

#![allow(clippy::unwrap_used)]

mod common;

use common::{dapple, exact_snapshot, rows, snapshot};
use serde_json::Value;

/// Reference figures computed with dp_accounting and brute force; see the README of the goldens.
const GOLDENS: &str = include_str!("../../accounting/tests/goldens/patch_accounting.csv");

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or(f64::NAN)
}

/// The rows in which all these columns have these values.
fn matching<'a>(rows: &'a [Value], wanted: &'a [(&str, Value)]) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| wanted.iter().all(|(column, value)| row[*column] == *value))
}

/// One line of the goldens: setting, crop, records, noise multiplier, epsilon.
fn goldens() -> impl Iterator<Item = (&'static str, f64, f64, f64, f64)> {
    let lines = GOLDENS.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    lines.filter(|fields| fields[2] == "patch" && fields[3] == "without-replacement").map(|fields| {
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        (fields[1], number(5), number(9), number(12), number(17))
    })
}

/// The references are estimates good to about 1e-4, or 5e-6 in absolute terms; the guarantee lies above them by at most 0.2%.
fn assert_meets(found: f64, expected: f64, what: &str) {
    assert!(found >= expected * (1.0 - 1e-4) - 5e-6, "{what}: {found} is below {expected}");
    assert!(found <= expected * 1.002 + 5e-6, "{what}: {found} is above {expected}");
}

#[test]
fn every_figure_is_listed() {
    exact_snapshot("reproduce_list", &dapple("reproduce --list").report());
    let listed = dapple("reproduce --list --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 48);
}

#[test]
fn the_masked_theorem_is_shown_beside_what_holds() {
    let run = dapple("reproduce mask/theorem1 --points 3");
    snapshot("reproduce_mask", &run.report());
    let json = dapple("reproduce mask/theorem1 --points 3 --json").json();
    let rows = rows(&json);
    let epsilons = |price: &str| -> Vec<f64> {
        let wanted = [("price", price.into())];
        matching(&rows, &wanted).map(|row| number(row, "epsilon")).collect()
    };
    // The claim lies below every certified price, and the prices are in order; all fall with the noise.
    let prices = ["claimed", "decoupled", "coupled-clipped", "coupled"].map(epsilons);
    for pair in prices.windows(2) {
        assert!(pair[0].iter().zip(&pair[1]).all(|(less, more)| less < more), "{prices:?}");
    }
    assert!(prices.iter().all(|line| line.len() == 3 && line.is_sorted_by(|a, b| a > b)), "{prices:?}");
    // The expected values come from the mixture over binomials in the tests of the plan crate. The bracket is 0.1 % wide and printed with
    // four digits.
    for (index, expected) in [(0, 11.7967), (1, 27.1439)] {
        let here = json["paper"][index]["here"].as_str().unwrap();
        let found: f64 = here.split(' ').next().unwrap().parse().unwrap();
        assert!(found >= expected && found < expected * 1.002, "{here}");
        assert_eq!(json["paper"][index]["holds"], false);
    }
}

#[test]
fn figure_2_meets_the_references_under_both_readings() {
    let text = dapple("reproduce patch/fig2 --sigma-is multiplier --points 3 --json").json();
    let summary = rows(&text["summary"]);
    let line = |sampling: &str, mechanism: &str| {
        let wanted = [
            ("panel", "(a) Patch 10 × 10".into()),
            ("mechanism", mechanism.into()),
            ("sampling", sampling.into()),
        ];
        let row = matching(&summary, &wanted).next().unwrap().clone();
        assert_eq!((number(&row, "sigma"), number(&row, "noise_multiplier")), (1.0, 1.0));
        assert!(number(&row, "epsilon_lower") <= number(&row, "epsilon"));
        number(&row, "epsilon")
    };
    // Numbers have four digits, so they may differ by the width of a bracket and half a digit.
    for (sampling, mechanism, expected) in [
        ("without-replacement", "patch", 2.7374),
        ("poisson", "patch", 0.1920),
        ("without-replacement", "minibatch", 97.71),
        ("poisson", "minibatch", 22.94),
    ] {
        let found = line(sampling, mechanism);
        assert!((found / expected - 1.0).abs() < 0.002, "{mechanism}, {sampling}: {found}");
    }
    assert_eq!(text["paper"].as_array().unwrap().len(), 2);

    let figure = dapple("reproduce patch/fig2 --points 3 --json").json();
    let summary = rows(&figure["summary"]);
    let wanted = [("mechanism", "patch".into())];
    assert!(matching(&summary, &wanted).all(|row| number(row, "noise_multiplier") == 0.5));
    assert!(figure["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("σ / 2")));
}

#[test]
fn figure_3_meets_the_references() {
    let figure = dapple("reproduce patch/fig3 --sigma-is multiplier --json").json();
    let rows = rows(&figure);
    let mut met = 0;
    for (setting, crop, _, noise_multiplier, epsilon) in goldens() {
        let mechanism = match setting {
            "Fig3 crop sweep" => "patch",
            "minibatch-only baseline (gamma_crop=1)" => "minibatch",
            _ => continue,
        };
        let wanted = [("mechanism", mechanism.into()), ("sampling", "without-replacement".into())];
        let found = matching(&rows, &wanted).find(|row| {
            let same_crop = mechanism == "minibatch" || number(row, "crop") == crop;
            same_crop && number(row, "noise_multiplier") == noise_multiplier
        });
        if let Some(row) = found {
            assert_meets(number(row, "epsilon"), epsilon, &format!("crop {crop}, {noise_multiplier}"));
            met += 1;
        }
    }
    assert!(met > 20, "{met}");
    assert!(figure["paper"].as_array().unwrap().iter().all(|finding| finding["holds"] == true));
}

#[test]
fn the_papers_sigma_4_is_a_noise_multiplier_of_2() {
    // Section D.1.1 of the patch-level paper at sigma 4 and appendix C.4's 3000 records.
    let (.., expected) = goldens()
        .find(|golden| golden.0.starts_with("D.1.1") && golden.2 == 3000.0 && golden.3 == 2.0)
        .unwrap();
    let figure = dapple("reproduce patch/fig17 --points 2 --json").json();
    let summary = rows(&figure["summary"]);
    let wanted =
        [("sigma", 4.0.into()), ("mechanism", "patch".into()), ("sampling", "without-replacement".into())];
    let row = matching(&summary, &wanted).next().unwrap();
    assert_eq!(number(row, "noise_multiplier"), 2.0);
    assert_meets(number(row, "epsilon"), expected, "sigma 4");
}

#[test]
fn profiles_fall_and_files_are_written() {
    let run = dapple(
        "reproduce patch/fig17 --points 40 --json --csv a.csv --svg a.svg --png a.png --html a.html -q",
    );
    assert_eq!(
        (run.files(), run.stderr.as_str()),
        (["a.csv", "a.html", "a.png", "a.svg"].map(str::to_owned).to_vec(), "")
    );
    let rows = rows(&run.json());
    assert_eq!(run.read("a.csv").lines().count(), rows.len() + 1);
    assert!(run.read("a.svg").contains("noise multiplier 0.5, 1, 2") && run.read("a.html").contains("σ / 2"));
    let line = |row: &Value| ["panel", "mechanism", "sampling"].map(|column| row[column].clone());
    for pair in rows.windows(2).filter(|pair| line(&pair[0]) == line(&pair[1])) {
        assert!(number(&pair[0], "epsilon") < number(&pair[1], "epsilon"));
        assert!(number(&pair[0], "delta") >= number(&pair[1], "delta"), "{pair:?}");
        assert!(number(&pair[1], "delta_lower") <= number(&pair[1], "delta"));
    }
}

#[test]
fn wrong_requests_are_refused() {
    let mut report = String::new();
    for arguments in [
        "reproduce",
        "reproduce patch/fig5000",
        "reproduce patch/fig2 --list",
        "reproduce patch/fig2 --points 1",
        "reproduce patch/fig2 --records 99",
        "reproduce patch/fig2 --sigma-is variance",
        "reproduce patch/fig2 --svg missing/a.svg",
    ] {
        let run = dapple(arguments);
        assert_eq!(run.code, 2, "{arguments}");
        report.push_str(&format!("$ dapple {arguments}\n{}\n", run.report()));
    }
    exact_snapshot("reproduce_wrong", &report);
}
