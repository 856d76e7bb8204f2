//! Resampling the position embeddings of a transformer that was trained on images of another size.

/// How far the cubic filter reaches, in positions of the coarser grid.
const REACH: f64 = 2.0;

/// Moves the embeddings of a grid's positions to another grid. Each row of `values` has `features` numbers; the first `before` rows belong
/// to no position and stay as they are. The interpolation is cubic, with a filter that widens if the new grid is coarser, which is how
/// timm resamples them.
pub(super) fn resample(
    values: &[f32],
    features: usize,
    before: usize,
    from: [usize; 2],
    to: [usize; 2],
) -> Vec<f32> {
    let (kept, grid) = values.split_at(before * features);
    let rows: Vec<Vec<(usize, f64)>> = filters(from[0], to[0]);
    let columns: Vec<Vec<(usize, f64)>> = filters(from[1], to[1]);
    let mut resampled = kept.to_vec();
    let mut sum = vec![0.0f64; features];
    for row in &rows {
        for column in &columns {
            sum.fill(0.0);
            for &(y, by_row) in row {
                for &(x, by_column) in column {
                    let source = &grid[(y * from[1] + x) * features..][..features];
                    for (sum, &value) in sum.iter_mut().zip(source) {
                        *sum += by_row * by_column * f64::from(value);
                    }
                }
            }
            resampled.extend(sum.iter().map(|&value| value as f32));
        }
    }
    resampled
}

/// The side of a square grid with this many positions, if there is one.
pub(super) fn square_side(positions: usize) -> Option<usize> {
    let side = positions.isqrt();
    (side > 0 && side * side == positions).then_some(side)
}

/// For each position of the new axis, the old positions from which it is made, with their shares.
fn filters(from: usize, to: usize) -> Vec<Vec<(usize, f64)>> {
    let scale = from as f64 / to as f64;
    let width = scale.max(1.0);
    let filter = |target: usize| {
        let centre = scale * (target as f64 + 0.5);
        let first = (centre - REACH * width + 0.5).max(0.0) as usize;
        let end = ((centre + REACH * width + 0.5) as usize).min(from);
        let taps: Vec<(usize, f64)> =
            (first..end).map(|source| (source, cubic((source as f64 - centre + 0.5) / width))).collect();
        let total: f64 = taps.iter().map(|(_, share)| share).sum();
        taps.into_iter().map(|(source, share)| (source, share / total)).collect()
    };
    (0..to).map(filter).collect()
}

/// Keys' cubic kernel with parameter -1/2.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < REACH {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_resampled_as_pytorch_does() {
        // torch 2.9.1: F.interpolate(x, size, mode="bicubic", antialias=True, align_corners=False) of x[i] = sin(3 i), i < 9, as a 3 x 3
        // image, to 2 x 4 and to 5 x 5, in double precision.
        let values: Vec<f32> = (0..9).map(|i| (3.0 * f64::from(i)).sin() as f32).collect();
        for (to, want) in [([2, 4], SMALLER), ([5, 5], LARGER)] {
            let got = resample(&values, 1, 0, [3, 3], to);
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(want) {
                // Ours were made in single precision, so they agree no further than that.
                assert!((f64::from(*got) - want).abs() < 1e-6, "{got}, not {want}");
            }
        }
    }

    #[test]
    fn rows_before_the_grid_stay() {
        let values: Vec<f32> = (0..10).map(|value| value as f32).collect();
        let same = resample(&values, 2, 1, [2, 2], [2, 2]);
        assert_eq!(same, values);
        assert_eq!(resample(&values, 2, 1, [2, 2], [3, 1])[..2], values[..2]);
    }

    #[test]
    fn only_squares_have_a_side() {
        assert_eq!([0, 1, 4, 5, 196].map(square_side), [None, Some(1), Some(2), None, Some(14)]);
    }

    const SMALLER: &[f64] = &[
        0.208747946346,
        -0.041675136565,
        -0.078274441983,
        0.121894606932,
        -0.36174531042,
        0.129742185452,
        0.131344373488,
        -0.357943178665,
    ];
    const LARGER: &[f64] = &[
        -0.04796138984,
        0.071504753109,
        0.192266638268,
        -0.149528830331,
        -0.390475999358,
        0.223397781079,
        0.059933766272,
        -0.158066112048,
        0.004211332405,
        0.137050053371,
        0.483717847545,
        0.026225495249,
        -0.536572933197,
        0.191522149008,
        0.739862266577,
        -0.373578079836,
        -0.06807602179,
        0.32465636708,
        -0.063673385437,
        -0.36675573525,
        -0.973037799999,
        -0.12685977544,
        0.940295507323,
        -0.254723286585,
        -1.171175657196,
    ];
}
