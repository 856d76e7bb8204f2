"""delta(epsilon) of a composition on a lattice of losses: connect-the-dots cells, a tilted FFT power.

A cell's mass is split onto its two ends so that the P-mass and the Q-mass are both kept; each end's share is
the integral of a positive function, never a difference. The result is an upper bound that falls with the
square of the spacing; halved spacings and one extrapolation give the figure.
"""

import numpy as np
from scipy.interpolate import CubicSpline

from .contour import chernoff
from .moments import NODES, WEIGHTS, Moments, span

LARGEST_LATTICE = 1 << 23


def cell_edges(pair, spacing):
    """Points of x that cut every loss cell, and wide cells further."""
    low, high = span(pair)
    table = np.linspace(low, high, 20_001)
    values = pair.loss(table)
    if values[-1] - values[0] > spacing * LARGEST_LATTICE:
        raise MemoryError(f"{(values[-1] - values[0]) / spacing:g} cells")
    levels = np.arange(np.ceil(values[0] / spacing), np.floor(values[-1] / spacing) + 1) * spacing
    position = np.clip(np.searchsorted(values, levels), 1, len(table) - 1)
    left, right = table[position - 1], table[position]
    for _ in range(60):
        middle = (left + right) / 2
        below = pair.loss(middle) < levels
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return np.unique(np.concatenate([table, right]))


def lattice_weights(pair, spacing, lam):
    """(smallest k, tilted weights e^{lam k spacing} w_k)."""
    edges = cell_edges(pair, spacing)
    reach = int(np.abs(pair.loss(edges[[0, -1]])).max() / spacing) + 3
    weights = np.zeros(2 * reach + 1)
    normaliser = -np.expm1(-spacing)

    def split(cell, above, mass):
        # a + b = P and a e^{-k s} + b e^{-(k+1) s} = Q, with `above` the loss beyond k s, give b and a as below.
        upper = (mass * -np.expm1(-above)).sum(axis=1) / normaliser
        lower = (mass * np.expm1(spacing - above)).sum(axis=1) * np.exp(-spacing) / normaliser
        np.add.at(weights, reach + cell + 1, upper)
        np.add.at(weights, reach + cell, lower)

    half, middle = np.diff(edges) / 2, (edges[:-1] + edges[1:]) / 2
    for start in range(0, len(half), 200_000):
        cut = slice(start, start + 200_000)
        x = middle[cut, None] + half[cut, None] * NODES
        weight = half[cut, None] * WEIGHTS
        cell = np.floor(pair.loss(middle[cut]) / spacing).astype(int)
        above = pair.loss(x) - cell[:, None] * spacing
        split(cell, above, weight * pair.p(x))
        if pair.two_sided:
            split(-cell - 1, spacing - above, weight * pair.q(x))
    if pair.two_sided:
        weights[reach] += 1 - weights.sum()
    used = np.flatnonzero(weights)
    k = np.arange(used[0], used[-1] + 1) - reach
    return k[0], weights[used[0] : used[-1] + 1] * np.exp(lam * k * spacing)


def half_width(pair, steps, lam, mean):
    """W such that the tilted sum leaves mean +- W with probability below 1e-18 (Chernoff)."""
    base = Moments(pair, lam).real_log()
    widths = []
    for sign in (1, -1):
        bounds = []
        for shift in np.geomspace(1e-2, 1e7, 91):
            with np.errstate(all="ignore"):
                rise = steps * (Moments(pair, lam + sign * shift).real_log() - base)
            if np.isfinite(rise):
                bounds.append((rise - sign * shift * mean + np.log(1e18)) / shift)
        widths.append(min(bounds))
    return max(widths)


class Composed:
    """The tilted distribution of the summed loss."""

    def __init__(self, pair, steps, lam, spacing):
        first, weights = lattice_weights(pair, spacing, lam)
        total = weights.sum()
        k = first + np.arange(len(weights))
        mean = steps * spacing * (weights @ k) / total
        size = 1 << int(np.ceil(np.log2(2 * half_width(pair, steps, lam, mean) / spacing + 4)))
        if size > LARGEST_LATTICE:
            raise MemoryError(f"lattice of {size} points")
        folded = np.bincount(np.mod(k, size), weights=weights / total, minlength=size)
        transform = np.fft.rfft(folded)
        composed = np.fft.irfft(transform**steps, size)
        self.index = int(round(mean / spacing)) - size // 2 + np.arange(size)
        self.tilted = composed[np.mod(self.index, size)]
        self.lam, self.spacing, self.log_total = lam, spacing, steps * np.log(total)

    def log_delta(self, node):
        beyond = self.index > node
        y = (self.index[beyond] - node) * self.spacing
        tail = np.sum(self.tilted[beyond] * np.exp(-self.lam * y) * -np.expm1(-y))
        if tail <= 0:
            raise FloatingPointError("the tail is lost in rounding")
        return np.log(tail) + self.log_total - self.lam * node * self.spacing

    def epsilon(self, delta, guess):
        """Only lattice points are evaluated; between them the logarithm is a smooth curve."""
        target, low, high = np.log(delta), 0, int(guess / self.spacing) + 2
        while high - low > 1:
            middle = (low + high) // 2
            if self.log_delta(middle) > target:
                low = middle
            else:
                high = middle
        nodes = np.arange(max(low - 4, 0), high + 5)
        logs = np.array([self.log_delta(node) for node in nodes])
        if not np.all(np.diff(logs) < 0):
            raise FloatingPointError("the tail is not falling")
        return float(CubicSpline(-logs, nodes * self.spacing)(-target))


def starting_spacing(pair):
    """A tenth of the deviation of one step's loss, or a millionth of its range where the tail is heavy."""
    moments = Moments(pair, 0.0)
    mean = moments.loss @ moments.mass
    deviation = np.sqrt(moments.loss**2 @ moments.mass - mean**2)
    return max(deviation / 10, np.ptp(moments.loss) / 500_000)


def epsilon(pair, steps, delta, settled):
    """(extrapolated epsilon, its relative distance from the extrapolation of twice the spacings).

    The spacing is halved until that distance is below `settled`, or None is answered at the limit of memory.
    """
    lam, bound = chernoff(pair, steps, delta)
    spacing = starting_spacing(pair)
    try:
        raw = [Composed(pair, steps, lam, spacing / d).epsilon(delta, bound) for d in (1, 2, 4)]
        while True:
            first, second = raw[-2] + (raw[-2] - raw[-3]) / 3, raw[-1] + (raw[-1] - raw[-2]) / 3
            if abs(second / first - 1) < settled:
                return second, abs(second / first - 1)
            spacing /= 2
            raw.append(Composed(pair, steps, lam, spacing / 4).epsilon(delta, bound))
    except (MemoryError, FloatingPointError):
        return None
