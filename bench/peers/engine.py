"""The clipped sum of per-sample gradients, measured side by side: PyTorch without privacy (as it comes, and compiled), Opacus (hooks and
ghost), `torch.func` (per-sample gradients by `vmap`, compiled), and Dapple.

Every system runs in a process of its own, so that its peak memory is its own, on the same model, batch and number of threads. A step is
a forward and a backward pass over the batch, ending with one summed gradient; it includes clipping for all but PyTorch without privacy.
What compiles has compiled before a step counts. The best of several steps counts. The peers' wide residual network has no weight standardisation (Opacus has no rule for it), which is
work that only Dapple does; dropout is off everywhere.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

MODELS = {
    "small-cnn": (1, 28, 28),
    "wrn-16-4": (3, 32, 32),
    "resnet-18": (3, 100, 100),
    "vgg-11": (3, 100, 100),
    "resnet-50": (3, 224, 224),
    "vit-b-16": (3, 224, 224),
    "vit-b-16-lora": (3, 224, 224),
    "convnext-t": (3, 224, 224),
}
# Models of which a step of many samples takes minutes on a processor: measured in the first batch unless one is named.
SLOW = {"vit-b-16", "vit-b-16-lora", "convnext-t"}
BATCHES = [32, 128, 512]
PEERS = ["pytorch", "torch-compile", "opacus", "opacus-ghost", "torch-func-compile"]
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Layer shapes of ResNet-18, ResNet-50 and the wide residual network: channels, outputs, height and width, window.
SHAPES = [
    (64, 64, 32, 3), (128, 128, 16, 3), (256, 256, 8, 3),
    (64, 64, 25, 3), (128, 128, 13, 3), (256, 256, 7, 3), (512, 512, 4, 3),
    (64, 64, 56, 3), (128, 128, 28, 3), (256, 256, 14, 3), (512, 512, 7, 3),
    (64, 256, 56, 1), (128, 512, 28, 1), (256, 1024, 14, 1), (512, 2048, 7, 1),
]  # fmt: skip
# Seconds after which no further step is started; a second one runs in any case, unless the first took longer than LONG.
SECONDS = float(os.environ.get("DAPPLE_BENCH_SECONDS", "8"))
LONG = 15.0
# Share of the memory that is available at the start beyond which a peer is stopped and reported as out of memory.
MEMORY_SHARE = 0.9


def small_cnn(nn):
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def wide_resnet(nn, blocks=2, width=4):
    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.norm1 = nn.GroupNorm(16, inputs)
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm2 = nn.GroupNorm(16, outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.relu = nn.ReLU()
            same = inputs == outputs and stride == 1
            self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x):
            active = self.relu(self.norm1(x))
            y = self.conv2(self.relu(self.norm2(self.conv1(active))))
            return y + (x if self.shortcut is None else self.shortcut(active))

    layers, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)], 16
    for stage in range(3):
        for block in range(blocks):
            outputs = 16 * width * 2**stage
            layers.append(Block(channels, outputs, 2 if stage > 0 and block == 0 else 1))
            channels = outputs
    layers += [nn.GroupNorm(16, channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*layers)


def residual(model):
    """Gives torchvision's residual blocks a sum that is not in place, which Opacus' hooks cannot follow."""
    import types

    def forward(block, x):
        identity = x if block.downsample is None else block.downsample(x)
        out = block.relu(block.bn1(block.conv1(x)))
        out = block.bn2(block.conv2(out))
        if hasattr(block, "conv3"):
            out = block.bn3(block.conv3(block.relu(out)))
        return block.relu(out + identity)

    for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in layer:
            block.forward = types.MethodType(forward, block)
    return model


def build(name):
    import torchvision
    import transformers
    from torch import nn

    def group_norm(channels):
        return nn.GroupNorm(32, channels)

    if name == "small-cnn":
        model = small_cnn(nn)
    elif name == "wrn-16-4":
        model = wide_resnet(nn)
    elif name in transformers.NAMES:
        model = transformers.build(name)
    elif name == "vgg-11":
        model = torchvision.models.vgg11(num_classes=10, dropout=0.0)
    else:
        make = torchvision.models.resnet18 if name == "resnet-18" else torchvision.models.resnet50
        model = residual(make(num_classes=10, norm_layer=group_norm))
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
    return model.train()


def peak_mb():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return None


def available_bytes():
    """Memory that programs can still have: what is free, and what only caches files."""
    with open("/proc/meminfo") as meminfo:
        fields = dict(line.split(":") for line in meminfo)
    return int(fields["MemAvailable"].split()[0]) * 1024


def step_of(system, model, batch):
    """A function that runs one step of a peer."""
    import torch
    from torch import nn

    inputs = torch.rand(batch, *MODELS[model]) * 2 - 1
    return step_with(system, build(model), inputs, torch.arange(batch) % 10, nn.CrossEntropyLoss(reduction="sum"))


def step_with(system, net, inputs, labels, criterion):
    """The same for a network, a batch and a loss that adds up the samples, or that gives one number for each."""
    import torch

    batch = len(inputs)
    if system == "pytorch":

        def step():
            net.zero_grad(set_to_none=True)
            criterion(net(inputs), labels).sum().backward()

        return step
    if system == "torch-compile":
        return compiled_step(net, inputs, labels, criterion)
    if system == "torch-func-compile":
        return compiled_private_step(net, inputs, labels, criterion)
    import transformers
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    transformers.register()

    settings = dict(noise_multiplier=0.0, max_grad_norm=1.0, expected_batch_size=batch, loss_reduction="sum")
    if system == "opacus":
        wrapped = GradSampleModule(net, loss_reduction="sum")
        optimizer = DPOptimizer(torch.optim.SGD(wrapped.parameters(), lr=0.1), **settings)

        def step():
            optimizer.zero_grad(set_to_none=True)
            criterion(wrapped(inputs), labels).sum().backward()
            optimizer.clip_and_accumulate()

        return step
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(net, max_grad_norm=1.0, use_ghost_clipping=True, loss_reduction="sum")
    optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(wrapped.parameters(), lr=0.1), **settings)
    private_loss = DPLossFastGradientClipping(wrapped, optimizer, criterion, "sum")

    def step():
        optimizer.zero_grad(set_to_none=True)
        private_loss(wrapped(inputs), labels).backward()

    return step


def compiled_step(net, inputs, labels, criterion):
    """A step without privacy of a compiled network, with channels last in memory."""
    import torch

    net = net.to(memory_format=torch.channels_last)
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    loss = torch.compile(lambda x: criterion(net(x), labels).sum())

    def step():
        net.zero_grad(set_to_none=True)
        loss(inputs).backward()

    return step


def compiled_private_step(net, inputs, labels, criterion):
    """A step that clips the gradients of single samples, which are taken by `torch.func` and compiled as a whole."""
    import torch

    trained = {name: value for name, value in net.named_parameters() if value.requires_grad}

    def loss(parameters, image, label):
        scores = torch.func.functional_call(net, parameters, (image[None],))
        return criterion(scores, label[None]).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    @torch.compile
    def clipped_sum(parameters):
        single = gradients(parameters, inputs, labels)
        norms = sum(value.flatten(1).square().sum(1) for value in single.values()).sqrt()
        factors = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        return {name: torch.tensordot(factors, value, dims=1) for name, value in single.items()}

    return lambda: clipped_sum({name: value.detach() for name, value in trained.items()})


def measure_peer(system, model, batch, threads):
    """Runs in a process of its own; prints one row."""
    import resource
    import warnings

    import torch

    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (int(available_bytes() * MEMORY_SHARE),) * 2)
    torch.set_num_threads(threads)
    row = {"system": system, "task": model, "batch": batch, "samples_per_second": None, "cpu_seconds": None}
    row |= {"peak_mb": None, "result": None}
    if system == "matmul":
        a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
        best = float("inf")
        for _ in range(50):
            start = time.perf_counter()
            a @ b
            best = min(best, time.perf_counter() - start)
        print(json.dumps(row | {"result": {"gflops": 2 * 1024**3 / best / 1e9}}))
        return
    try:
        step = step_of(system, model, batch)
        if system.endswith("-compile"):
            step()
        wall, cpu, steps, started = float("inf"), float("inf"), 0, time.perf_counter()
        while steps < 1 or time.perf_counter() - started < (SECONDS if steps > 1 else LONG) and steps < 200:
            start, start_cpu = time.perf_counter(), time.process_time()
            step()
            wall = min(wall, time.perf_counter() - start)
            cpu = min(cpu, time.process_time() - start_cpu)
            steps += 1
        row |= {"samples_per_second": batch / wall, "cpu_seconds": cpu, "peak_mb": peak_mb()}
    except (RuntimeError, MemoryError) as error:
        row["result"] = "out of memory" if "memory" in str(error).lower() else f"failed: {str(error)[:200]}"
    print(json.dumps(row))


def peer(system, model, batch, threads):
    command = [sys.executable, __file__, "--peer", system, "--model", model, "--batch", str(batch), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    reason = "out of memory" if done.returncode < 0 else (done.stderr.strip().splitlines() or ["failed"])[-1][:200]
    return {"system": system, "task": model, "batch": batch, "samples_per_second": None, "cpu_seconds": None, "peak_mb": None, "result": reason}


def example():
    """The path of our side: where `run` built it, else built here."""
    built = pathlib.Path(os.environ.get("DAPPLE_TARGET", "")) / "examples" / "engine_bench"
    if "DAPPLE_TARGET" in os.environ and built.exists():
        return str(built)
    command = ["cargo", "build", "--release", "--quiet", "-p", "dapple-engine", "--example", "engine_bench", "--message-format=json"]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    paths = (json.loads(line).get("executable") for line in done.stdout.splitlines() if line.startswith("{"))
    return [path for path in paths if path][-1]


def ours(binary, model, batch, threads):
    done = subprocess.run([binary, model, str(threads), str(SECONDS), str(batch)], capture_output=True, text=True, check=True)
    on, off = (json.loads(line) for line in done.stdout.splitlines())
    result = {
        "gflops": on["gflops"],
        "gflops_per_cpu_second": on["gflops_per_cpu_second"],
        "without_clipping_samples_per_second": off["samples_per_second"],
    }
    fields = {key: on[key] for key in ("task", "batch", "samples_per_second", "cpu_seconds", "peak_mb")}
    return {"system": "dapple"} | fields | {"result": result}


def ceiling(binary, threads):
    """The rate of one large matrix product, by our kernels and by PyTorch's."""
    own = ours(binary, "matmul", threads, threads)
    yield own | {"task": "matrix product", "batch": None, "samples_per_second": None}
    yield peer("matmul", "small-cnn", 1, threads) | {"system": "pytorch", "task": "matrix product", "batch": None}


