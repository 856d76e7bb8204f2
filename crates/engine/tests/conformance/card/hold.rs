//! Which laws a card is held to, and with which options.

use dapple_engine::cuda::{Convolutions, CudaOptions, Precision};

use super::{alone, models, precision, rounding, sums};
use crate::subject::Subject;
use crate::{
    bounds, company, dropout, generated, goldens, not_finite, operations, submodels, torchvision,
    transformers, unit_masks, update,
};

/// A card with this way to compute convolutions and this many samples at once, which zero leaves to the executor.
const fn way(convolutions: Convolutions, microbatch: usize, precision: Precision) -> Subject {
    Subject::Cuda(CudaOptions { device: 0, microbatch, batch: 0, convolutions, precision, measure: false })
}

const OWN: Subject = way(Convolutions::Own, 0, Precision::F32);
const CUDNN: Subject = way(Convolutions::Cudnn, 0, Precision::F32);
const PRODUCTS: Subject = way(Convolutions::Products, 0, Precision::F32);
const FASTEST: [Subject; 1] = [way(Convolutions::Fastest, 0, Precision::F32)];
/// Cards whose microbatches are full, filled up, or as large as a batch.
const SMALL: [Subject; 3] =
    [way(Convolutions::Own, 2, Precision::F32), CUDNN, way(Convolutions::Products, 3, Precision::F32)];
const WAYS: [Subject; 3] = [OWN, CUDNN, PRODUCTS];
const ALL: [Subject; 4] = [OWN, CUDNN, PRODUCTS, FASTEST[0]];

/// Our own kernels, in microbatches that hold a batch and in ones that are filled up, and whatever was measured to be fastest.
const fn companies(precision: Precision) -> [Subject; 3] {
    [
        way(Convolutions::Own, 0, precision),
        way(Convolutions::Own, 3, precision),
        way(Convolutions::Fastest, 3, precision),
    ]
}

/// Our own kernels, in microbatches that fill 32 bits and in smaller ones.
const fn many(precision: Precision) -> [Subject; 2] {
    [way(Convolutions::Own, 0, precision), way(Convolutions::Own, 700, precision)]
}

/// Makes a test of each law, on a card.
macro_rules! hold {
    ($name:ident { $($place:ident: $($law:ident)+ ($subjects:expr);)+ }) => {
        mod $name {
            use super::*;
            $($(
                #[test]
                #[ignore = "needs an NVIDIA GPU"]
                fn $law() {
                    let _card = alone();
                    $place::$law(&$subjects);
                }
            )+)+
        }
    };
}

hold! { f32 {
    goldens: gradients_equal_autograd (WAYS);
    torchvision: resnets_equal_torchvision the_other_models_equal_pytorch
        mobilenets_equal_torchvision deeplabs_equal_pytorch psp_nets_equal_pytorch (FASTEST);
    transformers: small_transformers_equal_their_libraries transformers_equal_their_libraries
        large_transformers_equal_their_libraries (FASTEST);
    operations: clipped_sums_agree_for_every_operation forward_passes_agree (SMALL);
    operations: layer_scales_agree groups_of_parameters_are_clipped_apart vast_layers_agree activations_of_maxima_agree
        filtered_convolutions_agree deferred_standardised_layers_agree_over_views probabilities_agree
        frozen_parameters_leave_the_rest_unchanged parts_of_pooled_tokens_train_alone an_empty_batch_adds_nothing (WAYS);
    generated: clips depthwise_convolutions pooling upsampling group_and_batch_norms channel_scales layer_norms_and_activations
        norms_over_axes attention attention_in_tiles pooled_attention matrix_products moves losses convolutions odd_convolutions
        transposed_convolutions wide_transposed_convolutions
        wide_convolutions_over_few_positions
        convolutions_by_minimal_filtering linear_layers_over_tokens (WAYS);
    sums: long_sums_agree (WAYS);
    models: smoothed_models_agree (ALL);
    models: models_with_kinks_are_no_farther_than_moved_weights (FASTEST);
    bounds: views_that_cancel_stay_within_the_bound stripes_and_white_images_stay_within_the_bound
        no_sample_adds_more_than_the_bound a_long_gradient_is_clipped_to_the_bound samples_within_the_bound_are_counted
        (FASTEST);
    rounding: sums_of_deferred_layers_are_as_exact_as_assumed (FASTEST);
    company: a_sample_adds_the_same_bits_in_any_company a_sample_says_the_same_in_any_company (companies(Precision::F32));
    company: many_samples_add_up_to_what_each_adds samples_of_one_mind_do_not_overflow (many(Precision::F32));
    not_finite: pixels_that_are_no_numbers_are_not_swallowed samples_that_are_not_finite_add_nothing
        gradients_that_overflow_add_nothing ([OWN]);
    submodels: submodels_equal_graphs_of_their_own submodels_share_one_sum (WAYS);
    submodels: submodels_of_models_agree (FASTEST);
    dropout: dropout_agrees dropout_follows_the_record (SMALL);
    unit_masks: masks_agree dropped_nodes_get_exactly_nothing (SMALL);
    unit_masks: masks_of_a_sample_are_its_own (companies(Precision::F32));
    update: rules_follow_their_formulas (FASTEST);
} }

/// Makes the tests of a precision that rounds the factors of products.
macro_rules! reduced {
    ($name:ident $precision:expr) => {
        hold! { $name {
            bounds: views_that_cancel_stay_within_the_bound stripes_and_white_images_stay_within_the_bound
                no_sample_adds_more_than_the_bound a_long_gradient_is_clipped_to_the_bound
                ([way(Convolutions::Fastest, 0, $precision)]);
            rounding: sums_of_deferred_layers_are_as_exact_as_assumed
                ([way(Convolutions::Fastest, 0, $precision)]);
            precision: gradients_are_as_near_as_a_random_walk ([way(Convolutions::Fastest, 0, $precision)]);
            company: a_sample_adds_the_same_bits_in_any_company a_sample_says_the_same_in_any_company (companies($precision));
            company: many_samples_add_up_to_what_each_adds (many($precision));
            not_finite: pixels_that_are_no_numbers_are_not_swallowed samples_that_are_not_finite_add_nothing
                ([way(Convolutions::Own, 0, $precision)]);
        } }
    };
}

reduced! { tf32 Precision::Tf32 }
reduced! { bf16 Precision::Bf16 }
