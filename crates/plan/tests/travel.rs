//! Tests the price of a region that moves within a clip.
#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_plan::{BracketPrecision, Plan, PlanError, PlanSpec, Seen, Unknown, calibrate};

const PLAN: &str = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n\
    [region]\npatch = [10, 10]\n[pipeline]\nimage = [1000, 1000]\ncrop = [100, 100]\n";

fn spec(changes: &[(&str, &str)]) -> PlanSpec {
    let mut spec = PlanSpec::from_toml(PLAN).unwrap();
    for (key, value) in changes {
        spec.set(key, value).unwrap();
    }
    spec
}

fn seen(changes: &[(&str, &str)]) -> Seen {
    Seen::new(Plan::check(&spec(changes)).unwrap().spatial()).unwrap()
}

#[test]
fn a_patch_that_moves_is_priced_as_the_rectangle_of_its_way() {
    // Along each axis 100 + 50 - 1 of 901 places of the crop meet a length of 10 + 40, and 100 + 30 - 1 one of 10 + 20.
    let moving = seen(&[("region.travel", "40x20")]);
    assert_eq!((moving.hits, moving.crop_origins), (Some(149 * 129), Some(901 * 901)));
    let large = seen(&[("region.patch", "50x30")]);
    assert_eq!((moving.probability, moving.worst_origin), (large.probability, large.worst_origin));
    assert_eq!(seen(&[("region.travel", "0x0")]), seen(&[]));
    // A patch that may go anywhere is met by every crop, and by no more than that.
    assert_eq!(seen(&[("region.travel", "990x990")]).probability, 1.0);
    assert_eq!(seen(&[("region.travel", "4000x4000")]).probability, 1.0);
    // The square around a disc of radius 5 has its corners, which its way has not.
    let disc = |travel| seen(&[("region.patch", "1x1"), ("region.travel", travel)]);
    assert!(disc("3x1").probability < disc("3x2").probability);
    let mut round = spec(&[("region.travel", "40x20")]);
    (round.region.patch, round.region.circle) = (None, Some(5.0));
    let round = Seen::new(Plan::check(&round).unwrap().spatial()).unwrap();
    assert!(round.probability < seen(&[("region.patch", "11x11"), ("region.travel", "40x20")]).probability);
    assert!(round.probability > seen(&[("region.patch", "7x7"), ("region.travel", "40x20")]).probability);
}

#[test]
fn the_certificate_says_how_far_it_moves_and_costs_more_the_farther_it_does() {
    let price = |changes: &[(&str, &str)]| {
        Plan::check(&spec(changes)).unwrap().price(BracketPrecision::default()).unwrap()
    };
    let [stays, moves, far] =
        [price(&[]), price(&[("region.travel", "40x20")]), price(&[("region.travel", "80x40")])];
    assert!(stays.epsilon.upper < moves.epsilon.upper && moves.epsilon.upper < far.epsilon.upper);
    assert_eq!(price(&[("region.patch", "50x30")]).epsilon, moves.epsilon);
    assert!(
        moves.protects.contains(
            "a patch of 10x10 pixels that moves by at most 40x20 pixels in any one clip of 1000x1000 pixels"
        ),
        "{}",
        moves.protects
    );
    assert!(
        moves
            .assumptions
            .iter()
            .any(|sentence| sentence.contains("between any two of them it moves by no more"))
    );
    assert!(stays.protects.contains("in any one image of") && stays.plan_hash != moves.plan_hash);
}

#[test]
fn what_it_may_be_is_solved_for() {
    let mut spec = spec(&[("region.travel", "40x20")]);
    spec.privacy.noise_multiplier = None;
    spec.privacy.epsilon = Some(1.0);
    let solved = calibrate(&spec, &[], Unknown::NoiseMultiplier, BracketPrecision::default()).unwrap();
    assert!(solved.certificate.epsilon.upper <= 1.0);
    assert!(solved.certificate.protects.contains("moves by at most 40x20"));
}

#[test]
fn a_travel_that_makes_no_sense_is_refused() {
    let refused = |changes: &[(&str, &str)]| {
        let error = Plan::check(&spec(changes)).unwrap_err();
        assert!(error.hint().is_some());
        error
    };
    let noise = refused(&[("region.travel", "4x2"), ("pipeline.pixel_noise", "1.0")]);
    assert!(noise.to_string().starts_with("region.travel"), "{noise}");
    let mut none = spec(&[("region.travel", "4x2")]);
    none.region.patch = None;
    assert!(matches!(Plan::check(&none), Err(PlanError::Missing { key: "region.patch", .. })));
}
