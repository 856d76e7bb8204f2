#!/usr/bin/env python3
"""How long a step takes on N ranks, on paper and by simulation: `bench/scaling/model.py [--network ethernet-10g] [--batch 4096] [--records 50000] ..`.

On paper, a step takes

    T(N) = toss R + c max over ranks of their records + jitter + sum(S, N) + once S

with `c` the core seconds of a record, `toss` those of a record's coin (every rank tosses all of them, because one stream decides them), `S` the
values of the model, `sum` a ring that sends 2 (N - 1) / N of 4 S bytes (8 S beyond 1024 records a step) in 2 (N - 1) messages, or the recursive halving
of 2 log2 N messages if that is quicker, and `once` what every rank does alike to each value: noise, update, mark. Records are dealt out one by
one, so the ranks' numbers differ by one at the most.

The simulation draws, for each step, how long each rank computes (a normal law with the given share of deviation, as machines disturb each
other), and lets the step wait for the slowest; it holds the closed form `deviation sqrt(2 ln N)` to account.

Constants are core seconds of one machine; take your own by `bench/ranks/measure.py` and the example `sums` of `dapple-mpi`.
"""

import argparse
import json
import math
import random

# Bytes a second and seconds a message, each way.
NETWORKS = {
    "shared-memory": (3.0e9, 5e-6),
    "ethernet-1g": (1.1e8, 5e-5),
    "ethernet-10g": (1.1e9, 3e-5),
    "infiniband-100g": (1.1e10, 2e-6),
}


def summed(values, ranks, records, network):
    """Seconds of the sum over all ranks."""
    if ranks == 1:
        return 0.0
    bandwidth, latency = NETWORKS[network]
    size = values * (4 if records <= 1024 else 8)
    sent = 2 * (ranks - 1) / ranks * size / bandwidth
    messages = min(2 * (ranks - 1), 2 * math.ceil(math.log2(ranks)))
    return sent + messages * latency


def step(arguments, ranks):
    """Seconds of a step, and those of its parts."""
    own = math.ceil(arguments.batch / ranks)
    compute = own * arguments.record / arguments.cores
    slowest = compute * arguments.jitter * math.sqrt(2 * math.log(ranks)) if ranks > 1 else 0.0
    parts = {
        "toss": arguments.toss * arguments.records,
        "compute": compute,
        "waiting": slowest,
        "sum": summed(arguments.values, ranks, arguments.batch, arguments.network),
        "once": arguments.once * arguments.values / arguments.cores,
    }
    return sum(parts.values()), parts


def simulated(arguments, ranks, steps, draw):
    """Mean seconds of a step whose ranks take as long as they happen to."""
    _, parts = step(arguments, ranks)
    total = 0.0
    for _ in range(steps):
        slowest = max(parts["compute"] * max(0.0, draw.gauss(1.0, arguments.jitter)) for _ in range(ranks))
        total += slowest + parts["toss"] + parts["sum"] + parts["once"]
    return total / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--records", type=float, default=50_000)
    parser.add_argument("--values", type=float, default=2.75e6, help="parameters that train; WRN-16-4 by default")
    parser.add_argument("--record", type=float, default=0.020, help="core seconds of a record (99.8 a second on two cores: docs/engine.md)")
    parser.add_argument("--toss", type=float, default=2e-9, help="seconds of a coin; assumed, two bytes of ChaCha20")
    parser.add_argument("--once", type=float, default=5e-9, help="core seconds a value: noise (3.9 ns: docs/benchmarks.md), update, mark")
    parser.add_argument("--jitter", type=float, default=0.02, help="deviation of a rank's time, as a share of it")
    parser.add_argument("--cores", type=int, default=1, help="cores of a rank")
    parser.add_argument("--network", choices=NETWORKS, default="ethernet-10g")
    parser.add_argument("--ranks", default="1,2,4,8,16,32,64,128,256,512,1024")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    alone, _ = step(arguments, 1)
    draw = random.Random(1)
    rows = []
    for ranks in map(int, arguments.ranks.split(",")):
        seconds, parts = step(arguments, ranks)
        rows.append({
            "ranks": ranks,
            "seconds": seconds,
            "simulated": simulated(arguments, ranks, 40, draw),
            "times": alone / seconds,
            "efficiency": alone / seconds / ranks,
            **parts,
        })
    if arguments.json:
        print(json.dumps({"rows": rows}))
        return
    names = ["ranks", "seconds", "simulated", "times", "efficiency", "toss", "compute", "waiting", "sum", "once"]
    print("  ".join(f"{name:>10}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]:10.4g}" for name in names))
    pays = [row["ranks"] for row in rows if row["efficiency"] >= 0.5]
    print(f"at least half of every rank is used up to {max(pays)} ranks; the step is shortest on {min(rows, key=lambda row: row['seconds'])['ranks']}")


if __name__ == "__main__":
    main()
