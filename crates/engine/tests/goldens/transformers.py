"""Makes transformers.json beside this file with timm, torchvision and OpenCLIP, in double precision.

    python -m venv venv && venv/bin/pip install torch==2.9.1 torchvision==0.24.1 timm==1.0.30 open_clip_torch numpy safetensors
    venv/bin/python transformers.py

Weights and inputs are made from names, as in `generate.py`. Of every model it stores the outputs for one image or clip, the loss of one class, and
for every parameter the length of its gradient and its product with a vector that is made from the parameter's name.
"""

import json
from functools import partial

import numpy as np
import timm
import torch
import torchvision
from generate import HERE, fnv, uniform, value
from open_clip.transformer import VisionTransformer
from timm.models.vision_transformer import Block
from torch import nn
from torch.nn import functional as F
from torchvision.models.video import mvit

CLASSES = 10
LABEL = int((uniform("class", 1)[0] + 1.0) / 2.0 * CLASSES)
torch.set_default_dtype(torch.float64)


class OpenClip(nn.Module):
    """OpenCLIP's image tower under a classifier of our own."""

    def __init__(self, size, patch, width, layers, heads, projection):
        super().__init__()
        self.visual = VisionTransformer(size, patch, width, layers, heads, 4.0, output_dim=projection)
        self.head = nn.Linear(projection, CLASSES)

    def forward(self, x):
        return self.head(self.visual(x))


