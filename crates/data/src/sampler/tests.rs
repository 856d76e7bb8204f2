//! Tests that records take part in steps as the accountant is told. The error rate of every test is [`ALPHA`].

use std::collections::{BTreeMap, BTreeSet};

use dapple_plan::PlanSpec;

use super::*;
use crate::keys::MasterKey;
use crate::statistics::{ALPHA, binomial_accepts, chi_square_accepts};

fn plan(sampling: &str) -> Plan {
    let text = format!("[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\nrelation = \"replace\"\n{sampling}");
    Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap()
}

fn balanced_plan(sampling: &str) -> Plan {
    let text = format!(
        "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nscheme = \"balanced\"\n{sampling}"
    );
    Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap()
}

fn sampler(plan: &Plan, seed: u64) -> Sampler {
    let key = SamplerKeys::of(&MasterKey::from_seed(seed));
    Sampler::new(plan, plan.records() as usize, key).unwrap()
}

/// Probability of each count of successes.
fn binomial_law(trials: u64, probability: f64) -> Vec<f64> {
    let mut law = vec![1.0];
    for _ in 0..trials {
        let mut next = vec![0.0; law.len() + 1];
        for (count, mass) in law.iter().enumerate() {
            next[count] += mass * (1.0 - probability);
            next[count + 1] += mass * probability;
        }
        law = next;
    }
    law
}

/// Merges neighbouring cells until each is expected at least ten times.
fn merged(counts: &[u64], expected: &[f64]) -> (Vec<u64>, Vec<f64>) {
    let (mut cells, mut open) = ((Vec::new(), Vec::new()), (0, 0.0));
    for (&count, &expected) in counts.iter().zip(expected) {
        open = (open.0 + count, open.1 + expected);
        if open.1 >= 10.0 {
            cells.0.push(open.0);
            cells.1.push(open.1);
            open = (0, 0.0);
        }
    }
    if let (Some(count), Some(expected)) = (cells.0.last_mut(), cells.1.last_mut()) {
        *count += open.0;
        *expected += open.1;
    }
    cells
}

#[test]
fn poisson_coins_are_those_of_the_event() {
    let plan = plan("[sampling]\nbatch = 30\nrecords = 90\nsteps = 20000");
    let mut sampler = sampler(&plan, 1);
    let event = sampler.event(0).unwrap();
    let rate = event.batch as f64 / event.records as f64;
    assert_eq!((event.scheme.name(), rate), ("poisson", plan.sample_rate()));
    let steps = plan.steps();
    let mut joined = vec![0; 90];
    let mut sizes = vec![0; 91];
    let mut pairs = [0; 4];
    let mut successive = [0; 4];
    let mut before = false;
    for step in 0..steps {
        let draw = sampler.draw(step).unwrap();
        assert!(draw.indices.windows(2).all(|pair| pair[0] < pair[1]));
        draw.indices.iter().for_each(|&record| joined[record] += 1);
        sizes[draw.indices.len()] += 1;
        let member = |record| draw.indices.contains(&record);
        pairs[usize::from(member(7)) * 2 + usize::from(member(8))] += 1;
        successive[usize::from(before) * 2 + usize::from(member(7))] += 1;
        before = member(7);
    }
    // Checked for each record by itself, for all records together, for two records, and for one record in successive steps.
    assert!(joined.iter().all(|&count| binomial_accepts(count, steps, rate, ALPHA / 90.0)), "{joined:?}");
    let expected: Vec<f64> = binomial_law(90, rate).iter().map(|mass| mass * steps as f64).collect();
    let (sizes, expected) = merged(&sizes, &expected);
    assert!(chi_square_accepts(&sizes, &expected, ALPHA), "{sizes:?}");
    let cell = |a: f64, b: f64| a * b * steps as f64;
    let expected =
        [cell(1.0 - rate, 1.0 - rate), cell(1.0 - rate, rate), cell(rate, 1.0 - rate), cell(rate, rate)];
    assert!(chi_square_accepts(&pairs, &expected, ALPHA), "{pairs:?}");
    assert!(chi_square_accepts(&successive, &expected, ALPHA), "{successive:?}");
}

