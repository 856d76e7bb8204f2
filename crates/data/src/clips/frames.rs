//! Which frames of a clip are shown.

/// The frames that stand for a clip of `total` frames: the middle ones of `wanted` pieces of equal length, frame `i` being
/// `floor((2 i + 1) total / (2 wanted))`. Of a shorter clip some are shown several times. Nothing is drawn at random, and only the length
/// of the clip counts.
pub fn evenly_spaced(total: usize, wanted: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
    let (total, wanted) = (total as u128, wanted as u128);
    (0..wanted as usize).map(move |index| ((2 * index as u128 + 1) * total / (2 * wanted)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_evenly_spaced() {
        let of = |total, wanted| evenly_spaced(total, wanted).collect::<Vec<_>>();
        assert_eq!(of(4, 4), [0, 1, 2, 3]);
        assert_eq!(of(10, 2), [2, 7]);
        assert_eq!(of(300, 3), [50, 150, 250]);
        assert_eq!(of(2, 5), [0, 0, 1, 1, 1]);
        assert_eq!(of(7, 1), [3]);
        for (total, wanted) in [(1, 1), (1, 9), (97, 16), (16, 97), (usize::MAX, 3)] {
            let frames = of(total, wanted);
            assert!(
                frames.len() == wanted && frames.iter().all(|frame| *frame < total) && frames.is_sorted()
            );
        }
    }
}
