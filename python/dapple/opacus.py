"""Training with Opacus by a plan, which gives the sampler, the crop, the noise and the price.

    private = dapple.opacus.make_private(module, optimizer, dataset, plan)
    for images, labels in private.loader: ...
    private.accountant.get_epsilon()

Whatever does not match the plan is refused: other samplers, other crops, batch norm in training mode.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from opacus import GradSampleModule
from opacus.accountants.accountant import IAccountant
from opacus.accountants.registry import register_accountant
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, default_collate

import dapple
import dapple.torch
from dapple import _sound
from dapple.errors import NoTheoremError, PlanError, UnsoundPipelineError

__all__ = ["PlanAccountant", "Private", "RecordAccountant", "make_private"]


class RecordAccountant(IAccountant):
    """An Opacus accountant that prices the steps taken, whatever their noise and sample rate, for records added or removed.

    Importing this module registers it, so that `opacus.PrivacyEngine(accountant="dapple")` and
    `opacus.accountants.create_accountant("dapple")` give one.
    """

    def __init__(self) -> None:
        super().__init__()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Counts a step."""
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def pld(self) -> dapple.Pld:
        """The distribution of the steps taken so far."""
        whole = dapple.Pld.identity()
        for noise_multiplier, sample_rate, steps in self.history:
            whole = whole.compose(dapple.Pld.poisson_gaussian(sample_rate, noise_multiplier).self_compose(steps))
        return whole

    def get_epsilon(self, delta: float, *, precision: float = 0.001, **_: Any) -> float:
        """Epsilon of the steps taken so far, never too small."""
        return self.pld().epsilon(delta, precision=precision)

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "dapple"


# Forced, so that a second import of the module is no error.
register_accountant(RecordAccountant.mechanism(), RecordAccountant, force=True)


