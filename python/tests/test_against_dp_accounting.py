"""Tests answers against Google's dp_accounting, and the exchange with it."""

import math
import random

import pytest
from plans import PATCH, PLANS, RECORDS

import dapple

pytest.importorskip("dp_accounting", reason="dp_accounting is not installed")

from dp_accounting import dp_event  # noqa: E402
from dp_accounting.pld import privacy_loss_distribution as google  # noqa: E402
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant  # noqa: E402

import dapple.dp_accounting  # noqa: E402


def settings():
    """Thirty plans, the same in every run."""
    draw = random.Random(7)
    for number in range(30):
        yield dict(
            relation=("add-remove", "replace")[number % 2],
            records=draw.randrange(1_000, 100_000),
            noise_multiplier=round(math.exp(draw.uniform(math.log(0.7), math.log(6))), 3),
            steps=int(math.exp(draw.uniform(math.log(50), math.log(3000)))),
            rate=math.exp(draw.uniform(math.log(0.002), math.log(0.1))),
            delta=10 ** -draw.randrange(5, 9),
        )


def refined(plan, epsilon):
    """Google's bound on a lattice of ten thousandths of epsilon or finer, where its own rounding is below 1e-5 of it."""
    accountant = PLDAccountant(dapple.dp_accounting.neighboring_relation(plan), min(1e-4, epsilon * 1e-4))
    return accountant.compose(dapple.dp_accounting.event(plan)).get_epsilon(plan.delta)


@pytest.mark.parametrize("setting", list(settings()), ids=lambda setting: f"{setting['relation']}-{setting['steps']}")
def test_thirty_settings(setting):
    batch = max(1, round(setting.pop("rate") * setting["records"]))
    plan = dapple.Plan(batch=batch, **setting)
    epsilon = plan.account().epsilon
    theirs = refined(plan, epsilon)
    assert epsilon >= theirs, "below their refined value"
    assert epsilon <= theirs * 1.001


def test_events_of_sampling_without_replacement():
    plan = dapple.Plan(PLANS["without replacement"])
    accountant = RdpAccountant(neighboring_relation=dapple.dp_accounting.neighboring_relation(plan))
    theirs = accountant.compose(dapple.dp_accounting.event(plan)).get_epsilon(plan.delta)
    # Theirs is a general Renyi bound, ours a tight one.
    assert plan.account().bracket[0] <= theirs
    # If every step sees all records, both are the Gaussian mechanism of sensitivity 2, up to the looseness of Renyi conversions.
    full = plan.replace(batch=3000, steps=1, noise_multiplier=8.0)
    accountant = RdpAccountant(neighboring_relation=dapple.dp_accounting.neighboring_relation(full))
    theirs = accountant.compose(dapple.dp_accounting.event(full)).get_epsilon(full.delta)
    assert full.account().epsilon <= theirs <= 1.2 * full.account().epsilon


@pytest.mark.parametrize("plan", [PATCH, PLANS["user"], PLANS["submodels"], PLANS["balanced"], PLANS["microbatches"]])
def test_plans_without_an_event(plan):
    with pytest.raises(dapple.NoTheoremError) as caught:
        dapple.dp_accounting.event(dapple.Plan(**plan))
    assert "to_pld" in caught.value.hint


@pytest.mark.parametrize("plan", [PATCH, dict(RECORDS, epochs=1), PLANS["replace"], PLANS["balanced"]])
def test_our_distribution_as_theirs(plan):
    ours = dapple.Plan(**plan).pld()
    top = ours.epsilon(1e-9)
    theirs = dapple.dp_accounting.to_pld(ours, value_discretization_interval=top / 10_000)
    for share in (0.0, 0.123, 0.5, 0.987):
        lower, upper = ours.delta_bracket(share * top)
        delta = theirs.get_delta_for_epsilon(share * top)
        # Delta is never below the exact one, and above it by the error of chords between 400 points, quadratic in their distance.
        assert lower <= delta <= upper * 1.02
    once = theirs.get_epsilon_for_delta(1e-5)
    assert ours.epsilon_bracket(1e-5)[0] <= once <= ours.epsilon(1e-5) * 1.002
    twice = theirs.self_compose(2).get_epsilon_for_delta(1e-5)
    lower, upper = ours.self_compose(2).epsilon_bracket(1e-5)
    # One curve for both directions may cost a little in composition, and never gains anything.
    assert lower <= twice <= upper * 1.02


@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_their_distribution_as_ours(rate, steps):
    theirs = google.from_gaussian_mechanism(1.0, sampling_prob=rate, value_discretization_interval=1e-3).self_compose(steps)
    ours = dapple.dp_accounting.from_pld(theirs)
    assert ours.is_symmetric == (rate == 1.0)
    exact = dapple.Pld.gaussian(1.0).subsample(rate).self_compose(steps)
    for epsilon in (0.0, 0.5, 1.5, 4.0):
        lower, upper = ours.delta_bracket(epsilon)
        delta = theirs.get_delta_for_epsilon(epsilon)
        # The atoms are the same, so the bracket contains Google's answer up to the rounding of sums, and bounds what that bounds.
        assert lower <= delta * (1 + 1e-9) + 1e-13 and delta * (1 - 1e-9) <= upper
        assert exact.delta_bracket(epsilon)[0] <= upper
    assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-3)


