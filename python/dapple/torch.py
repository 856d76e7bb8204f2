"""Samplers and crops for PyTorch, made from a plan, so that what is run is what was priced.

Records are drawn by `dapple.Sampler` with a key from the operating system. The origins of crops come from the operating system one
by one, so that worker processes made by a fork never share them. A `seed` makes both repeatable. It is for tests only: nothing is
private from whoever knows it.

>>> import dapple, dapple.torch, torch
>>> plan = dapple.Plan(image=(32, 32), crop=(8, 8), patch=(4, 4), batch=2, records=10, steps=3, noise_multiplier=1.0, delta=1e-5)
>>> records = [(torch.zeros(3, 32, 32), index) for index in range(10)]
>>> loader = dapple.torch.loader(records, plan)
>>> all(images.shape[1:] == (3, 8, 8) for _ in range(1) for images, labels in loader)
True
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, default_collate
from torch.utils.data import Sampler as TorchSampler

import dapple
from dapple.errors import PlanError, UnsoundPipelineError

__all__ = [
    "BalancedIterationSampler",
    "CroppedDataset",
    "PlanBatchSampler",
    "PoissonBatchSampler",
    "UniformCrop",
    "Views",
    "WithoutReplacementBatchSampler",
    "batch_sampler",
    "loader",
    "views",
]


class PlanBatchSampler(TorchSampler[list[int]]):
    """Draws the records of each step as the plan says. One pass gives the steps of one epoch. All passes together give the plan's
    steps, and asking for more is an error. A Poisson batch may be empty, and even then the step adds noise."""

    scheme: ClassVar[str]

    def __init__(self, plan: dapple.Plan, *, seed: int | None = None) -> None:
        if plan.sampling != self.scheme:
            raise PlanError(
                f"{type(self).__name__} draws by {self.scheme}, but the plan says {plan.sampling}",
                f"use dapple.torch.batch_sampler(plan), or a plan with sampling=\"{self.scheme}\"",
            )
        self.plan = plan
        self.step = 0
        self._sampler = dapple.Sampler(plan, seed=seed)

    def __len__(self) -> int:
        """Steps of the next pass."""
        return min(self.plan.epoch_steps, self._sampler.steps - self.step)

    def __iter__(self) -> Iterator[list[int]]:
        if len(self) == 0:
            raise PlanError(
                f"all {self._sampler.steps} steps of the plan are done",
                "more steps cost more privacy: make a plan with more of them before training",
            )
        for _ in range(len(self)):
            self.step += 1
            yield self._sampler.draw(self.step - 1)


class PoissonBatchSampler(PlanBatchSampler):
    """Each record joins each step with probability batch / records, independently of all others."""

    scheme = "poisson"


class WithoutReplacementBatchSampler(PlanBatchSampler):
    """Each step sees a uniform subset of exactly `batch` records, independently of other steps."""

    scheme = "without-replacement"


class BalancedIterationSampler(PlanBatchSampler):
    """Each record joins `per_record` steps of each epoch, a uniform subset of them, independently of other records and epochs."""

    scheme = "balanced"


def batch_sampler(plan: dapple.Plan, *, seed: int | None = None) -> PlanBatchSampler:
    """The sampler of the plan's scheme."""
    for kind in (PoissonBatchSampler, WithoutReplacementBatchSampler, BalancedIterationSampler):
        if kind.scheme == plan.sampling:
            return kind(plan, seed=seed)
    raise PlanError(f"no sampler for {plan.sampling} sampling")


