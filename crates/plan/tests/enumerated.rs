//! One step of small runs with every draw enumerated: what a test between two neighbours can gain must stay below the certificate, and
//! must reach it if gradients are chosen for the worst case.
//!
//! Gradients are single numbers. All coins, subsets and microbatches of a few records are listed, which makes a step's output a mixture
//! of normals under either data set. The hockey-stick divergence of the two mixtures is integrated on a grid. Nothing here knows the
//! amplification theorem.

#![allow(clippy::unwrap_used)]

mod common;

use common::spec_of;
use dapple_plan::{BracketPrecision, Plan};
use proptest::prelude::*;

/// A mixture of normals of deviation sigma, as weights and centres.
type Mixture = Vec<(f64, f64)>;

/// Kinks of the integrand cost a trapezoid rule of step h about h^2. With h = 0.005 that is below this bound.
const GRID_ERROR: f64 = 2e-5;

/// The hockey-stick divergence, `integral (p - e^eps q)_+`.
fn hockey_stick(p: &Mixture, q: &Mixture, sigma: f64, epsilon: f64) -> f64 {
    let merged = |mixture: &Mixture| {
        let mut sorted = mixture.clone();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut merged: Mixture = Vec::new();
        for (weight, centre) in sorted {
            match merged.last_mut() {
                Some(last) if (last.1 - centre).abs() < 1e-12 => last.0 += weight,
                _ => merged.push((weight, centre)),
            }
        }
        merged
    };
    let (p, q) = (merged(p), merged(q));
    let density = |mixture: &Mixture, x: f64| -> f64 {
        mixture.iter().map(|(weight, centre)| weight * (-0.5 * ((x - centre) / sigma).powi(2)).exp()).sum()
    };
    let centres = p.iter().chain(&q).map(|(_, centre)| *centre);
    let (low, high) =
        centres.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), c| (low.min(c), high.max(c)));
    let (from, to, step) = (low - 8.0 * sigma, high + 8.0 * sigma, 0.005 * sigma);
    let points = ((to - from) / step) as usize;
    let factor = epsilon.exp();
    let sum: f64 = (0..points)
        .map(|i| {
            let x = from + step * i as f64;
            (density(&p, x) - factor * density(&q, x)).max(0.0)
        })
        .sum();
    sum * step / (sigma * std::f64::consts::TAU.sqrt())
}

/// The certified delta of one step, both ends.
fn certified(settings: &[(&str, String)], epsilon: f64) -> (f64, f64) {
    let mut spec = spec_of(settings);
    spec.set("steps", "1").unwrap();
    spec.set("delta", "1e-5").unwrap();
    let delta =
        Plan::check(&spec).unwrap().pld().unwrap().delta(epsilon, BracketPrecision::default()).unwrap();
    (delta.lower.unwrap(), delta.upper)
}

/// What a record may do in a step: with some probability it is in a microbatch, with a gradient.
type Choices = Vec<(f64, Option<(usize, f64)>)>;

/// The sum of the clipped means of all microbatches, over all choices of all records.
fn clipped_means(records: &[Choices], microbatches: usize) -> Mixture {
    let mut states = vec![(1.0, vec![(0.0, 0.0); microbatches])];
    for choices in records {
        states = states
            .iter()
            .flat_map(|(weight, state)| {
                choices.iter().map(move |(probability, choice)| {
                    let mut state = state.clone();
                    if let Some((place, gradient)) = choice {
                        state[*place].0 += gradient;
                        state[*place].1 += 1.0;
                    }
                    (weight * probability, state)
                })
            })
            .collect();
    }
    let clipped = |&(sum, count): &(f64, f64)| if count > 0.0 { (sum / count).clamp(-1.0, 1.0) } else { 0.0 };
    states.iter().map(|(weight, state)| (*weight, state.iter().map(clipped).sum())).collect()
}

/// The choices of a record that is drawn with probability `rate` into one of the microbatches, with one of several gradients.
fn drawn(rate: f64, microbatches: usize, gradients: &[(f64, f64)]) -> Choices {
    let share = rate / microbatches as f64;
    let mut choices = vec![(1.0 - rate, None)];
    for place in 0..microbatches {
        choices.extend(gradients.iter().map(|(p, gradient)| (share * p, Some((place, *gradient)))));
    }
    choices
}

