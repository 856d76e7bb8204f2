"""The questions every accountant answers, with the truth from crates/accounting/tests/goldens (contour oracle)."""

from dataclasses import dataclass

PATCH_RATE = 0.0004878453381226844
TINY_RATE = 3.8489563810743246e-06


@dataclass(frozen=True)
class Question:
    """`kind` is epsilon, calibrate, profile or patch; `numbers` are its arguments, `warm_up` others of the same cost.

    epsilon and patch: sigma, rate, steps, delta; calibrate: epsilon, rate, steps, delta (answer: sigma);
    profile: sigma, rate, steps, points, top (answer: delta at the last of `points` epsilons up to `top`).
    """

    name: str
    kind: str
    numbers: tuple
    warm_up: tuple
    truth: float
    cli: tuple


def poisson(batch, records, steps, *rest):
    return (
        "--json", "--relation", "add-remove", "--sampling", "poisson",
        "--batch", str(batch), "--records", str(records), "--steps", str(steps), *rest,
    )  # fmt: skip


def epsilon(name, sigma, batch, records, steps, delta, truth):
    flags = poisson(batch, records, steps, "--noise-multiplier", str(sigma), "--delta", str(delta))
    numbers = (sigma, batch / records, steps, delta)
    warm_up = (1.05 * sigma, 0.9 * batch / records, steps * 9 // 10, delta)
    return Question(name, "epsilon", numbers, warm_up, truth, ("account", *flags))


# The command line takes whole records: this many make the tiny rate right to 1e-9.
TINY_RECORDS = round(10_000 / TINY_RATE)

QUESTIONS = [
    epsilon("sigma 1, q 0.01, T 1e4", 1, 100, 10_000, 10_000, 1e-5, 6.18771238997),
    epsilon("sigma 0.8, q 256/60000, T 14000", 0.8, 256, 60_000, 14_000, 1e-5, 4.53903954337),
    epsilon("sigma 1, q 0.01, T 1e6", 1, 100, 10_000, 1_000_000, 1e-5, 139.03027257),
    Question(
        "calibrate to epsilon 8, q 4096/50000, T 2441",
        "calibrate",
        (8, 4096 / 50_000, 2441, 1e-5),
        (7, 4000 / 50_000, 2400, 1e-5),
        2.54794835495,
        ("calibrate", "--for", "noise-multiplier", *poisson(4096, 50_000, 2441, "--epsilon", "8", "--delta", "1e-5")),
    ),
    epsilon("delta 1e-12, sigma 1, q 0.01, T 1000", 1, 100, 10_000, 1_000, 1e-12, 3.91429815604),
    epsilon("delta 1e-14, sigma 1, q 0.01, T 1000", 1, 100, 10_000, 1_000, 1e-14, 4.54370198859),
    Question(
        "profile of 200 points, sigma 1, q 0.01, T 1e4",
        "profile",
        (1, 0.01, 10_000, 200, 8),
        (1.05, 0.009, 9_000, 200, 8),
        2.02838094149e-08,
        ("profile", *poisson(100, 10_000, 10_000, "--noise-multiplier", "1", "--epsilons", "0.04:8:200")),
    ),
    epsilon("tiny rate: sigma 4, q 3.849e-6, T 1e5", 4, 10_000, TINY_RECORDS, 100_000, 1e-5, 0.000450534378568),
    Question(
        "patch, without replacement: sigma 1, rate 4.878e-4, T 3000",
        "patch",
        (1, PATCH_RATE, 3_000, 1e-5),
        (1.05, 0.9 * PATCH_RATE, 2_700, 1e-5),
        2.73738805671,
        (
            "account", "--json", "--relation", "patch", "--image", "1000x1000", "--crop", "100x100", "--patch", "10x10",
            "--sampling", "without-replacement", "--batch", "100", "--records", "3000", "--steps", "3000",
            "--noise-multiplier", "1", "--delta", "1e-5",
        ),  # fmt: skip
    ),
]
