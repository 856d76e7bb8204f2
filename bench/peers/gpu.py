"""Measures one training step's gradient on a CUDA card: plain PyTorch, Opacus, Opacus with ghost clipping, and Dapple.

Every system runs in a process of its own, on the same model and batch. A step is a forward and a backward pass over the batch, ending
with one summed gradient; it includes clipping for all but plain PyTorch. Dapple's step also includes sending the samples to the card, noise
and an update by Adam; the peers' data stays on the card. Peers run as they come (`tf32`: their convolutions round factors to TF32), in
single precision throughout (`f32`), or under autocast (`bf16`). The median step after two warm-ups counts. Peak memory is what the
framework allocated (peers) or planned (Dapple), without the driver's own share.
The peers' wide residual network has no weight standardisation (Opacus has no rule for it), which is work that only Dapple does.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import engine

MODELS = engine.MODELS | {"deeplab-v3-plus": (3, 505, 505)}
# Batches of each model, up to where a peer runs out of memory.
BATCHES = {"resnet-50": [256, 512], "deeplab-v3-plus": [16, 64]}
PEERS = ["pytorch", "opacus", "opacus-ghost"]
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Seconds after which no further step is started; the first four always run.
SECONDS = float(os.environ.get("DAPPLE_BENCH_SECONDS", "4"))


def step_of(system, model, batch):
    """A function that runs one step of a peer."""
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


def measure_peer(system, model, batch, precision):
    """Runs in a process of its own; prints one row."""
    import warnings

    import torch

    warnings.filterwarnings("ignore")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    torch.set_default_device("cuda")
    row = {"system": system, "task": model, "batch": batch, "precision": precision, "samples_per_second": None}
    row |= {"cpu_seconds": None, "peak_mb": None, "result": None}
    try:
        step = step_of(system, model, batch)
        if precision == "bf16":
            step = torch.autocast("cuda", torch.bfloat16)(step)
        times, started = [], time.perf_counter()
        while len(times) < 4 or (time.perf_counter() - started < SECONDS and len(times) < 300):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        row["samples_per_second"] = batch / statistics.median(times[2:])
        row["peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
    except RuntimeError as error:
        row["result"] = "out of memory" if "memory" in str(error).lower() else f"failed: {str(error)[:200]}"
    print(json.dumps(row))


def peer(system, model, batch, precision):
    command = [sys.executable, __file__, "--peer", system, "--model", model, "--batch", str(batch), "--precision", precision]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    reason = (done.stderr.strip().splitlines() or ["failed"])[-1][:200]
    row = {"system": system, "task": model, "batch": batch, "precision": precision, "samples_per_second": None}
    return row | {"cpu_seconds": None, "peak_mb": None, "result": reason}


def example():
    """The path of our side: where `run` built it, else built here."""
    built = pathlib.Path(os.environ.get("DAPPLE_TARGET", "")) / "examples" / "cuda_bench"
    if "DAPPLE_TARGET" in os.environ and built.exists():
        return str(built)
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
    done = subprocess.run([binary, *flags, model, str(SECONDS), str(batch)], capture_output=True, text=True, env=environment)
    row = {"system": "dapple", "task": model, "batch": batch, "precision": precision, "samples_per_second": None}
    row |= {"cpu_seconds": None, "peak_mb": None, "result": None}
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines or "error" in lines[-1]:
        reason = lines[-1]["error"] if lines else (done.stderr.strip().splitlines() or ["failed"])[-1]
        return row | {"result": reason[:200]}
    return row | {key: lines[-1][key] for key in ("samples_per_second", "peak_mb")}


def rows(models, batches, precisions):
    """Yields one row per measurement."""
    binary = example()
    for model in models:
        for batch in batches or BATCHES.get(model, [256, 1024]):
            for precision in precisions:
                yield ours(binary, model, batch, precision)
                for system in PEERS:
                    yield peer(system, model, batch, precision)


def table(all_rows):
    """A table with ratios against Dapple on the same task, batch and precision."""
    lines = [f"{'task':<17}{'batch':>6} {'precision':<10}{'system':<14}{'samples/s':>11}{'Dapple is':>11}{'peak MB':>10}{'of it':>8}  notes"]
    key = ("task", "batch", "precision")
    own = {tuple(row[k] for k in key): row for row in all_rows if row["system"] == "dapple"}
    for row in all_rows:
        mine = own.get(tuple(row[k] for k in key), {})
        speed, memory = row["samples_per_second"], row["peak_mb"]
        other = row["system"] != "dapple"
        ratio = f"{mine['samples_per_second'] / speed:.2f}x" if other and speed and mine.get("samples_per_second") else "-"
        share = f"{mine['peak_mb'] / memory:.2f}" if other and memory and mine.get("peak_mb") else "-"
        lines.append(
            f"{row['task']:<17}{row['batch']:>6} {row['precision']:<10}{row['system']:<14}"
            f"{'-' if speed is None else f'{speed:.0f}':>11}{ratio:>11}{'-' if memory is None else f'{memory:.0f}':>10}{share:>8}  {row['result'] or ''}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        measure_peer(arguments.peer, arguments.model, arguments.batch, arguments.precision)
        return
    models = [arguments.model] if arguments.model else list(MODELS)
    batches = [arguments.batch] if arguments.batch else None
    precisions = [arguments.precision] if arguments.precision else ["f32", "tf32", "bf16"]
    measured = list(rows(models, batches, precisions))
    print(json.dumps({"rows": measured}) if arguments.json else table(measured))


if __name__ == "__main__":
    main()
