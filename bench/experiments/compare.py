"""Patch level, or private parts, against record level for one plan, with learning rates chosen first (docs/experiments).

    python3 bench/experiments/compare.py PLAN OUT --choose-by DATA --rates 0.003,0.01,0.03 [--variant NAME:KEY=VALUE,..] [--set KEY=VALUE ..]

Data and weights lie where the plan looks for them. Every method is trained once at every budget with every candidate and evaluated on
the images to choose by; the best rate of each then trains it anew from four seeds, and these runs are evaluated on the test images. With
variants, all of this is done for each of them. Both steps are sweeps of `dapple sweep-train` and go on where they were interrupted.
Prints Markdown.
"""

import argparse
import csv
import pathlib
import shlex
import statistics
import subprocess
import sys

PAIRS = [("record", "patch"), ("record-poisson", "patch-poisson"), ("record-poisson", "masked"), ("add-remove", "masked-remove")]


def sweep(arguments, out, *flags):
    """Trains, and returns the rows of runs.csv by method and budget, in the order of their seeds."""
    command = [arguments.dapple, "sweep-train", str(arguments.plan), "--out", str(out), "--epsilons", arguments.epsilons]
    command += ["--methods", arguments.methods, *(["--jobs", arguments.jobs] if arguments.jobs else []), *flags]
    print(shlex.join(command), file=sys.stderr, flush=True)
    subprocess.run([*command, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    found = {}
    with open(out / "runs.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["steps_lost"]):
                sys.exit(f"{out}: {row['method']}, seed {row['seed']} lost steps when it was killed; remove its folder to train it anew")
            found.setdefault((row["method"], row["epsilon_target"]), []).append(row)
    return found


def scores(rows):
    """Mean intersection over union where there are label maps, else the share of images whose class is right, or its mean over classes."""
    return [float(row.get("miou") or row.get("class_accuracy") or row["accuracy"]) for row in rows]


def named(key):
    method, epsilon = key
    return f"{method}, epsilon {float(epsilon):g}"


def choose(arguments, out, settings):
    """The best candidate of every method and budget, by runs that the comparison does not use."""
    rates = arguments.rates.split(",")
    flags = (*settings, "--seeds", "1", "--set", f"data.test={arguments.choose_by}", "--set")
    tried = {rate: sweep(arguments, out / f"rate-{rate}", *flags, f"optimiser.learning_rate={rate}") for rate in rates}
    print("| learning rate |", " | ".join(rates), "|\n" + "|---" * (len(rates) + 1) + "|")
    best = {}
    for key in tried[rates[0]]:
        reached = {rate: statistics.mean(scores(tried[rate][key])) for rate in rates}
        best[key] = max(reached, key=reached.get)
        cells = [f"**{value:.3f}**" if rate == best[key] else f"{value:.3f}" for rate, value in reached.items()]
        print(f"| {named(key)} |", " | ".join(cells), "|", flush=True)
    return best


def show(found, best):
    print("\n| method | learning rate | noise multiplier | score | deviation | single runs |\n|---|---|---|---|---|---|")
    for key, rows in found.items():
        values = scores(rows)
        noise = f"{float(rows[0]['noise_multiplier']):.4g}"
        single = ", ".join(f"{value:.3f}" for value in values)
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        print(f"| {named(key)} | {best[key]} | {noise} | {mean:.3f} | {deviation:.3f} | {single} |")
    print("\n| epsilon | methods | gain in points | standard error | t | share |\n|---|---|---|---|---|---|")
    for record, patch in PAIRS:
        for method, epsilon in found:
            if method == record and (patch, epsilon) in found:
                lower, upper = scores(found[record, epsilon]), scores(found[patch, epsilon])
                gains = [b - a for a, b in zip(lower, upper)]
                gain, error = statistics.mean(gains), statistics.stdev(gains) / len(gains) ** 0.5
                share = gain / statistics.mean(lower)
                print(f"| {float(epsilon):g} | {patch} over {record} | {100 * gain:.1f} | {100 * error:.1f} | {gain / error:.1f} | {share:+.0%} |")


def variants(arguments):
    """The name of each variant, and the flags that make it."""
    always = [part for setting in arguments.set for part in ("--set", setting)]
    if not arguments.variant:
        return {"": always}
    named = (variant.split(":", 1) for variant in arguments.variant)
    return {name: always + [part for setting in settings.split(",") for part in ("--set", setting)] for name, settings in named}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dapple", default="dapple", help="the program")
    parser.add_argument("--epsilons", default="5,10")
    parser.add_argument("--methods", default="record,patch,record-poisson,patch-poisson")
    parser.add_argument("--rates", required=True, help="candidates, the same for every method")
    parser.add_argument("--choose-by", required=True, help="images to choose learning rates by")
    parser.add_argument("--seeds", default="4")
    parser.add_argument("--jobs", help="runs at once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the plan")
    parser.add_argument("--variant", action="append", metavar="NAME:KEY=VALUE,..", help="keys of the plan that make a variant; may be repeated")
    arguments = parser.parse_args()
    for name, settings in variants(arguments).items():
        if name:
            print(f"\n## {name}\n", flush=True)
        best = choose(arguments, arguments.out / name, settings)
        rates = [part for (method, epsilon), rate in best.items() for part in ("--set-for", own(method, epsilon, rate))]
        show(sweep(arguments, arguments.out / name / "test", *settings, "--seeds", arguments.seeds, *rates), best)
        sys.stdout.flush()


def own(method, epsilon, rate):
    return f"{method}@{float(epsilon):g}:optimiser.learning_rate={rate}"


if __name__ == "__main__":
    main()
