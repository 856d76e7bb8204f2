//! The forward divergence of several appearances, exactly: a sum over binary matrices, column by column.

use super::forward::forward_bound;

/// The most ways in which one column can change the rows, for an order to be within reach.
const MOST_MOVES: f64 = 1e6;
/// The most moves over all columns and orders: a few hundredths of a second.
const MOST_WORK: f64 = 1e7;
/// Column weights may fall to e^-this of the largest, far from underflow.
const MOST_EXPONENT: f64 = 300.0;

/// Theorem 3.1 of the partitioning paper, first term of equation (2), for `ones` of `places`: `D_a(P || Q)` at the orders 2, 3, ... up to `most` or as
/// far as they can be computed in a moment; order 2 always.
///
/// `E_Q R^a` is the mean of `prod_t w(n_t)`, `w(n) = e^{n (n-1) / (2 sigma^2)}`, over `a` random subsets, `n_t` of which hold place `t`: the
/// coefficient of `(z_1 .. z_a)^k` in `(sum_n w(n) e_n(z))^d`, `e_n` elementary symmetric, over `C(d, k)^a`. Since `w(0) = w(1) = 1` the sum is
/// `prod_i (1 + z_i) + sum_{n >= 2} (w(n) - 1) e_n(z)`, and the power expands over the number of columns that at least two
/// subsets share. Those are gone through one by one, and rows are told apart only by how often they were hit. All terms are positive.
/// For `k > d / 2` the complements are counted: `D_a(k) = D_a(d - k) + a (2 k - d) / (2 sigma^2)`.
#[must_use]
pub fn forward_exact_several(places: u64, ones: u64, noise_multiplier: f64, most: u32) -> Vec<f64> {
    let inverse = 0.5 / (noise_multiplier * noise_multiplier);
    let ones = ones.min(places);
    let hits = ones.min(places - ones);
    let shift = (2.0 * ones as f64 - places as f64).max(0.0) * inverse;
    let mut divergences = vec![forward_bound(places, ones, noise_multiplier, 2)];
    let mut work = 0.0;
    for order in 3..=most {
        let a = f64::from(order);
        let columns = (0.5 * a * hits as f64).floor().min(places as f64);
        // Each row is at one of hits + 1 levels, and moves or stays; the last level stays.
        let moves: f64 = (1..=order).map(|i| (2.0 * hits as f64 + f64::from(i)) / f64::from(i)).product();
        work += moves * columns;
        if moves > MOST_MOVES || work > MOST_WORK || 0.25 * a * a * inverse > MOST_EXPONENT {
            break;
        }
        let matrices = Matrices { places, hits: hits as usize, order: order as usize, inverse };
        divergences.push(a * shift + matrices.log_moment(columns as u64) / (a - 1.0));
    }
    divergences
}

/// Binary matrices of `order` rows with `hits` ones each and `places` columns.
struct Matrices {
    places: u64,
    hits: usize,
    order: usize,
    /// `1 / (2 sigma^2)`
    inverse: f64,
}

/// How one column may change the rows: from a state to a state, with a weight.
struct ColumnMoves {
    states: Vec<Vec<usize>>,
    moves: Vec<(u32, u32, f64)>,
}

impl Matrices {
    /// `ln E_Q R^a`.
    fn log_moment(&self, columns: u64) -> f64 {
        let ColumnMoves { states, moves } = self.moves();
        let tilt = self.tilt();
        let mut current = vec![0.0; states.len()];
        // The state with all rows at level 0 comes last.
        if let Some(start) = current.last_mut() {
            *start = 1.0;
        }
        let (mut log_scale, mut log_choices) = (0.0, 0.0);
        let mut log_terms = vec![];
        for column in 1..=columns {
            let mut next = vec![0.0; states.len()];
            for &(from, to, weight) in &moves {
                next[to as usize] += weight * current[from as usize];
            }
            let largest = next.iter().copied().fold(0.0, f64::max);
            if largest == 0.0 {
                break;
            }
            next.iter_mut().for_each(|value| *value /= largest);
            log_scale += largest.ln();
            let done = (column - 1) as f64;
            log_choices += ((self.places as f64 - done) / (done + 1.0)).ln();
            let levels = self.log_completions(column);
            for (state, value) in states.iter().zip(&next).filter(|(_, value)| **value > 0.0) {
                let completed: f64 = state
                    .iter()
                    .zip(&levels)
                    .enumerate()
                    .filter(|(_, (rows, _))| **rows > 0)
                    .map(|(level, (&rows, log))| rows as f64 * (log + tilt * level as f64))
                    .sum();
                log_terms.push(value.ln() + log_scale + log_choices + completed);
            }
            current = next;
        }
        let log_excess = crate::rdp::log_sum(log_terms.iter().copied());
        if log_excess > 40.0 { log_excess } else { log_excess.exp().ln_1p() }
    }

