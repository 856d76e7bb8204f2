"""Makes segmentation.json beside this file with PyTorch and torchvision, in double precision, as generate.py makes the other goldens.

Outputs hold a score for every pixel: a few of them are stored, and the mean and mean square of all. Of gradients, every parameter's norm
and its inner product with a direction made from its name are stored.
"""

import json
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torchvision import models
from torchvision.models.segmentation.deeplabv3 import ASPP

from generate import HERE, IGNORED, fnv, uniform, value

CLASSES = 5
STORED = 61


def dilate(convolution, stride, dilation):
    convolution.stride, convolution.dilation = (stride, stride), (dilation, dilation)
    if convolution.kernel_size != (1, 1):
        convolution.padding = (dilation, dilation)


def dilated_blocks(stages, stride, output_stride, convolution, shortcut):
    """Turns strides beyond the output stride into dilations; the first block of a stage keeps the dilation of the stage before."""
    dilation = 1
    for blocks in stages:
        step = convolution(blocks[0]).stride[0]
        before = dilation
        if stride * step > output_stride:
            dilation *= step
            step = 1
            if shortcut(blocks[0]) is not None:
                dilate(shortcut(blocks[0]), 1, 1)
        else:
            stride *= step
        for index, block in enumerate(blocks):
            dilate(convolution(block), step if index == 0 else 1, before if index == 0 else dilation)


class ResNet(nn.Module):
    def __init__(self, make, output_stride):
        super().__init__()
        net = make()
        bottleneck = hasattr(net.layer1[0], "conv3")
        stages = [net.layer1, net.layer2, net.layer3, net.layer4]
        dilated_blocks(
            stages,
            4,
            output_stride,
            lambda block: block.conv2 if bottleneck else block.conv1,
            lambda block: block.downsample[0] if block.downsample is not None else None,
        )
        for name in ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4"]:
            setattr(self, name, getattr(net, name))
        scale = 4 if bottleneck else 1
        self.widths = [64 * scale, 128 * scale, 256 * scale, 512 * scale]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        outputs = []
        for stage in [self.layer1, self.layer2, self.layer3, self.layer4]:
            x = stage(x)
            outputs.append(x)
        return outputs


class MobileNet(nn.Module):
    def __init__(self, output_stride):
        super().__init__()
        features = models.mobilenet_v2().features
        ends = [2, 4, 7, 11, 14, 17, 18]
        stages = [list(features[start:end]) for start, end in zip([1, *ends], ends)]
        dilated_blocks(stages, 2, output_stride, lambda block: block.conv[-3][0], lambda block: None)
        self.low_level_features = features[:4]
        self.high_level_features = features[4:18]
        self.widths = [24, 0, 0, 320]

    def forward(self, x):
        low = self.low_level_features(x)
        return [low, None, None, self.high_level_features(low)]


def resize(x, other):
    return F.interpolate(x, other.shape[-2:], mode="bilinear", align_corners=False)