def shapes(batch, threads):
    """Yields the matrix-product rates and one row per layer shape: whole steps of four such convolutions."""
    binary = example()
    measured = list(ceiling(binary, threads))
    yield from measured
    best = max(row["result"]["gflops"] for row in measured)
    for channels, out, size, window in SHAPES:
        row = ours(binary, f"conv:{channels}:{out}:{size}:{window}", batch, threads)
        row["result"] = {"gflops": row["result"]["gflops"], "percent_of_matrix_product": 100 * row["result"]["gflops"] / best}
        yield row


def rows(models, batches, threads, peers):
    """Yields one row per measurement."""
    binary = example()
    yield from ceiling(binary, threads)
    for model in models:
        for batch in batches[:1] if model in SLOW else batches:
            yield ours(binary, model, batch, threads)
            for system in peers:
                yield peer(system, model, batch, threads)


def table(all_rows):
    """A table with ratios against Dapple on the same task and batch."""
    lines = [f"{'task':<20}{'batch':>6}  {'system':<14}{'samples/s':>10}{'Dapple is':>11}{'CPU s/step':>12}{'peak MB':>9}  notes"]
    own = {(row["task"], row["batch"]): row for row in all_rows if row["system"] == "dapple"}

    def number(value, digits=1):
        return "-" if value is None else f"{value:.{digits}f}"

    for row in all_rows:
        mine = own.get((row["task"], row["batch"]), {}).get("samples_per_second")
        speed = row["samples_per_second"]
        ratio = "-" if not mine or not speed or row["system"] == "dapple" else f"{mine / speed:.2f}x"
        notes = row["result"]
        if isinstance(notes, dict):
            notes = ", ".join(f"{key.replace('_', ' ')} {value:.1f}" for key, value in notes.items())
        lines.append(
            f"{row['task']:<20}{row['batch'] or '-':>6}  {row['system']:<14}{number(speed):>10}{ratio:>11}"
            f"{number(row['cpu_seconds'], 2):>12}{number(row['peak_mb'], 0):>9}  {notes or ''}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", metavar="SYSTEM,..", help="these peers beside Dapple, not all")
    parser.add_argument("--shapes", action="store_true", help="measure single layer shapes instead of models")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        measure_peer(arguments.peer, arguments.model, arguments.batch, arguments.threads)
        return
    models = [arguments.model] if arguments.model else list(MODELS)
    batches = [arguments.batch] if arguments.batch else BATCHES
    if arguments.shapes:
        measured = list(shapes(batches[0], arguments.threads))
    else:
        peers = arguments.only.split(",") if arguments.only else PEERS
        measured = list(rows(models, batches, arguments.threads, peers))
    print(json.dumps({"rows": measured}) if arguments.json else table(measured))


if __name__ == "__main__":
    main()
