#!/usr/bin/env python3
"""Prints how far the reference figures lie from the contour oracle: worst relative deviations first."""

import csv
from pathlib import Path

from oracle import contour, pairs

HERE = Path(__file__).parent


def rows(name):
    with open(HERE / name) as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def oracle(kind, g, c, sigma, steps, delta):
    directions = [pair.cut_for(steps, delta) for pair in pairs.directions(kind, g, c, sigma)]
    return max(float(contour.epsilon(pair, steps, delta)[0]) for pair in directions)


def main():
    found = []
    for name, column in [("patch_accounting.csv", "epsilon_refined"), ("calibrated_noise.csv", "epsilon")]:
        for row in rows(name):
            kind = "poisson-add-remove" if row["relation"] == "add-remove" else "without-replacement-patch"
            figure, label = float(row[column]), f"{name} {row.get('id', '')} {row['setting']}"
            arguments = float(row["effective_rate"]), 1.0, float(row["noise_multiplier"]), int(row["steps"]), float(row["delta"])
            try:
                truth = oracle(kind, *arguments)
            except contour.TooFine as problem:
                print(f"skipped {label}: {problem}")
                continue
            found.append((figure / truth - 1, figure, truth, label))
    for deviation, figure, truth, label in sorted(found, key=lambda item: -abs(item[0])):
        print(f"{deviation:+.2e} figure {figure:.9g} oracle {truth:.9g} {label}")


if __name__ == "__main__":
    main()
