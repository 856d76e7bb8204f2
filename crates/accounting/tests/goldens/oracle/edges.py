"""Mechanisms whose losses end somewhere: exact compositions near the end, by enumeration and by nested quadrature."""

import itertools

import mpmath as mp


class Laplace:
    """The Laplace mechanism of pure parameter e on a Poisson sample of rate q, one direction of add/remove.

    The unsampled loss l has atoms at +-e and the densities e^{(l-e)/2}/4 (under P) and e^{-(l+e)/2}/4 (under Q) between;
    sampled, P becomes (1-q) Q + q P and the loss ln(1 - q + q e^l). `adding` exchanges the two distributions.
    """

    def __init__(self, epsilon, rate, adding):
        self.e, self.q, self.adding = mp.mpf(epsilon), mp.mpf(rate), adding

    def loss(self, l):
        value = mp.log1p(self.q * mp.expm1(l))
        return -value if self.adding else value

    def mass(self, p, q):
        return q if self.adding else (1 - self.q) * q + self.q * p

    def atoms(self):
        small = mp.exp(-self.e) / 2
        half = mp.mpf("0.5")
        return [(self.loss(self.e), self.mass(half, small)), (self.loss(-self.e), self.mass(small, half))]

    def density(self, l):
        return self.mass(mp.exp((l - self.e) / 2) / 4, mp.exp(-(l + self.e) / 2) / 4)

    def preimages(self, losses):
        """Unsampled losses inside (-e, e) at which the sampled loss takes one of the values."""
        for loss in losses:
            ratio = 1 + mp.expm1(-loss if self.adding else loss) / self.q
            if ratio > 0 and abs(mp.log(ratio)) < self.e:
                yield mp.log(ratio)


def delta(steps, epsilon):
    """E (1 - e^{epsilon - S})+ of the sum S of the steps' losses: atoms one by one, densities by quadrature."""
    if not steps:
        return max(-mp.expm1(epsilon), mp.mpf(0))
    first, rest = steps[0], steps[1:]
    total = sum(mass * delta(rest, epsilon - loss) for loss, mass in first.atoms())
    # The rest's curve has kinks where all of its losses lie at one of their ends.
    kinks = [sum(choice) for choice in itertools.product(*[[loss for loss, _ in step.atoms()] for step in rest])]
    cuts = sorted([-first.e, first.e, *first.preimages([epsilon - kink for kink in kinks])])
    return total + mp.quad(lambda l: first.density(l) * delta(rest, epsilon - first.loss(l)), cuts)


def finite(steps, epsilon):
    """The same for steps given as lists of (loss, mass) and a mass of infinite loss, by enumerating all outcomes."""
    inside = mp.mpf(1)
    for _, infinite in steps:
        inside *= 1 - mp.mpf(infinite)
    total = 1 - inside
    for outcome in itertools.product(*[losses for losses, _ in steps]):
        loss, mass = mp.mpf(0), mp.mpf(1)
        for part, weight in outcome:
            loss, mass = loss + mp.mpf(part), mass * mp.mpf(weight)
        if loss > epsilon:
            total -= mass * mp.expm1(epsilon - loss)
    return total
