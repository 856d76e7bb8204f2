"""Dominating pairs of one step, as densities and losses over a real variable x.

Every pair has a loss that grows with x. A one-sided pair is used as it stands on the whole line. A
two-sided pair keeps the half-line where the loss is positive, mirrors it with the other measure's mass,
and puts what is left on the loss 0. All lengths are in units of the clip norm.
"""

from dataclasses import dataclass, replace
from typing import Callable

import numpy as np
from scipy.stats import norm


def normal(x, mean, sigma):
    return np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))


@dataclass(frozen=True)
class Pair:
    """`start` is -inf for a one-sided pair, else the point where the loss changes sign.

    x is cut `reach` standard deviations beyond the outer centres, which keeps every moment finite.
    """

    sigma: float
    start: float
    centres: tuple[float, float]
    p: Callable
    q: Callable
    loss: Callable
    reach: float = 12.0

    def cut_for(self, steps, delta):
        """Cuts so little that delta changes by at most a billionth of itself, whatever the tilt."""
        return replace(self, reach=-norm.ppf(1e-9 * delta / steps))

    @property
    def two_sided(self):
        return np.isfinite(self.start)


def poisson_remove(g, sigma):
    """P = (1-g) N(0) + g N(1) against Q = N(0)."""
    return Pair(
        sigma,
        -np.inf,
        (0.0, 1.0),
        lambda x: (1 - g) * normal(x, 0, sigma) + g * normal(x, 1, sigma),
        lambda x: normal(x, 0, sigma),
        lambda x: mixture_log_ratio(g, (2 * x - 1) / (2 * sigma**2)),
    )


def poisson_add(g, sigma):
    """P = N(0) against Q = (1-g) N(0) + g N(1), written over -x so that the loss grows."""
    other = poisson_remove(g, sigma)
    return Pair(
        sigma,
        -np.inf,
        (-1.0, 0.0),
        lambda x: other.q(-x),
        lambda x: other.p(-x),
        lambda x: -other.loss(-x),
    )


def without_replacement(g, distance, sigma):
    """The two-sided profile of (1-g) N(0) + g N(distance) against N(0)."""
    scale = distance / sigma**2
    return Pair(
        sigma,
        distance / 2,
        (0.0, distance),
        lambda x: (1 - g) * normal(x, 0, sigma) + g * normal(x, distance, sigma),
        lambda x: normal(x, 0, sigma),
        lambda x: mixture_log_ratio(g, scale * (x - distance / 2)),
    )


def poisson_patch(g, c, sigma):
    """Two-sided (1-g) N(0) + g(1-c) N(-1) + g c N(1) against (1-g) N(0) + g N(-1); c = 1 is `Replace`."""

    def loss(x):
        # P/Q - 1 = 2 g c e^{-1/(2 sigma^2)} sinh(x/sigma^2) / (1 - g + g e^{-(2x+1)/(2 sigma^2)}); past the
        # range of sinh the logarithm is taken term by term.
        u = x / sigma**2
        half = 1 / (2 * sigma**2)
        log_denominator = np.log(np.maximum((1 - g) + g * np.exp(-u - half), 1e-300))
        log_excess = np.log(g * c) - half + u + np.log(-np.expm1(-2 * np.maximum(u, 1e-300))) - log_denominator
        return np.logaddexp(0, log_excess)

    return Pair(
        sigma,
        0.0,
        (-1.0, 1.0),
        lambda x: (1 - g) * normal(x, 0, sigma) + g * (1 - c) * normal(x, -1, sigma) + g * c * normal(x, 1, sigma),
        lambda x: (1 - g) * normal(x, 0, sigma) + g * normal(x, -1, sigma),
        loss,
    )


def mixture_log_ratio(g, exponent):
    """log(1 - g + g e^exponent) without overflow and without losing a small g."""
    small = np.log1p(g * np.expm1(np.minimum(exponent, 30.0)))
    with np.errstate(divide="ignore"):
        large = np.log(g) + exponent + np.log1p((1 - g) / g * np.exp(-np.maximum(exponent, 30.0)))
    return np.where(exponent > 30.0, large, small)


def directions(kind, g, c, sigma):
    """The pairs whose worst case answers for a kind of step."""
    if kind == "poisson-add-remove":
        return [poisson_remove(g, sigma), poisson_add(g, sigma)]
    if kind == "poisson-replace":
        return [poisson_patch(g, 1.0, sigma)]
    if kind == "poisson-patch":
        return [poisson_patch(g, c, sigma)]
    if kind == "without-replacement-patch":
        return [without_replacement(g * c, 2.0, sigma)]
    raise ValueError(kind)
