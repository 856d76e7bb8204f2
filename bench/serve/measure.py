#!/usr/bin/env python3
"""How long `dapple serve` takes to answer about the README's plans, as the page asks while a control is dragged.

Usage: bench/serve/measure.py target/release/dapple [--rounds N] [--json]

Each question differs from the one before, as it does under a moving control, so that no answer can be one that was kept. What is measured is
the time from the first byte of a question to the last byte of its answer, over a connection of its own on this machine.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

STREET = {
    "privacy": {"relation": "patch", "delta": "1/n", "noise_multiplier": 1.0},
    "region": {"patch": [10, 10]},
    "pipeline": {"image": [2048, 1024], "crop": [505, 505]},
    "sampling": {"scheme": "poisson", "batch": 200, "records": 2975, "epochs": 100},
}
SQUARE = {
    "privacy": {"delta": 1e-5, "noise_multiplier": 1.0},
    "region": {"patch": [10, 10]},
    "pipeline": {"image": [1000, 1000], "crop": [100, 100]},
    "sampling": {"batch": 100, "records": 3000, "epochs": 100},
}
RECORDS = {
    "privacy": {"relation": "replace", "delta": 1e-5, "noise_multiplier": 1.0},
    "sampling": {"batch": 100, "records": 3000, "epochs": 100},
}
SCENES = {
    "privacy": {"epsilon": 2.0, "delta": 1e-5},
    "region": {"patch": [8, 8]},
    "pipeline": {"image": [128, 128], "crop": [32, 32]},
    "sampling": {"batch": 256, "steps": 400, "records": 10000},
}


def cpu_ms(process):
    """Time that the server has computed so far, in milliseconds; it does not grow while others have the processor."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def changed(plan, section, key, value):
    return {**plan, section: {**plan[section], key: value}}


def questions():
    """Names, addresses, and the question of each round."""
    noise = lambda plan: lambda n: changed(plan, "privacy", "noise_multiplier", 1.0 + 0.005 * n)
    crop = lambda n: {"set": {"pipeline.crop": str(300 + 7 * n)}}
    return [
        ("account, patch of a square image", "account", noise(SQUARE)),
        ("account, whole records", "account", noise(RECORDS)),
        ("account, street scenes", "account", noise(STREET)),
        ("account, noise solved for a budget", "account", lambda n: changed(SCENES, "privacy", "epsilon", 2.0 + 0.02 * n)),
        ("price at both levels, crop dragged", "price", crop),
        ("price at both levels, noise dragged", "price", lambda n: {"set": {"privacy.noise_multiplier": str(1 + 0.01 * n)}}),
        ("price at both levels, budget dragged", "price", lambda n: {"unset": ["privacy.noise_multiplier"], "set": {"privacy.epsilon": str(2 + 0.02 * n)}}),
        ("map of what crops see", "coverage", crop),
        ("curve over the crop", "curve", lambda n: {"over": "crop", **crop(n)}),
    ]


def ask(host, token, what, question):
    body = json.dumps(question)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.connect()
    began = time.perf_counter()
    connection.request("POST", f"/api/{what}", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    took = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        sys.exit(f"{what}: {answer.status} {text.decode()}")
    return 1000 * took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dapple")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    plan = ["--relation", "patch", "--delta", "1/n", "--noise-multiplier", "1", "--patch", "10x10", "--image", "2048x1024",
            "--crop", "505x505", "--sampling", "poisson", "--batch", "200", "--records", "2975", "--epochs", "100"]
    server = subprocess.Popen([arguments.dapple, "serve", "--no-open", *plan], stdout=subprocess.PIPE, text=True)
    try:
        url = urlsplit(server.stdout.readline().strip())
        token = parse_qs(url.query)["token"][0]
        rows = []
        for name, what, question in questions():
            ask(url.netloc, token, what, question(arguments.rounds))  # pages of the program that were never touched are loaded
            before = cpu_ms(server)
            times = sorted(ask(url.netloc, token, what, question(n)) for n in range(arguments.rounds))
            cpu = (cpu_ms(server) - before) / arguments.rounds
            late = times[min(len(times) - 1, int(0.95 * len(times)))]
            rows.append({"question": name, "median_ms": statistics.median(times), "late_ms": late, "most_ms": times[-1], "cpu_ms": cpu})
    finally:
        server.terminate()
    if arguments.json:
        print(json.dumps({"rounds": arguments.rounds, "rows": rows}, indent=2))
        return
    print(f"{'question':<40} {'median':>9} {'19 of 20':>9} {'longest':>9} {'computed':>9}   (milliseconds, {arguments.rounds} rounds)")
    for row in rows:
        print(f"{row['question']:<40} {row['median_ms']:>9.1f} {row['late_ms']:>9.1f} {row['most_ms']:>9.1f} {row['cpu_ms']:>9.1f}")


if __name__ == "__main__":
    main()
