//! Lemma 1 and Theorem 1 of the patch-level paper (P), one axis at a time.

/// Number of crop origins along one axis that see a patch (P Lemma 1).
///
/// `length` is W_I, `pad` pad_x, `crop` W_C, `patch` W_R and `position` R_x; the caller keeps the patch in the image and the
/// crop in the padded image.
pub(crate) fn axis_hits(length: u32, pad: u32, crop: u32, patch: u32, position: u32) -> u64 {
    let (length, pad, crop, patch) = (i64::from(length), i64::from(pad), i64::from(crop), i64::from(patch));
    // R'_x = R_x + pad_x
    let placed = i64::from(position) + pad;
    // X_min = max(0, R'_x - W_C + 1), X_max = min(W_I + 2 pad_x - W_C, R'_x + W_R - 1)
    let first = (placed - crop + 1).max(0);
    let last = (length + 2 * pad - crop).min(placed + patch - 1);
    (last - first + 1).max(0) as u64
}

/// The worst position along one axis: the centre (P Theorem 1).
pub(crate) fn worst_position(length: u32, patch: u32) -> u32 {
    (length - patch) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (length, pad, crop, patch, position) that fit together.
    fn setting() -> impl Strategy<Value = (u32, u32, u32, u32, u32)> {
        (1u32..40, 0u32..20).prop_flat_map(|(length, pad)| {
            let patch = (1..=length).prop_flat_map(move |patch| (Just(patch), 0..=length - patch));
            (Just(length), Just(pad), 1..=length + 2 * pad, patch)
                .prop_map(|(length, pad, crop, (patch, position))| (length, pad, crop, patch, position))
        })
    }

    proptest! {
        #[test]
        fn the_centre_is_the_worst((length, pad, crop, patch, _) in setting()) {
            let hits = |position| axis_hits(length, pad, crop, patch, position);
            let worst = (0..=length - patch).map(hits).max();
            prop_assert_eq!(worst, Some(hits(worst_position(length, patch))));
        }

        #[test]
        fn lemma_1_counts_origins((length, pad, crop, patch, at) in setting()) {
            let sees = |origin: &u32| {
                (pad + at..pad + at + patch).any(|pixel| (*origin..origin + crop).contains(&pixel))
            };
            let count = (0..=length + 2 * pad - crop).filter(sees).count() as u64;
            prop_assert_eq!(axis_hits(length, pad, crop, patch, at), count);
        }
    }
}
