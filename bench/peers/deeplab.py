"""DeepLabV3+ (Chen et al. 2018) with a ResNet-50 and group norm, layer for layer the network that Dapple's zoo has, for the peers."""

import math

import torch
from torch import nn
from torch.nn import functional

WIDTH, LOW_LEVEL_WIDTH, CLASSES = 256, 48, 21


def active(inputs, outputs, size=1, dilation=1):
    padding = dilation if size == 3 else 0
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, padding=padding, dilation=dilation, bias=False), nn.GroupNorm(math.gcd(32, outputs), outputs), nn.ReLU()
    )


def resize(x, like):
    return functional.interpolate(x, like.shape[-2:], mode="bilinear", align_corners=False)


class Deeplab(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.low = active(256, LOW_LEVEL_WIDTH)
        self.branches = nn.ModuleList([active(2048, WIDTH)] + [active(2048, WIDTH, 3, dilation) for dilation in (6, 12, 18)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.pooled = active(2048, WIDTH)
        self.project = active(5 * WIDTH, WIDTH)
        self.decoder = active(LOW_LEVEL_WIDTH + WIDTH, WIDTH, 3)
        self.scores = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, image):
        net = self.backbone
        x = net.maxpool(net.relu(net.bn1(net.conv1(image))))
        first = net.layer1(x)
        high = net.layer4(net.layer3(net.layer2(first)))
        low = self.low(first)
        seen = [branch(high) for branch in self.branches] + [resize(self.pooled(self.pool(high)), high)]
        x = resize(self.project(torch.cat(seen, 1)), low)
        return resize(self.scores(self.decoder(torch.cat([low, x], 1))), image)


class PixelLoss(nn.Module):
    """The mean over an image's pixels, image by image. Opacus wants a name for how images are joined, and sets it to none."""

    reduction = "sum"

    def forward(self, scores, labels):
        return functional.cross_entropy(scores, labels, reduction="none").mean((1, 2))
