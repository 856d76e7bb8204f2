#!/usr/bin/env python3
"""Writes renyi.csv: the Rényi bounds of the partitioning paper (D), its deltas and its noise, from its formulas alone (standard library, seconds).

Poisson sampling is D Theorem 3.11, balanced sampling equation (3) of D Theorem 3.1 (forward term), with binomials by lgamma. Deltas and
noise use orders 2 to 100 and the classic conversion; noise is bisected for epsilon 8 at delta 1e-5. In `split` rows a part clipped to 1/2 is
split (equation 3, one of `per_record` submodels) beside a shared part clipped to 1/2, composed and then sampled at rate 0.1.
"""

from math import exp, lgamma, log, log1p
from pathlib import Path


def log_sum(terms):
    largest = max(terms)
    return largest + log(sum(exp(t - largest) for t in terms))


def log_choose(n, k):
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def sampled(rate, log_moment, a):
    return log_sum(
        [log_choose(a, l) + (a - l) * log1p(-rate) + l * log(rate) + log_moment(l) for l in range(a + 1)]
    ) / (a - 1)


def gaussian(mu):
    return lambda l: l * (l - 1) / 2 * mu * mu


def poisson(steps, k, sigma):
    return lambda a: steps * sampled(k / steps, gaussian(1 / sigma), a)


def balanced(steps, k, sigma):
    overlaps = range(max(0, 2 * k - steps), k + 1)

    def divergence(a):
        return log_sum(
            [log_choose(k, l) + log_choose(steps - k, k - l) - log_choose(steps, k) + a * l / (2 * sigma * sigma)
             for l in overlaps]
        )

    return divergence


def split(steps, submodels, sigma):
    mu, shared = 0.5 / sigma, gaussian(0.5 / sigma)

    def moment(l):
        return shared(l) + ((l - 1) * log((exp(l * mu * mu / 2) + submodels - 1) / submodels) if l > 1 else 0)

    return lambda a: steps * sampled(0.1, moment, a)


ORDERS = range(2, 101)


def log_delta(divergence, epsilon):
    return min((a - 1) * (divergence(a) - epsilon) for a in ORDERS)


def noise(family):
    low, high = 0.9, 20.0
    while high / low > 1 + 1e-7:
        sigma = (low * high) ** 0.5
        divergence = family(sigma)
        if min(divergence(a) - log(1e-5) / (a - 1) for a in ORDERS) > 8:
            low = sigma
        else:
            high = sigma
    return high


def main():
    rows = []
    for steps, k, sigma in [(1000, 100, 2), (10, 4, 2), (200, 100, 4)]:
        for name, family in [("poisson", poisson), ("balanced", balanced)]:
            divergence = family(steps, k, sigma)
            rows += [("divergence", name, steps, k, sigma, a, divergence(a)) for a in (2, 5, 22, 61, 100)]
    for steps in (40, 60, 70, 100):
        for name, family in [("poisson", poisson), ("balanced", balanced)]:
            rows.append(("delta", name, steps, 2 * steps // 5, 2, 10, exp(log_delta(family(steps, 2 * steps // 5, 2), 10))))
    for steps, k in [(2000, 655), (1000, 100)]:
        for name, family in [("poisson", poisson), ("balanced", balanced)]:
            rows.append(("noise", name, steps, k, "", 8, noise(lambda sigma: family(steps, k, sigma))))
    for submodels in (1, 3, 8):
        rows.append(("noise", "split", 1000, submodels, "", 8, noise(lambda sigma: split(1000, submodels, sigma))))
    with open(Path(__file__).parent / "renyi.csv", "w") as out:
        out.write("# renyi.py: the formulas of D Theorems 3.1 (equation 3) and 3.11\n")
        out.write("quantity,sampling,steps,per_record,sigma,at,value\n")
        for row in rows:
            out.write(",".join(str(cell) for cell in row[:-1]) + f",{row[-1]:.10e}\n")


main()
