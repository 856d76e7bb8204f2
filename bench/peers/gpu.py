"""Measures training steps on a CUDA card: plain PyTorch, Opacus, Opacus with ghost clipping, and Dapple.

Every system runs in a process of its own, one after the other on the same model and batch. A step is a forward and a backward pass over
the batch, ending with one summed gradient; it includes clipping for all but plain PyTorch. Dapple's step also includes sending the samples
to the card, noise and an update by Adam; the peers' data stays on the card. The median of at least five steps after two warm-ups counts.
Peak memory is what the framework allocated (peers) or planned (Dapple), without the driver's own share.

Precisions: `tf32` is how the peers come: their convolutions round factors to TF32, their other products do not. `opacus-tf32` is Opacus with all
of its products rounded, as Dapple's are. `f32` is single precision throughout, `bf16` runs the peers under autocast.
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
import time

import engine

MODELS = engine.MODELS | {"deeplab-v3-plus": (3, 505, 505)}
# What is measured unless a model is named, and the batch of each; other models have the first one.
BATCHES = {"wrn-16-4": 1024, "resnet-18": 1024, "resnet-50": 256, "deeplab-v3-plus": 64}
# The peers' precisions unless one is named; Dapple runs in all of them.
PRECISIONS = ["tf32", "f32", "bf16"]
PEERS = {"tf32": ["pytorch", "opacus", "opacus-tf32", "opacus-ghost"], "f32": ["pytorch", "opacus"], "bf16": ["pytorch", "opacus"]}
# Models whose peers are measured in more than TF32 unasked: the others would take minutes.
SMALL = ["wrn-16-4"]
# How often `--limit` doubles a batch at most.
DOUBLINGS = 5
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Seconds after which no further step is started; warm-ups and five steps always run.
SECONDS = float(os.environ.get("DAPPLE_BENCH_SECONDS", "4"))
WARM_UPS, LEAST, MOST = 2, 5, 300
# Seconds that a process may take for all of its batches.
PATIENCE = 300


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


def measure_peer(system, model, batches, precision):
    """Runs in a process of its own; prints a row for each batch up to the first that does not fit."""
    import gc
    import warnings

    import torch

    warnings.filterwarnings("ignore")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = system.endswith("-tf32")
    torch.backends.cudnn.benchmark = True
    torch.set_default_device("cuda")
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
        if row["result"]:
            return
        del step
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def answers(command, environment=None):
    """What a process printed of JSON, and its last line of errors."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    except subprocess.TimeoutExpired as late:
        # The interpreter hands over what was printed as bytes, whatever was asked for.
        printed = late.stdout or b""
        done = subprocess.CompletedProcess(command, 1, printed.decode(), f"not done after {PATIENCE} s")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines, (done.stderr.strip().splitlines() or ["failed"])[-1][:200] if done.returncode else None


def peer(system, model, batches, precision):
    command = [sys.executable, __file__, "--peer", system, "--model", model, "--precision", precision]
    rows, failure = answers([*command, "--batches", ",".join(map(str, batches))])
    if failure:
        rows.append(empty(system, model, batches[min(len(rows), len(batches) - 1)], precision, failure))
    return rows


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
    lines, failure = answers([binary, *flags, model, str(SECONDS), str(batch)], environment)
    row = empty("dapple", model, batch, precision)
    if not lines or "error" in lines[-1]:
        return row | {"result": lines[-1]["error"][:200] if lines else failure}
    return row | {key: lines[-1][key] for key in ("samples_per_second", "peak_mb")}


def measure(models, batch, precisions, limit):
    """Yields one row per measurement: Dapple first, then its peers."""
    binary = example()
    for model in models:
        first = batch or BATCHES.get(model, 1024)
        batches = [first << doubling for doubling in range(DOUBLINGS + 1 if limit else 1)]
        for precision in precisions or PRECISIONS:
            yield ours(binary, model, first, precision)
            if not precisions and precision != "tf32" and model not in SMALL:
                continue
            largest = first
            for system in PEERS[precision]:
                rows = peer(system, model, batches if precision == "tf32" else batches[:1], precision)
                yield from rows
                largest = max([largest, *(row["batch"] for row in rows if row["samples_per_second"])])
            if largest > first:
                yield ours(binary, model, largest, precision)


def table(rows):
    """A table with ratios against Dapple on the same task, batch and precision."""
    lines = [f"{'task':<17}{'batch':>6} {'precision':<10}{'system':<14}{'samples/s':>11}{'Dapple is':>11}{'peak MB':>10}{'of it':>8}  notes"]
    key = ("task", "batch", "precision")
    own = {tuple(row[k] for k in key): row for row in rows if row["system"] == "dapple"}
    for row in rows:
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
    parser.add_argument("--batch", type=int, help="samples of a step")
    parser.add_argument("--precision", choices=PRECISIONS, help="of all systems")
    parser.add_argument("--limit", action="store_true", help="doubles the batch until the card's memory is full, for each peer")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--batches", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        batches = [int(batch) for batch in arguments.batches.split(",")]
        measure_peer(arguments.peer, arguments.model, batches, arguments.precision)
        return
    models = [arguments.model] if arguments.model else list(BATCHES)
    precisions = [arguments.precision] if arguments.precision else None
    rows = []
    for row in measure(models, arguments.batch, precisions, arguments.limit):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    print(json.dumps({"rows": rows}) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
