"""Measures training steps on a CUDA card: PyTorch without privacy (as it comes, and compiled), Opacus, Opacus with ghost clipping, `torch.func`
(per-sample gradients by `vmap`, compiled), and Dapple.

Every system runs in a process of its own, one after the other on the same models and batches. A step is a forward and a backward pass
over the batch, ending with one summed gradient; it includes clipping for all but PyTorch without privacy. Dapple's step also includes sending the
samples to the card, noise and an update by Adam; the peers' data stays on the card. The median of at least five steps after two warm-ups counts.
Peak memory is what the framework allocated (peers) or planned (Dapple), without the driver's own share.

Precisions: `tf32` is how the peers come: their convolutions round factors to TF32, their other products do not. `opacus-tf32` is Opacus with all
of its products rounded, as Dapple's are; whatever is compiled has all of them rounded, too. `f32` is single precision throughout, `bf16` runs the peers under autocast.
The peers' wide residual network has no weight standardisation (Opacus has no rule for it), which is work that only Dapple does.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import engine
import transformers

MODELS = engine.MODELS | {"deeplab-v3-plus": (3, 505, 505)}
# What is measured unless a model is named, and the batch of each; other models have the first one.
BATCHES = {
    "wrn-16-4": 1024,
    "resnet-18": 1024,
    "resnet-50": 256,
    "deeplab-v3-plus": 64,
    "vit-b-16": 128,
    "vit-b-16-lora": 128,
    "convnext-t": 128,
}
# The peers' precisions unless one is named; Dapple runs in all of them.
PRECISIONS = ["tf32", "f32", "bf16"]
COMPILED = ["torch-compile", "torch-func-compile"]
PEERS = {
    "tf32": ["pytorch", "opacus", "opacus-tf32", "opacus-ghost", *COMPILED],
    "f32": ["pytorch", "opacus", *COMPILED],
    "bf16": ["pytorch", "opacus", *COMPILED],
}
# The same where nearly all products are matrix products: TF32 is asked for, and ghost norms are the stronger mode in bf16.
TOKEN_PEERS = {
    "tf32": ["pytorch-tf32", "opacus-tf32", "opacus-ghost-tf32", *COMPILED],
    "f32": ["pytorch", "opacus", *COMPILED],
    "bf16": ["pytorch", "opacus", "opacus-ghost", *COMPILED],
}
# Models whose peers are measured in more than TF32 unasked: the others would take minutes.
SMALL = ["wrn-16-4"]
# How often a batch is doubled at most, until the card's memory is full.
DOUBLINGS = 5
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Seconds after which no further step is started; warm-ups and five steps always run.
SECONDS = float(os.environ.get("DAPPLE_BENCH_SECONDS", "4"))
WARM_UPS, LEAST, MOST = 2, 5, 300
# Seconds that a process may take for all of its work.
PATIENCE = 600


def empty(system, model, batch, precision, result=None):
    """A row without numbers."""
    row = {"system": system, "task": model, "batch": batch, "precision": precision}
    return row | dict.fromkeys(("samples_per_second", "cpu_seconds", "peak_mb")) | {"result": result}


def step_of(system, model, batch):
    """A function that runs one step of a peer."""
    system = system.removesuffix("-tf32")
    if model != "deeplab-v3-plus":
        return engine.step_of(system, model, batch)
    import torch
    import torchvision
    from deeplab import CLASSES, Deeplab, PixelLoss

    def group_norm(channels):
        return torch.nn.GroupNorm(32, channels)

    backbone = torchvision.models.resnet50(norm_layer=group_norm, replace_stride_with_dilation=[False, False, True])
    del backbone.fc, backbone.avgpool
    net = Deeplab(engine.residual(backbone)).train()
    for module in net.modules():
        if isinstance(module, torch.nn.ReLU):
            module.inplace = False
    inputs = torch.rand(batch, *MODELS[model]) * 2 - 1
    labels = torch.randint(CLASSES, (batch, *MODELS[model][1:]))
    return engine.step_with(system, net, inputs, labels, PixelLoss())


def median_step(step):
    """Seconds of the median step."""
    import torch

    times, started = [], None
    while len(times) < WARM_UPS + LEAST or (time.perf_counter() - started < SECONDS and len(times) < MOST):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if len(times) == WARM_UPS:
            started = time.perf_counter()
    return statistics.median(times[WARM_UPS:])


def measure_peer(system, precision, work):
    """Runs in a process of its own; prints a row for each batch of each model, up to the first that does not fit."""
    import gc
    import warnings

    import torch

    warnings.filterwarnings("ignore")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = system.endswith("-tf32") or precision == "tf32" and system in COMPILED
    torch.backends.cudnn.benchmark = True
    torch.set_default_device("cuda")
    torch.cuda.init()
    for model, batches in work.items():
        for batch in batches:
            row, step = empty(system, model, batch, precision), None
            try:
                step = step_of(system, model, batch)
                if precision == "bf16":
                    step = torch.autocast("cuda", torch.bfloat16)(step)
                row["samples_per_second"] = batch / median_step(step)
                row["peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
            except RuntimeError as error:
                row["result"] = "out of memory" if "memory" in str(error).lower() else f"failed: {str(error)[:200]}"
            print(json.dumps(row), flush=True)
            del step
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            if row["result"]:
                break


def answers(command, environment=None):
    """Yields what a process prints of JSON, as it comes, and at last why it failed, if it did."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
            failed = process.wait()
        finally:
            watch.cancel()
        if failed:
            errors.seek(0)
            yield {"error": (errors.read().strip().splitlines() or [f"ended with {failed}"])[-1]}