class Decoder(nn.Module):
    def __init__(self, low, high, dilations):
        super().__init__()
        self.project = nn.Sequential(nn.Conv2d(low, 48, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU())
        self.aspp = ASPP(high, dilations)
        self.classifier = nn.Sequential(
            nn.Conv2d(304, 256, 3, padding=1, bias=False), nn.BatchNorm2d(256), nn.ReLU(), nn.Conv2d(256, CLASSES, 1)
        )

    def forward(self, low, high):
        low = self.project(low)
        return self.classifier(torch.cat([low, resize(self.aspp(high), low)], 1))


class DeepLab(nn.Module):
    def __init__(self, backbone, output_stride):
        super().__init__()
        self.backbone = backbone(output_stride)
        dilations = [6, 12, 18] if output_stride == 16 else [12, 24, 36]
        self.classifier = Decoder(self.backbone.widths[0], self.backbone.widths[3], dilations)

    def forward(self, x):
        features = self.backbone(x)
        return [resize(self.classifier(features[0], features[3]), x)]


class Active(nn.Module):
    def __init__(self, inputs, outputs, size):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class PyramidHead(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        width = inputs // 4
        levels = [nn.Sequential(nn.AdaptiveAvgPool2d(side), Active(inputs, width, 1)) for side in [1, 2, 3, 6]]
        self.psp_modules = nn.ModuleList(levels)
        self.bottleneck = Active(2 * inputs, width, 3)
        self.conv_seg = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        levels = [x] + [resize(level(x), x) for level in self.psp_modules]
        return self.conv_seg(self.bottleneck(torch.cat(levels, 1)))


class AuxiliaryHead(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.convs = nn.Sequential(Active(inputs, inputs // 4, 3))
        self.conv_seg = nn.Conv2d(inputs // 4, CLASSES, 1)

    def forward(self, x):
        return self.conv_seg(self.convs(x))


class PspNet(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone(8)
        self.decode_head = PyramidHead(self.backbone.widths[3])
        self.auxiliary_head = AuxiliaryHead(self.backbone.widths[2])

    def forward(self, x):
        features = self.backbone(x)
        return [resize(self.decode_head(features[3]), x), resize(self.auxiliary_head(features[2]), x)]


def with_norm(module, norm):
    """Replaces batch norms under the same names."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d) and norm != "frozen":
            channels = child.num_features
            group = nn.GroupNorm(math.gcd(32, channels), channels)
            setattr(module, name, group if norm == "group" else nn.Identity())
        else:
            with_norm(child, norm)
    return module


def resnet(depth):
    return lambda output_stride: ResNet(getattr(models, f"resnet{depth}"), output_stride)


class Classifier(nn.Module):
    """A classifier of torchvision's, as a list of one output."""

    def __init__(self, make):
        super().__init__()
        self.net = make(num_classes=CLASSES)

    def forward(self, x):
        return [self.net(x)]


# Name, model, norm, height and width.
MODELS = [
    ("mobilenet-v2", lambda: Classifier(models.mobilenet_v2), "frozen", (64, 64)),
    ("mobilenet-v2-group", lambda: Classifier(models.mobilenet_v2), "group", (65, 49)),
    ("deeplab-resnet-50", lambda: DeepLab(resnet(50), 16), "frozen", (64, 64)),
    ("deeplab-resnet-50-odd", lambda: DeepLab(resnet(50), 16), "frozen", (57, 90)),
    ("deeplab-resnet-18-stride-8", lambda: DeepLab(resnet(18), 8), "removed", (64, 64)),
    ("deeplab-resnet-34-group", lambda: DeepLab(resnet(34), 16), "group", (45, 33)),
    ("deeplab-resnet-101-stride-8", lambda: DeepLab(resnet(101), 8), "frozen", (33, 40)),
    ("deeplab-mobilenet", lambda: DeepLab(MobileNet, 16), "frozen", (64, 64)),
    ("deeplab-mobilenet-stride-8", lambda: DeepLab(MobileNet, 8), "group", (49, 80)),
    ("psp-resnet-50", lambda: PspNet(resnet(50)), "frozen", (64, 64)),
    ("psp-resnet-50-odd", lambda: PspNet(resnet(50)), "frozen", (57, 90)),
    ("psp-resnet-18-group", lambda: PspNet(resnet(18)), "group", (64, 48)),
    ("psp-resnet-34-removed", lambda: PspNet(resnet(34)), "removed", (33, 40)),
    ("psp-resnet-101", lambda: PspNet(resnet(101)), "frozen", (40, 33)),
]
# Models whose gradients are stored too.
GRADIENTS = [
    ("deeplab-resnet-18", lambda: DeepLab(resnet(18), 16), "group", (25, 18)),
    ("deeplab-mobilenet", lambda: DeepLab(MobileNet, 16), "frozen", (25, 18)),
    ("psp-resnet-18", lambda: PspNet(resnet(18)), "group", (25, 18)),
]


def filled(make, norm):
    with torch.device("meta"):
        model = with_norm(make(), norm).eval()
    prefix = "net." if isinstance(model, Classifier) else ""
    model = model.to_empty(device="cpu").double()
    names = {key: key.removeprefix(prefix) for key in model.state_dict() if not key.endswith("num_batches_tracked")}
    state = {key: value(name, tuple(model.state_dict()[key].shape)) for key, name in names.items()}
    model.load_state_dict(state, strict=False)
    lines = sorted(f"{name} {','.join(map(str, state[key].shape))}\n" for key, name in names.items())
    return model, lines


def image(shape):
    inputs = uniform("input", 3 * shape[0] * shape[1]).astype(np.float32).astype(np.float64)
    return torch.from_numpy(inputs.reshape(1, 3, *shape))


def outputs():
    results = {}
    for name, make, norm, shape in MODELS:
        model, lines = filled(make, norm)
        with torch.no_grad():
            output = model(image(shape))[0].flatten()
        stored = min(STORED, len(output))
        results[name] = {
            "parameters": len(lines),
            "checksum": f"{fnv(''.join(lines)):016x}",
            "values": len(output),
            "mean": output.mean().item(),
            "mean_square": (output**2).mean().item(),
            "stored": [output[index * len(output) // stored].item() for index in range(stored)],
        }
        print(name, results[name]["mean"], results[name]["mean_square"])
    return results


def gradients():
    results = {}
    for name, make, norm, shape in GRADIENTS:
        model, _ = filled(make, norm)
        scores = model(image(shape))
        count = shape[0] * shape[1]
        classes = ((uniform("class", count) + 1.0) / 2.0 * CLASSES).astype(np.int64)
        classes[np.arange(count) % 5 == 3] = IGNORED
        labels = torch.from_numpy(classes).reshape(1, *shape)
        # The weight of an auxiliary loss is a single-precision number in the graphs.
        weights = [1.0, float(np.float32(0.4))]
        loss = sum(weight * F.cross_entropy(score, labels) for weight, score in zip(weights, scores))
        loss.backward()
        results[name] = {"loss": loss.item(), "gradients": {}}
        for key, parameter in model.named_parameters():
            direction = torch.from_numpy(uniform(f"{key} direction", parameter.numel())).reshape(parameter.shape)
            parts = [parameter.grad.norm().item(), (parameter.grad * direction).sum().item()]
            results[name]["gradients"][key] = parts
        print(name, loss.item())
    return results


if __name__ == "__main__":
    text = json.dumps({"outputs": outputs(), "gradients": gradients()}, indent=1)
    (HERE / "segmentation.json").write_text(text + "\n")
