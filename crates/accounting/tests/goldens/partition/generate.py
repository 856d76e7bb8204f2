#!/usr/bin/env python3
"""Writes split.csv: deltas of a Gaussian hidden in one of d places, by inverting a Laplace transform.

Under Q the likelihood ratio is S / d, S a sum of d log-normals X = exp(mu Z - mu^2 / 2), mu = 1 / sigma. With phi(s) = E e^{-s X},

    E (c - S)_+ = (1 / 2 pi i) integral over Re s = gamma of e^{s c} phi(s)^d / s^2 ds,   E (S - c)_+ = E (c - S)_+ + d - c,

and delta is E (S - a d)_+ / d for removal, a E (d / a - S)_+ / d for addition, a = e^epsilon. Nothing is convolved and no grid of
losses appears. The trapezoid rule on the line aliases E (c + 2 pi n / h - S)_+ e^{-2 pi n gamma / h}, which the step makes
negligible. Each figure is computed with two abscissae; their difference is recorded.
"""

import cmath
import math
from pathlib import Path

SETTINGS = [
    (8, 1.0, [0.2, 1.0]),
    (8, 3.0, [0.05, 0.3]),
    (100, 1.0, [0.05, 0.3]),
    (100, 0.7, [0.2, 0.6]),
    (234, 0.8, [0.2, 0.5]),
    (1000, 1.0, [0.03, 0.08, 0.13]),
    (1000, 2.0, [0.01, 0.04]),
]


def put(d, mu, c, gamma, nodes):
    step = 2 * math.pi * gamma / 45
    total, k, small = 0.0, 0, 0
    while small < 20:
        s = complex(gamma, k * step)
        phi = sum(w * cmath.exp(-s * x) for x, w in nodes)
        term = cmath.exp(s * c) * phi**d / (s * s)
        total += (0.5 if k == 0 else 1.0) * term.real
        small = small + 1 if abs(term) < 1e-17 * abs(total) else 0
        k += 1
    return total * step / math.pi


def nodes(mu):
    step = 0.01
    count = int(9.5 / step)
    return [
        (math.exp(mu * z - 0.5 * mu * mu), step * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
        for z in (step * i for i in range(-count, count + 1))
    ]


def deltas(d, sigma, epsilon, scale, table):
    mu, a = 1 / sigma, math.exp(epsilon)
    gamma = scale / math.sqrt(d * math.expm1(mu * mu))
    remove = (put(d, mu, a * d, gamma, table) + d - a * d) / d
    add = a * put(d, mu, d / a, gamma, table) / d
    return remove, add


def main():
    with open(Path(__file__).parent / "split.csv", "w") as out:
        out.write("# generate.py: Laplace inversion; error: the difference between two abscissae\n")
        out.write("places,sigma,epsilon,remove,add,error\n")
        for d, sigma, epsilons in SETTINGS:
            table = nodes(1 / sigma)
            for epsilon in epsilons:
                first = deltas(d, sigma, epsilon, 1.0, table)
                second = deltas(d, sigma, epsilon, 1.4, table)
                error = max(abs(x - y) for x, y in zip(first, second))
                out.write(f"{d},{sigma},{epsilon},{first[0]:.12e},{first[1]:.12e},{error:.1e}\n")
                out.flush()


main()
