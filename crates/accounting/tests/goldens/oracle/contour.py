"""delta(epsilon) of a composition by inverting the moment generating function along Re z = lam.

delta(eps) = 1/(2 pi) * integral over t of M(z)^T e^{-z eps} / (z (z + 1)), z = lam + i t, for every lam > 0,
where M(z) = E_P[e^{zL}]. The trapezoid rule in t sees only the aliases of delta at distance 2 pi / step.
"""

import numpy as np

from .moments import Moments, TooFine

# Terms of the integral below this share of the largest are dropped.
NEGLIGIBLE = 1e-13
LARGEST_WORK = 4e8


def golden_section(function, a, b, tolerance):
    """Minimum of a unimodal function; what overflows counts as too high."""
    def safe(u):
        with np.errstate(all="ignore"):
            value = function(u)
        return value if np.isfinite(value) else np.inf

    ratio = (np.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = safe(c), safe(d)
    while b - a > tolerance:
        if at_c <= at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = safe(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = safe(d)
    return (a + b) / 2


def chernoff(pair, steps, delta):
    """(lam, an upper bound on epsilon): delta <= M(lam)^T e^{-lam eps} lam^lam / (1+lam)^(1+lam), minimised over lam."""
    def bound(log_lam):
        lam = np.exp(log_lam)
        overshoot = lam * np.log(lam) - (1 + lam) * np.log1p(lam)
        return (steps * Moments(pair, lam).real_log() - np.log(delta) + overshoot) / lam

    best = golden_section(bound, np.log(1e-3), np.log(1e8), 1e-2)
    return float(np.exp(best)), float(bound(best))


class Contour:
    """The integrand on one line, good for every epsilon near the one that chose lam."""

    def __init__(self, pair, steps, lam, step, limit, fineness=1.0):
        moments = Moments(pair, lam, limit, fineness)
        frequencies = step * np.arange(int(np.ceil(limit / step)) + 1)
        if len(frequencies) * len(moments.loss) > LARGEST_WORK:
            raise TooFine(f"{len(frequencies)} frequencies times {len(moments.loss)} nodes")
        self.z = lam + 1j * frequencies
        self.log_power = steps * moments.log(frequencies)
        self.step = step

    def log_delta(self, epsilon):
        exponent = self.log_power - self.z * epsilon
        terms = np.exp(exponent - exponent[0].real) / (self.z * (self.z + 1))
        terms[0] /= 2
        return np.log(self.step / np.pi * np.sum(terms).real) + exponent[0].real

    def epsilon(self, delta, guess):
        """Secant steps on log delta, which is smooth, falling and nearly straight."""
        target = np.log(delta)
        before, here = guess, guess * 0.999
        at_before, at_here = self.log_delta(before) - target, self.log_delta(here) - target
        for _ in range(100):
            change = at_here * (here - before) / (at_here - at_before)
            before, at_before = here, at_here
            here = max(here - change, here / 2)
            at_here = self.log_delta(here) - target
            if abs(here - before) < 1e-13 * here or at_here == at_before:
                return here
        return here


def frequency_limit(pair, steps, lam):
    """Doubles the frequency until what lies beyond it is negligible against the integrand at t = 0."""
    at_zero = steps * Moments(pair, lam).real_log() - np.log(lam * (lam + 1))
    limit = lam / 4
    while True:
        frequencies = limit * np.array([1.0, 1.1, 1.25, 1.4, 1.6, 1.8])
        moments = Moments(pair, lam, frequencies[-1])
        z = lam + 1j * frequencies
        tail = (steps * moments.log(frequencies).real - np.log(np.abs(z * (z + 1)))).max() - at_zero
        if tail < np.log(NEGLIGIBLE):
            return limit
        limit *= 2


def epsilon(pair, steps, delta):
    """(epsilon, its relative change under halving the step in t and the panels in x)."""
    lam, guess = chernoff(pair, steps, delta)
    limit = frequency_limit(pair, steps, lam)
    step, previous = lam / 8, None
    while True:
        answer = Contour(pair, steps, lam, step, limit).epsilon(delta, guess)
        if previous is not None and abs(answer / previous - 1) < 1e-10:
            break
        previous, step = answer, step / 2
    finer = Contour(pair, steps, lam, step / 2, limit * 1.25, fineness=1.7).epsilon(delta, answer)
    return finer, abs(finer / answer - 1)