fn poisson(relation: &str, sigma: f64) -> Vec<(&'static str, String)> {
    vec![
        ("relation", relation.to_owned()),
        ("records", "4".to_owned()),
        ("batch", "2".to_owned()),
        ("records-per-clip", "2".to_owned()),
        ("noise-multiplier", sigma.to_string()),
    ]
}

#[test]
fn a_record_may_turn_its_microbatch_around() {
    // Three records pull the only microbatch to +1. The fourth, drawn half of the time, pulls it to -1.
    let others: Vec<Choices> = (0..3).map(|_| drawn(0.5, 1, &[(1.0, 5.0)])).collect();
    let with =
        |gradient: f64| clipped_means(&[others.clone(), vec![drawn(0.5, 1, &[(1.0, gradient)])]].concat(), 1);
    let without = clipped_means(&others, 1);
    for epsilon in [0.3, 1.0] {
        let found = hockey_stick(&with(-1e6), &without, 1.0, epsilon);
        let (_, upper) = certified(&poisson("add-remove", 1.0), epsilon);
        assert!(found <= upper + GRID_ERROR, "{found} {upper}");
        // A sensitivity of one clip norm, which is right for single records, would be wrong here.
        let mut single = poisson("add-remove", 1.0);
        single[3].1 = "1".to_owned();
        assert!(found > 1.5 * certified(&single, epsilon).1, "{found}");
        // If the others are always there, the certified loss is reached: (1-g) N(1) + g N(-1) against N(1).
        let always = vec![vec![(1.0, Some((0, 5.0)))]];
        let with = clipped_means(&[always.clone(), vec![drawn(0.5, 1, &[(1.0, -1e6)])]].concat(), 1);
        let worst = hockey_stick(&with, &clipped_means(&always, 1), 1.0, epsilon);
        let (lower, upper) = certified(&poisson("add-remove", 1.0), epsilon);
        assert!(lower - GRID_ERROR <= worst && worst <= upper + GRID_ERROR, "{lower} {worst} {upper}");
        // The record is substituted for one that agrees with the others: both an absent record and the other content are two clip norms
        // away.
        let other = clipped_means(&[always.clone(), vec![drawn(0.5, 1, &[(1.0, 5.0)])]].concat(), 1);
        let worst = hockey_stick(&with, &other, 1.0, epsilon);
        let (lower, upper) = certified(&poisson("replace", 1.0), epsilon);
        assert!(lower - GRID_ERROR <= worst && worst <= upper + GRID_ERROR, "{lower} {worst} {upper}");
    }
}

#[test]
fn microbatches_of_a_batch_of_fixed_size_cost_no_more_than_records() {
    // Two of three records are drawn, all into one microbatch or each into one of two by its own draw.
    let settings = vec![
        ("relation", "replace".to_owned()),
        ("sampling", "without-replacement".to_owned()),
        ("records", "3".to_owned()),
        ("batch", "2".to_owned()),
        ("records-per-clip", "2".to_owned()),
        ("noise-multiplier", "1".to_owned()),
    ];
    let step = |gradients: [f64; 3], choose: &dyn Fn(usize) -> Vec<(f64, usize)>| -> Mixture {
        let pairs = [[0, 1], [0, 2], [1, 2]];
        let part = |pair: &[usize; 2]| {
            let records: Vec<Choices> = pair
                .iter()
                .map(|&record| {
                    choose(record).iter().map(|&(p, place)| (p, Some((place, gradients[record])))).collect()
                })
                .collect();
            clipped_means(&records, 2).into_iter().map(|(weight, centre)| (weight / 3.0, centre))
        };
        pairs.iter().flat_map(part).collect()
    };
    let epsilon = 0.5;
    let (_, upper) = certified(&settings, epsilon);
    for (first, other) in [(1e6, -1e6), (1e6, 3.0), (-1e6, 4.0)] {
        for (one, two) in [(-4.0, 3.0), (5.0, 1e3), (-2.0, -0.1)] {
            let gained = |choose: &dyn Fn(usize) -> Vec<(f64, usize)>| {
                let [p, q] = [first, other].map(|first| step([first, one, two], choose));
                hockey_stick(&p, &q, 1.0, epsilon)
            };
            assert!(gained(&|_| vec![(0.5, 0), (0.5, 1)]) <= upper + GRID_ERROR);
            assert!(gained(&|_| vec![(1.0, 0)]) <= upper + GRID_ERROR);
        }
    }
}

