"""Plans from keywords, text and mappings."""

import pickle
import re

import pytest
from plans import PATCH, PLANS, RECORDS

import dapple


@pytest.mark.parametrize("name", PLANS)
def test_round_trips(name):
    plan = dapple.Plan(**PLANS[name])
    assert dapple.Plan.from_toml(plan.to_toml()) == plan
    assert dapple.Plan.from_dict(plan.to_dict()) == plan
    assert dapple.Plan(plan) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert {plan: 1}[dapple.Plan(**PLANS[name])] == 1


def test_what_a_plan_tells():
    plan = dapple.Plan(PATCH, pad=(4, 0), max_grad_norm=1.5, epsilon=8)
    assert (plan.relation, plan.sampling, plan.batch, plan.records, plan.steps) == ("patch", "poisson", 100, 3000, 3000)
    assert (plan.image, plan.crop, plan.pad, plan.pad_mode) == ((1000, 1000), (100, 100), (4, 0), "zero")
    assert (plan.max_grad_norm, plan.delta, plan.target_epsilon, plan.views) == (1.5, 1e-5, 8.0, 1)
    assert plan.effective_rate == plan.sample_rate * plan.inclusion_probability
    assert plan.epoch_steps == 30
    assert repr(plan).startswith("Plan(relation='patch', sampling='poisson', batch=100, records=3000, steps=3000, ")
    assert plan.account() == dapple.account(plan)
    balanced = dapple.Plan(PLANS["balanced, seen twice"])
    assert balanced.epoch_steps == balanced.steps == 60


def test_ways_to_write_a_value():
    plan = dapple.Plan(**PATCH)
    assert dapple.Plan(**{**PATCH, "crop": "100x100", "image": 1000, "patch": [10, 10]}) == plan
    # Text is read as it is behind a flag.
    assert dapple.Plan(**{**PATCH, "batch": "100", "delta": "1e-5", "noise_multiplier": "1"}) == plan
    assert dapple.Plan(**{**PATCH, "noise_multiplier": 1}) == plan
    assert dapple.Plan(**PATCH, views=None) == plan
    assert dapple.Plan({"pipeline.crop": 100, "image": (1000, 1000), "region": {"patch": "10"}}, **RECORDS, set={"epochs": 100}) == plan


def test_array_scalars_are_numbers():
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    plan = dapple.Plan(**{**PATCH, "batch": numpy.int64(100), "noise_multiplier": numpy.float32(1), "crop": numpy.array([100, 100])})
    assert plan == dapple.Plan(**PATCH)


def test_phases():
    phases = [{"epochs": 2, "batch": 50}, {"epochs": 1, "noise_multiplier": 2.0}]
    plan = dapple.Plan({"phases": phases}, **{name: value for name, value in RECORDS.items() if name != "epochs"})
    assert plan.steps == 2 * 60 + 30
    assert dapple.Plan.from_dict(plan.to_dict()) == plan
    with pytest.raises(dapple.PlanError) as caught:
        dapple.Plan({"phases": [{"batches": 3}]}, **RECORDS)
    assert "batches" in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    "wrong, message, hint",
    [
        (dict(batches=3), "unknown key `batches`", "did you mean batch\\?"),
        (dict(noise_multiplyer=3), "unknown key `noise_multiplyer`", "did you mean noise_multiplier\\?"),
        (dict(zzzzzz=3), "unknown key `zzzzzz`", "keywords are the flags .*"),
        (dict(set={"sampling.batchs": 1}), "unknown key `sampling.batchs`", "did you mean batch\\?"),
        (dict(set={"sampling": {"batchs": 1}}), "unknown key `sampling.batchs`", "did you mean sampling.batch\\?"),
        (dict(batch=object()), r"sampling.batch \(batch\): a Python .* is no value of a plan", "it is the number of .*"),
        (dict(crop=(1, 2, 3)), "pipeline.crop .*", ".*"),
        (dict(precision=7), None, None),
    ],
)
def test_wrong_keywords(wrong, message, hint):
    values = {**RECORDS, **wrong}
    if message is None:
        with pytest.raises(dapple.PlanError, match="precision: 7 is not between 1e-5 and 0.5"):
            dapple.account(**values)
        return
    with pytest.raises(dapple.PlanError, match=message) as caught:
        dapple.Plan(**values)
    assert re.fullmatch(hint, caught.value.hint)


def test_errors_are_a_small_tree():
    assert issubclass(dapple.UnsoundPipelineError, dapple.PlanError)
    assert issubclass(dapple.NoTheoremError, dapple.PlanError)
    assert issubclass(dapple.UnreachableError, dapple.AccountingError)
    assert issubclass(dapple.DappleError, ValueError)
    error = dapple.PlanError("what", "how")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.hint) == ("what", "how")
    assert getattr(error, "__notes__", ["hint: how"]) == ["hint: how"]


def test_files_that_are_not_there():
    with pytest.raises(FileNotFoundError):
        dapple.account("no-such-plan.toml")
    with pytest.raises(TypeError):
        dapple.account(7)


def test_keywords_are_the_flags():
    keywords = dapple.keywords()
    assert keywords["sampling"]["key"] == "sampling.scheme"
    assert keywords["max_grad_norm"]["key"] == "privacy.max_grad_norm"
    assert "learning_rate" not in keywords
    keys = [facts["key"] for facts in keywords.values()]
    assert len(set(keys)) == len(keys)
    assert not any("Any" in facts["type"] for facts in keywords.values())


def test_certificates():
    certificate = dapple.account(**PATCH)
    assert certificate == dapple.account(**PATCH) != dapple.account(**RECORDS)
    lower, upper = certificate.bracket
    assert lower < upper == certificate.epsilon
    # Bounds are rounded to the safe side.
    shown = re.match(r"Certificate\(epsilon=(\S+), bracket=\((\S+), (\S+)\), relation='patch'", repr(certificate))
    assert float(shown[2]) <= lower and upper <= float(shown[1]) == float(shown[3])
    assert certificate.assumptions and certificate.theorem and certificate.protects
    html = certificate._repr_html_()
    assert shown[1] in html and certificate.plan_hash in html and "<script" not in html
    rdp = dapple.account(**PLANS["rdp"])
    assert rdp.bracket[0] is None and "bracket=(None, " in repr(rdp)