def peer(system, precision, work):
    """Rows of a peer: for each model of the work, its batches."""
    command = [sys.executable, __file__, "--peer", system, "--precision", precision, "--work", json.dumps(work)]
    left = dict(work)
    for row in answers(command):
        if "error" in row:
            model = next(iter(left))
            yield empty(system, model, work[model][0], precision, row["error"][:200])
        else:
            # Models come in the order of the work.
            while next(iter(left)) != row["task"]:
                left.pop(next(iter(left)))
            yield row


def example():
    """The path of our side: where `run` built it, else built here."""
    built = pathlib.Path(os.environ.get("DAPPLE_TARGET", "")) / "examples" / "cuda_bench"
    if "DAPPLE_TARGET" in os.environ and built.exists():
        return str(built)
    if not shutil.which("cargo"):
        sys.exit(f"there is neither {built} nor a cargo to build it with")
    command = ["cargo", "build", "--release", "--quiet", "-p", "dapple-engine", "--features", "cuda", "--example", "cuda_bench"]
    done = subprocess.run(command + ["--message-format=json"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    paths = (json.loads(line).get("executable") for line in done.stdout.splitlines() if line.startswith("{"))
    return [path for path in paths if path][-1]


def libraries():
    """Folders of CUDA's libraries where PyTorch brings them as Python packages."""
    found = subprocess.run(
        [sys.executable, "-c", "import nvidia; print(list(nvidia.__path__)[0])"], capture_output=True, text=True
    ).stdout.strip()
    folders = sorted({str(path.parent) for path in pathlib.Path(found).rglob("lib*.so*")}) if found else []
    return ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")])


def ours(binary, model, batch, precision):
    flags = [] if precision == "f32" else [f"--{precision}"]
    environment = os.environ | {"LD_LIBRARY_PATH": libraries()}
    row = empty("dapple", model, batch, precision)
    for answer in answers([binary, *flags, model, str(SECONDS), str(batch)], environment):
        if "error" in answer:
            return row | {"result": answer["error"][:200]}
        row |= {key: answer[key] for key in ("samples_per_second", "peak_mb")}
    return row


def measure(models, batch, precisions, limit, only=None):
    """Yields one row per measurement: in each precision Dapple first, then its peers, or some of them."""
    binary = example()
    first = {model: batch or BATCHES.get(model, 1024) for model in models}
    for precision in precisions or PRECISIONS:
        for model in models:
            yield ours(binary, model, first[model], precision)
        doublings = DOUBLINGS if limit and not batch and precision == "tf32" else 0
        compared = [model for model in models if precisions or precision == "tf32" or model in SMALL]
        work = {model: [first[model] << doubling for doubling in range(doublings + 1)] for model in compared}
        largest = dict(first)
        images = {model: batches for model, batches in work.items() if model not in transformers.NAMES}
        tokens = {model: batches for model, batches in work.items() if model in transformers.NAMES}
        for systems, part in ((PEERS, images), (TOKEN_PEERS, tokens)):
            for system in [system for system in systems[precision] if part and (only is None or system in only)]:
                for row in peer(system, precision, part):
                    yield row
                    if row["samples_per_second"]:
                        largest[row["task"]] = max(largest[row["task"]], row["batch"])
        for model in compared:
            if largest[model] > first[model]:
                yield ours(binary, model, largest[model], precision)


def table(rows):
    """A table with ratios against Dapple on the same task, batch and precision."""
    lines = [f"{'task':<17}{'batch':>6} {'precision':<10}{'system':<14}{'samples/s':>11}{'Dapple is':>11}{'peak MB':>10}{'of it':>8}  notes"]
    key = ("task", "batch", "precision")
    own = {tuple(row[k] for k in key): row for row in rows if row["system"] == "dapple"}
    # One task after the other, whatever the order of measuring; sorting keeps that within a task.
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    for row in sorted(rows, key=lambda row: (tasks.index(row["task"]), row["precision"], row["batch"])):
        mine = own.get(tuple(row[k] for k in key), {})
        speed, memory = row["samples_per_second"], row["peak_mb"]
        other = row["system"] != "dapple"
        ratio = f"{mine['samples_per_second'] / speed:.2f}x" if other and speed and mine.get("samples_per_second") else "-"
        share = f"{mine['peak_mb'] / memory:.2f}" if other and memory and mine.get("peak_mb") else "-"
        lines.append(
            f"{row['task']:<17}{row['batch']:>6} {row['precision']:<10}{row['system']:<14}"
            f"{'-' if speed is None else f'{speed:.1f}':>11}{ratio:>11}{'-' if memory is None else f'{memory:.0f}':>10}{share:>8}  {row['result'] or ''}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="bench/peers/run gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, help=f"one model; without it {', '.join(BATCHES)}")
    parser.add_argument("--batch", type=int, help="samples of a step; without it batches double until the card's memory is full, for each peer")
    parser.add_argument("--precision", choices=PRECISIONS, help="of all systems")
    parser.add_argument("--quick", action="store_true", help="only the first batch of each model")
    parser.add_argument("--only", metavar="SYSTEM,..", help="these peers beside Dapple, not all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        measure_peer(arguments.peer, arguments.precision, json.loads(arguments.work))
        return
    models = [arguments.model] if arguments.model else list(BATCHES)
    precisions = [arguments.precision] if arguments.precision else None
    rows = []
    only = arguments.only and arguments.only.split(",")
    for row in measure(models, arguments.batch, precisions, not arguments.quick, only):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    print(json.dumps({"rows": rows}) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