/// Below 2^-16 the first digit of the rate is zero, so heads are decided by the digits behind it.
#[test]
fn tiny_rates_are_exact_too() {
    let plan = plan("[sampling]\nbatch = 1\nrecords = 200000\nsteps = 400");
    let mut sampler = sampler(&plan, 2);
    let joined: u64 = (0..400).map(|step| sampler.draw(step).unwrap().indices.len() as u64).sum();
    assert!(binomial_accepts(joined, 400 * 200_000, 1.0 / 200_000.0, ALPHA), "{joined}");
    // About e^-1 of the steps see nothing at all.
    let empty = (0..400).filter(|&step| sampler.draw(step).unwrap().indices.is_empty()).count();
    assert!(binomial_accepts(empty as u64, 400, (-1.0f64).exp(), ALPHA), "{empty}");
}

/// Where noise cancels across steps: groups are uniform and independent, each step draws from the next one, and a record's coins are those of the
/// event.
#[test]
fn steps_draw_from_one_group_after_the_other() {
    let plan = plan("[sampling]\nbatch = 10\nrecords = 900\nsteps = 3001\n[noise]\nbands = 3");
    let mut sampler = sampler(&plan, 5);
    let event = sampler.event(0).unwrap();
    assert_eq!((event.groups, event.sampling()), (3, Sampling::Poisson));
    let groups: Vec<u64> = (0..900).map(|record| sampler.group(record).unwrap()).collect();
    // Pairs of neighbours, so that dependence would show, too.
    let mut pairs = [0; 9];
    groups.chunks(2).for_each(|pair| pairs[(pair[0] * 3 + pair[1]) as usize] += 1);
    assert!(chi_square_accepts(&pairs, &[50.0; 9], ALPHA), "{pairs:?}");
    let (mut joined, mut successive, mut before) = (vec![0; 900], [0; 4], [false; 3]);
    for step in 0..plan.steps() {
        let group = step % 3;
        let draw = sampler.draw(step).unwrap();
        assert!(draw.indices.iter().all(|&record| groups[record] == group));
        draw.indices.iter().for_each(|&record| joined[record] += 1);
        // The first record of the group, in this draw and in the one before.
        let first = groups.iter().position(|&own| own == group).unwrap();
        let drawn = draw.indices.contains(&first);
        let before = std::mem::replace(&mut before[group as usize], drawn);
        successive[usize::from(before) * 2 + usize::from(drawn)] += u64::from(step > 2);
    }
    let rate = 30.0 / 900.0;
    assert_eq!(plan.rate_in_group(), rate);
    for (record, &count) in joined.iter().enumerate() {
        // The first group has a draw more than the others.
        let draws = 1000 + u64::from(groups[record] == 0);
        assert!(binomial_accepts(count, draws, rate, ALPHA / 900.0), "{record}: {count}");
    }
    let all: u64 = joined.iter().sum();
    let draws: u64 = groups.iter().map(|&group| 1000 + u64::from(group == 0)).sum();
    assert!(binomial_accepts(all, draws, rate, ALPHA), "{all} of {draws}");
    let cell = |a: f64, b: f64| a * b * 2998.0;
    let (no, yes) = (1.0 - rate, rate);
    let expected = [cell(no, no), cell(no, yes), cell(yes, no), cell(yes, yes)];
    let (successive, expected) = merged(&successive, &expected);
    assert!(chi_square_accepts(&successive, &expected, ALPHA), "{successive:?}");
}

