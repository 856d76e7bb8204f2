#!/usr/bin/env python3
"""Reference augmentations by torchvision, and reference edges by scipy: `python3 augment.py > augment.json`.

Needs torch, torchvision and scipy (made with torch 2.9.1, torchvision 0.24.1, scipy 1.17.1).
"""

import json

import numpy
import torch
from scipy import ndimage
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import RandAugment
from torchvision.transforms.v2 import functional as F

torch.manual_seed(1)
colour = torch.rand(3, 7, 9)
# Greys, black and white have no hue.
colour[:, 0, 0], colour[:, 0, 1], colour[:, 0, 2] = 0.5, 0.0, 1.0
grey = torch.rand(1, 20, 24) ** 2
images = {"colour": colour, "grey": grey}
BILINEAR = InterpolationMode.BILINEAR


def rounded(tensor):
    return [float(f"{value:.7g}") for value in numpy.asarray(tensor, dtype=numpy.float32).flatten()]


cases = []


def case(name, arguments, image, changed):
    cases.append({"name": name, "arguments": arguments, "image": image, "values": rounded(changed)})


for factor in [0.0, 0.4, 1.7]:
    case("brightness", [factor], "colour", F.adjust_brightness(colour, factor))
    case("contrast", [factor], "colour", F.adjust_contrast(colour, factor))
    case("contrast", [factor], "grey", F.adjust_contrast(grey, factor))
    case("saturation", [factor], "colour", F.adjust_saturation(colour, factor))
    case("saturation", [factor], "grey", F.adjust_saturation(grey, factor))
    case("sharpness", [factor], "colour", F.adjust_sharpness(colour, factor))
for turn in [-0.5, -0.1, 0.03, 0.4]:
    case("hue", [turn], "colour", F.adjust_hue(colour, turn))
case("greyscale", [], "colour", F.rgb_to_grayscale(colour, num_output_channels=3))
case("invert", [], "colour", F.invert(colour))
for bits in [1, 4, 8]:
    case("posterize", [bits], "colour", F.posterize(colour, bits))
case("solarize", [0.3], "colour", F.solarize(colour, 0.3))
for name, image in images.items():
    case("autocontrast", [], name, F.autocontrast(image))
    case("equalize", [], name, F.equalize(image))
for radius, deviation in [(1, 0.5), (3, 1.3), (6, 4.0)]:
    blurred = F.gaussian_blur(colour, [2 * radius + 1] * 2, [deviation] * 2)
    case("blur", [radius, deviation], "colour", blurred)
for angle, shift, scale, shear in [
    (30, (0, 0), 1.0, (0, 0)),
    (0, (2, -3), 1.0, (0, 0)),
    (-75, (1, 0), 0.7, (10, 0)),
    (10, (0, 1), 1.6, (-20, 15)),
]:
    warped = F.affine(colour, angle, list(shift), scale, list(shear), interpolation=BILINEAR)
    case("warp", [angle, *shift, scale, *shear], "colour", warped)
planes = colour.double().numpy()
edges = [numpy.hypot(*(ndimage.sobel(plane, axis, mode="nearest") for axis in (0, 1))) for plane in planes]
case("sobel", [], "colour", numpy.minimum(numpy.stack(edges) / 4, 1))

space = RandAugment._AUGMENTATION_SPACE
listed = RandAugment(interpolation=BILINEAR)
for number, (name, (magnitudes, signed)) in enumerate(space.items()):
    for strength in [9, 30]:
        for sign in [1, -1] if signed else [1]:
            found = magnitudes(31, 7, 9)
            magnitude = 0.0 if found is None else sign * float(found[strength])
            changed = listed._apply_image_or_video_transform(colour, name, magnitude, BILINEAR, {})
            case("rand-augment", [number, strength, sign], "colour", changed)

shown = {name: {"shape": list(image.shape), "values": rounded(image)} for name, image in images.items()}
print(json.dumps({"images": shown, "cases": cases}, separators=(",", ":")))
