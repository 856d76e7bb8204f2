//! No text and no value makes a plan panic, and every refusal is one line with a hint.

use dapple_plan::spec::{PhaseSpec, PlanSpec, keys};
use dapple_plan::{Plan, PlanError, Spatial};
use proptest::prelude::*;

fn one_line_with_hint(error: &PlanError) {
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.is_empty(), "{message:?}");
    let hint = error.hint();
    assert!(hint.as_ref().is_some_and(|hint| !hint.contains('\n')), "{message}: {hint:?}");
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "0",
            "1",
            "2",
            "-1",
            "10",
            "100",
            "1000",
            "4294967295",
            "4294967296",
            "18446744073709551615",
            "1e308",
            "nan",
            "inf",
            "-inf",
            "0.0",
            "1e-5",
            "1/n",
            "0.5",
            "1e-320",
            "10x10",
            "0x5",
            "x",
            "1x",
            "0.1:0.9",
            "1:0",
            "nan:1",
            "[1, 2]",
            "[1, 2, 3]",
            "[[2, 0.5], [4, 0.5]]",
            "[]",
            "[\"jpeg\"]",
            "[\"equalize\"]",
            "true",
            "patch",
            "replace",
            "poisson",
            "without-replacement",
            "balanced",
            "masked",
            "user",
            "rdp",
            "reflect",
            "wrap",
            "annotated",
            "anywhere",
            "a.png",
            "decoupled",
            "coupled",
            "coupled-clipped",
            "{}",
            "'",
            "\"",
            "2020-01-01",
            "",
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_map(|value| format!("{value:?}")),
        any::<i64>().prop_map(|value| value.to_string()),
        ".{0,12}",
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => prop::sample::select(keys::KEYS).prop_map(|key| key.path.to_owned()),
        1 => "[a-z._-]{0,30}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        if let Err(error) = PlanSpec::from_toml(&text) {
            one_line_with_hint(&error);
        }
    }

    #[test]
    fn any_settings_are_taken_or_refused(settings in prop::collection::vec((any_key(), any_value()), 0..12)) {
        let mut spec = PlanSpec::default();
        for (key, value) in &settings {
            if let Err(error) = spec.set(key, value) {
                one_line_with_hint(&error);
            }
        }
        prop_assert_eq!(format!("{:?}", PlanSpec::from_toml(&spec.to_toml()).unwrap()), format!("{spec:?}"));
        prop_assert_eq!(format!("{:?}", PlanSpec::default().merge(&spec)), format!("{spec:?}"));
        // The numbers of a region may be huge. The geometry must refuse them and not allocate them.
        if let Err(error) = Spatial::check(&spec, &[]) {
            one_line_with_hint(&error);
        }
        for key in ["batch", "records", "steps", "noise-multiplier", "delta"] {
            if spec.to_toml().contains(key) { continue; }
            let example = if key == "delta" { "1e-5" } else { "10" };
            spec.set(key, example).unwrap();
        }
        if let Err(error) = Plan::check(&spec) {
            one_line_with_hint(&error);
        }
        let phase = PhaseSpec { steps: spec.sampling.steps, batch: spec.sampling.records, ..PhaseSpec::default() };
        spec.phases = vec![PhaseSpec::default(), phase];
        prop_assert_eq!(format!("{:?}", PlanSpec::from_toml(&spec.to_toml()).unwrap()), format!("{spec:?}"));
        if let Err(error) = Plan::check(&spec) {
            one_line_with_hint(&error);
        }
    }

    #[test]
    fn keys_in_files_are_the_keys_of_flags(key in prop::sample::select(keys::KEYS)) {
        let mut spec = PlanSpec::default();
        spec.set(key.path, key.example).unwrap();
        for word in key.choices {
            spec.set(key.path, word).unwrap();
        }
        prop_assert_ne!(&spec, &PlanSpec::default());
        let (section, name) = key.path.split_once('.').unwrap();
        let text = spec.to_toml();
        prop_assert!(text.contains(&format!("[{section}]")) && text.contains(&format!("{name} = ")), "{}", text);
    }
}