    /// Each one in a column is weighted down by this, so that no weight is above 1: `w(n)` is convex in the exponent.
    fn tilt(&self) -> f64 {
        (self.order as f64 - 1.0) * self.inverse
    }

    /// `(w(n) - 1) e^{-tilt n}`
    fn weight(&self, ones: usize) -> f64 {
        let n = ones as f64;
        let exponent = n * (n - 1.0) * self.inverse;
        let tilt = self.tilt() * n;
        if exponent < 1.0 {
            (-tilt).exp() * exponent.exp_m1()
        } else {
            (exponent - tilt).exp() - (-tilt).exp()
        }
    }

    /// `ln C(d - c, k - l) / C(d, k)` for each level `l`: the ways to complete a row beside `c` shared columns.
    fn log_completions(&self, shared: u64) -> Vec<f64> {
        // C(N, j) = C(N, j - 1) (N - j + 1) / j
        let choose = |n: u64, j: usize| ((n as f64 - j as f64 + 1.0).max(0.0) / j as f64).ln();
        let mut log = -(1..=self.hits).map(|j| choose(self.places, j)).sum::<f64>();
        let mut logs = vec![log];
        for missing in 1..=self.hits {
            log += choose(self.places - shared, missing);
            logs.push(log);
        }
        logs.reverse();
        logs
    }

    /// Every state by its rank, and every move of a column that at least two rows share.
    fn moves(&self) -> ColumnMoves {
        let mut states = vec![];
        enumerate(self.order, self.hits, &mut vec![], &mut states);
        let ranks = Ranks::new(self.order, self.hits);
        let weights: Vec<f64> = (0..=self.order).map(|n| self.weight(n)).collect();
        let mut found = vec![];
        for (from, state) in states.iter().enumerate() {
            let mut walk =
                Walk { state, ranks: &ranks, weights: &weights, from: from as u32, found: &mut found };
            walk.level(0, Partial { rest: self.order, arrived: 0, ones: 0, rank: 0, ways: 1.0 });
        }
        ColumnMoves { states, moves: found }
    }
}

/// All ways to put `rows` rows onto the remaining levels, by increasing number on each level in turn.
fn enumerate(rows: usize, levels: usize, prefix: &mut Vec<usize>, states: &mut Vec<Vec<usize>>) {
    if levels == 0 {
        let mut state = prefix.clone();
        state.push(rows);
        states.push(state);
        return;
    }
    for here in 0..=rows {
        prefix.push(here);
        enumerate(rows - here, levels - 1, prefix, states);
        prefix.pop();
    }
}

/// The place of a state in the order of [`enumerate`], level by level.
struct Ranks {
    /// `[level][rows left][rows here]`: how many states come before, by this level.
    before: Vec<Vec<Vec<u32>>>,
}

impl Ranks {
    fn new(rows: usize, hits: usize) -> Self {
        // counts[s]: the ways to put s rows onto the levels after the present one.
        let mut counts = vec![1_u32; rows + 1];
        let mut before = vec![];
        for _ in 0..hits {
            let level: Vec<Vec<u32>> = (0..=rows)
                .map(|left| {
                    let mut total = 0;
                    let sums = (0..=left).map(|here| {
                        total += counts[left - here];
                        total - counts[left - here]
                    });
                    sums.collect()
                })
                .collect();
            counts = (0..=rows).map(|left| counts[..=left].iter().sum()).collect();
            before.push(level);
        }
        before.reverse();
        Self { before }
    }
}

/// A move that is decided up to some level.
#[derive(Clone, Copy)]
struct Partial {
    /// Rows of the new state not yet placed.
    rest: usize,
    /// Rows that move up to this level.
    arrived: usize,
    ones: usize,
    rank: u32,
    ways: f64,
}

struct Walk<'a> {
    state: &'a [usize],
    ranks: &'a Ranks,
    weights: &'a [f64],
    from: u32,
    found: &'a mut Vec<(u32, u32, f64)>,
}

impl Walk<'_> {
    fn level(&mut self, level: usize, so_far: Partial) {
        if level + 1 == self.state.len() {
            if so_far.ones >= 2 {
                self.found.push((self.from, so_far.rank, so_far.ways * self.weights[so_far.ones]));
            }
            return;
        }
        let rows = self.state[level];
        let mut binomial = 1.0;
        for leaving in 0..=rows {
            let here = rows - leaving + so_far.arrived;
            self.level(
                level + 1,
                Partial {
                    rest: so_far.rest - here,
                    arrived: leaving,
                    ones: so_far.ones + leaving,
                    rank: so_far.rank + self.ranks.before[level][so_far.rest][here],
                    ways: so_far.ways * binomial,
                },
            );
            binomial *= (rows - leaving) as f64 / (leaving + 1) as f64;
        }
    }
}