class SmallHybrid(nn.Module):
    """Convolutions, then blocks of timm's."""

    def __init__(self, size):
        super().__init__()
        self.stem = nn.Module()
        for number, (before, after, stride) in enumerate([(3, 32, 1), (32, 64, 2), (64, 128, 2)], 1):
            setattr(self.stem, f"conv{number}", nn.Conv2d(before, after, 3, stride, 1, bias=False))
            setattr(self.stem, f"norm{number}", nn.GroupNorm(8, after))
        self.pos_embed = nn.Parameter(torch.zeros(1, (size // 4) ** 2, 128))
        norm = partial(nn.LayerNorm, eps=1e-6)
        self.blocks = nn.Sequential(*[Block(128, 4, qkv_bias=True, norm_layer=norm) for _ in range(4)])
        self.norm = norm(128)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x):
        for number in (1, 2, 3):
            x = F.relu(getattr(self.stem, f"norm{number}")(getattr(self.stem, f"conv{number}")(x)))
        x = self.blocks(x.flatten(2).transpose(1, 2) + self.pos_embed)
        return self.head(self.norm(x.mean(1)))


def timm_model(name, size, **settings):
    return lambda: timm.create_model(name, img_size=size, num_classes=CLASSES, **settings)


def vision(name, **settings):
    return lambda: getattr(torchvision.models, name)(num_classes=CLASSES, **settings)


def mvit_v2(stages, frames, height, width):
    """torchvision's video model with so many blocks in each stage, for clips of any size."""
    settings = []
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            first = stage > 0 and block == 0
            settings.append(
                mvit.MSBlockConfig(
                    num_heads=2**stage,
                    input_channels=96 * 2**stage // (2 if first else 1),
                    output_channels=96 * 2**stage,
                    kernel_q=[3, 3, 3],
                    kernel_kv=[3, 3, 3],
                    stride_q=[1, 2, 2] if first else [1, 1, 1],
                    stride_kv=[1, 8 // 2**stage, 8 // 2**stage],
                )
            )
    return mvit.MViT(
        spatial_size=(height, width),
        temporal_size=frames,
        block_setting=settings,
        residual_pool=True,
        residual_with_cls_embed=False,
        rel_pos_embed=True,
        proj_after_attn=True,
        stochastic_depth_prob=0.2,
        num_classes=CLASSES,
    )


def clips():
    small, base = (1, 2, 11, 2), (2, 3, 16, 3)
    # torchvision makes its own for one size only.
    assert repr(mvit_v2(small, 16, 224, 224)) == repr(mvit.mvit_v2_s(num_classes=CLASSES))
    # Of the inputs of these sizes no maximum has a second within a hundred thousandth, which single precision could take for it.
    for letter, stages, size in [
        ("s", small, (8, 32, 32)),
        ("s", small, (6, 64, 32)),
        ("s", small, (4, 40, 64)),
        ("b", base, (4, 32, 32)),
    ]:
        name = f"torchvision/mvit-v2-{letter}/{'x'.join(map(str, size))}"
        yield name, (3, *size), lambda stages=stages, size=size: mvit_v2(stages, *size)


def cases():
    yield from images()
    yield from clips()


def images():
    for size in (32, 48):
        for letter, name in [("ti", "tiny"), ("s", "small"), ("b", "base"), ("l", "large")]:
            yield f"timm/vit-{letter}-16/{size}", (3, size, size), timm_model(f"vit_{name}_patch16_224", size)
        yield f"timm/vit-ti-16-mean/{size}", (3, size, size), timm_model("vit_tiny_patch16_224", size, global_pool="avg")
        yield f"timm/vit-s-8/{size}", (3, size, size), timm_model("vit_small_patch8_224", size)
        for letter in "bl":
            yield f"torchvision/vit-{letter}-16/{size}", (3, size, size), vision(f"vit_{letter}_16", image_size=size)
        yield f"open-clip/vit-b-16/{size}", (3, size, size), lambda size=size: OpenClip(size, 16, 768, 12, 12, 512)
    for size in (32, 48):
        yield f"dapple/small-hybrid/{size}", (3, size, size), lambda size=size: SmallHybrid(size)
        yield f"timm/vit-ti-4/{size}", (3, size, size), timm_model("vit_tiny_patch16_224", size, patch_size=4)
    for size in (32, 48):
        for letter, name in [("t", "tiny"), ("s", "small"), ("b", "base"), ("l", "large")]:
            yield f"torchvision/convnext-{letter}/{size}", (3, size, size), vision(f"convnext_{name}")
        timm_convnext = lambda: timm.create_model("convnext_tiny", num_classes=CLASSES)
        yield f"timm/convnext-t/{size}", (3, size, size), timm_convnext
    for size in (64, 96):
        yield f"timm/vit-b-32/{size}", (3, size, size), timm_model("vit_base_patch32_224", size)
        yield f"torchvision/vit-b-32/{size}", (3, size, size), vision("vit_b_32", image_size=size)


def specimen(shape, make):
    model = make().double().eval()
    state = model.state_dict()
    model.load_state_dict({key: value(key, tuple(tensor.shape)) for key, tensor in state.items()})
    inputs = torch.from_numpy(uniform("input", int(np.prod(shape))).astype(np.float32).astype(np.float64))
    output = model(inputs.reshape(1, *shape))
    loss = F.cross_entropy(output, torch.tensor([LABEL]))
    loss.backward()
    gradients = {}
    for name, parameter in model.named_parameters():
        direction = torch.from_numpy(uniform(f"{name} direction", parameter.numel()))
        gradient = parameter.grad.flatten()
        gradients[name] = [float(f"{number:.9g}") for number in (gradient.norm(), gradient @ direction)]
    lines = sorted(f"{key} {','.join(map(str, tensor.shape))}\n" for key, tensor in state.items())
    return {
        "output": output[0].tolist(),
        "parameters": len(lines),
        "checksum": f"{fnv(''.join(lines)):016x}",
        "loss": loss.item(),
        "gradients": gradients,
    }


if __name__ == "__main__":
    results = {}
    for name, shape, make in cases():
        results[name] = specimen(shape, make)
        print(name, max(map(abs, results[name]["output"])), results[name]["loss"], flush=True)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in results.items())
    (HERE / "transformers.json").write_text("{\n" + text + "\n}\n")
