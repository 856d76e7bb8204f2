"""Google's dp_accounting, prv_accountant, opacus, opake and Dapple answer the same questions: accounting.py [--json].

Every answer comes from a fresh process, one after the other. What is timed differs, and each row's `timing` says so: a peer gives one
answer after a warm-up with other numbers, imports excluded; `dapple` is the whole process of the command line, start included;
`dapple-in-process` repeats its answer in a loop and takes the mean, which is kinder than the peers' single answer. Ratios are
therefore taken against `dapple` only.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accounting_peers import PEERS
from accounting_questions import QUESTIONS
from table import number, print_rows, row

HERE = Path(__file__).parent
TARGET = Path(os.environ.get("DAPPLE_TARGET", HERE.parent.parent / "target/release"))
# A cell that has taken this long is not repeated further; a process that takes longer than the limit is given up.
ENOUGH_SECONDS, LIMIT_SECONDS = 60, 120


def run_peer(system, index):
    command = [sys.executable, str(HERE / "accounting_worker.py"), system, str(index)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    if done.returncode != 0:
        return {"absent": f"ended with status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def run_command_line(_, index):
    """Whole-process user and system time and peak memory, from the kernel's account of the child."""
    binary = TARGET / "dapple"
    if not binary.exists():
        return {"absent": "not built"}
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([str(binary), *QUESTIONS[index].cli], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            return {"absent": f"ended with status {child.returncode}"}
        out.seek(0)
        found = json.load(out)
    if "points" in found:
        result = found["points"][-1]["delta"]
    elif "solved" in found:
        result = found["solved"]["value"]
    else:
        result = found["epsilon"]["upper"]
    spent = usage.ru_utime + usage.ru_stime
    return {"result": result, "cpu_seconds": spent, "peak_mb": usage.ru_maxrss / 1024}


def run_in_process(_, index):
    binary = TARGET / "examples/answer"
    if not binary.exists():
        return {"absent": "not built"}
    question = QUESTIONS[index]
    command = [str(binary), question.kind, *(repr(float(n)) for n in question.numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    return json.loads(done.stdout) if done.returncode == 0 else {"absent": f"ended with status {done.returncode}"}


TIMING = {"dapple": "whole process", "dapple-in-process": "mean of a warm loop", **dict.fromkeys(PEERS, "one warm answer")}
RUNNERS = {"dapple": run_command_line, "dapple-in-process": run_in_process, **dict.fromkeys(PEERS, run_peer)}


def remark(result, truth):
    """A bound (or a noise multiplier) below the truth claims more privacy than there is."""
    difference = result / truth - 1
    if not math.isfinite(result):
        return "not finite"
    if difference < -1e-6:
        return f"BELOW the truth by {-100 * difference:.2g} %"
    return f"above by {100 * difference:.2g} %"


def measure(system, index, repeats):
    question, answers, start = QUESTIONS[index], [], time.monotonic()
    for _ in range(repeats):
        try:
            answers.append(RUNNERS[system](system, index))
        except subprocess.TimeoutExpired:
            answers.append({"absent": f"gave no answer in {LIMIT_SECONDS} s"})
        if "absent" in answers[-1] or time.monotonic() - start > ENOUGH_SECONDS:
            break
    absent = answers[-1].get("absent")
    if absent:
        print(f"note: {system}: {question.name}: {absent}", file=sys.stderr)
        return row(system=system, task=question.name, timing=TIMING[system], truth=question.truth, note=absent)
    seconds = [answer["cpu_seconds"] for answer in answers]
    return row(
        system=system,
        task=question.name,
        timing=TIMING[system],
        cpu_seconds=statistics.median(seconds),
        cpu_seconds_min=min(seconds),
        repeats=len(answers),
        peak_mb=max(answer["peak_mb"] for answer in answers),
        result=answers[-1]["result"],
        truth=question.truth,
        note=remark(answers[-1]["result"], question.truth),
    )


def main():
    parser = argparse.ArgumentParser(prog="bench/peers/run accounting", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--only", default=",".join(RUNNERS), help="systems to measure, with commas (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes an answer (default: %(default)s)")
    arguments, _ = parser.parse_known_args()
    systems = arguments.only.split(",")
    for system in systems:
        if system not in RUNNERS:
            parser.error(f"unknown system {system}; known: {', '.join(RUNNERS)}")
    rows = [measure(system, index, arguments.repeats) for index in range(len(QUESTIONS)) for system in systems]
    columns = {
        "result": lambda r: number(r["result"]),
        "truth": lambda r: number(r["truth"]),
        "CPU s": lambda r: number(r["cpu_seconds"], "{:.4f}"),
        "timing": lambda r: r["timing"],
        "peak MB": lambda r: number(r["peak_mb"], "{:.0f}"),
    }
    print_rows(rows, arguments.json, columns, ratio_of="cpu_seconds")


if __name__ == "__main__":
    main()