/// A step that draws `batch` of all records and adds up their contributions.
fn fixed_size(contributions: &[f64], batch: u32) -> Mixture {
    let subsets: Vec<u32> = (0..1u32 << contributions.len()).filter(|s| s.count_ones() == batch).collect();
    let sum = |subset: &u32| -> f64 {
        contributions.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, c)| c).sum()
    };
    subsets.iter().map(|subset| (1.0 / subsets.len() as f64, sum(subset))).collect()
}

fn masked(records: usize, batch: u32, public_clip: Option<f64>, sigma: f64) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("relation", "masked".to_owned()),
        ("sampling", "without-replacement".to_owned()),
        ("records", records.to_string()),
        ("batch", batch.to_string()),
        ("noise-multiplier", sigma.to_string()),
    ];
    if let Some(clip) = public_clip {
        settings.push(("public-gradient", "coupled-clipped".to_owned()));
        settings.push(("public-clip", clip.to_string()));
    }
    settings
}

/// A step that draws every record by a coin of its own and adds up the contributions.
fn by_coins(contributions: &[f64], rate: f64) -> Mixture {
    let step = |sums: Mixture, &contribution: &f64| {
        sums.iter()
            .flat_map(|&(weight, sum)| [(weight * (1.0 - rate), sum), (weight * rate, sum + contribution)])
            .collect()
    };
    contributions.iter().fold(vec![(1.0, 0.0)], step)
}

/// The settings of `masked`, for private tokens that are there or not.
fn removed(records: usize, batch: u32, public_clip: Option<f64>, sigma: f64) -> Vec<(&'static str, String)> {
    let mut settings = masked(records, batch, public_clip, sigma);
    settings.push(("masked-content", "remove".to_owned()));
    settings
}

#[test]
fn tokens_that_are_there_or_not_cost_what_is_certified() {
    for (clip, epsilon) in [(None, 0.3), (None, 1.0), (Some(0.5), 0.5), (Some(2.0), 1.0)] {
        let public = clip.unwrap_or(0.0);
        let near = |worst: f64, (lower, upper): (f64, f64)| {
            assert!(
                lower - GRID_ERROR <= worst && worst <= upper + GRID_ERROR,
                "{clip:?}: {lower} {worst} {upper}"
            );
        };
        // One of two records is drawn, and the other pulls the opposite way.
        let data = |private: f64| fixed_size(&[private + public, -1.0 - public], 1);
        near(
            hockey_stick(&data(1.0), &data(0.0), 1.0, epsilon),
            certified(&removed(2, 1, clip, 1.0), epsilon),
        );
        // Half of the coins draw the record.
        let data = |private: f64| by_coins(&[private + public], 0.5);
        let mut poisson = removed(2, 1, clip, 1.0);
        poisson[1].1 = "poisson".to_owned();
        near(hockey_stick(&data(1.0), &data(0.0), 1.0, epsilon), certified(&poisson, epsilon));
    }
}

#[test]
fn tokens_in_a_batch_of_fixed_size_cost_what_is_certified() {
    // One of two records is drawn. The other pulls the opposite way, privately and publicly, so that an absent record is as far away as
    // possible.
    for (clip, epsilon) in [(None, 0.5), (None, 1.5), (Some(0.5), 0.5), (Some(2.0), 1.0), (Some(2.0), 2.0)] {
        let public = clip.unwrap_or(0.0);
        let data = |private: f64| fixed_size(&[private + public, -1.0 - public], 1);
        let worst = hockey_stick(&data(1.0), &data(-1.0), 1.0, epsilon);
        let (lower, upper) = certified(&masked(2, 1, clip, 1.0), epsilon);
        assert!(
            lower - GRID_ERROR <= worst && worst <= upper + GRID_ERROR,
            "{clip:?}: {lower} {worst} {upper}"
        );
        // The distance of an absent record under Poisson sampling, 1 + Cu, would certify too little. Far away it hardly matters.
        let mut poisson = masked(2, 1, clip, 1.0);
        poisson[1].1 = "poisson".to_owned();
        let factor = if public < 1.0 { 1.05 } else { 1.0 };
        assert!(worst > factor * certified(&poisson, epsilon).1, "{clip:?} {worst}");
    }
}

