#!/usr/bin/env python3
"""Compares `dapple measure` with torchvision, numpy and scipy on drawn pictures: `python3 compare.py DAPPLE`, DAPPLE being the program.

Needs torch, torchvision, safetensors, scipy and Pillow. The weights are random, with batch norms that have seen some pictures: what is
compared is the arithmetic, from the files to the figure.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from scipy.linalg import sqrtm
from torchvision.transforms.v2 import functional as F

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIDE = 64


def draw(folder, count, seed, contrast):
    """Writes pictures of smooth colours and some noise, of two sizes."""
    folder.mkdir()
    random = numpy.random.default_rng(seed)
    for number in range(count):
        side = 48 if number % 2 else 80
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=numpy.uint8)).resize((side, side), Image.BICUBIC)
        noisy = numpy.asarray(coarse) * contrast + random.normal(0, 12, (side, side, 3))
        Image.fromarray(noisy.clip(0, 255).astype(numpy.uint8)).save(folder / f"{number:04}.png")


def shown(folder):
    for path in sorted(folder.iterdir()):
        image = F.to_dtype(F.pil_to_tensor(Image.open(path)), torch.float32, scale=True)
        yield F.normalize(F.resize(image, [SIDE, SIDE], antialias=True), MEAN, STD)


def features(model, folder):
    with torch.no_grad():
        return model(torch.stack(list(shown(folder)))).double().numpy()


def frechet(x, y):
    s, t = numpy.cov(x, rowvar=False), numpy.cov(y, rowvar=False)
    centred = [(v - v.mean(0)) / numpy.sqrt(len(v) - 1) for v in (x, y)]
    by_values = numpy.linalg.svd(centred[0] @ centred[1].T, compute_uv=False).sum()
    mean = numpy.square(x.mean(0) - y.mean(0)).sum()
    root = numpy.trace(sqrtm(s @ t)).real
    return [mean + numpy.trace(s) + numpy.trace(t) - 2 * trace for trace in (by_values, root)]


def kernel(x, y):
    k = lambda a, b: (a @ b.T / a.shape[1] + 1) ** 3
    within = lambda v: (k(v, v).sum() - numpy.trace(k(v, v))) / (len(v) * (len(v) - 1))
    return within(x) + within(y) - 2 * k(x, y).mean()


def main():
    dapple = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        count = 120
        draw(folder / "a", count, 1, 1.0)
        draw(folder / "b", count, 2, 0.8)
        torch.manual_seed(0)
        model = torchvision.models.resnet18(num_classes=7)
        model.train()
        with torch.no_grad():
            for _ in range(20):
                model(torch.stack(list(shown(folder / "a"))))
        model.eval()
        save_file(model.state_dict(), folder / "w.safetensors")
        model.fc = torch.nn.Identity()
        x, y = features(model, folder / "a"), features(model, folder / "b")

        def ours(kind, *flags):
            command = [dapple, "measure", kind, "a", "b", "--model", "resnet-18", "--weights", "w.safetensors"]
            command += ["--size", f"{SIDE}x{SIDE}", "--json", "--quiet", *flags]
            return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)["value"]

        by_values, by_root = frechet(x, y)
        print(f"fid  dapple {ours('fid'):.10g}  singular values {by_values:.10g}  sqrtm {by_root:.10g}")
        print(f"kid  dapple {ours('kid', '--block', str(count)):.10g}  numpy {kernel(x, y):.10g}")


main()
