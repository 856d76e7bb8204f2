//! Compares random graphs with the double-precision reference.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::agreement::agree;
use crate::common::parameters;
use crate::generators::{self, Case};
use crate::subject::Subject;

/// Random cases from a fixed seed. If rounding puts a value on the other side of an activation's kink, or makes it tie with another for a
/// maximum, the gradient differs between precisions, so new cases would fail now and then without anything being wrong. `more` draws other
/// cases.
pub(crate) fn cases(cases: u32, more: u64) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    let seed = match config.rng_seed {
        RngSeed::Random => 1,
        RngSeed::Fixed(seed) => seed,
    };
    ProptestConfig { rng_seed: RngSeed::Fixed(seed + more), ..config }
}

/// Checks that all subjects agree with the reference on this many cases.
fn hold(subjects: &[Subject], strategy: impl Strategy<Value = Case>, count: u32) {
    let result = TestRunner::new(cases(count, 0)).run(&strategy, |case| {
        let Case { graph, options, .. } = &case;
        let (batch, values) = (case.batch(), parameters(graph));
        let mut reference = Subject::Reference.open(graph);
        let rule = reference.rule(&dapple_engine::Clipping::Flat { max_norm: 0.5 });
        let want = reference.step(&values, &batch, &rule);
        for subject in subjects {
            let subject = subject.with(*options).planned_for(want.stats.losses.len());
            let got = subject.open(graph).step(&values, &batch, &rule);
            agree(&format!("{subject:?}"), subject, &got, &want, &rule);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Makes a law of each generator, with this many cases on the processor, and this many on a card, where every case makes new executors.
macro_rules! laws {
    ($($generator:ident $on_processor:literal $on_card:literal;)+) => {$(
        pub(crate) fn $generator(subjects: &[Subject]) {
            let on_card = subjects.iter().any(|subject| subject.on_card());
            hold(subjects, generators::$generator(), if on_card { $on_card } else { $on_processor });
        }
    )+};
}

laws! {
    clips 32 8;
    depthwise_convolutions 32 8;
    pooling 32 8;
    upsampling 32 8;
    group_and_batch_norms 32 8;
    channel_scales 32 8;
    layer_norms_and_activations 32 8;
    norms_over_axes 32 16;
    attention 32 8;
    attention_in_tiles 8 40;
    pooled_attention 48 12;
    pooled_attention_to_some_keys 48 12;
    matrix_products 32 8;
    moves 32 8;
    losses 32 16;
    convolutions 48 24;
    odd_convolutions 16 120;
    transposed_convolutions 48 24;
    wide_transposed_convolutions 24 12;
    wide_convolutions_over_few_positions 48 12;
    convolutions_by_minimal_filtering 48 12;
    linear_layers_over_tokens 48 12;
}
