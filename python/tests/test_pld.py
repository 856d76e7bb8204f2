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
    # Two ways to the same pair; both brackets hold its epsilon.
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
