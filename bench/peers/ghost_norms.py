"""Ghost norms in single precision: what Opacus clips by where two positions cancel, beside the gradient's true norm.

Needs PyTorch and Opacus, as `bench/peers/run engine` installs them into `bench/peers/.venv-engine`.
"""

import opacus
import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping

CHANNELS = 64


def main() -> None:
    signs = torch.tensor([1.0 if i % 2 == 0 else -1.0 for i in range(CHANNELS)])
    # One sample of two positions, which cancel but for 64 a channel.
    inputs = torch.stack([signs * 2**20 + 64, -signs * 2**20 + 64]).unsqueeze(0)
    torch.manual_seed(1)
    layer = torch.nn.Linear(CHANNELS, 4, bias=False)
    module = GradSampleModuleFastGradientClipping(layer, max_grad_norm=1.0, use_ghost_clipping=True)
    weights = torch.tensor([1.0, -0.5, 0.25, 0.1])
    (module(inputs) * weights).sum().backward()
    computed = module.get_norm_sample().item()
    wide = inputs[0].double()
    gradient = torch.outer(weights.double(), wide.sum(0))
    versions = f"opacus {opacus.__version__}, torch {torch.__version__}"
    print(f"{versions}: ghost norm {computed:.6g}, true norm {gradient.norm().item():.6g}")


if __name__ == "__main__":
    main()
