//! Searches take a bounded number of prices and units of work. These are counted, not timed.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;

use dapple_accounting::{AccountingError, BracketPrecision};
use dapple_plan::{PlanError, PlanSpec, Trial, Unknown, calibrate_watched};

/// The last trial of a search that finds an answer.
fn last_trial(plan: &str, unknown: Unknown) -> Trial {
    let spec = PlanSpec::from_toml(plan).unwrap();
    let last = Cell::new(Trial { number: 0, epsilon: 0.0, share: 0.0 });
    let found = calibrate_watched(&spec, &[], unknown, BracketPrecision::default(), &|trial| last.set(trial))
        .unwrap();
    assert!(found.certificate.epsilon.upper <= spec.privacy.epsilon.unwrap());
    last.get()
}

/// These settings once took half a minute, six and five seconds: a search over the parts of an epoch, thousands of which have the same
/// batch; laws of many submodels; and many steps at a tiny rate.
#[test]
fn searches_that_took_long_take_few_prices() {
    let users = "[privacy]\nrelation = 'user'\ndelta = 1e-5\nepsilon = 6.21\nnoise_multiplier = 0.1187
        [sampling]\nscheme = 'poisson'\nrecords = 567124\nepochs = 61
        [partition]\nsubmodels = 47\nsplit_norm = 0.0965\nnonsplit_norm = 0.2995";
    let balanced = "[privacy]\ndelta = 1e-5\nepsilon = 400\nnoise_multiplier = 0.07
        [sampling]\nscheme = 'balanced'\nrecords = 5000\nepochs = 3
        [partition]\nsubmodels = 1576";
    let fixed_size =
        "[privacy]\nrelation = 'replace'\ndelta = 1e-5\nepsilon = 0.1323\nnoise_multiplier = 0.49
        [sampling]\nscheme = 'without-replacement'\nrecords = 1386330\nepochs = 2
        [partition]\nsubmodels = 167\nsplit_norm = 0.3587\nnonsplit_norm = 0.1";
    for (plan, most) in [(users, 20), (balanced, 12), (fixed_size, 30)] {
        let last = last_trial(plan, Unknown::Batch);
        assert!(last.number <= most && last.share <= 1.0, "{last:?} {plan}");
    }
}

/// Each candidate needs sixteen laws of about a million places each.
#[test]
fn a_search_beyond_its_work_is_refused_with_a_way_out() {
    let shares: Vec<String> = (0..16).map(|i| format!("[{}, 0.0625]", 1_048_576 - i)).collect();
    let plan = format!(
        "[privacy]\ndelta = 1e-5\nepsilon = 20
        [sampling]\nrecords = 1000\nbatch = 100\nepochs = 1
        [partition]\nmixture = [{}]",
        shares.join(", ")
    );
    let spec = PlanSpec::from_toml(&plan).unwrap();
    let prices = Cell::new(0);
    let precision = BracketPrecision::default();
    let error = calibrate_watched(&spec, &[], Unknown::NoiseMultiplier, precision, &|trial| {
        assert!(trial.share <= 1.0, "{trial:?}");
        prices.set(trial.number);
    })
    .unwrap_err();
    let refused = matches!(error, PlanError::Accounting { source: AccountingError::TooMuchWork { .. }, .. });
    assert!(refused && prices.get() <= 20, "{error} after {} prices", prices.get());
    assert!(error.hint().unwrap().contains("--precision"), "{error}");
}
