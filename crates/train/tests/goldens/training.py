"""Training by PyTorch on data and first weights that formulas give: loss curves without noise, with clipping, and statistics with noise.

Run: python training.py > training.json
"""

import json
import math

import torch

torch.set_num_threads(1)


def images(records, side):
    """Bytes in `[records, side, side]`, a pattern for each class with something of its own in each record."""
    values = torch.empty(records, side, side)
    for i in range(records):
        for y in range(side):
            for x in range(side):
                values[i, y, x] = (40 * (i % 4) * (x % 4) + 23 * y + 11 * i * (y % 3) + 7 * x * (i % 5)) % 256
    return values


def inputs(records, side):
    return ((images(records, side) / 255 - 0.5) / 0.25).unsqueeze(1)


def labels(records):
    return torch.tensor([i % 4 for i in range(records)])


def fill(model):
    """Every parameter by a formula: both sides compute it in double precision and round once."""
    with torch.no_grad():
        for p, parameter in enumerate(model.parameters()):
            fan = max(parameter[0].numel(), 1) if parameter.dim() > 1 else 16
            flat = [math.sin(0.37 * i + p) / math.sqrt(fan) for i in range(parameter.numel())]
            parameter.copy_(torch.tensor(flat, dtype=torch.float64).reshape(parameter.shape).float())
    return model


def linear(side):
    return fill(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(side * side, 4)))


def small_cnn():
    nn = torch.nn
    return fill(nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4)))


def plain(model, records, side, steps, **options):
    """Full-batch training; the loss before each step."""
    x, y = inputs(records, side), labels(records)
    optimiser = torch.optim.SGD(model.parameters(), **options)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def clipped_sum(model, x, y, bound):
    total = [torch.zeros_like(p) for p in model.parameters()]
    losses = []
    for i in range(len(y)):
        loss = torch.nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        norm = math.sqrt(sum(g.double().pow(2).sum().item() for g in gradient))
        for t, g in zip(total, gradient):
            t += g * min(1.0, bound / norm)
        losses.append(loss.item())
    return total, sum(losses) / len(losses)


def clipped(model, records, side, steps, bound, rate, noise=0.0, generator=None):
    """Full-batch training on clipped gradients, with noise of deviation `noise * bound` on their sum."""
    x, y = inputs(records, side), labels(records)
    losses, first = [], None
    for _ in range(steps):
        total, loss = clipped_sum(model, x, y, bound)
        losses.append(loss)
        with torch.no_grad():
            for p, g in zip(model.parameters(), total):
                if noise:
                    g = g + noise * bound * torch.randn(g.shape, generator=generator)
                p -= rate * g / records
        first = first or [p.flatten().tolist() for p in model.parameters()]
    return losses, first


def noisy_statistics(runs):
    curves = []
    for seed in range(runs):
        generator = torch.Generator().manual_seed(seed)
        curves.append(clipped(linear(6), 24, 6, 10, 0.5, 2.0, noise=4.0, generator=generator)[0])
    curves = torch.tensor(curves, dtype=torch.float64)
    return {"runs": runs, "mean": curves.mean(0).tolist(), "deviation": curves.std(0).tolist()}


losses, first = clipped(linear(6), 24, 6, 10, 0.5, 2.0)
print(json.dumps({
    "linear": plain(linear(6), 24, 6, 12, lr=0.2, momentum=0.9),
    "small_cnn": plain(small_cnn(), 32, 28, 12, lr=0.02, momentum=0.9, nesterov=True),
    "small_cnn_clipped": clipped(small_cnn(), 32, 28, 6, 1.0, 0.5)[0],
    "linear_clipped": losses,
    "linear_clipped_first": [value for part in first for value in part],
    "linear_noisy": noisy_statistics(400),
}, indent=1))
