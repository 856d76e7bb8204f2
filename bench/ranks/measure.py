#!/usr/bin/env python3
"""Measures what ranks gain: `bench/ranks/measure.py [DAPPLE] [--ranks 1,2] [--batch 128] [--steps 8] [--model wrn-16-4] [--json]`.

One rank has one core. `alone` is the program without a launcher, `1` the same under `mpirun -n 1`, and so on. Rates are records a second of
wall clock between the end of the first step and that of the last, from the run's own diagnostics; the median of `--repeat` interleaved rounds is
printed. CPU seconds are of the whole process tree, start included; they grow with waiting, so on a busy machine neither number is the truth:
close everything else.
"""

import argparse
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDS = 2000
SIDE = 40


def npy(kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


def prepare(folder, arguments):
    draw = random.Random(1)
    (folder / "train.npy").write_bytes(npy("|u1", (RECORDS, SIDE, SIDE, 3), draw.randbytes(RECORDS * SIDE * SIDE * 3)))
    (folder / "labels.npy").write_bytes(npy("|u1", (RECORDS,), bytes(i % 10 for i in range(RECORDS))))
    (folder / "plan.toml").write_text(
        f"""[data]
format = 'npy'
train = 'train.npy'
train_labels = 'labels.npy'
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]
[model]
name = '{arguments.model}'
[optimiser]
learning_rate = 0.01
momentum = 0.9
[privacy]
noise_multiplier = 1.0
delta = 1e-5
[region]
patch = [4, 4]
[pipeline]
crop = [32, 32]
[sampling]
batch = {arguments.batch}
steps = {arguments.steps}
[train]
seed = 1
[performance]
threads = 1
device = 'cpu'
progress = 'never'
"""
    )


def run(folder, name, command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [json.loads(line) for line in (folder / name / "private/diagnostics.jsonl").read_text().splitlines()]
    records = sum(line["drawn"] for line in lines[1:])
    rate = records / (lines[-1]["seconds"] - lines[0]["seconds"])
    return rate, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dapple", nargs="?", default="dapple")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", default="wrn-16-4")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = str(Path(arguments.dapple).resolve()) if os.sep in arguments.dapple else arguments.dapple
    systems = {"alone": ["taskset", "-c", "0", program]}
    for ranks in arguments.ranks.split(","):
        binding = ["--bind-to", "core"] if int(ranks) <= os.cpu_count() else ["--oversubscribe"]
        systems[ranks] = ["mpirun", *binding, "-n", ranks, program]
    found = {name: [] for name in systems}
    models = set()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        prepare(folder, arguments)
        for repeat in range(arguments.repeat):
            for name, launcher in systems.items():
                out = f"run-{name}-{repeat}"
                command = [*launcher, "train", "plan.toml", "--out", out, "--quiet"]
                found[name].append(run(folder, out, command))
                models.add((folder / out / "model.safetensors").read_bytes())
    if len(models) != 1:
        sys.exit("the models differ")
    rows = []
    for name, runs in found.items():
        rates = [rate for rate, _ in runs]
        rows.append({
            "system": name,
            "records_per_second": statistics.median(rates),
            "least": min(rates),
            "most": max(rates),
            "cpu_seconds": statistics.median(cpu for _, cpu in runs),
        })
    if arguments.json:
        print(json.dumps({"rows": rows, "load": os.getloadavg()}))
        return
    base = rows[0]["records_per_second"]
    print(f"{'ranks':>6}  {'records/s':>9}  {'least':>8}  {'most':>8}  {'CPU s':>7}  {'times':>6}")
    for row in rows:
        rate = row["records_per_second"]
        print(f"{row['system']:>6}  {rate:9.1f}  {row['least']:8.1f}  {row['most']:8.1f}  {row['cpu_seconds']:7.1f}  {rate / base:6.3f}")
    print(f"load average {os.getloadavg()[0]:.1f}; all models have the same bits")


if __name__ == "__main__":
    main()
