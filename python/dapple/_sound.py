"""Checks that refuse what would make a run differ from the plan that is priced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, IterableDataset

import dapple
import dapple.torch
from dapple.errors import PlanError, UnsoundPipelineError


def check_plan(plan: dapple.Plan) -> None:
    """Refuses plans that Opacus cannot carry out."""
    sections = plan.to_dict()
    if plan.relation == "masked":
        what = "the masked relation"
    elif plan.relation == "user":
        what = "users, whose records must be clipped together"
    elif "partition" in sections:
        what = "submodels"
    elif "phases" in sections:
        what = "a schedule of phases"
    elif "mix" in sections or plan.views != 1 or sections["privacy"].get("records_per_clip", 1) != 1:
        what = "averages of several images before clipping"
    elif "clip_quantile" in sections["privacy"]:
        what = "a clip norm that follows a quantile"
    elif sections.get("noise", {}).get("bands", 1) != 1:
        what = "noise that cancels across steps"
    elif "pixel_noise" in sections.get("pipeline", {}):
        what = "noise on pixels"
    else:
        return
    raise PlanError(f"Opacus cannot carry out {what}", "take it out of the plan, or train with `dapple train`")


def check_optimizer(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> None:
    """Refuses optimisers that would use gradients otherwise than once each, clipped and noised."""
    name = type(optimizer).__name__
    if isinstance(optimizer, DPOptimizer):
        raise UnsoundPipelineError(f"a {name} clips and adds noise already", "give the optimiser that it was made of")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UnsoundPipelineError(
            f"{name} looks at the records several times a step, and a step is counted once", "use SGD or Adam"
        )
    if any(optimizer.state.values()):
        raise UnsoundPipelineError(
            f"the {name} has taken steps, and what it remembers of their gradients has no noise", "make a new optimiser"
        )
    own = {id(parameter) for parameter in module.parameters()}
    if any(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"]):
        raise UnsoundPipelineError(
            f"the {name} moves a parameter that is not the module's, whose gradient is neither clipped nor noised",
            "make the optimiser of module.parameters(), after the module has its last layers and its device",
        )


def check_module(module: torch.nn.Module) -> None:
    """Refuses layers that mix the examples of a batch."""
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and _mixes(layer):
            raise _mixing(name, layer)


def watch_batch_norms(module: torch.nn.Module) -> bool:
    """Watches frozen batch norms, because `module.train()` would thaw them, and returns whether there are any."""
    found = False
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm):
            found = True
            layer.register_forward_pre_hook(_watch(name))
    return found


def _watch(name: str) -> Any:
    def hook(layer: torch.nn.Module, _: Any) -> None:
        # Evaluation runs without gradients and may mix examples.
        if torch.is_grad_enabled() and _mixes(layer):
            raise _mixing(name, layer)

    return hook


def _mixes(layer: Any) -> bool:
    return layer.training or layer.running_mean is None


def _mixing(name: str, layer: torch.nn.Module) -> UnsoundPipelineError:
    return UnsoundPipelineError(
        f"{name or 'the module'} ({type(layer).__name__}) mixes the examples of a batch",
        "use torch.nn.GroupNorm, or freeze it: call eval() on it after every train()",
    )


def check_dataset(dataset: Any, plan: dapple.Plan) -> None:
    """Refuses data sets that sample or crop in another way than the plan."""
    if isinstance(dataset, (DataLoader, torch.utils.data.Sampler)):
        raise UnsoundPipelineError(
            f"a {type(dataset).__name__} has a sampler of its own, but the plan says which records a step sees",
            "give the data set itself",
        )
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise UnsoundPipelineError(
            "a stream of records cannot be sampled as the plan says", "give a data set with a length and an index"
        )
    if isinstance(dataset, dapple.torch.CroppedDataset):
        if dataset.crop.plan_hash != plan.hash:
            raise UnsoundPipelineError("the data set is cropped by another plan", "give the data set uncropped")
        dataset = dataset.dataset
    # Without a protected region the price counts no crop, so a record may be prepared in any way.
    if plan.relation != "patch":
        return
    for place, transform in _transforms(dataset, "dataset", depth=6):
        if "crop" in type(transform).__name__.lower():
            raise UnsoundPipelineError(
                f"{place} ({type(transform).__name__}) crops before the crop that is priced, by the label or otherwise",
                "take it out: the plan's crop is drawn by dapple.torch.UniformCrop, and the data set gives whole images",
            )


def _transforms(owner: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The transforms of a data set and of the data sets it wraps, including those in lists."""
    if depth == 0:
        return
    for name in ("transform", "target_transform", "transforms", "joint_transform", "dataset", "datasets"):
        found = getattr(owner, name, None)
        if found is None or isinstance(found, str):
            continue
        several = isinstance(found, (list, tuple, torch.nn.ModuleList))
        for index, item in enumerate(found if several else [found]):
            at = f"{place}.{name}[{index}]" if several else f"{place}.{name}"
            yield at, item
            yield from _transforms(item, at, depth - 1)
