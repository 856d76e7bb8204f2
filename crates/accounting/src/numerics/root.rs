//! Root finders that keep a bracket, so that the caller can take the safe end.

/// Shrinks `[low, high]` with `condition(low) = false`, `condition(high) = true` (a monotone condition) until the
/// two ends differ by at most `relative` of their size; returns both ends.
pub(crate) fn bisect_condition(
    mut low: f64,
    mut high: f64,
    relative: f64,
    mut condition: impl FnMut(f64) -> bool,
) -> (f64, f64) {
    while high - low > relative * high.abs().max(low.abs()) {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if condition(middle) { high = middle } else { low = middle }
    }
    (low, high)
}

/// The minimiser of a unimodal function on `[low, high]` by golden-section search.
pub(crate) fn minimise(mut low: f64, mut high: f64, tolerance: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let mut left = high - GOLDEN * (high - low);
    let mut right = low + GOLDEN * (high - low);
    let (mut f_left, mut f_right) = (f(left), f(right));
    while high - low > tolerance {
        if f_left <= f_right {
            (high, right, f_right) = (right, left, f_left);
            left = high - GOLDEN * (high - low);
            f_left = f(left);
        } else {
            (low, left, f_left) = (left, right, f_right);
            right = low + GOLDEN * (high - low);
            f_right = f(right);
        }
    }
    0.5 * (low + high)
}