/// A batch has no more records than its limit. Those below it are as without one, and of larger ones each subset is as likely.
#[test]
fn larger_batches_are_cut_to_uniform_subsets() {
    let text = "[sampling]\nbatch = 3\nrecords = 6\nsteps = 40000";
    let (whole, limited) = (plan(text), plan(&format!("{text}\nmax_batch = 4")));
    let (mut whole, mut limited) = (sampler(&whole, 6), sampler(&limited, 6));
    assert_eq!((whole.event(0).unwrap().max_batch, limited.event(0).unwrap().max_batch), (0, 4));
    let (mut of_all, mut others) = (BTreeMap::new(), 0);
    for step in 0..40_000 {
        let (all, kept) = (whole.draw(step).unwrap().indices, limited.draw(step).unwrap().indices);
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]) && kept.iter().all(|one| all.contains(one)));
        match all.len() {
            0..=4 => assert_eq!(all, kept),
            5 => others += u64::from(kept.contains(&all[0])),
            _ => *of_all.entry(kept).or_insert(0u64) += 1,
        }
    }
    // All six are drawn once in 64 steps, and there are fifteen subsets of four.
    let counts: Vec<u64> = of_all.into_values().collect();
    let expected = counts.iter().sum::<u64>() as f64 / 15.0;
    assert!(expected > 30.0 && chi_square_accepts(&counts, &[expected; 15], ALPHA), "{counts:?}");
    // Five are drawn in six of 64, and the first of them is kept four times out of five.
    assert!(binomial_accepts(others, 40_000, 6.0 / 64.0 * 0.8, ALPHA), "{others}");
}

/// Groups belong to the run and not to the process: other coins leave them alone, and another key of groups deals anew.
#[test]
fn groups_have_a_key_of_their_own() {
    let plan = plan("[sampling]\nbatch = 10\nrecords = 100\nsteps = 40\n[noise]\nbands = 10");
    let keys = |draws, groups| SamplerKeys {
        draws: SamplerKeys::of(&MasterKey::from_seed(draws)).draws,
        groups: SamplerKeys::of(&MasterKey::from_seed(groups)).groups,
    };
    let sampler = |draws, groups| Sampler::new(&plan, 100, keys(draws, groups)).unwrap();
    let groups = |sampler: &Sampler| (0..100).map(|record| sampler.group(record)).collect::<Vec<_>>();
    let (mut one, mut resumed, other) = (sampler(1, 1), sampler(2, 1), sampler(1, 2));
    assert_eq!(groups(&one), groups(&resumed));
    assert_ne!(groups(&one), groups(&other));
    // At ten times the rate of one in ten every record of a group is drawn.
    for step in 0..40 {
        let all: Vec<usize> = (0..100).filter(|&record| one.group(record) == Some(step % 10)).collect();
        assert_eq!(one.draw(step).unwrap().indices, all);
        assert_eq!(resumed.draw(step).unwrap().indices, all);
    }
}

#[test]
fn subsets_of_fixed_size_are_uniform() {
    let plan = plan("[sampling]\nscheme = \"without-replacement\"\nbatch = 2\nrecords = 5\nsteps = 30000");
    let mut sampler = sampler(&plan, 3);
    assert_eq!(sampler.event(0).unwrap().sampling(), Sampling::WithoutReplacement);
    let mut counts = BTreeMap::new();
    for step in 0..plan.steps() {
        let draw = sampler.draw(step).unwrap();
        assert_eq!(draw.indices.len(), 2);
        *counts.entry(draw.indices).or_insert(0) += 1;
    }
    let counts: Vec<u64> = counts.into_values().collect();
    assert!(chi_square_accepts(&counts, &[3000.0; 10], ALPHA), "{counts:?}");
}

#[test]
fn each_record_joins_its_share_of_each_epoch() {
    let plan = balanced_plan("records = 50\nper_record = 2\nsteps = 20\nepochs = 4");
    let mut sampler = sampler(&plan, 4);
    let event = sampler.event(19).unwrap();
    assert_eq!((event.per_record, event.epoch_steps), (2, 5));
    for epoch in 0..4 {
        let mut joined = vec![0; 50];
        for step in 0..5 {
            let draw = sampler.draw(epoch * 5 + step).unwrap();
            assert!(draw.indices.windows(2).all(|pair| pair[0] < pair[1]));
            draw.indices.iter().for_each(|&record| joined[record] += 1);
        }
        assert_eq!(joined, vec![2; 50]);
    }
}

