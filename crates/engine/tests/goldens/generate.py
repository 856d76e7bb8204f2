"""Makes the goldens beside this file with PyTorch and torchvision, in double precision.

    python -m venv venv && venv/bin/pip install torch==2.9.1 torchvision==0.24.1 numpy safetensors
    venv/bin/python generate.py

Weights and inputs are made from names by a hash (see `uniform`), which the Rust tests repeat, so that only results are stored:
`autograd.safetensors` holds losses and gradients of small networks, one or more for every operation; `zoo.json` holds outputs of the
zoo's models and a checksum of their parameters' names and shapes.
"""

import json
import pathlib

import numpy as np
import torch
import torchvision
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
torch.set_default_dtype(torch.float64)
IGNORED = -100
# Eps is a single-precision number in the graphs.
EPS, SMALL_EPS = float(np.float32(1e-5)), float(np.float32(1e-6))


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def uniform(name, count):
    """Values in [-1, 1) with 24 bits: FNV-1a of the name, then SplitMix64's finaliser of the index."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(fnv(name)) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0


def value(name, shape):
    u = uniform(name, int(np.prod(shape)))
    if len(shape) > 1:
        u = u * np.sqrt(6.0 / np.prod(shape[1:]))
    elif name.endswith("running_var") or name.endswith("weight"):
        u = 1.0 + 0.25 * u
    else:
        u = 0.1 * u
    return torch.from_numpy(u.astype(np.float32).astype(np.float64).reshape(shape))


class P:
    """Parameters by name, made on first use."""

    def __init__(self):
        self.values = {}

    def __call__(self, name, *shape):
        if name not in self.values:
            self.values[name] = value(name, shape).requires_grad_()
        return self.values[name]


def conv(p, name, x, out, size, bias=False, groups=1, standardise=False, **window):
    dims = x.dim() - 2
    shape = (out, x.shape[1] // groups, *[size] * dims)
    weight = p(f"{name}.weight", *shape)
    if standardise:
        flat = weight.flatten(1)
        flat = (flat - flat.mean(1, keepdim=True)) / torch.sqrt(flat.var(1, unbiased=False, keepdim=True) + EPS)
        weight = flat.reshape(shape)
    run = F.conv3d if dims == 3 else F.conv2d
    return run(x, weight, p(f"{name}.bias", out) if bias else None, groups=groups, **window)


def linear(p, name, x, out):
    return F.linear(x, p(f"{name}.weight", out, x.shape[-1]), p(f"{name}.bias", out))


def group_norm(p, name, x, groups):
    return F.group_norm(x, groups, p(f"{name}.weight", x.shape[1]), p(f"{name}.bias", x.shape[1]), EPS)


def layer_norm(p, name, x):
    n = x.shape[-1]
    return F.layer_norm(x, (n,), p(f"{name}.weight", n), p(f"{name}.bias", n), SMALL_EPS)


def head(p, x):
    return linear(p, "head", x.flatten(1), 4)


def single(**settings):
    def run(p, x):
        x = conv(p, "first", x, x.shape[1], 1, bias=True)
        return head(p, conv(p, "conv", x, **settings))

    return run


def enlarged(out, size, bias=False, groups=1, **window):
    def run(p, x):
        x = conv(p, "first", x, x.shape[1], 1, bias=True)
        dims = x.dim() - 2
        weight = p("up.weight", x.shape[1], out // groups, *[size] * dims)
        run = F.conv_transpose3d if dims == 3 else F.conv_transpose2d
        return head(p, run(x, weight, p("up.bias", out) if bias else None, groups=groups, **window))

    return run


def deep(p, x):
    x = F.relu(conv(p, "conv1", x, 32, 3, bias=True, padding=1))
    x = conv(p, "conv2", x, 48, 3, standardise=True, padding=1)
    x = F.relu(group_norm(p, "norm", x, 4))
    return head(p, conv(p, "conv3", x, 40, 3, bias=True, padding=1, stride=2))


def norms(p, x):
    x = F.relu(group_norm(p, "group", conv(p, "conv", x, 6, 1), 3))
    weight, bias = p("batch.weight", 6), p("batch.bias", 6)
    mean, var = value("batch.running_mean", (6,)), value("batch.running_var", (6,))
    x = F.batch_norm(x, mean, var, weight, bias, training=False, eps=EPS)
    x = group_norm(p, "instance", x, 6)
    return head(p, layer_norm(p, "layer", x.permute(0, 2, 3, 1)))


def other_norms(p, x):
    x = conv(p, "conv", x, 6, 1)
    last, first = lambda x: x.permute(0, 2, 3, 1), lambda x: x.permute(0, 3, 1, 2)
    x = first(layer_norm(p, "channels", last(x)))
    shape = x.shape[1:]
    x = F.layer_norm(x, shape, p("whole.weight", *shape), p("whole.bias", *shape), SMALL_EPS)
    x = first(F.rms_norm(last(x), (6,), p("channel_rms.weight", 6), SMALL_EPS))
    return head(p, F.rms_norm(x, (3,), p("rms.weight", 3), SMALL_EPS))


def pools(p, x):
    x = F.max_pool2d(conv(p, "conv", x, 5, 1), 3, 2, 1)
    return head(p, F.adaptive_avg_pool2d(F.avg_pool2d(x, 2, 1, 1), (3, 4)))


def activations(p, x):
    for index, f in enumerate([F.relu, F.gelu, F.silu, torch.tanh, lambda x: x * float(np.float32(0.7))]):
        x = f(linear(p, f"linear{index}", x, 11))
    return head(p, x)


def upsample(p, x):
    x = conv(p, "conv", x, 3, 1)
    for size in [(7, 6), (3, 5)]:
        x = F.interpolate(x, size, mode="bilinear", align_corners=False)
    return head(p, x)


def structure(p, x):
    x = conv(p, "conv", x, 6, 1)
    low, high = x[:, :4], x[:, 2:]
    total = low * high + low
    joined = torch.cat([total + total, x], 1)
    wide = torch.cat([joined, joined], 3)
    moved = wide[:, :, 1:3].permute(0, 3, 1, 2)
    return head(p, moved[:, [3, 0, 3, 7]].reshape(-1, 8, 10))


def attention(p, x):
    x = linear(p, "embed", x, 8)
    x = torch.cat([p("token", 1, 8).expand(x.shape[0], 1, 8), x], 1) + p("position", 6, 8)
    y = layer_norm(p, "norm", x)
    parts = [linear(p, name, y, 8).reshape(-1, 6, 2, 4).transpose(1, 2) for name in ["query", "key", "value"]]
    y = F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(-1, 6, 8)
    return head(p, (x + y)[:, :1])


def matmul(p, x):
    left, right = linear(p, "left", x, 7), linear(p, "right", x, 7)
    return head(p, F.softmax(left @ right.transpose(-1, -2), -1) @ right)


def pixels(p, x):
    return conv(p, "conv", x, 4, 3, bias=True, padding=1)


def clipped(p, x):
    return head(p, F.relu6(5.0 * conv(p, "conv", x, 6, 3, bias=True, padding=1)))


def auxiliary(p, x):
    up = lambda scores: F.interpolate(scores, x.shape[2:], mode="bilinear", align_corners=False)
    y = F.relu(conv(p, "conv", x, 6, 3, stride=2, padding=1))
    aside = conv(p, "aside", y, 4, 1, bias=True)
    y = conv(p, "scores", conv(p, "deeper", y, 5, 3, dilation=2, padding=2), 4, 1, bias=True)
    return up(y), up(aside)


def mlp(p, x):
    return head(p, F.relu(linear(p, "hidden", x, 9)))


def cross_entropy(smoothing=0.0):
    def loss(output):
        positions = int(np.prod(output.shape[2:]))
        count = output.shape[0] * positions
        classes = ((uniform("class", count) + 1.0) / 2.0 * output.shape[1]).astype(np.int64)
        if positions > 1:
            classes[np.arange(count) % 5 == 3] = IGNORED
        labels = torch.from_numpy(classes).reshape(output.shape[0], *output.shape[2:])
        each = [F.cross_entropy(o[None], t[None], label_smoothing=smoothing) for o, t in zip(output, labels)]
        return torch.stack(each)

    return loss


def both(outputs):
    # The weight is a single-precision number in the graph.
    return cross_entropy()(outputs[0]) + float(np.float32(0.4)) * cross_entropy()(outputs[1])


def squares(output):
    target = torch.from_numpy(uniform("value", output.numel()).astype(np.float32).astype(np.float64))
    return ((output - target.reshape(output.shape)) ** 2).flatten(1).mean(1)


SPECIMENS = {
    "conv_stride_padding": ((3, 7, 6), single(out=5, size=3, stride=2, padding=1, bias=True), cross_entropy()),
    "conv_dilation_groups": ((4, 8, 7), single(out=6, size=3, dilation=2, padding=2, groups=2), cross_entropy()),
    "conv_depthwise": ((6, 6, 6), single(out=6, size=3, stride=2, padding=1, groups=6, bias=True), cross_entropy()),
    "conv_pointwise": ((20, 4, 3), single(out=18, size=1, bias=True), cross_entropy()),
    "conv_standardised": ((3, 5, 5), single(out=4, size=3, padding=1, standardise=True), cross_entropy()),
    "conv_3d": ((2, 4, 5, 5), single(out=3, size=3, stride=2, padding=1, bias=True), cross_entropy()),
    "transposed_conv": (
        (5, 4, 3),
        enlarged(out=4, size=3, stride=2, padding=1, output_padding=(1, 0), bias=True),
        cross_entropy(),
    ),
    "transposed_conv_dilation_groups": (
        (4, 3, 4),
        enlarged(out=6, size=2, stride=3, dilation=2, groups=2, output_padding=(2, 1)),
        cross_entropy(),
    ),
    "transposed_conv_depthwise": (
        (6, 3, 3),
        enlarged(out=6, size=3, stride=2, groups=6, output_padding=(0, 1), bias=True),
        cross_entropy(),
    ),
    "transposed_conv_3d": (
        (3, 2, 3, 2),
        enlarged(out=2, size=2, stride=2, output_padding=(0, 1, 0), bias=True),
        cross_entropy(),
    ),
    "transposed_conv_deep": ((16, 2, 2), enlarged(out=12, size=2, stride=2, bias=True), cross_entropy()),
    "deep": ((3, 4, 4), deep, cross_entropy()),
    "norms": ((6, 4, 3), norms, cross_entropy()),
    "other_norms": ((6, 4, 3), other_norms, cross_entropy()),
    "pools": ((3, 11, 9), pools, cross_entropy()),
    "activations": ((9,), activations, cross_entropy()),
    "upsample": ((2, 3, 4), upsample, cross_entropy()),
    "structure": ((4, 3, 5), structure, cross_entropy()),
    "attention": ((5, 6), attention, cross_entropy()),
    "matmul": ((2, 5, 6), matmul, cross_entropy()),
    "pixels": ((3, 5, 4), pixels, cross_entropy()),
    "clipped": ((3, 5, 4), clipped, cross_entropy()),
    "auxiliary": ((3, 9, 8), auxiliary, both),
    "smoothing": ((6,), mlp, cross_entropy(float(np.float32(0.1)))),
    "squares": ((6,), mlp, squares),
}


def autograd():
    """Loss of two samples and the gradient of the first, for every small network."""
    tensors = {}
    for name, (shape, network, loss) in SPECIMENS.items():
        samples = 2
        inputs = uniform("input", samples * int(np.prod(shape))).astype(np.float32).astype(np.float64)
        p = P()
        losses = loss(network(p, torch.from_numpy(inputs.reshape(samples, *shape))))
        losses[0].backward()
        tensors[f"{name}/loss"] = losses.detach().numpy()
        for parameter, tensor in p.values.items():
            tensors[f"{name}/{parameter}"] = tensor.grad.numpy()
    save_file({key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}, HERE / "autograd.safetensors")


class StandardisedConv(nn.Conv2d):
    def forward(self, x):
        flat = self.weight.flatten(1)
        flat = (flat - flat.mean(1, keepdim=True)) / torch.sqrt(flat.var(1, unbiased=False, keepdim=True) + 1e-5)
        return F.conv2d(x, flat.reshape(self.weight.shape), None, self.stride, self.padding)


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1 = nn.GroupNorm(16, inputs)
        self.conv1 = StandardisedConv(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.GroupNorm(16, outputs)
        self.conv2 = StandardisedConv(outputs, outputs, 3, 1, 1, bias=False)
        if inputs != outputs or stride != 1:
            self.shortcut = StandardisedConv(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        active = F.relu(self.norm1(x))
        y = self.conv2(F.relu(self.norm2(self.conv1(active))))
        return y + (self.shortcut(active) if hasattr(self, "shortcut") else x)


class WideResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1 = StandardisedConv(3, 16, 3, 1, 1, bias=False)
        channels = 16
        for stage in range(3):
            layers = []
            for block in range(blocks):
                layers.append(WideBlock(channels, 64 << stage, 2 if stage > 0 and block == 0 else 1))
                channels = 64 << stage
            setattr(self, f"block{stage + 1}", nn.Sequential(*layers))
        self.norm = nn.GroupNorm(16, channels)
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.norm(x)).mean((2, 3)))


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, 2, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.fc1 = nn.Linear(512, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 1)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def resnet(make, group=False):
    norm = (lambda channels: nn.GroupNorm(32, channels)) if group else None
    return lambda: make(num_classes=10, norm_layer=norm)


MODELS = torchvision.models
ZOO = {
    "resnet-18": ((3, 64, 64), resnet(MODELS.resnet18)),
    "resnet-18-group": ((3, 64, 64), resnet(MODELS.resnet18, group=True)),
    "resnet-34": ((3, 64, 64), resnet(MODELS.resnet34)),
    "resnet-50": ((3, 64, 64), resnet(MODELS.resnet50)),
    "resnet-101": ((3, 64, 64), resnet(MODELS.resnet101)),
    "vgg-11": ((3, 40, 40), lambda: MODELS.vgg11(num_classes=10)),
    "vgg-11-bn": ((3, 40, 40), lambda: MODELS.vgg11_bn(num_classes=10)),
    "vgg-16": ((3, 40, 40), lambda: MODELS.vgg16(num_classes=10)),
    "vgg-16-bn": ((3, 40, 40), lambda: MODELS.vgg16_bn(num_classes=10)),
    "wrn-16-4": ((3, 32, 32), lambda: WideResNet(2)),
    "wrn-40-4": ((3, 32, 32), lambda: WideResNet(6)),
    "small-cnn": ((1, 28, 28), SmallCnn),
    "mc3-18": ((3, 4, 32, 32), lambda: MODELS.video.mc3_18(num_classes=10)),
}


def zoo():
    results = {}
    for name, (shape, make) in ZOO.items():
        with torch.device("meta"):
            model = make().eval()
        state = {key: tensor for key, tensor in model.state_dict().items() if not key.endswith("num_batches_tracked")}
        filled = {key: value(key, tuple(tensor.shape)) for key, tensor in state.items()}
        model.to_empty(device="cpu").double()
        model.load_state_dict(filled, strict=False)
        inputs = uniform("input", int(np.prod(shape))).astype(np.float32).astype(np.float64)
        with torch.no_grad():
            output = model(torch.from_numpy(inputs.reshape(1, *shape)))[0]
        # Sorted, because the order of parameters is no part of a weights file.
        lines = sorted(f"{key} {','.join(map(str, tensor.shape))}\n" for key, tensor in state.items())
        results[name] = {"output": output.tolist(), "parameters": len(lines), "checksum": f"{fnv(''.join(lines)):016x}"}
        print(name, max(map(abs, results[name]["output"])))
    (HERE / "zoo.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    autograd()
    zoo()