class UniformCrop:
    """Pads an image with zeros and cuts the plan's crop out of it, at an origin that is uniform among all that keep the crop inside.
    A label map is cut at the same origin.

    The origin depends on nothing but the random numbers, in particular not on the label. Images of any other size than the plan's
    are refused, because the priced probability holds for this size only.

    Shapes: an image `[..., height, width]`, a label map `[..., height, width]`.
    """

    def __init__(self, plan: dapple.Plan, *, label_fill: float = 0, seed: int | None = None) -> None:
        if plan.image is None or plan.crop is None:
            raise PlanError(
                "UniformCrop needs the size of the image and a crop of fixed size",
                "give the plan image=(W, H) and crop=(W, H); random resized crops run in `dapple train`",
            )
        if plan.operations:
            raise PlanError(
                f"UniformCrop does not carry out {plan.operations[0]!r} before the crop",
                "take the operations out of the plan and prepare the images with them, or use `dapple train`",
            )
        if "pixel_noise" in plan.to_dict().get("pipeline", {}):
            raise PlanError("UniformCrop adds no noise to pixels", "take pixel_noise out of the plan, or use `dapple train`")
        if plan.pad != (0, 0) and plan.pad_mode != "zero":
            raise PlanError(f"UniformCrop pads with zeros, but the plan says {plan.pad_mode}", 'use pad_mode="zero"')
        self.plan_hash = plan.hash
        self.image = plan.image
        self.crop = plan.crop
        self.pad = plan.pad
        self.label_fill = label_fill
        self._seeded = None if seed is None else random.Random(seed)

    def origin(self) -> tuple[int, int]:
        """Column and row of the next crop in the padded image."""
        below = secrets.randbelow if self._seeded is None else self._seeded.randrange
        x, y = (below(whole + 2 * pad - part + 1) for whole, pad, part in zip(self.image, self.pad, self.crop))
        return x, y

    def _cut(self, image: torch.Tensor, origin: tuple[int, int], fill: float) -> torch.Tensor:
        height, width = image.shape[-2:]
        if (width, height) != self.image:
            raise UnsoundPipelineError(
                f"an image of {width}x{height} reaches the crop, but the plan is priced for {self.image[0]}x{self.image[1]}",
                "leave cropping and padding to the plan, and bring all images to the size it names",
            )
        (pad_x, pad_y), (x, y) = self.pad, origin
        padded = functional.pad(image, (pad_x, pad_x, pad_y, pad_y), value=fill)
        return padded[..., y : y + self.crop[1], x : x + self.crop[0]]

    def __call__(self, image: torch.Tensor, label: torch.Tensor | None = None) -> Any:
        """The crop of an image, or of an image and its label map."""
        origin = self.origin()
        cut = self._cut(image, origin, 0)
        return cut if label is None else (cut, self._cut(label, origin, self.label_fill))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(image={self.image}, crop={self.crop}, pad={self.pad})"


class Views(UniformCrop):
    """The plan's number of independent crops of an image, stacked: `[views, ..., height, width]`. The gradients of a record's views
    are averaged before they are clipped."""

    def __init__(self, plan: dapple.Plan, *, label_fill: float = 0, seed: int | None = None) -> None:
        super().__init__(plan, label_fill=label_fill, seed=seed)
        self.views = plan.views

    def __call__(self, image: torch.Tensor, label: torch.Tensor | None = None) -> Any:
        """The views of an image, or of an image and its label map."""
        origins = [self.origin() for _ in range(self.views)]
        images = torch.stack([self._cut(image, origin, 0) for origin in origins])
        if label is None:
            return images
        return images, torch.stack([self._cut(label, origin, self.label_fill) for origin in origins])


def views(plan: dapple.Plan, *, label_fill: float = 0, seed: int | None = None) -> Views:
    """The transform that makes the plan's views of an image."""
    return Views(plan, label_fill=label_fill, seed=seed)


class CroppedDataset(Dataset[Any]):
    """A data set of (image, label, ...) whose images are cut as the plan says. Labels of the image's height and width are label maps
    and are cut with it; other labels stay as they are."""

    def __init__(self, dataset: Any, crop: UniformCrop) -> None:
        self.dataset = dataset
        self.crop = crop

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        image, *rest = self.dataset[index]
        label = rest[0] if rest else None
        if isinstance(label, torch.Tensor) and label.shape[-2:] == image.shape[-2:]:
            image, rest[0] = self.crop(image, label)
        else:
            image = self.crop(image)
        return (image, *rest)


class _Collate:
    """Collates records. If there are none, it makes tensors of length 0 in the shapes of a record."""

    def __init__(self, collate: Callable[[list[Any]], Any], dataset: Any) -> None:
        self.collate = collate
        self.dataset = dataset

    def __call__(self, records: list[Any]) -> Any:
        return self.collate(records) if records else _emptied(self.collate([self.dataset[0]]))


def _emptied(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {key: _emptied(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_emptied, batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map(_emptied, batch))
    raise TypeError(f"a batch of {type(batch).__name__} has no empty form; collate records to tensors")


def loader(
    dataset: Any,
    plan: dapple.Plan,
    *,
    collate_fn: Callable[[list[Any]], Any] = default_collate,
    label_fill: float = 0,
    seed: int | None = None,
    **options: Any,
) -> DataLoader[Any]:
    """A data loader that draws records and cuts crops as the plan says. `options` go to `torch.utils.data.DataLoader`. Empty batches
    come as tensors of length 0."""
    if len(dataset) != plan.records:
        raise PlanError(
            f"the plan is for {plan.records} records, but the data set has {len(dataset)}",
            f"give the plan records={len(dataset)}",
        )
    for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
        if name in options:
            raise UnsoundPipelineError(
                f"{name} is given, but the plan says which records a step sees", f"leave {name} out"
            )
    if plan.crop is not None and not isinstance(dataset, CroppedDataset):
        transform = UniformCrop if plan.views == 1 else Views
        dataset = CroppedDataset(dataset, transform(plan, label_fill=label_fill, seed=seed))
    sampler = batch_sampler(plan, seed=seed)
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=_Collate(collate_fn, dataset), **options)
