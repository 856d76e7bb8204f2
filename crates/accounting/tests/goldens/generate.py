#!/usr/bin/env python3
"""Writes the golden figures beside this file. Usage: generate.py [file stem ...]; README.md says what each is."""

import random
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import scipy

from oracle import contour, edges, exact, lattice, pairs
from settings import COMPOSED

HERE = Path(__file__).parent


def write(name, header, rows):
    with open(HERE / name, "w") as out:
        out.write(f"# generate.py; mpmath {mp.__version__}, numpy {np.__version__}, scipy {scipy.__version__}\n")
        out.write(",".join(header) + "\n")
        for row in rows:
            out.write(",".join(str(value) for value in row) + "\n")


def digits(value, count):
    return mp.nstr(value, count, min_fixed=0, max_fixed=0)


def normal_tails():
    points = [-40 + mp.mpf(80 * k) / 59 for k in range(60)]
    # The argument is rounded to a double first, so that a test can read it without error.
    rows = [(repr(float(x)), digits(exact.log_upper_tail(mp.mpf(float(x))), 30)) for x in points]
    write("normal_tails.csv", ["x", "log_upper_tail"], rows)


def gaussian():
    rows = []
    targets = ["0.4", "0.1", "1e-2", "1e-3", "1e-5", "1e-8", "1e-10", "1e-12", "1e-15"]
    for mu in [1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0]:
        for target in targets:
            epsilon = exact.gaussian_epsilon(mp.mpf(mu), mp.mpf(target))
            if epsilon is not None:
                epsilon = float(mp.nstr(epsilon, 12))
                rows.append((mu, repr(epsilon), digits(exact.gaussian_delta(mp.mpf(mu), mp.mpf(epsilon)), 30)))
    write("gaussian.csv", ["mu", "epsilon", "delta"], rows)


KINDS = ["poisson-remove", "poisson-add", "poisson-replace", "without-replacement-patch", "poisson-patch"]


def single_step():
    draw = random.Random(20261115)
    rows = []
    for kind in KINDS:
        while sum(row[0] == kind for row in rows) < 24:
            g = float(f"{10 ** draw.uniform(-5, 0):.6g}")
            c = float(f"{10 ** draw.uniform(-3, 0):.6g}") if kind.endswith("patch") else 1.0
            sigma = float(f"{10 ** draw.uniform(-0.7, 1):.4g}")
            epsilon = float(f"{10 ** draw.uniform(-4, 1):.6g}")
            delta = exact.single_step_delta(kind, g, c, sigma, epsilon)
            if delta < mp.mpf("1e-30"):
                continue
            if sum(row[0] == kind for row in rows) % 8 == 0:
                integral = exact.single_step_delta_by_quadrature(kind, g, c, sigma, epsilon)
                assert abs(integral - delta) < mp.mpf("1e-25") * delta, (kind, g, c, sigma, epsilon)
            rows.append((kind, g, c, sigma, epsilon, digits(delta, 25)))
    write("single_step.csv", ["kind", "g", "c", "sigma", "epsilon", "delta"], rows)


# The contour by itself must settle to SETTLED under halving; the lattice by itself to LATTICE_SETTLED; both, to AGREEMENT.
AGREEMENT, SETTLED, LATTICE_SETTLED = 5e-6, 1e-7, 1e-6


def direction_epsilon(pair, steps, delta):
    """(epsilon, relative error, method), or None where neither method is exact enough."""
    try:
        answer, error = contour.epsilon(pair, steps, delta)
    except contour.TooFine:
        answer, error = None, 1.0
    other = lattice.epsilon(pair, steps, delta, LATTICE_SETTLED)
    if answer is not None and other is not None:
        error = max(error, abs(other[0] / answer - 1))
        return (answer, error, "contour+lattice") if error < AGREEMENT else None
    if error < SETTLED:
        return answer, error, "contour"
    return None if other is None else (*other, "lattice")


def composed():
    rows = []
    for setting in COMPOSED:
        kind, g, c, sigma, steps, delta = setting
        directions = [pair.cut_for(steps, delta) for pair in pairs.directions(kind, g, c, sigma)]
        answers = [direction_epsilon(pair, steps, delta) for pair in directions]
        epsilon, error, method = max((answer for answer in answers if answer), default=(0.0, 1.0, "none"))
        # A direction left open does no harm if even its Chernoff bound is the smaller.
        exact_enough = all(
            answer or contour.chernoff(pair, steps, delta)[1] < epsilon for pair, answer in zip(directions, answers)
        )
        if exact_enough:
            rows.append((*setting, f"{epsilon:.12g}", f"{error:.1e}", method))
        print(*setting, epsilon, error, method, "" if exact_enough else "DROPPED", file=sys.stderr)
    header = ["kind", "g", "c", "sigma", "steps", "delta", "epsilon", "method_error", "method"]
    write("composed.csv", header, rows)


# Draws of drawn.csv, and the longest contour that each may take: rows that need a longer one are left out.
DRAWS, SHORT_WORK = 240, 1e7


