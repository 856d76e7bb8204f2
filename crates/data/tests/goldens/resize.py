#!/usr/bin/env python3
"""Reference resizes by torch and Pillow, and reference blurs by torch: `python3 resize.py > resize.json`.

Needs torch, torchvision and Pillow (made with torch 2.9.1, torchvision 0.24.1).
"""

import json

import numpy
import torch
from PIL import Image
from torch.nn.functional import conv2d, interpolate, pad

torch.manual_seed(1)
WIDTH, HEIGHT = 9, 7
SIZES = [(4, 3), (9, 3), (16, 15), (1, 1)]
image = torch.rand(2, HEIGHT, WIDTH)


def rounded(tensor):
    return [float(f"{value:.7g}") for value in numpy.asarray(tensor, dtype=numpy.float32).flatten()]


def by_torch(width, height, filter, antialias):
    options = {} if filter.startswith("nearest") else {"antialias": antialias, "align_corners": False}
    return interpolate(image[None], size=(height, width), mode=filter, **options)[0]


def by_pillow(width, height, filter):
    planes = [Image.fromarray(plane.numpy(), mode="F").resize((width, height), filter) for plane in image]
    return numpy.stack([numpy.asarray(plane) for plane in planes])


def blurred(radius_x, radius_y):
    def kernel(radius):
        sigma = 0.3 * (radius - 1) + 0.8
        weights = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sigma) ** 2)
        return weights / weights.sum()

    planes = pad(image[:, None], (radius_x, radius_x, radius_y, radius_y), mode="replicate")
    planes = conv2d(planes, kernel(radius_x).reshape(1, 1, 1, -1))
    return conv2d(planes, kernel(radius_y).reshape(1, 1, -1, 1))[:, 0]


cases = []
for width, height in SIZES:
    for filter in ["nearest", "nearest-exact", "bilinear", "bicubic"]:
        for antialias in [True, False]:
            values = rounded(by_torch(width, height, filter, antialias))
            name = f"resize {width}x{height} {filter} {'antialias' if antialias else 'no-antialias'}"
            cases.append({"operation": name, "size": [width, height], "values": values})
    for filter, pillow in [("box", Image.BOX), ("lanczos", Image.LANCZOS), ("bicubic", Image.BICUBIC)]:
        values = rounded(by_pillow(width, height, pillow))
        cases.append({"operation": f"resize {width}x{height} {filter}", "size": [width, height], "values": values})
for radius in [(1, 1), (3, 2), (0, 4)]:
    operation = f"blur {radius[0]}x{radius[1]}"
    cases.append({"operation": operation, "size": [WIDTH, HEIGHT], "values": rounded(blurred(*radius))})
print(json.dumps({"size": [WIDTH, HEIGHT], "image": rounded(image), "cases": cases}, separators=(",", ":")))
