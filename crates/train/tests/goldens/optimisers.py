"""Optimisers and learning rates by PyTorch: the weights after each of twelve updates with given gradients.

Run: python optimisers.py > optimisers.json
"""

import json
import math

import torch

STEPS, SIZE = 12, 6


def gradient(step):
    return torch.tensor([math.sin(1.3 * step + 0.7 * i) * (0.5 + i) for i in range(SIZE)], dtype=torch.float32)


def start():
    return torch.tensor([0.3 * i - 0.8 for i in range(SIZE)], dtype=torch.float32)


def run(make, decay=0.0):
    """`decay` is decoupled by hand where PyTorch's optimiser would mix it into the gradient."""
    weights = torch.nn.Parameter(start())
    optimiser = make([weights])
    rows = []
    for step in range(STEPS):
        rate = optimiser.param_groups[0]["lr"]
        with torch.no_grad():
            weights.mul_(1 - rate * decay)
        weights.grad = gradient(step)
        optimiser.step()
        rows.append(weights.detach().tolist())
    return rows


def rates(make, steps=STEPS):
    optimiser = torch.optim.SGD([torch.nn.Parameter(start())], lr=0.4)
    schedule = make(optimiser)
    rows = []
    for _ in range(steps):
        rows.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return rows


def warm(optimiser, steps, after):
    rise = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=1 / steps, total_iters=steps - 1)
    return torch.optim.lr_scheduler.SequentialLR(optimiser, [rise, after(optimiser)], milestones=[steps])


def average(decay):
    mean, rows = start(), []
    for step, row in enumerate(run(lambda p: torch.optim.SGD(p, lr=0.1))):
        share = min(decay, (2 + step) / (11 + step))
        mean = share * mean + (1 - share) * torch.tensor(row)
        rows.append(mean.tolist())
    return rows


optim, sched = torch.optim, torch.optim.lr_scheduler
print(json.dumps({
    "start": start().tolist(),
    "gradients": [gradient(step).tolist() for step in range(STEPS)],
    "updates": [
        {"spec": "kind = 'sgd'", "rate": 0.1, "weights": run(lambda p: optim.SGD(p, lr=0.1))},
        {"spec": "kind = 'sgd'\nweight_decay = 0.3", "rate": 0.1, "weights": run(lambda p: optim.SGD(p, lr=0.1, weight_decay=0.3))},
        {"spec": "momentum = 0.9", "rate": 0.1, "weights": run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9))},
        {"spec": "momentum = 0.9\nnesterov = true", "rate": 0.1, "weights": run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True))},
        {"spec": "momentum = 0.9\nweight_decay = 0.3", "rate": 0.1, "weights": run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9), decay=0.3)},
        {"spec": "kind = 'adam'", "rate": 0.05, "weights": run(lambda p: optim.Adam(p, lr=0.05))},
        {"spec": "kind = 'adam'\nbetas = [0.8, 0.95]\neps = 1e-3", "rate": 0.05, "weights": run(lambda p: optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3))},
        {"spec": "kind = 'adamw'", "rate": 0.05, "weights": run(lambda p: optim.AdamW(p, lr=0.05))},
        {"spec": "kind = 'adamw'\nweight_decay = 0.5", "rate": 0.05, "weights": run(lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.5))},
    ],
    "rates": [
        {"spec": "schedule = 'constant'", "rates": rates(lambda o: sched.ConstantLR(o, factor=1.0))},
        {"spec": "schedule = 'cosine'", "rates": rates(lambda o: sched.CosineAnnealingLR(o, T_max=STEPS))},
        {"spec": "schedule = 'poly'\npoly_power = 0.9", "rates": rates(lambda o: sched.PolynomialLR(o, total_iters=STEPS, power=0.9))},
        {"spec": "schedule = 'constant'\nwarmup = 4", "rates": rates(lambda o: warm(o, 4, lambda o: sched.ConstantLR(o, factor=1.0)))},
        {"spec": "schedule = 'cosine'\nwarmup = 4", "rates": rates(lambda o: warm(o, 4, lambda o: sched.CosineAnnealingLR(o, T_max=STEPS - 4)))},
    ],
    "mean": {"decay": 0.5, "weights": average(0.5)},
}, indent=1))