def drawn():
    draw = random.Random(20261116)
    contour.LARGEST_WORK = SHORT_WORK
    rows = []
    for _ in range(DRAWS):
        kind = draw.choice(["poisson-add-remove", "poisson-replace", "poisson-patch", "without-replacement-patch"])
        g = float(f"{10 ** draw.uniform(-8, 0):.4g}")
        c = 1.0 if kind == "poisson-replace" else float(f"{10 ** draw.uniform(-4, 0):.4g}")
        sigma = float(f"{10 ** (draw.uniform(-1.3, 4) if draw.random() < 0.3 else draw.uniform(-0.5, 1)):.4g}")
        steps, delta = int(10 ** draw.uniform(0.4, 7)), float(f"{10 ** draw.uniform(-15, -0.31):.3g}")
        directions = [pair.cut_for(steps, delta) for pair in pairs.directions(kind, g, c, sigma)]
        try:
            with np.errstate(all="ignore"):
                epsilon, error = max(contour.epsilon(pair, steps, delta) for pair in directions)
        except (contour.TooFine, FloatingPointError, ValueError):
            continue
        if 1e-6 < epsilon < 1e4 and error < SETTLED:
            rows.append((kind, g, c, sigma, steps, delta, f"{epsilon:.12g}", f"{error:.1e}"))
    write("drawn.csv", ["kind", "g", "c", "sigma", "steps", "delta", "epsilon", "method_error"], rows)


def laplace():
    rows = []
    for scale, steps, epsilons in [
        (0.5, 1, [0.5, 1.5]),
        (1.0, 2, [0.3, 1.0, 1.7]),
        (2.0, 3, [0.1, 0.7, 1.3]),
        (2.0, 8, [0.5, 1.5, 3.0]),
        (10.0, 12, [0.05, 0.4, 1.0]),
        (5.0, 20, [0.5, 1.5, 3.0]),
        (1.0, 20, [5.0, 12.0, 18.0]),
    ]:
        rows += [(scale, steps, e, digits(exact.laplace_delta(scale, steps, e), 20)) for e in epsilons]
    write("laplace.csv", ["scale", "steps", "epsilon", "delta"], rows)


def laplace_edge():
    """Laplace mechanisms, whole and sampled, where their losses end."""
    rows = []
    for steps in [
        [(1.0, 1.0)] * 3,
        [(0.25, 1.0)] * 12,
        [(1.0, 1.0), (0.5, 1.0)],
        [(2.0, 0.2)] * 2,
        [(1.0, 0.3), (0.25, 1.0)],
        [(6.0, 0.01)] * 2,
    ]:
        whole = all(step == (steps[0][0], 1.0) for step in steps)
        directions = [[edges.Laplace(e, q, adding) for e, q in steps] for adding in [False, True]]
        top = sum(step.atoms()[0][0] for step in directions[0])
        for below in ["0.5", "0.1", "1e-2", "1e-4", "1e-7", "1e-10", "-1e-9", "-0.1"]:
            epsilon = float(top - mp.mpf(below))
            if epsilon <= 0:
                continue
            if whole:
                delta = exact.laplace_delta(1 / steps[0][0], len(steps), epsilon)
            else:
                mp.mp.dps = 25
                delta = max(edges.delta(direction, mp.mpf(epsilon)) for direction in directions)
                mp.mp.dps = 60
            rows.append((";".join(f"{e}:{q}" for e, q in steps), repr(epsilon), digits(delta, 18)))
    write("laplace_edge.csv", ["steps", "epsilon", "delta"], rows)


def finite():
    """Small distributions drawn at random, with infinite losses, by enumeration."""
    draw = random.Random(20261116)
    rows = []
    for case in range(40):
        steps, names = [], []
        for _ in range(draw.randrange(1, 5)):
            # Atoms (p, q) of two distributions; doubles, so that a test reads what was enumerated.
            count = draw.randrange(2, 5)
            p = [draw.random() for _ in range(count)]
            q = [draw.random() for _ in range(count)]
            infinite = draw.choice([0.0, 0.0, 10 ** draw.uniform(-8, -0.5)])
            scale = (1 - infinite) / sum(p)
            losses = sorted((float(mp.log(a * scale / (b / sum(q)))), a * scale) for a, b in zip(p, q))
            steps += [(losses, infinite)] * draw.choice([1, 1, 2])
        names = "|".join(";".join(f"{l!r}:{m!r}" for l, m in losses) + f";inf:{inf!r}" for losses, inf in steps)
        top = sum(losses[-1][0] for losses, _ in steps)
        for share in [0.0, 0.5, 0.9, 0.999, 1.0, 1.1]:
            epsilon = max(0.0, share * top)
            rows.append((names, repr(epsilon), digits(edges.finite(steps, mp.mpf(epsilon)), 20)))
    write("finite.csv", ["steps", "epsilon", "delta"], rows)


def rdp():
    mp.mp.dps = 40
    rows = []
    for q, sigma in [(1e-6, 1.0), (1e-3, 0.6), (0.01, 1.0), (0.01, 4.0), (0.1, 2.0), (0.5, 1.5), (1.0, 1.0)]:
        for order in [1.01, 1.5, 2.0, 2.5, 3.0, 4.7, 8.0, 16.0, 31.5, 64.0, 128.0]:
            rows.append((q, sigma, order, digits(exact.renyi_divergence(q, sigma, order), 20)))
    write("rdp.csv", ["q", "sigma", "order", "rdp"], rows)
    mp.mp.dps = 60


GENERATORS = [normal_tails, gaussian, single_step, composed, drawn, laplace, laplace_edge, finite, rdp]

if __name__ == "__main__":
    chosen = sys.argv[1:]
    for generator in GENERATORS:
        if not chosen or generator.__name__ in chosen:
            generator()