@pytest.mark.parametrize("rate, noise", [(0.02, 1.0), (0.01, 0.8), (1.0, 5.0)])
def test_their_step_composed_here(rate, noise):
    step = google.from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=1e-3)
    ours = dapple.dp_accounting.from_pld(step)
    for steps in (10, 1000):
        lower, upper = ours.self_compose(steps).epsilon_bracket(1e-5)
        theirs = step.self_compose(steps).get_epsilon_for_delta(1e-5)
        # The atoms are the same, but composed there on their own lattice and here on another one.
        assert lower <= theirs <= upper * (1 + 1e-6)
        assert upper - lower <= 0.002 * upper


def test_their_distribution_composed_here():
    interval = 1e-3
    theirs = google.from_gaussian_mechanism(1.0, sampling_prob=0.02, value_discretization_interval=interval).self_compose(100)
    ours = dapple.dp_accounting.from_pld(theirs).compose(dapple.Pld.gaussian(5.0))
    both = theirs.compose(google.from_gaussian_mechanism(5.0, value_discretization_interval=interval))
    lower, upper = ours.epsilon_bracket(1e-6)
    # Theirs is rounded to its lattice twice, ours to another one once more.
    assert upper == pytest.approx(both.get_epsilon_for_delta(1e-6), rel=5e-3)
    exact = dapple.Pld.poisson_gaussian(0.02, 1.0).self_compose(100).compose(dapple.Pld.gaussian(5.0))
    assert upper >= exact.epsilon_bracket(1e-6)[0]


def test_optimistic_estimates_are_refused():
    hopeful = google.from_gaussian_mechanism(1.0, pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=1e-2)
    with pytest.raises(dapple.PlanError, match="optimistic"):
        dapple.dp_accounting.from_pld(hopeful)


#: Events with a distribution here, by the relation they are read under.
EVENTS = [
    (dp_event.GaussianDpEvent(1.3), "ADD_OR_REMOVE_ONE"),
    (dp_event.GaussianDpEvent(1.3), "REPLACE_ONE"),
    (dp_event.LaplaceDpEvent(1.5), "ADD_OR_REMOVE_ONE"),
    (dp_event.DiscreteLaplaceDpEvent(0.4, 3), "ADD_OR_REMOVE_ONE"),
    (dp_event.RandomizedResponseDpEvent(0.3, 4), "REPLACE_ONE"),
    (dp_event.RandomizedResponseDpEvent(0.3, 4), "REPLACE_SPECIAL"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]), "ADD_OR_REMOVE_ONE"),
    (dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.3)), "ADD_OR_REMOVE_ONE"),
    (dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.3)), "REPLACE_ONE"),
    (dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(0.7)), "REPLACE_SPECIAL"),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("event, relation", EVENTS, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_their_events_as_ours(event, relation, count):
    relation = NeighboringRelation[relation]
    ours = dapple.dp_accounting.from_event(dp_event.SelfComposedDpEvent(event, count), relation)
    theirs = PLDAccountant(relation, 1e-4)
    for _ in range(count):
        # One by one, because theirs counts randomised response only once if an event is composed several times at once.
        theirs.compose(event)
    for epsilon in (0.0, 0.2, 0.9, 2.0):
        lower, upper = ours.delta_bracket(epsilon)
        # Theirs is rounded up by at most a step of the lattice for each event, and by truncation.
        assert lower <= theirs.get_delta(epsilon) + 1e-12
        assert theirs.get_delta(epsilon + count * 1e-4) <= upper + 1e-9


def test_accountants_take_events_and_plans():
    plan = dapple.Plan(PLANS["replace"])
    accountant = dapple.dp_accounting.Accountant(dapple.dp_accounting.neighboring_relation(plan))
    accountant.compose(dapple.dp_accounting.event(plan))
    assert accountant.get_epsilon(plan.delta) == plan.account().epsilon
    fixed = dapple.Plan(PLANS["without replacement"])
    event = dapple.dp_accounting.event(fixed)
    assert dapple.dp_accounting.from_event(event, NeighboringRelation.REPLACE_ONE).epsilon(fixed.delta) == fixed.account().epsilon


@pytest.mark.parametrize(
    "event", [dp_event.UnsupportedDpEvent(), dp_event.ZCDpEvent(1.0), dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4)]
)
def test_events_without_a_distribution(event):
    with pytest.raises(dapple.NoTheoremError, match=type(event).__name__):
        dapple.dp_accounting.from_event(dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), event]))


def test_composition_with_a_mechanism_of_theirs():
    ours = dapple.Plan(**RECORDS).pld()
    laplace = google.from_laplace_mechanism(10.0, value_discretization_interval=1e-3)
    both = dapple.dp_accounting.to_pld(ours, value_discretization_interval=1e-3).compose(laplace)
    lower, upper = ours.compose(dapple.Pld.laplace(0.1)).epsilon_bracket(1e-5)
    assert lower <= both.get_epsilon_for_delta(1e-5) <= upper * 1.002


def test_lattices_that_are_too_fine():
    with pytest.raises(dapple.PlanError, match="places") as caught:
        dapple.dp_accounting.to_pld(dapple.Pld.gaussian(0.1), value_discretization_interval=1e-9)
    assert "value_discretization_interval" in caught.value.hint
    with pytest.raises(dapple.PlanError):
        dapple.dp_accounting.to_pld(dapple.Pld.gaussian(1.0), value_discretization_interval=0.0)
