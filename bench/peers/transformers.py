"""A vision transformer and a ConvNeXt for the peers, as timm builds them, of parts that Opacus has rules for or is given here.

Attention is PyTorch's fused one. Class token, position embeddings and layer scales are parameters outside of any layer that Opacus
knows, so that they have modules of their own, with their rules for per-sample gradients and for their norms.
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10


class Tokens(nn.Module):
    """A class token before the patches, and a position embedding for each."""

    def __init__(self, tokens, features):
        super().__init__()
        self.class_token = nn.Parameter(torch.randn(1, 1, features) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, tokens + 1, features) * 0.02)

    def forward(self, x):
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.positions


class Scale(nn.Module):
    """A factor for each channel, which lies last."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x):
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.proj = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        packed = self.qkv(x).reshape(batch, tokens, 3, self.heads, features // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(query, key, value)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, features))


class TransformerBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(features, eps=1e-6), nn.LayerNorm(features, eps=1e-6)
        self.attn = Attention(features, heads)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.GELU(), nn.Linear(4 * features, features))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, features=768, depth=12, heads=12, patch=16, side=224):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, features, patch, patch)
        self.tokens = Tokens((side // patch) ** 2, features)
        self.blocks = nn.Sequential(*(TransformerBlock(features, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(features, eps=1e-6)
        self.head = nn.Linear(features, CLASSES)

    def forward(self, x):
        x = self.tokens(self.patch_embed(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(self.blocks(x))[:, 0])


class Adapted(nn.Module):
    """A frozen linear layer with an adapter of low rank beside it."""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.lora_a = nn.Linear(linear.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.linear(x) + 2.0 * self.lora_b(self.lora_a(x))


class ConvNextBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv_dw = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.scale = Scale(channels)

    def forward(self, x):
        # As a row of tokens: Opacus has no ghost norm of a linear layer over images.
        y = self.scale(self.mlp(self.norm(self.conv_dw(x).flatten(2).transpose(1, 2))))
        return x + y.transpose(1, 2).reshape(x.shape)


class ChannelNorm(nn.Module):
    """Layer norm over the channels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_t():
    widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)
    layers = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, (width, depth) in enumerate(zip(widths, depths)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(depth)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1], eps=1e-6), nn.Linear(widths[-1], CLASSES)]
    return nn.Sequential(*layers)


def adapted(model, rank=8):
    """The same with adapters at all linear layers but the last; nothing else but that one trains."""
    model.requires_grad_(False)
    for block in model.blocks:
        for parent, name in ((block.attn, "qkv"), (block.attn, "proj"), (block.mlp, "0"), (block.mlp, "2")):
            setattr(parent, name, Adapted(getattr(parent, name), rank))
    model.head.requires_grad_(True)
    return model


def build(name):
    if name == "convnext-t":
        return convnext_t()
    model = VisionTransformer()
    return adapted(model) if name == "vit-b-16-lora" else model


NAMES = ("vit-b-16", "vit-b-16-lora", "convnext-t")


def register():
    """Tells Opacus how the parameters outside of its layers are differentiated."""
    from opacus.grad_sample import register_grad_sampler, register_norm_sampler

    def of_tokens(layer, activations, backprops):
        return {layer.class_token: backprops[:, None, :1], layer.positions: backprops[:, None]}

    def of_scale(layer, activations, backprops):
        return {layer.gamma: (activations[0] * backprops).flatten(1, -2).sum(1)}

    def norms(gradients):
        return {parameter: gradient.flatten(1).norm(2, dim=-1) for parameter, gradient in gradients.items()}

    register_grad_sampler(Tokens)(of_tokens)
    register_grad_sampler(Scale)(of_scale)
    register_norm_sampler(Tokens)(lambda *arguments: norms(of_tokens(*arguments)))
    register_norm_sampler(Scale)(lambda *arguments: norms(of_scale(*arguments)))
