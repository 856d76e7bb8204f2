"""Audits random plans and counts those that contradict their certificates.

Run: cargo build --release -p dapple-cli && python3 bench/audit/random_plans.py [--plans N] [--seed S] [--confidence C] [--masked | --banded]
Exits with 1 where more audits contradict than the confidence allows.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DAPPLE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release" / "dapple"


def masked_relation(draw, sampling):
    """Flags of private and public parts: both contents, all modes that have a price with the sampling, views of crops."""
    modes = ["decoupled"] if sampling == "balanced" else ["decoupled", "coupled-clipped", "coupled"]
    mode = draw.choice(modes)
    flags = ["--relation", "masked", "--masked-content", draw.choice(["substitute", "remove"]), "--public-gradient", mode]
    if mode == "coupled-clipped":
        flags += ["--public-clip", round(10 ** draw.uniform(-1, 1), 3)]
    if draw.random() < 0.5:
        width, height = draw.randint(4, 20), draw.randint(4, 20)
        crop = f"{draw.randint(2, width)}x{draw.randint(2, height)}"
        flags += ["--image", f"{width}x{height}", "--crop", crop, "--views", draw.choice([1, 2, 4])]
    return flags


def plan(draw, masked, banded):
    """Flags of a plan: any sampling, records or patches (or private tokens, if all plans are of these), crops, padding and views; or noise across the steps of
    Poisson sampling."""
    records, steps = draw.choice([200, 1000, 3000]), draw.choice([3, 10, 40])
    sampling = "poisson" if banded else draw.choice(["poisson", "poisson", "without-replacement", "balanced"])
    batch = max(1, int(records * 10 ** draw.uniform(-1.5, -0.301 if banded else 0)))
    flags = ["--sampling", sampling]
    if banded:
        flags += ["--bands", draw.randint(2, min(16, records // batch))]
        flags += ["--set", f"noise.coefficients={draw.choice(['square-root', 'optimised'])}"]
    if sampling == "balanced":
        per_record = draw.randint(1, steps)
        batch = max(1, records * per_record // steps)
        flags += ["--per-record", per_record]
    flags += ["--records", records, "--batch", batch, "--steps", steps]
    flags += ["--noise-multiplier", round(10 ** draw.uniform(-0.5, 0.5), 3), "--delta", draw.choice([1e-5, 1e-3, 1e-2, 0.1])]
    if masked:
        return [*flags, *masked_relation(draw, sampling)]
    if draw.random() < 1 / 3:
        fixed = sampling == "without-replacement"
        return [*flags, "--relation", "replace" if fixed else draw.choice(["replace", "add-remove"])]
    width, height = draw.randint(12, 40), draw.randint(12, 40)
    flags += ["--image", f"{width}x{height}", "--crop", f"{draw.randint(4, width)}x{draw.randint(4, height)}"]
    flags += ["--patch", f"{draw.randint(1, width // 2)}x{draw.randint(1, height // 2)}", "--views", draw.choice([1, 1, 2, 4])]
    if draw.random() < 0.4:
        flags += ["--pad", draw.randint(1, 5), "--pad-mode", draw.choice(["zero", "reflect", "replicate", "wrap"])]
    return flags


def audit(flags, confidence):
    """The answer of one audit; a contradiction ends it with 1."""
    words = [DAPPLE, "audit", "--json", "--quiet", "--device", "cpu", "--confidence", confidence, *flags]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{' '.join(map(str, flags))}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--confidence", type=float, default=0.9)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--banded", action="store_true", help="plans whose noise cancels across steps")
    kinds.add_argument("--masked", action="store_true", help="plans whose records have private and public parts")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    shares, contradictions = [], 0
    for _ in range(arguments.plans):
        flags = plan(draw, arguments.masked, arguments.banded)
        answer = audit(flags, arguments.confidence)
        measured, certified = answer["epsilon_lower_bound"], answer["epsilon_certified"]
        refuted = answer.get("refuted_curve", {"noise_multiplier": float("inf")})["noise_multiplier"]
        if measured > certified or refuted <= answer["noise_multiplier"]:
            contradictions += 1
            print("contradicts:", *flags, measured, certified, refuted)
        elif measured > 0:
            shares.append(measured / certified)
    shown = f"{len(shares)} show something, at most {max(shares, default=0):.0%} of what is certified"
    print(f"{arguments.plans} plans, {contradictions} contradict; {shown}")
    # Three deviations above what chance may do to either of the two bounds of an audit.
    expected = 2 * (1 - arguments.confidence) * arguments.plans
    sys.exit(contradictions > expected + 3 * expected**0.5)


if __name__ == "__main__":
    main()
