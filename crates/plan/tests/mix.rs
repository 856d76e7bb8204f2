//! Views, mixtures and microbatches: what changes the price and what does not.

#![allow(clippy::unwrap_used)]

use dapple_plan::{BracketPrecision, Plan, PlanSpec};

fn spec(settings: &[(&str, &str)]) -> PlanSpec {
    let mut spec = PlanSpec::default();
    for (key, value) in [
        ("records", "1000"),
        ("batch", "50"),
        ("noise-multiplier", "1.5"),
        ("steps", "40"),
        ("delta", "1e-5"),
    ]
    .iter()
    .chain(settings)
    {
        spec.set(key, value).unwrap();
    }
    spec
}

fn plan(settings: &[(&str, &str)]) -> Plan {
    Plan::check(&spec(settings)).unwrap()
}

fn upper(plan: &Plan) -> f64 {
    plan.epsilon(BracketPrecision::default()).unwrap().upper
}

const CROPPED: [(&str, &str); 3] = [("image", "8x6"), ("crop", "3x2"), ("patch", "2x1")];

#[test]
fn views_agree_with_counting_all_draws() {
    // Crops of 3x2 in an image of 8x6 can start at 6x5 places, and a patch of 2x1 at 7x6 places.
    let meets = |patch: (i32, i32), (x, y): (i32, i32)| {
        x < patch.0 + 2 && patch.0 < x + 3 && y < patch.1 + 1 && patch.1 < y + 2
    };
    let origins: Vec<(i32, i32)> = (0..5).flat_map(|y| (0..6).map(move |x| (x, y))).collect();
    let places = (0..6).flat_map(|y| (0..7).map(move |x| (x, y)));
    let (mut pairs, mut triples) = (0usize, 0usize);
    for place in places {
        let sees: Vec<bool> = origins.iter().map(|origin| meets(place, *origin)).collect();
        let two = sees.iter().flat_map(|a| sees.iter().map(move |b| *a || *b));
        let three = sees
            .iter()
            .flat_map(|a| sees.iter().map(move |b| *a || *b))
            .flat_map(|ab| sees.iter().map(move |c| ab || *c));
        pairs = pairs.max(two.filter(|seen| *seen).count());
        triples = triples.max(three.filter(|seen| *seen).count());
    }
    for (views, hits, draws) in [("2", pairs, 900.0), ("3", triples, 27000.0)] {
        let found = plan(&[&CROPPED[..], &[("views", views)]].concat()).inclusion_probability();
        // Both are exact fractions, and only rounding differs.
        assert!((found - hits as f64 / draws).abs() < 1e-12, "{views}: {found} {hits}");
    }
}

#[test]
fn mixtures_and_synthetic_images_are_free() {
    for relation in ["add-remove", "replace", "patch"] {
        let base = [&CROPPED[..], &[("views", "2"), ("relation", relation)]].concat();
        let mixed = plan(&[&base[..], &[("self-mix", "18"), ("synthetic", "2")]].concat());
        assert_eq!(upper(&mixed), upper(&plan(&base)));
        assert_ne!(mixed.hash(), plan(&base).hash());
        let assumptions = mixed.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
        assert!(assumptions.contains("not trained on this data set"), "{assumptions}");
    }
}

#[test]
fn a_shared_clip_doubles_the_movement() {
    // For records added or removed, it costs as much as half the noise.
    let shared = plan(&[("records-per-clip", "2")]);
    assert_eq!(upper(&shared), upper(&plan(&[("noise-multiplier", "0.75")])));
    assert_eq!(shared.sensitivity(), 2.0);
    assert_eq!(upper(&shared), upper(&plan(&[("records-per-clip", "50")])));
    // For substituted records, everything is two clip norms away, which is already the price of sampling without replacement.
    let with = |sampling, shared| {
        upper(&plan(&[("relation", "replace"), ("sampling", sampling), ("records-per-clip", shared)]))
    };
    assert_eq!(with("without-replacement", "2"), with("without-replacement", "1"));
    assert_eq!(with("poisson", "2"), with("without-replacement", "1"));
    assert!(with("poisson", "2") > with("poisson", "1"));
}

/// Records that are never shown are priced as if they were, and only on request.
#[test]
fn records_without_views_need_to_be_allowed() {
    for relation in ["add-remove", "replace", "patch"] {
        let base = [&CROPPED[..], &[("relation", relation)]].concat();
        let pure = [&base[..], &[("views", "0"), ("synthetic", "2"), ("self-mix", "3")]].concat();
        let refused = Plan::check(&spec(&pure)).unwrap_err();
        assert!(refused.to_string().contains("epsilon buys nothing"), "{refused}");
        assert!(refused.hint().unwrap().contains("--allow pure-synthetic"));
        let allowed = plan(&[&pure[..], &[("allow", "pure-synthetic")]].concat());
        assert_eq!(upper(&allowed), upper(&plan(&base)));
        let assumptions = allowed.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
        assert!(assumptions.contains("this epsilon buys nothing"), "{assumptions}");
    }
    // Without synthetic images there would be nothing to learn from.
    let nothing = spec(&[("views", "0"), ("allow", "pure-synthetic")]);
    assert!(Plan::check(&nothing).unwrap_err().to_string().contains("pipeline.views"));
}

#[test]
fn the_sum_is_divided_by_the_number_of_contributions() {
    for (together, groups) in [("2", 25), ("3", 17), ("50", 1)] {
        let plan = plan(&[("records-per-clip", together)]);
        assert_eq!((plan.clip_groups(), plan.contributions()), (Some(groups), groups));
        let assumptions = plan.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
        assert!(
            assumptions.contains(&format!("the fixed number of microbatches {groups},")),
            "{assumptions}"
        );
    }
    let alone = plan(&[]);
    assert_eq!((alone.clip_groups(), alone.contributions()), (None, 50));
    // In a microbatch there are views to mix, even if each record has one.
    assert_eq!(plan(&[("records-per-clip", "2"), ("self-mix", "1")]).averaged().self_mix, 1);
    assert!(Plan::check(&spec(&[("self-mix", "1")])).is_err());
}
