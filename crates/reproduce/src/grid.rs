//! The places along an axis at which questions are asked.

/// `count` values whose ratios are equal, from the first to the last.
pub(crate) fn logarithmic((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let count = count.max(2);
    let ratio = (high / low).ln() / (count - 1) as f64;
    (0..count).map(|index| (low * (ratio * index as f64).exp()).min(high)).collect()
}

/// At most `count` of the values, evenly picked, both ends among them.
pub(crate) fn thinned<T: Clone>(values: &[T], count: Option<usize>) -> Vec<T> {
    match count {
        Some(count) if count < values.len() && count >= 2 => {
            let last = (values.len() - 1) as f64;
            let place = |index: usize| (index as f64 * last / (count - 1) as f64).round() as usize;
            (0..count).filter_map(|index| values.get(place(index)).cloned()).collect()
        }
        _ => values.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_keep_their_ends() {
        assert_eq!(thinned(&[1, 2, 3, 4, 5], Some(3)), [1, 3, 5]);
        assert_eq!(thinned(&[1, 2, 3], Some(9)), [1, 2, 3]);
        let epsilons = logarithmic((0.01, 100.0), 5);
        // Exponentials of rounded logarithms.
        assert!(epsilons.iter().zip([0.01, 0.1, 1.0, 10.0, 100.0]).all(|(a, b)| (a / b - 1.0).abs() < 1e-12));
    }
}