proptest! {
    // Each case enumerates and integrates a few mixtures, which takes some tens of milliseconds.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_gradients_gain_more_than_is_certified_for_microbatches(
        others in prop::collection::vec(-3.0f64..3.0, 3),
        (one, other, common) in (-9.0f64..9.0, -9.0f64..9.0, -3.0f64..3.0),
        microbatches in 1usize..3,
        sigma in 0.5f64..2.0,
        epsilon in 0.0f64..1.5,
    ) {
        let rest: Vec<Choices> = others.iter().map(|g| drawn(0.5, microbatches, &[(1.0, *g)])).collect();
        let with = |gradients: &[(f64, f64)]| {
            clipped_means(&[rest.clone(), vec![drawn(0.5, microbatches, gradients)]].concat(), microbatches)
        };
        let without = clipped_means(&rest, microbatches);
        let (_, upper) = certified(&poisson("add-remove", sigma), epsilon);
        let added = with(&[(1.0, one)]);
        prop_assert!(hockey_stick(&added, &without, sigma, epsilon) <= upper + GRID_ERROR);
        prop_assert!(hockey_stick(&without, &added, sigma, epsilon) <= upper + GRID_ERROR);
        let (_, upper) = certified(&poisson("replace", sigma), epsilon);
        prop_assert!(hockey_stick(&added, &with(&[(1.0, other)]), sigma, epsilon) <= upper + GRID_ERROR);
        // A crop of 1 in an image of 2x1 shows a patch of one pixel half of the time.
        let patch = [("image", "2x1"), ("crop", "1x1"), ("patch", "1x1")].map(|(key, value)| (key, value.to_owned()));
        let (_, upper) = certified(&[poisson("patch", sigma), patch.to_vec()].concat(), epsilon);
        let seen = |gradient| with(&[(0.5, gradient), (0.5, common)]);
        prop_assert!(hockey_stick(&seen(one), &seen(other), sigma, epsilon) <= upper + GRID_ERROR);
    }

    #[test]
    fn no_gradients_gain_more_than_is_certified_for_tokens(
        private in prop::collection::vec(-1.0f64..=1.0, 4),
        public in prop::collection::vec(-1.0f64..=1.0, 4),
        other in -1.0f64..=1.0,
        batch in 1u32..4,
        clip in prop::option::of(0.1f64..3.0),
        sigma in 0.5f64..2.0,
        epsilon in 0.0f64..1.5,
    ) {
        let reach = clip.unwrap_or(0.0);
        let data = |first: f64| {
            let all: Vec<f64> = (0..4)
                .map(|i| if i == 0 { first } else { private[i] } + reach * public[i])
                .collect();
            fixed_size(&all, batch)
        };
        let (_, upper) = certified(&masked(4, batch, clip, sigma), epsilon);
        prop_assert!(hockey_stick(&data(private[0]), &data(other), sigma, epsilon) <= upper + GRID_ERROR);
        let (_, upper) = certified(&removed(4, batch, clip, sigma), epsilon);
        for (one, other) in [(private[0], 0.0), (0.0, private[0])] {
            prop_assert!(hockey_stick(&data(one), &data(other), sigma, epsilon) <= upper + GRID_ERROR);
        }
        // The same by coins.
        let mut poisson = removed(4, batch, clip, sigma);
        poisson[1].1 = "poisson".to_owned();
        let (_, upper) = certified(&poisson, epsilon);
        let data = |first: f64| {
            let all: Vec<f64> = (0..4)
                .map(|i| if i == 0 { first } else { private[i] } + reach * public[i])
                .collect();
            by_coins(&all, f64::from(batch) / 4.0)
        };
        for (one, other) in [(private[0], 0.0), (0.0, private[0])] {
            prop_assert!(hockey_stick(&data(one), &data(other), sigma, epsilon) <= upper + GRID_ERROR);
        }
    }
}

/// The sum of a step that keeps a uniform subset of at most `most` of the records drawn, over all coins and all subsets. Each record has gradients with
/// their probabilities.
fn limited(records: &[Vec<(f64, f64)>], rate: f64, most: u32) -> Mixture {
    let all = 1u32 << records.len();
    let mut mixture = Mixture::new();
    for drawn in 0..all {
        let heads = drawn.count_ones();
        let weight = rate.powi(heads as i32) * (1.0 - rate).powi(records.len() as i32 - heads as i32);
        let is_kept = |kept: &u32| kept & drawn == *kept && kept.count_ones() == heads.min(most);
        let subsets: Vec<u32> = (0..all).filter(is_kept).collect();
        for kept in &subsets {
            let mut sums = vec![(weight / subsets.len() as f64, 0.0)];
            for (_, gradients) in records.iter().enumerate().filter(|(place, _)| kept >> place & 1 == 1) {
                sums = sums
                    .iter()
                    .flat_map(|&(w, sum)| gradients.iter().map(move |&(p, gradient)| (w * p, sum + gradient)))
                    .collect();
            }
            mixture.extend(sums);
        }
    }
    mixture
}

