"""Events of Google's dp_accounting as privacy-loss distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

import dapple
from dapple.errors import AccountingError, NoTheoremError

_ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
_REPLACE = NeighboringRelation.REPLACE_ONE
_SPECIAL = NeighboringRelation.REPLACE_SPECIAL

#: The distribution of a mechanism whose every outcome reveals everything.
_NOTHING_PRIVATE = dapple.Pld.from_losses([], 1.0)


class _Refused(Exception):
    """An event, or a part of one, that has no distribution here."""

    def __init__(self, event: dp_event.DpEvent, message: str) -> None:
        super().__init__(message)
        self.event = event


def from_event(
    event: dp_event.DpEvent, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> dapple.Pld:
    """The privacy-loss distribution of an event under a neighbouring relation.

    Noise is in the units of the event. For a Gaussian event that is the norm of one record's contribution, so a substituted record
    (`REPLACE_ONE`) moves the sum by two units. A record that is replaced by a special one that contributes nothing
    (`REPLACE_SPECIAL`) moves it by one, as an added or removed record does.

    Raises `NoTheoremError` for events and relations that have no distribution here.
    """
    try:
        return _pld(event, neighboring_relation)
    except _Refused as refused:
        raise NoTheoremError(f"{refused} ({refused.event})", "compose what is supported, and bound the rest another way") from None


def _pld(event: dp_event.DpEvent, relation: NeighboringRelation) -> dapple.Pld:
    # Look up the type itself, because a subclass may be another mechanism.
    made = _EVENTS.get(type(event))
    if made is None:
        raise _Refused(event, f"there is no distribution for {type(event).__name__}")
    return made(event, relation)


def _only(event: dp_event.DpEvent, relation: NeighboringRelation, *allowed: NeighboringRelation) -> None:
    if relation not in allowed:
        names = " or ".join(f"`{one.name}`" for one in allowed)
        raise _Refused(event, f"neighboring_relation must be {names} for {type(event).__name__}, not `{relation.name}`")


def _composed(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    whole = dapple.Pld.identity()
    for part in event.events:
        whole = whole.compose(_pld(part, relation))
    return whole


def _gaussian(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    if event.noise_multiplier == 0:
        return _NOTHING_PRIVATE
    return dapple.Pld.gaussian(event.noise_multiplier, sensitivity=2.0 if relation == _REPLACE else 1.0)


def _laplace(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    _only(event, relation, _ADD, _SPECIAL)
    return dapple.Pld.laplace(1.0 / event.noise_multiplier) if event.noise_multiplier > 0 else _NOTHING_PRIVATE


def _discrete_laplace(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    """Noise z with probability tanh(a/2) e^{-a|z|}, moved by s: the loss at z is a (|z - s| - |z|)."""
    _only(event, relation, _ADD, _SPECIAL)
    a, s = event.noise_parameter, event.sensitivity
    if a == 0:
        return _NOTHING_PRIVATE
    # All z <= 0 have the loss a s and all z >= s the loss -a s. Between them the loss falls by 2 a from each z to the next.
    tail = 1.0 / (1.0 + math.exp(-a))
    atoms = [(-a * s, tail * math.exp(-a * s))]
    atoms += [(a * (s - 2 * z), math.tanh(a / 2) * math.exp(-a * z)) for z in range(s - 1, 0, -1)]
    return dapple.Pld.from_losses(atoms + [(a * s, tail)])


def _randomized_response(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    """Says the truth with probability 1 - p, and otherwise one of k buckets at random."""
    _only(event, relation, _REPLACE, _SPECIAL)
    p, k = event.noise_parameter, event.num_buckets
    if k == 1 or p == 1:
        return dapple.Pld.identity()
    if p == 0:
        return _NOTHING_PRIVATE
    truth, other = 1 - p * (k - 1) / k, p / k
    if relation == _REPLACE:
        loss = math.log(truth / other)
        between = [(0.0, (k - 2) * other)] if k > 2 else []
        return dapple.Pld.from_losses([(-loss, other), *between, (loss, truth)])
    # The special input gives each bucket with probability 1/k.
    high, low = math.log(truth * k), math.log(p)
    return dapple.Pld.from_losses(
        [(low, (k - 1) * other), (high, truth)], addition=[(-high, 1 / k), (-low, (k - 1) / k)]
    )


def _mixture(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    _only(event, relation, _ADD, _SPECIAL)
    if not any(event.sensitivities):
        return dapple.Pld.identity()
    if event.standard_deviation == 0:
        return _NOTHING_PRIVATE
    sensitivities, probabilities = list(event.sensitivities), list(event.sampling_probs)
    return dapple.Pld.gaussian_mixture(event.standard_deviation, sensitivities, probabilities)


def _poisson(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    rate, inner = event.sampling_probability, event.event
    if relation == _REPLACE and type(inner) is not dp_event.GaussianDpEvent:
        # A substituted record may be in the sample of only one of the data sets, and what it then moves depends on the mechanism.
        _only(inner, relation, _ADD, _SPECIAL)
    sampled = _pld(inner, relation)
    if rate == 0:
        return dapple.Pld.identity()
    if relation == _REPLACE and inner.noise_multiplier > 0:
        return dapple.Pld.poisson_gaussian(rate, inner.noise_multiplier, relation="replace")
    return sampled.subsample(rate)


def _fixed_size(event: Any, relation: NeighboringRelation) -> dapple.Pld:
    """A sample of fixed size without replacement. Records are substituted, and noise is in units of the sensitivity to that."""
    _only(event, relation, _REPLACE)
    if type(event.event) is not dp_event.GaussianDpEvent:
        raise _Refused(event, "a sample without replacement is priced for Gaussian noise")
    if event.sample_size == 0:
        return dapple.Pld.identity()
    if event.event.noise_multiplier == 0:
        return _NOTHING_PRIVATE
    return dapple.Pld.fixed_size_gaussian(event.sample_size / event.source_dataset_size, 2.0 * event.event.noise_multiplier)


_EVENTS: dict[type, Callable[[Any, NeighboringRelation], dapple.Pld]] = {
    dp_event.NoOpDpEvent: lambda event, relation: dapple.Pld.identity(),
    dp_event.NonPrivateDpEvent: lambda event, relation: _NOTHING_PRIVATE,
    dp_event.GaussianDpEvent: _gaussian,
    dp_event.LaplaceDpEvent: _laplace,
    dp_event.DiscreteLaplaceDpEvent: _discrete_laplace,
    dp_event.RandomizedResponseDpEvent: _randomized_response,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_event.ComposedDpEvent: _composed,
    dp_event.SelfComposedDpEvent: lambda event, relation: _pld(event.event, relation).self_compose(event.count),
    dp_event.PoissonSampledDpEvent: _poisson,
    dp_event.SampledWithoutReplacementDpEvent: _fixed_size,
}


class Accountant(PrivacyAccountant):
    """An accountant of Google's library that gives our answers: upper bounds whose brackets have a relative width of at most `precision`.

    >>> from dp_accounting import dp_event
    >>> from dapple.dp_accounting import Accountant
    >>> accountant = Accountant().compose(dp_event.LaplaceDpEvent(1.0), 3)
    >>> accountant.get_epsilon(0.0), accountant.get_delta(3.0)
    (3.0, 0.0)
    """

    def __init__(
        self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *, precision: float = 0.001
    ) -> None:
        super().__init__(neighboring_relation)
        self._precision = precision
        self._composed = dapple.Pld.identity()

    @property
    def pld(self) -> dapple.Pld:
        """The distribution of all events so far."""
        return self._composed

    def _maybe_compose(
        self, event: dp_event.DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        if do_compose and count < 1:
            raise ValueError(f"an event is composed at least once, not {count} times")
        try:
            made = _pld(event, self.neighboring_relation)
        except _Refused as refused:
            return PrivacyAccountant.CompositionErrorDetails(invalid_event=refused.event, error_message=str(refused))
        if do_compose:
            self._composed = self._composed.compose(made.self_compose(count))
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """The least epsilon at `target_delta`, never too small; infinite if there is none."""
        if target_delta >= 1 and self._composed.delta(0.0) < 1:
            return 0.0
        try:
            return self._composed.epsilon(min(target_delta, 1 - 2**-53), precision=self._precision)
        except AccountingError:
            # Epsilon is too large to report, or there is no bound at all.
            return math.inf

    def get_delta(self, target_epsilon: float) -> float:
        """The least delta at `target_epsilon`, never too small."""
        return self._composed.delta(min(target_epsilon, 1e4), precision=self._precision)
