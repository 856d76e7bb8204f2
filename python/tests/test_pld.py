"""The algebra of privacy-loss distributions, against closed forms."""

import math

import pytest

import dapple



def normal(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gaussian_delta(epsilon, mu):
    """Balle and Wang 2018, Theorem 8, for unit normals at distance mu."""
    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("noise, steps", [(1.0, 1), (2.0, 7), (5.0, 1000)])
def test_gaussians_have_a_closed_form(noise, steps):
    pld = dapple.Pld.gaussian(noise).self_compose(steps)
    for epsilon in (0.1, 1.0, 3.0):
        lower, upper = pld.delta_bracket(epsilon)
        exact = gaussian_delta(epsilon, math.sqrt(steps) / noise)
        # Six digits are lost where the two terms of the closed form nearly cancel.
        assert lower <= exact * (1 + 1e-9) and exact * (1 - 1e-9) <= upper
        assert pld.delta(epsilon) == upper
    assert dapple.Pld.gaussian(noise, sensitivity=2.0).epsilon(1e-5) == dapple.Pld.gaussian(noise / 2).epsilon(1e-5)


def test_laplace_is_pure():
    assert dapple.Pld.laplace(0.5).epsilon(1e-12) <= 0.5 * 1.001
    assert dapple.Pld.laplace(0.5).delta(0.5) <= 1e-12


def test_composition_is_that_of_the_steps():
    step = dapple.Pld.poisson_gaussian(sample_rate=0.02, noise_multiplier=0.9)
    assert step.self_compose(3).epsilon(1e-6) == step.compose(step).compose(step).epsilon(1e-6)
    assert dapple.Pld.identity().compose(step).epsilon(1e-6) == step.epsilon(1e-6)
    assert dapple.Pld.identity().epsilon(1e-6) == 0
    assert not step.is_symmetric and dapple.Pld.gaussian(1.0).is_symmetric


def test_plans_and_steps_agree():
    plan = dapple.Plan(batch=20, records=1000, steps=50, noise_multiplier=0.9, delta=1e-6)
    step = dapple.Pld.poisson_gaussian(0.02, 0.9)
    assert plan.pld().epsilon(1e-6) == step.self_compose(50).epsilon(1e-6) == plan.account().epsilon
    assert dapple.Pld.gaussian(0.9).subsample(0.02).epsilon(1e-6) == step.epsilon(1e-6)
    replace = dapple.Plan(plan, relation="replace", sampling="without-replacement")
    sampled = dapple.Pld.gaussian(0.9, sensitivity=2.0).subsample(0.02, "without-replacement").self_compose(50)
    # Two ways lead to the same pair, and both brackets contain its epsilon.
    (low, high), (lower, upper) = replace.account().bracket, sampled.epsilon_bracket(1e-6)
    assert low <= upper and lower <= high


def test_profiles_and_trade_offs():
    pld = dapple.Pld.gaussian(1.0)
    epsilons = [0.0, 0.5, 1.0]
    assert pld.profile(epsilons) == [pld.delta(epsilon) for epsilon in epsilons]
    (error,) = pld.trade_off([0.3])
    # The exact curve of a Gaussian is normal(quantile(1 - alpha) - mu); ours is below it, and near.
    exact = normal(0.5244005127080407 - 1.0)
    assert exact - 0.01 <= error <= exact


def test_given_losses():
    # Randomised response: the truth with probability p.
    epsilon, p = 0.4, math.exp(0.4) / (1 + math.exp(0.4))
    pld = dapple.Pld.from_losses([(-epsilon, 1 - p), (epsilon, p)])
    lower, upper = pld.delta_bracket(0.1)
    # The closed form rounds a few times.
    assert lower - 1e-12 <= p * (1 - math.exp(0.1 - epsilon)) <= upper + 1e-12
    assert pld.epsilon(1e-9) <= epsilon * 1.001
    with pytest.raises(dapple.AccountingError) as caught:
        dapple.Pld.from_losses([(0.0, 0.5)])
    assert caught.value.hint


def pair(epsilon, delta=0.0):
    """The pair that every (epsilon, delta)-private mechanism is a post-processing of."""
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    return dapple.Pld.from_losses([(-epsilon, 1 - delta - truth), (epsilon, truth)], delta)


def test_pure_mechanisms_are_answered_at_their_edge():
    both = pair(1.0).compose(pair(2.0))
    assert both.delta(3.0) == 0.0 and both.epsilon(0.0) == 3.0
    # All at the end: e^3 / ((1 + e) (1 + e^2)), and nothing else between e^2 - e and there.
    top = 1 / ((1 + math.exp(-1)) * (1 + math.exp(-2)))
    assert both.epsilon(1e-6) == pytest.approx(3 + math.log1p(-1e-6 / top), rel=1e-9)
    assert 0 <= both.trade_off([0.1])[0] <= 0.9
    assert pair(1.0).self_compose(2).epsilon(1e-5) == pytest.approx(2.0, abs=1e-4)
    laplace = dapple.Pld.laplace(1.0).self_compose(3)
    assert laplace.delta(3.0) == 0.0 and laplace.epsilon(0.0) == 3.0
    assert laplace.epsilon(1e-9) == pytest.approx(3.0, abs=1e-8)
    sampled = dapple.Pld.laplace(2.0).subsample(0.2).self_compose(3)
    assert sampled.epsilon(1e-14) == pytest.approx(3 * math.log(0.8 + 0.2 * math.exp(2)), rel=1e-3)
    with pytest.raises(dapple.AccountingError, match="no bound"):
        dapple.Pld.gaussian(1.0).epsilon(0.0)


def test_infinite_losses_are_composed():
    both = pair(1.0, 0.1).compose(pair(2.0, 0.2))
    # Murtagh and Vadhan 2016: 1 - 0.9 * 0.8 (1 - what the losses above 2.9 give).
    finite = (math.exp(3) - math.exp(2.9)) / ((1 + math.e) * (1 + math.exp(2)))
    lower, upper = both.delta_bracket(2.9)
    exact = 1 - 0.9 * 0.8 * (1 - finite)
    assert lower <= exact + 1e-15 and exact - 1e-15 <= upper and upper - lower < 1e-12
    assert both.epsilon(0.3) == pytest.approx(2.956, abs=1e-3)


def test_steps_under_substitution():
    for plan, step in [
        (dict(sampling="poisson"), dapple.Pld.poisson_gaussian(0.02, 0.9, relation="replace")),
        (dict(sampling="without-replacement"), dapple.Pld.fixed_size_gaussian(0.02, 0.9)),
    ]:
        plan = dapple.Plan(batch=20, records=1000, steps=50, noise_multiplier=0.9, delta=1e-6, relation="replace", **plan)
        assert plan.account().epsilon == step.self_compose(50).epsilon(1e-6)
    with pytest.raises(dapple.PlanError, match="patch"):
        dapple.Pld.poisson_gaussian(0.02, 0.9, relation="patch")


def test_mixtures_of_gaussians():
    # A sampled Gaussian is a mixture of two parts, one part alone is a Gaussian, and no part releases nothing.
    mixed = dapple.Pld.gaussian_mixture(0.9, [0.0, 1.0], [0.98, 0.02])
    sampled = dapple.Pld.poisson_gaussian(0.02, 0.9)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        assert mixed.delta(epsilon) == pytest.approx(sampled.delta(epsilon), rel=1e-10, abs=1e-18)
    (low, high), (lower, upper) = (pld.self_compose(100).epsilon_bracket(1e-5) for pld in (mixed, sampled))
    assert low <= upper and lower <= high
    assert dapple.Pld.gaussian_mixture(2.0, [3.0], [1.0]).epsilon(1e-5) == dapple.Pld.gaussian(2.0, sensitivity=3.0).epsilon(1e-5)
    assert dapple.Pld.gaussian_mixture(2.0, [0.0], [1.0]).epsilon(1e-5) == 0.0
    with pytest.raises(dapple.PlanError, match="probabilities"):
        dapple.Pld.gaussian_mixture(1.0, [0.0, 1.0], [1.0])
    with pytest.raises(dapple.AccountingError, match="add up"):
        dapple.Pld.gaussian_mixture(1.0, [0.0, 1.0], [0.5, 0.4])


def test_renyi_curves():
    orders = [1.5, 2.0, 8.0, 64.0]
    # Mironov 2017: a mu^2 / 2, and for Laplace noise ln((a e^{(a-1) e} + (a-1) e^{-a e}) / (2 a - 1)) / (a - 1).
    assert dapple.Rdp.gaussian(2.0).curve(orders) == pytest.approx([order / 8 for order in orders], rel=1e-14)
    for e in (1e-3, 0.5, 4.0):
        exact = [
            math.log((a * math.exp((a - 1) * e) + (a - 1) * math.exp(-a * e)) / (2 * a - 1)) / (a - 1) for a in orders
        ]
        # The closed form cancels at small parameters.
        assert dapple.Rdp.laplace(e).curve(orders) == pytest.approx(exact, rel=1e-9)
    run = dapple.Rdp.gaussian(2.0).compose(dapple.Rdp.laplace(0.5)).self_compose(3)
    whole = dapple.Pld.gaussian(2.0).compose(dapple.Pld.laplace(0.5)).self_compose(3)
    assert run.epsilon(1e-5) >= whole.epsilon_bracket(1e-5)[0]
    assert run.epsilon(1e-5) <= run.epsilon(1e-5, orders=orders)
    with pytest.raises(dapple.AccountingError, match="order"):
        run.curve([1.0])


def test_questions_out_of_range():
    with pytest.raises(dapple.AccountingError) as caught:
        dapple.Pld.gaussian(1.0).epsilon(2.0)
    assert "delta" in str(caught.value) and caught.value.hint
    with pytest.raises(dapple.AccountingError):
        dapple.Pld.poisson_gaussian(1.5, 1.0)
    with pytest.raises(dapple.AccountingError, match="symmetric"):
        dapple.Pld.poisson_gaussian(0.5, 1.0).subsample(0.1, "without-replacement")
    with pytest.raises(dapple.PlanError, match="shuffled"):
        dapple.Pld.gaussian(1.0).subsample(0.1, "shuffled")