/// With much noise a record that displaces one of those that pull the other way moves the sum by more than it would without a limit, so that the price without one
/// is too low.
#[test]
fn a_largest_batch_may_cost_more_than_none() {
    let (rate, most, sigma, epsilon) = (0.2, 2, 5.0, 0.02);
    let settings: Vec<(&str, String)> = vec![
        ("relation", "add-remove".to_owned()),
        ("records", "5".to_owned()),
        ("batch", "1".to_owned()),
        ("noise-multiplier", sigma.to_string()),
    ];
    let with_limit = [settings.clone(), vec![("sampling.max_batch", most.to_string())]].concat();
    let others = vec![vec![(1.0, -1.0)]; 4];
    let added = limited(&[others.clone(), vec![vec![(1.0, 1.0)]]].concat(), rate, most);
    let without = limited(&others, rate, most);
    let found =
        hockey_stick(&added, &without, sigma, epsilon).max(hockey_stick(&without, &added, sigma, epsilon));
    assert!(found > certified(&settings, epsilon).1 + GRID_ERROR, "{found}");
    assert!(found <= certified(&with_limit, epsilon).1 + GRID_ERROR, "{found}");
}

/// Where a batch has a largest size, a record that is kept displaces another. The others pull to either side, or to none.
#[test]
fn a_largest_batch_costs_no_more_than_is_certified() {
    let (rate, most) = (0.4, 3);
    for relation in ["add-remove", "replace", "patch"] {
        let mut settings: Vec<(&str, String)> = vec![
            ("relation", relation.to_owned()),
            ("records", "5".to_owned()),
            ("batch", "2".to_owned()),
            ("noise-multiplier", "1".to_owned()),
        ];
        if relation == "patch" {
            settings.extend(
                [("image", "4x4"), ("crop", "2x2"), ("patch", "1x1")].map(|(k, v)| (k, v.to_owned())),
            );
        }
        let seen = {
            let mut spec = spec_of(&settings);
            spec.set("steps", "1").unwrap();
            spec.set("delta", "1e-5").unwrap();
            Plan::check(&spec).unwrap().inclusion_probability()
        };
        let with_limit = [settings.clone(), vec![("sampling.max_batch", most.to_string())]].concat();
        for epsilon in [0.1, 1.0] {
            let (upper, unlimited) = (certified(&with_limit, epsilon).1, certified(&settings, epsilon).1);
            assert!(unlimited < upper);
            let mut largest = 0.0f64;
            for pattern in 0..81i32 {
                let pull = |place: u32| f64::from(pattern / 3i32.pow(place) % 3 - 1);
                let others: Vec<Vec<(f64, f64)>> = (0..4).map(|place| vec![(1.0, pull(place))]).collect();
                let step = |own: Vec<(f64, f64)>| limited(&[others.clone(), vec![own]].concat(), rate, most);
                let (one, other) = match relation {
                    "add-remove" => (step(vec![(1.0, 1.0)]), limited(&others, rate, most)),
                    "replace" => (step(vec![(1.0, 1.0)]), step(vec![(1.0, -1.0)])),
                    _ => (
                        step(vec![(seen, 1.0), (1.0 - seen, -1.0)]),
                        step(vec![(seen, -1.0), (1.0 - seen, -1.0)]),
                    ),
                };
                for (p, q) in [(&one, &other), (&other, &one)] {
                    let found = hockey_stick(p, q, 1.0, epsilon);
                    assert!(found <= upper + GRID_ERROR, "{relation} {epsilon} {pattern}: {found} {upper}");
                    largest = largest.max(found);
                }
            }
            // A record is kept about nineteen times out of twenty if it is drawn, so a step cannot cost much less than without a limit.
            assert!(largest > 0.8 * unlimited, "{relation} {epsilon}: {largest} {unlimited}");
        }
    }
}
