"""The moment generating function of one step's loss, by composite Gauss-Legendre quadrature in x."""

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
# A panel of 16 nodes integrates e^{i phase} to rounding while the phase turns by less than about 8.
PHASE = 6.0
LARGEST_PANELS = 50_000


class TooFine(Exception):
    """The quadrature would need more panels than are worth it."""


def span(pair):
    low, high = pair.centres[0] - pair.reach * pair.sigma, pair.centres[1] + pair.reach * pair.sigma
    return (pair.start if pair.two_sided else low), high


def panels(pair, largest_frequency, fineness):
    """Nodes and weights on panels at most sigma/4 wide over which the phase turns by at most PHASE."""
    low, high = span(pair)
    table = np.linspace(low, high, 20_001)
    widths = np.diff(table) / (0.25 * pair.sigma)
    turns = largest_frequency * np.diff(pair.loss(table)) / PHASE
    position = np.concatenate([[0.0], np.cumsum(fineness * (widths + turns))])
    if position[-1] > LARGEST_PANELS:
        raise TooFine(f"{position[-1]:.0f} panels at frequency {largest_frequency:g}")
    edges = np.interp(np.linspace(0, position[-1], int(np.ceil(position[-1])) + 1), position, table)
    half = np.diff(edges) / 2
    x = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    return x.ravel(), (half[:, None] * WEIGHTS).ravel()


class Moments:
    """log E_P[e^{zL}] with the loss tabulated once; accurate for Re z = lam and |Im z| <= largest_frequency."""

    def __init__(self, pair, lam, largest_frequency=0.0, fineness=1.0):
        x, weight = panels(pair, largest_frequency, fineness)
        loss, mass = pair.loss(x), weight * pair.p(x)
        if pair.two_sided:
            loss, mass = np.concatenate([loss, -loss]), np.concatenate([mass, weight * pair.q(x)])
        tilted = mass * np.exp(np.minimum(lam * loss, 700.0))
        keep = tilted > 1e-24 * tilted.sum()
        self.lam, self.loss, self.mass = lam, loss[keep], mass[keep]

    def log(self, frequencies):
        """log1p of E[e^{zL} - 1] keeps the digits of a loss that is nearly always nearly 0; an atom at 0 adds nothing."""
        result = np.empty(len(frequencies), dtype=complex)
        rows = max(1, 1_000_000 // len(self.loss))
        for start in range(0, len(frequencies), rows):
            z = self.lam + 1j * frequencies[start : start + rows]
            result[start : start + rows] = np.log1p(np.expm1(np.outer(z, self.loss)) @ self.mass)
        return result

    def real_log(self):
        return float(np.log1p(np.expm1(self.lam * self.loss) @ self.mass))
