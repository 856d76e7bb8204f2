#!/usr/bin/env python3
"""Reference distances between sets of features, by numpy and scipy: `python3 distances.py > distances.json`.

The distance of Fréchet is the textbook formula with scipy's sqrtm where both covariances have full rank, and the sum of singular values
of the centred features elsewhere. The kernel distance is the textbook formula over all pictures at once. Made with numpy 2.4.6 and
scipy 1.17.1.
"""

import json

import numpy
from scipy.linalg import sqrtm

random = numpy.random.default_rng(1)


def frechet(x, y):
    mean = numpy.square(x.mean(0) - y.mean(0)).sum()
    s, t = numpy.cov(x, rowvar=False), numpy.cov(y, rowvar=False)
    if min(len(x), len(y)) > x.shape[1] and min(numpy.linalg.matrix_rank(s), numpy.linalg.matrix_rank(t)) == len(s):
        root = numpy.trace(sqrtm(s @ t)).real
    else:
        x, y = ((v - v.mean(0)) / numpy.sqrt(len(v) - 1) for v in (x, y))
        root = numpy.linalg.svd(x @ y.T, compute_uv=False).sum()
    return mean + numpy.trace(s) + numpy.trace(t) - 2 * root


def kernel(x, y):
    k = lambda a, b: (a @ b.T / a.shape[1] + 1) ** 3
    n, m = len(x), len(y)
    within = lambda v, c: (k(v, v).sum() - numpy.trace(k(v, v))) / (c * (c - 1))
    return within(x, n) + within(y, m) - 2 * k(x, y).mean()


def features(count, length, shift, scale):
    mixed = random.normal(size=(length, length))
    return (random.normal(size=(count, length)) @ mixed * scale + shift).astype(numpy.float32)


cases = []


def case(name, x, y):
    wide = [v.astype(numpy.float64) for v in (x, y)]
    cases.append(
        {
            "name": name,
            "length": x.shape[1],
            "features": [[float(value) for value in v.flatten()] for v in (x, y)],
            "frechet": float(frechet(*wide)),
            "kernel": float(kernel(*wide)) if len(x) == len(y) else None,
        }
    )


case("full rank", features(40, 6, 0.0, 1.0), features(40, 6, 0.5, 2.0))
case("sets of different sizes", features(30, 5, 1.0, 0.1), features(50, 5, 1.0, 0.3))
case("fewer pictures than features", features(5, 12, 0.0, 1.0), features(8, 12, 1.0, 1.0))
dead = [features(20, 7, 0.0, 1.0), features(20, 7, 0.0, 1.0)]
dead[0][:, 2:4], dead[1][:, 3:5] = 0.0, 1.0
case("features without spread", *dead)
twice = features(25, 4, 0.0, 1.0)
case("features that are copies", numpy.hstack([twice, twice]), features(25, 8, 0.0, 1.0))
case("far from zero", features(40, 4, 1000.0, 1.0), features(40, 4, 1001.0, 1.0))
print(json.dumps({"cases": cases}, separators=(",", ":")))