#[test]
fn records_are_allocated_uniformly_and_independently() {
    // 2 of 4 steps: 6 subsets for each of two records, in 20000 epochs.
    let plan = balanced_plan("records = 2\nper_record = 2\nsteps = 80000\nepochs = 20000");
    let mut sampler = sampler(&plan, 5);
    let mut counts = BTreeMap::new();
    for epoch in 0..20_000 {
        let mut subsets = [BTreeSet::new(), BTreeSet::new()];
        for step in 0..4 {
            for record in sampler.draw(epoch * 4 + step).unwrap().indices {
                subsets[record].insert(step);
            }
        }
        *counts.entry(subsets).or_insert(0) += 1;
    }
    let counts: Vec<u64> = counts.into_values().collect();
    assert!(chi_square_accepts(&counts, &[20_000.0 / 36.0; 36], ALPHA), "{counts:?}");
}

#[test]
fn a_draw_is_a_function_of_key_and_step() {
    for plan in [
        plan("[sampling]\nbatch = 7\nrecords = 40\nsteps = 12"),
        plan("[sampling]\nscheme = \"without-replacement\"\nbatch = 7\nrecords = 40\nsteps = 12"),
        balanced_plan("records = 40\nper_record = 3\nsteps = 12\nepochs = 2"),
    ] {
        let mut forwards = sampler(&plan, 6);
        let drawn: Vec<Draw> = (0..12).map(|step| forwards.draw(step).unwrap()).collect();
        for step in (0..12).rev() {
            // A sampler made anew, as after a crash.
            assert_eq!(sampler(&plan, 6).draw(step).unwrap(), drawn[step as usize]);
            assert_eq!(forwards.draw(step).unwrap(), drawn[step as usize]);
        }
        assert_ne!(sampler(&plan, 7).draw(3).unwrap().indices, drawn[3].indices);
        assert!(matches!(forwards.draw(12), Err(DataError::Step { step: 12, steps: 12 })));
    }
}

#[test]
fn phases_have_their_own_events() {
    let plan = plan(
        "[sampling]\nbatch = 10\nrecords = 100\n\
         [[phases]]\nsteps = 3\n[[phases]]\nsteps = 5\nbatch = 50\nnoise_multiplier = 2.0\n[[phases]]\nsteps = 2",
    );
    let mut sampler = sampler(&plan, 8);
    assert_eq!(sampler.steps(), 10);
    for step in 0..10 {
        let phase = usize::from(step >= 3) + usize::from(step >= 8);
        assert_eq!(sampler.draw(step).unwrap().phase, phase);
        let event = sampler.event(step).unwrap();
        let expected = if phase == 1 { (50, 2.0) } else { (10, 1.0) };
        assert_eq!((event.batch, event.noise_multiplier), expected);
        assert_eq!(event, SamplingEvent::of(&plan.phases()[phase]));
    }
}

#[test]
fn a_plan_for_other_data_is_refused() {
    let plan = plan("[sampling]\nbatch = 7\nrecords = 40\nsteps = 12");
    let key = SamplerKeys::of(&MasterKey::from_seed(1));
    let error = Sampler::new(&plan, 41, key).unwrap_err();
    assert!(matches!(error, DataError::Records { plan: 40, data: 41 }) && error.hint().is_some());
}

#[test]
fn events_are_written_and_read() {
    let event = SamplingEvent::of(&plan("[sampling]\nbatch = 7\nrecords = 40\nsteps = 12"));
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<SamplingEvent>(&text).unwrap(), event);
    assert!(!text.contains("per_record"), "{text}");
    let event = SamplingEvent::of(&balanced_plan("records = 40\nper_record = 3\nsteps = 12"));
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<SamplingEvent>(&text).unwrap(), event);
}
