//! One suite for every executor: each law is written once, and the double-precision reference, the processor and a card must obey it.
//!
//! Tests that need a card are ignored. `cargo test --release --features cuda -p dapple-engine --test conformance -- --ignored` runs them on
//! one, one test at a time, because executors choose by the memory that is free.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod adapters;
mod agreement;
mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod company;
mod differences;
mod dropout;
mod generated;
mod generators;
mod goldens;
mod graphs;
mod not_finite;
mod operations;
mod processor;
mod subject;
mod submodels;
mod subsets;
mod torchvision;
mod transformers;
mod unit_masks;
mod update;

/// Tests of what only cards have, or of what would take too long elsewhere.
#[cfg(feature = "cuda")]
mod card;

use dapple_engine::CpuOptions;
use subject::Subject;

/// Makes a test of each law for these subjects, in a module of this name.
macro_rules! hold {
    ($name:ident = $subjects:expr; $($place:ident: $($law:ident)+;)+) => {
        mod $name {
            use super::*;
            $($(
                #[test]
                fn $law() {
                    crate::$place::$law(&$subjects);
                }
            )+)+
        }
    };
}

const CPU: [Subject; 1] = [Subject::threads(2)];
/// A processor that computes activations twice rather than keeping them.
const CHECKPOINTS: [Subject; 1] =
    [Subject::Cpu(CpuOptions { threads: 2, group: 2, memory: 0, checkpoints: true })];

hold! { reference = [Subject::Reference];
    goldens: gradients_equal_autograd gradients_of_whole_models_equal_autograd;
    transformers: small_transformers_equal_their_libraries;
    operations: an_empty_batch_adds_nothing;
    subsets: a_subset_is_as_if_alone other_tokens_change_no_bit other_cells_change_no_bit;
    bounds: views_that_cancel_stay_within_the_bound samples_within_the_bound_are_counted;
    not_finite: pixels_that_are_no_numbers_are_not_swallowed;
}

hold! { cpu = CPU;
    goldens: gradients_equal_autograd gradients_of_whole_models_equal_autograd;
    torchvision: resnets_equal_torchvision vggs_equal_torchvision the_other_models_equal_pytorch
        mobilenets_equal_torchvision deeplabs_equal_pytorch psp_nets_equal_pytorch;
    transformers: small_transformers_equal_their_libraries transformers_equal_their_libraries
        large_transformers_equal_their_libraries_at_one_size;
    operations: clipped_sums_agree_for_every_operation forward_passes_agree groups_of_parameters_are_clipped_apart
        layer_scales_agree vast_layers_agree activations_of_maxima_agree filtered_convolutions_agree
        deferred_standardised_layers_agree_over_views probabilities_agree frozen_parameters_leave_the_rest_unchanged
        parts_of_pooled_tokens_train_alone an_empty_batch_adds_nothing;
    generated: clips depthwise_convolutions pooling upsampling group_and_batch_norms channel_scales layer_norms_and_activations
        norms_over_axes attention attention_in_tiles pooled_attention pooled_attention_to_some_keys matrix_products moves
        losses convolutions odd_convolutions
        transposed_convolutions wide_transposed_convolutions
        wide_convolutions_over_few_positions
        convolutions_by_minimal_filtering linear_layers_over_tokens;
    bounds: views_that_cancel_stay_within_the_bound stripes_and_white_images_stay_within_the_bound
        no_sample_adds_more_than_the_bound a_long_gradient_is_clipped_to_the_bound samples_within_the_bound_are_counted;
    company: a_sample_adds_the_same_bits_in_any_company a_sample_says_the_same_in_any_company samples_of_one_mind_do_not_overflow;
    not_finite: pixels_that_are_no_numbers_are_not_swallowed samples_that_are_not_finite_add_nothing
        gradients_that_overflow_add_nothing;
    unit_masks: masks_agree masks_of_a_sample_are_its_own dropped_nodes_get_exactly_nothing;
    subsets: all_tokens_are_the_whole_model a_subset_is_as_if_alone other_tokens_change_no_bit
        all_patches_and_cells_are_the_whole_model some_patches_and_cells_agree other_cells_change_no_bit;
    dropout: dropout_agrees dropout_follows_the_record;
    submodels: submodels_equal_graphs_of_their_own submodels_of_models_agree submodels_share_one_sum;
    update: rules_follow_their_formulas;
}

hold! { cpu_with_checkpoints = CHECKPOINTS;
    goldens: gradients_of_whole_models_equal_autograd;
    operations: sums_of_two_views_agree;
    unit_masks: masks_of_a_sample_are_its_own dropped_nodes_get_exactly_nothing;
    submodels: submodels_of_models_agree;
}

hold! { cpu_on_one_thread_and_on_two =
    [Subject::threads(1), Subject::Cpu(CpuOptions { threads: 2, group: 700, memory: 0, checkpoints: false })];
    company: many_samples_add_up_to_what_each_adds;
}
