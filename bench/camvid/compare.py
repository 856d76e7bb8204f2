"""Patch level against record level on CamVid, with learning rates chosen first (docs/experiments/camvid.md).

    python3 bench/camvid/compare.py OUT [--crop 96 --steps 200] [--rates 0.003,0.01,0.03,0.1,0.3] [--set KEY=VALUE ..]

Data and weights lie where examples/plans/camvid.toml looks for them. Every method is trained once at every budget with every candidate
and evaluated on the photographs to choose by; the best rate of each then trains it anew from four seeds, and these runs are evaluated on
the test photographs. Both steps are sweeps of `dapple sweep-train` and go on where they were interrupted. Prints Markdown.
"""

import argparse
import csv
import pathlib
import shlex
import statistics
import subprocess
import sys

PLAN = pathlib.Path(__file__).resolve().parents[2] / "examples/plans/camvid.toml"
METHODS = ["record", "patch", "record-poisson", "patch-poisson"]
PAIRS = [("record", "patch"), ("record-poisson", "patch-poisson")]


def sweep(arguments, out, *flags):
    """Trains, and returns the rows of runs.csv by method and budget, in the order of their seeds."""
    command = [arguments.dapple, "sweep-train", str(PLAN), "--out", str(out), "--epsilons", arguments.epsilons]
    command += ["--methods", ",".join(METHODS), "--crop", f"{arguments.crop}x{arguments.crop}"]
    command += ["--steps", str(arguments.steps), *(["--jobs", arguments.jobs] if arguments.jobs else [])]
    for setting in arguments.set:
        command += ["--set", setting]
    command += flags
    print(shlex.join(command), file=sys.stderr, flush=True)
    subprocess.run([*command, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    found = {}
    with open(out / "runs.csv", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["method"], row["epsilon_target"]), []).append(row)
    return found


def scores(rows):
    return [float(row["miou"]) for row in rows]


def named(key):
    method, epsilon = key
    return f"{method}, epsilon {float(epsilon):g}"


def choose(arguments):
    """The best candidate of every method and budget, by runs that the comparison does not use."""
    rates = arguments.rates.split(",")
    flags = ("--seeds", "1", "--set", f"data.test={arguments.choose_by}", "--set")
    tried = {rate: sweep(arguments, arguments.out / f"rate-{rate}", *flags, f"optimiser.learning_rate={rate}") for rate in rates}
    print("| learning rate |", " | ".join(rates), "|\n" + "|---" * (len(rates) + 1) + "|")
    best = {}
    for key in tried[rates[0]]:
        reached = {rate: statistics.mean(scores(tried[rate][key])) for rate in rates}
        best[key] = max(reached, key=reached.get)
        cells = [f"**{value:.3f}**" if rate == best[key] else f"{value:.3f}" for rate, value in reached.items()]
        print(f"| {named(key)} |", " | ".join(cells), "|", flush=True)
    return best


def show(found, best):
    print("\n| method | learning rate | noise multiplier | mIoU | deviation | single runs |\n|---|---|---|---|---|---|")
    for key, rows in found.items():
        values = scores(rows)
        noise = f"{float(rows[0]['noise_multiplier']):.4g}"
        single = ", ".join(f"{value:.3f}" for value in values)
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        print(f"| {named(key)} | {best[key]} | {noise} | {mean:.3f} | {deviation:.3f} | {single} |")
    print("\n| epsilon | sampling | gain in points | standard error | t | share |\n|---|---|---|---|---|---|")
    for record, patch in PAIRS:
        for method, epsilon in found:
            if method == record:
                lower, upper = scores(found[record, epsilon]), scores(found[patch, epsilon])
                gains = [b - a for a, b in zip(lower, upper)]
                gain, error = statistics.mean(gains), statistics.stdev(gains) / len(gains) ** 0.5
                drawn = "Poisson" if "poisson" in record else "without replacement"
                share = gain / statistics.mean(lower)
                print(f"| {float(epsilon):g} | {drawn} | {100 * gain:.1f} | {100 * error:.1f} | {gain / error:.1f} | {share:+.0%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dapple", default="dapple", help="the program")
    parser.add_argument("--epsilons", default="5,10")
    parser.add_argument("--rates", default="0.006,0.02,0.06,0.2,0.6", help="candidates, the same for every method")
    parser.add_argument("--choose-by", default="camvid/val", help="photographs to choose learning rates by")
    parser.add_argument("--seeds", default="4")
    parser.add_argument("--crop", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--jobs", help="runs at once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the plan")
    arguments = parser.parse_args()
    best = choose(arguments)
    flags = [part for (method, epsilon), rate in best.items() for part in ("--set-for", own(method, epsilon, rate))]
    show(sweep(arguments, arguments.out / "test", "--seeds", arguments.seeds, *flags), best)


def own(method, epsilon, rate):
    return f"{method}@{float(epsilon):g}:optimiser.learning_rate={rate}"


if __name__ == "__main__":
    main()