class PlanAccountant(IAccountant):
    """An Opacus accountant that prices a plan. It counts the steps taken, refuses steps that are not in the plan, and answers for the
    plan's own relation or for another one."""

    def __init__(self, plan: dapple.Plan) -> None:
        super().__init__()
        _sound.check_plan(plan)
        self.plan = plan

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Counts a step, before its update reaches the weights."""
        plan = self.plan
        if noise_multiplier != plan.noise_multiplier or sample_rate != plan.sample_rate:
            raise UnsoundPipelineError(
                f"a step with noise multiplier {noise_multiplier} and sample rate {sample_rate}, but the plan has "
                f"{plan.noise_multiplier} and {plan.sample_rate}",
                "take one optimizer step for each batch of the loader, and change neither noise nor batch on the way",
            )
        if len(self) == plan.steps:
            raise UnsoundPipelineError(
                f"step {plan.steps + 1} of a plan of {plan.steps} steps",
                "more steps cost more privacy: make a plan with more of them before training",
            )
        self.history = [(noise_multiplier, sample_rate, len(self) + 1)]

    def certificate(
        self, delta: float | None = None, *, relation: str | None = None, precision: float = 0.001
    ) -> dapple.Certificate:
        """The certificate of the steps taken so far, which after the last step is that of the plan. A part of an epoch of balanced
        sampling or of a schedule has no price of its own; then the next larger part is priced, which never costs less."""
        return self._so_far(delta, relation).account(precision=precision)

    def get_epsilon(
        self, delta: float | None = None, *, relation: str | None = None, precision: float = 0.001
    ) -> float:
        """Epsilon of the steps taken so far, never too small, at `delta` (or the plan's) under `relation` (or the plan's)."""
        if len(self) == 0:
            return 0.0
        return self.certificate(delta, relation=relation, precision=precision).epsilon

    def epsilons(self, delta: float | None = None, *, precision: float = 0.001) -> dict[str, float]:
        """Epsilon of the steps taken so far under the plan's relation, and under every relation at record level that has a theorem."""
        found = {}
        for relation in dict.fromkeys([self.plan.relation, "replace", "add-remove"]):
            try:
                found[relation] = self.get_epsilon(delta, relation=relation, precision=precision)
            except NoTheoremError:
                continue
        return found

    def _so_far(self, delta: float | None, relation: str | None) -> dapple.Plan:
        plan, steps = self.plan, len(self)
        changes: dict[str, Any] = {}
        if delta is not None and delta != plan.delta:
            changes["delta"] = delta
        if relation is not None and relation != plan.relation:
            changes["relation"] = relation
        if 0 < steps < plan.steps and "phases" not in plan.to_dict():
            if plan.sampling == "balanced":
                changes["epochs"] = -(-steps // plan.epoch_steps)
            else:
                changes["steps"] = steps
        if not changes:
            return plan
        part = plan.replace(**changes)
        if part.epoch_steps == min(plan.epoch_steps, part.steps):
            return part
        # With fewer steps the length of an epoch would change. The whole plan costs at least as much as a part of it.
        del changes["epochs"]
        return plan.replace(**changes) if changes else plan

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "dapple-plan"

    def state_dict(self, destination: Any = None) -> Any:
        """The steps taken, and the hash of the plan they belong to."""
        destination = super().state_dict(destination)
        destination["plan_hash"] = self.plan.hash
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Goes on from a state of the same plan."""
        if (state_dict or {}).get("plan_hash") != self.plan.hash:
            raise PlanError("the state belongs to another plan", "load it into an accountant of the plan it was saved with")
        super().load_state_dict(state_dict)


class Private(NamedTuple):
    """What training by a plan needs."""

    module: GradSampleModule
    optimizer: DPOptimizer
    loader: DataLoader[Any]
    accountant: PlanAccountant


def make_private(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    plan: dapple.Plan,
    *,
    max_grad_norm: float | None = None,
    loss_reduction: str = "mean",
    collate_fn: Callable[[list[Any]], Any] = default_collate,
    label_fill: float = 0,
    seed: int | None = None,
    **options: Any,
) -> Private:
    """Wires Opacus as the plan says: the plan's sampler draws records, the plan's crop cuts images, gradients are clipped to
    `max_grad_norm` (or the plan's), the noise is `plan.noise_multiplier` clip norms, the sum is divided by the expected batch size,
    and each step is counted.

    `dataset` gives uncropped records, (image, label, ...), and `options` go to the data loader. The noise comes from PyTorch's
    generator, seeded from the operating system, as the sum of several draws, so that the rounding of a single one reveals nothing.
    That generator is statistical, not cryptographic. A `seed` is for tests.

    Raises `UnsoundPipelineError` for whatever would break the guarantee, and `PlanError` for a plan that Opacus cannot carry out.
    """
    _sound.check_plan(plan)
    norm = max_grad_norm if max_grad_norm is not None else plan.max_grad_norm
    if norm is None or (plan.max_grad_norm is not None and norm != plan.max_grad_norm):
        raise PlanError(
            "privacy.max_grad_norm is missing: gradients are clipped to it"
            if norm is None
            else f"max_grad_norm={norm}, but the plan says {plan.max_grad_norm}",
            "give the clip norm in the plan, or as max_grad_norm",
        )
    _sound.check_module(module)
    _sound.check_optimizer(optimizer, module)
    _sound.check_dataset(dataset, plan)
    loader = dapple.torch.loader(
        dataset, plan, collate_fn=collate_fn, label_fill=label_fill, seed=seed, **options
    )
    accountant = PlanAccountant(plan)
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    generator = torch.Generator(device=device)
    generator.manual_seed(secrets.randbits(63) if seed is None else seed)
    frozen_norms = _sound.watch_batch_norms(module)
    private_module = GradSampleModule(module, loss_reduction=loss_reduction, strict=not frozen_norms)
    private_optimizer = DPOptimizer(
        optimizer,
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=norm,
        expected_batch_size=plan.batch,
        loss_reduction=loss_reduction,
        generator=generator,
        secure_mode=True,
    )
    private_optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=plan.sample_rate))
    return Private(private_module, private_optimizer, loader, accountant)
