"""Exchange with Google's dp_accounting: plans as its events, its events as our distributions, and distributions both ways.

>>> import dapple, dapple.dp_accounting
>>> plan = dapple.Plan(batch=100, records=3000, epochs=1, noise_multiplier=1.0, delta=1e-5)
>>> type(dapple.dp_accounting.event(plan)).__name__
'SelfComposedDpEvent'
"""

from __future__ import annotations

import math

import numpy
from dp_accounting import dp_event
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation

import dapple
from dapple._events import Accountant, from_event
from dapple.errors import NoTheoremError, PlanError

__all__ = ["Accountant", "event", "from_event", "from_pld", "neighboring_relation", "to_pld"]

#: The most points of a lattice, because a longer one takes too long to compose.
_MOST_PLACES = 1_000_000
#: The mass beyond the last point of the lattice: the smallest delta that the accountant answers for.
_TAIL = 1e-15
#: How many points show roughly where a curve falls.
_FEW = 65


def event(plan: dapple.Plan) -> dp_event.DpEvent:
    """The plan as an event, for an accountant with `neighboring_relation(plan)`.

    Events know records, not regions. There is no event for plans under the patch, masked or user relation, nor for those that count
    submodels, balanced sampling or views.

    Noise is in the units that the event's accountants use: clip norms for Poisson sampling, under both relations, and units of the
    sensitivity, which is two clip norms, for sampling without replacement.
    """
    relation = neighboring_relation(plan)
    sections = plan.to_dict()
    plain = not {"partition", "mix"} & sections.keys() and sections["privacy"].get("records_per_clip", 1) == 1
    if "phases" in sections or not plain:
        raise _none("phases, submodels or shared clips")
    if plan.sampling == "poisson":
        noise = dp_event.GaussianDpEvent(plan.noise_multiplier)
        step = dp_event.PoissonSampledDpEvent(plan.sample_rate, noise)
    elif plan.sampling == "without-replacement" and relation == NeighboringRelation.REPLACE_ONE:
        noise = dp_event.GaussianDpEvent(plan.noise_multiplier / plan.sensitivity)
        step = dp_event.SampledWithoutReplacementDpEvent(plan.records, plan.batch, noise)
    else:
        raise _none(f"{plan.sampling} sampling")
    return dp_event.SelfComposedDpEvent(step, plan.steps)


def neighboring_relation(plan: dapple.Plan) -> NeighboringRelation:
    """The plan's relation as Google's library calls it."""
    if plan.relation == "add-remove":
        return NeighboringRelation.ADD_OR_REMOVE_ONE
    if plan.relation == "replace":
        return NeighboringRelation.REPLACE_ONE
    raise _none(f"the {plan.relation} relation")


def _none(what: str) -> NoTheoremError:
    return NoTheoremError(
        f"dp_accounting has no event for {what}", "take plan.pld() and dapple.dp_accounting.to_pld instead"
    )


