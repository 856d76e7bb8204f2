//! Tests the price of windows of frames.
#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_plan::{BracketPrecision, Plan, PlanError, PlanSpec, Seen};

const PLAN: &str = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n\
    [region]\npatch = [10, 10]\nduration = 9\n\
    [pipeline]\nimage = [1000, 1000]\ncrop = [100, 100]\nframes = 64\nwindow = 8\n";

fn spec(changes: &[(&str, &str)]) -> PlanSpec {
    let mut spec = PlanSpec::from_toml(PLAN).unwrap();
    for (key, value) in changes {
        spec.set(key, value).unwrap();
    }
    spec
}

fn seen(spec: &PlanSpec) -> Seen {
    Seen::new(Plan::check(spec).unwrap().spatial()).unwrap()
}

/// Whether a number is this one, rounded up at most twice: once for the ratio and once for the product.
fn is_up(found: f64, expected: f64) -> bool {
    [expected, expected.next_up(), expected.next_up().next_up()].contains(&found)
}

#[test]
fn crop_and_window_must_both_see_the_region() {
    let mut still = spec(&[]);
    still.region.duration = None;
    (still.pipeline.frames, still.pipeline.window) = (None, None);
    let crop = seen(&still).probability;
    // Of 57 windows those that begin 7 before the first of 9 frames to 8 behind it: 16.
    let windowed = seen(&spec(&[]));
    assert!(is_up(windowed.probability_of_window.unwrap(), 16.0 / 57.0));
    assert!(
        windowed.probability >= crop * 16.0 / 57.0
            && windowed.probability <= crop * 16.0 / 57.0 * (1.0 + 1e-15)
    );
    assert_eq!(windowed.probability, windowed.probability_of_one_view);
    // What lasts as long as the clip is seen by every window, and what is in one frame by as many as show it.
    assert_eq!(seen(&spec(&[("region.duration", "64")])).probability, crop);
    assert_eq!(seen(&spec(&[("region.duration", "57")])).probability, crop);
    assert!(is_up(seen(&spec(&[("region.duration", "1")])).probability_of_window.unwrap(), 8.0 / 57.0));
    let mut always = spec(&[]);
    always.region.duration = None;
    assert_eq!(seen(&always).probability, crop);
    // Each view draws a window of its own.
    let twice = seen(&spec(&[("pipeline.views", "2")]));
    let one = windowed.probability;
    assert!((twice.probability - (1.0 - (1.0 - one) * (1.0 - one))).abs() < 1e-15);
}

#[test]
fn windows_hide_where_there_is_no_crop() {
    let mut whole = spec(&[]);
    whole.pipeline.crop = None;
    let plan = Plan::check(&whole).unwrap();
    assert!(is_up(plan.spatial().inclusion_probability(), 16.0 / 57.0));
    let said = plan.price(BracketPrecision::default()).unwrap().assumptions.join("\n");
    assert!(said.contains("shows the region if its window does"), "{said}");
}

#[test]
fn the_certificate_says_for_how_long_and_costs_more_the_longer_it_is() {
    let price = |changes: &[(&str, &str)]| {
        Plan::check(&spec(changes)).unwrap().price(BracketPrecision::default()).unwrap()
    };
    let [short, long] = [price(&[]), price(&[("region.duration", "20")])];
    assert!(short.epsilon.upper < long.epsilon.upper);
    let words =
        "a patch of 10x10 pixels, in at most 9 consecutive of 64 frames, in any one clip of 1000x1000 pixels";
    assert!(short.protects.contains(words), "{}", short.protects);
    let said = short.assumptions.join("\n");
    assert!(
        said.contains("Each view of a clip shows 8 of its 64 frames")
            && said.contains("within 9 consecutive ones")
    );
    let moving = price(&[("region.travel", "40x20")]);
    assert!(moving.epsilon.upper > short.epsilon.upper);
    assert!(
        moving.protects.contains("moves by at most 40x20 pixels, in at most 9 consecutive of 64 frames,")
    );
}

#[test]
fn what_makes_no_sense_is_refused_by_its_key() {
    let refused = |spec: &PlanSpec, key: &str| {
        let error = Plan::check(spec).unwrap_err();
        assert!(error.to_string().contains(key) && error.hint().is_some(), "{error}");
        error
    };
    refused(&spec(&[("pipeline.window", "65")]), "pipeline.window");
    refused(&spec(&[("pipeline.window", "0")]), "pipeline.window");
    refused(&spec(&[("region.duration", "0")]), "region.duration");
    refused(&spec(&[("pipeline.pixel_noise", "1.0")]), "pipeline.window");
    let mut no_frames = spec(&[]);
    no_frames.pipeline.frames = None;
    assert!(matches!(Plan::check(&no_frames), Err(PlanError::Missing { key: "pipeline.frames", .. })));
    let mut no_window = spec(&[]);
    no_window.pipeline.window = None;
    assert!(matches!(Plan::check(&no_window), Err(PlanError::Missing { key: "pipeline.window", .. })));
    let mut no_region = spec(&[]);
    no_region.region.patch = None;
    assert!(matches!(Plan::check(&no_region), Err(PlanError::Missing { key: "region.patch", .. })));
}