def to_pld(
    pld: dapple.Pld, *, value_discretization_interval: float = 1e-4, points: int = 400, precision: float = 0.001
) -> privacy_loss_distribution.PrivacyLossDistribution:
    """Our distribution as Google's, on a lattice of losses.

    It is rounded up: at every epsilon its delta is at least the exact one, so it may be composed further and never underestimates.
    It meets our bounds at `points` epsilons of the lattice and lies on the chords between them. One distribution, the larger of
    the two curves, stands for both directions of the relation. That costs nothing for the answers of `pld` itself, but something
    if the distribution is composed with itself many times, so compose first and convert then.
    """
    interval = value_discretization_interval
    if not (interval > 0 and math.isfinite(interval)):
        raise PlanError(f"value_discretization_interval: {interval} is not a positive number", "1e-4 is usual")
    top = pld.epsilon(_TAIL, precision=precision)
    count = max(1, math.ceil(top / interval))
    if count > _MOST_PLACES:
        raise PlanError(
            f"losses up to {top:.4g} in steps of {interval:g} are {count} places of a lattice",
            f"take a value_discretization_interval of at least {top / _MOST_PLACES:.1g}",
        )

    def profile(places: numpy.ndarray) -> numpy.ndarray:
        return numpy.asarray(pld.profile((interval * places).tolist(), precision=precision))

    # Chords fit best if delta falls by the same factor over each of them. A few points tell where it falls.
    few = numpy.unique(numpy.linspace(0, count, _FEW).round().astype(int))
    fallen = numpy.concatenate([[0.0], numpy.cumsum(numpy.abs(numpy.diff(numpy.log(profile(few) + _TAIL))))])
    way = fallen / max(fallen[-1], 1e-300) + few / count
    places = numpy.interp(numpy.linspace(0, way[-1], max(2, points)), way, few)
    places = numpy.unique(places.round().astype(int))
    losses, deltas = interval * places, profile(places)
    deltas = _convex(numpy.exp(losses), numpy.minimum.accumulate(deltas))
    # delta(a), the integral of (P - a Q)+, falls in a = e^loss with slope -Q(loss > ln a). So atoms of Q are differences of slopes,
    # and an atom of P is e^loss times that of Q.
    drops, gaps = numpy.diff(deltas), numpy.diff(losses)
    slopes_below = drops / -numpy.expm1(-gaps)
    slopes_above = numpy.append(drops[1:] / numpy.expm1(gaps[1:]), 0.0)
    masses = numpy.maximum(slopes_above - slopes_below, 0.0)
    # The other direction has the same curve: each atom has a mirror image in which P and Q are exchanged.
    mirrored = masses * numpy.exp(-losses[1:])
    atoms = {0: max(0.0, 1.0 - float(deltas[-1] + masses.sum() + mirrored.sum()))}
    for place, mass, mirror in zip(places[1:].tolist(), masses.tolist(), mirrored.tolist()):
        atoms[place], atoms[-place] = mass, mirror
    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(
        atoms, infinity_mass=float(deltas[-1]), value_discretization_interval=interval, pessimistic_estimate=True
    )


def from_pld(pld: privacy_loss_distribution.PrivacyLossDistribution) -> dapple.Pld:
    """Google's distribution as ours, atom by atom and for each direction: nothing is rounded. Answers bound a mechanism if the
    distribution does, that is, if it was made with a pessimistic estimate, and others are refused."""
    remove, add = (pmf.to_dense_pmf() for pmf in (pld._pmf_remove, pld._pmf_add))
    if not (remove._pessimistic_estimate and add._pessimistic_estimate):
        raise PlanError("an optimistic estimate bounds nothing from above", "make it with pessimistic_estimate=True")

    def losses(pmf: pld_pmf.DensePLDPmf) -> list[tuple[float, float]]:
        places = pmf._lower_loss + numpy.arange(pmf.size)
        # Rounding of Fourier transforms leaves masses of -1e-20. Taking them as zero is the safe side.
        masses = numpy.maximum(pmf._probs, 0.0)
        return [(place * pmf._discretization, mass) for place, mass in zip(places.tolist(), masses.tolist()) if mass > 0.0]

    if pld._symmetric:
        return dapple.Pld.from_losses(losses(remove), remove._infinity_mass)
    return dapple.Pld.from_losses(
        losses(remove), remove._infinity_mass, addition=losses(add), addition_infinite=add._infinity_mass
    )


def _convex(places: numpy.ndarray, heights: numpy.ndarray) -> numpy.ndarray:
    """The largest convex function below the points, at their places. The exact curve is convex and below the points too, so it is
    below this function: it undoes the rounding of single points and stays on the safe side."""
    hull: list[int] = []
    for point in range(len(places)):
        while len(hull) > 1:
            first, last = hull[-2], hull[-1]
            rise = (heights[last] - heights[first]) * (places[point] - places[last])
            if rise < (heights[point] - heights[last]) * (places[last] - places[first]):
                break
            hull.pop()
        hull.append(point)
    return numpy.asarray(numpy.interp(places, places[hull], heights[hull]))
