"""The same numbers as the command line to the last digit, and the same errors with the same hints."""

import json
import math

import pytest
from plans import CROP, PATCH, PLANS, RECORDS

import dapple


@pytest.mark.parametrize("name", PLANS)
def test_account(cli, name):
    assert json.loads(dapple.account(**PLANS[name]).to_json()) == cli.account(**PLANS[name])


@pytest.mark.parametrize("name", ["patch", "balanced", "replace"])
def test_texts(cli, name):
    certificate = dapple.account(**PLANS[name])
    assert str(certificate) == cli.run("account", **PLANS[name]).stdout
    assert certificate.statement() == cli.run("account", "--statement", **PLANS[name]).stdout
    assert json.loads(certificate.to_json()) == cli.account(**PLANS[name])


def test_trade_off(cli):
    """The curve of the certificate is the command line's, and a line of the plan's own privacy profile lies below it."""
    certificate = dapple.account(**PATCH)
    curve = certificate.trade_off
    assert curve == [(point["false_alarms"], point["misses_at_least"]) for point in cli.account(**PATCH)["trade_off"]]
    assert curve == dapple.Plan(**PATCH).account().trade_off
    assert "What a test can reach" in certificate.statement()
    # The curve is at least as high as the line of the certificate itself, and what Pld says at the same shares.
    line = [max(0, 1 - certificate.delta - math.exp(certificate.epsilon) * alarms) for alarms, _ in curve]
    # Four hundred lines follow the curve to three digits.
    assert all(misses >= below - 1e-3 for (_, misses), below in zip(curve, line))
    assert [misses for _, misses in curve] == dapple.Plan(**PATCH).pld().trade_off([alarms for alarms, _ in curve])
    # What was solved for has one, too.
    found = dapple.calibrate("noise_multiplier", **{**PATCH, "epsilon": 2.0})
    assert found.certificate.trade_off == found.plan.account().trade_off
    # Where only epsilon is bounded there is none.
    bounded = dict(PLANS["balanced"], relation="replace")
    assert dapple.account(**bounded).trade_off is None and "trade_off" not in cli.account(**bounded)


@pytest.mark.parametrize(
    "plan, keys",
    [
        (RECORDS, {"privacy.clip_quantile": 0.5, "privacy.count_noise": 20.0}),
        (PATCH, {"pipeline.pixel_noise": 5.0}),
    ],
)
def test_keys_without_a_flag(cli, plan, keys):
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    expected = cli.account(*settings, **plan)
    assert dapple.account(**plan, set=keys).to_dict() == expected
    assert dapple.account(**plan, **{key.split(".")[1]: value for key, value in keys.items()}).to_dict() == expected
    assert expected["epsilon"] != dapple.account(**plan).epsilon


def test_precision(cli):
    wide, narrow = (dapple.account(**RECORDS, precision=precision) for precision in (0.01, 1e-4))
    assert wide.to_dict() == cli.account("--precision", "0.01", **RECORDS)
    assert narrow.to_dict() == cli.account("--precision", "0.0001", **RECORDS)
    assert wide.bracket[0] <= narrow.bracket[0] <= narrow.epsilon <= wide.epsilon


@pytest.mark.parametrize(
    "unknown, plan",
    [
        ("noise_multiplier", RECORDS),
        ("noise_multiplier", PATCH),
        ("epochs", RECORDS),
        ("steps", dict(RECORDS, relation="replace", epsilon=9)),
        ("batch", PATCH),
        ("crop", PATCH),
        ("patch", PATCH),
    ],
)
def test_calibrate(cli, unknown, plan):
    plan = {"epsilon": 3.0, **plan}
    found = dapple.calibrate(unknown, **plan)
    answer = json.loads(found.to_json())
    assert answer == cli.json("calibrate", "--for", unknown.replace("_", "-"), **plan)
    assert found.epsilon <= plan["epsilon"]
    # The plan that comes back is the one that was priced.
    assert found.plan.account() == found.certificate
    assert dapple.Plan.from_toml(found.plan.to_toml()).hash == found.plan.hash == found.certificate.plan_hash


@pytest.mark.parametrize("name", ["add-remove", "patch", "balanced", "dropout"])
def test_profile(cli, name):
    points = cli.json("profile", "--epsilons", "0,0.25,1,2.5", **PLANS[name])["points"]
    assert list(dapple.profile(**PLANS[name], epsilons=[0, 0.25, 1, 2.5])) == points
    assert list(dapple.profile(**PLANS[name], epsilons="0,0.25,1,2.5")) == points
    assert list(dapple.profile(**PLANS[name])) == cli.json("profile", **PLANS[name])["points"]


def test_profile_needs_no_delta(cli):
    plan = {name: value for name, value in RECORDS.items() if name != "delta"}
    assert list(dapple.profile(**plan)) == cli.json("profile", **plan)["points"]


def test_sweep(cli):
    table = dapple.sweep(over={"crop": range(50, 701, 50), "noise_multiplier": [1.0, 4.5]}, **PATCH)
    answer = cli.json("sweep", "--over", "crop=50:700:50", "--over", "noise-multiplier=1,4.5", **PATCH)
    assert [name.replace("-", "_") for name in answer["columns"]] == table.columns
    assert table.rows == answer["rows"]


def test_sweep_solves(cli):
    over = {"batch": [50, 100], "epsilon": [1e-4, 1, 2]}
    table = dapple.sweep(over=over, solve_for="noise_multiplier", **RECORDS)
    words = ["--over", "batch=50,100", "--over", "epsilon=1e-4,1,2", "--for", "noise-multiplier"]
    answer = cli.json("sweep", *words, **RECORDS)
    # Below the smallest noise that is searched there may be no answer; that is an empty row, not an error.
    assert table.rows == answer["rows"]


def test_sweeps_without_an_answer(cli):
    plan = dict(RECORDS, epochs=10_000, relation="replace")
    table = dapple.sweep(over={"noise_multiplier": [0.05, 4]}, **plan)
    assert table.rows == cli.json("sweep", "--over", "noise-multiplier=0.05,4", **plan)["rows"]


@pytest.mark.parametrize(
    "over",
    [
        {"crop": "500:1500:500"},
        {"crop": "1:2:0"},
        {"crop": "1,,2"},
        {"crop": "a:b:c"},
        {"crop": "1,2", "pipeline.crop": "3"},
        {"batch": "1:1000:1", "steps": "1:1000:1"},
        {"sampling": "poisson,sometimes"},
    ],
)
def test_errors_of_sweeps(cli, over):
    words = [word for name, values in over.items() for word in ("--over", f"{name}={values}")]
    with pytest.raises(dapple.PlanError) as caught:
        dapple.sweep(over=over, **PATCH)
    assert (str(caught.value), caught.value.hint) == cli.failure("sweep", *words, **PATCH)


@pytest.mark.parametrize("epsilons", ["0:1", "-1:1:3", "nan", "0:1:0", "a"])
def test_errors_of_profiles(cli, epsilons):
    with pytest.raises(dapple.DappleError) as caught:
        dapple.profile(**RECORDS, epsilons=epsilons)
    assert (str(caught.value), caught.value.hint) == cli.failure("profile", f"--epsilons={epsilons}", **RECORDS)


def test_renyi_bounds_have_no_profile(cli):
    plan = dict(RECORDS, accountant="rdp")
    with pytest.raises(dapple.PlanError) as caught:
        dapple.profile(**plan)
    assert (str(caught.value), caught.value.hint) == cli.failure("profile", **plan)


@pytest.mark.parametrize(
    "plan",
    [CROP, dict(CROP, views=3), dict(CROP, patch=None, circle=7.0), dict(CROP, pad=30, pad_mode="reflect")],
)
def test_inclusion(cli, plan):
    plan = {name: value for name, value in plan.items() if value is not None}
    answer = cli.json("inclusion", **plan)
    seen = dapple.inclusion(**plan)
    fields = ("probability", "crop_origins", "hits", "probability_of_one_view", "views")
    assert {field: getattr(seen, field) for field in fields} == {field: answer[field] for field in fields}
    assert list(seen.worst_origin) == answer["worst_origin"]
    assert dapple.inclusion_probability(**plan) == answer["probability"]


@pytest.mark.parametrize(
    "plan, kind",
    [
        (dict(RECORDS, batch=5000), dapple.PlanError),
        (dict(RECORDS, batch=0), dapple.PlanError),
        (dict(RECORDS, batch=0.5), dapple.PlanError),
        (dict(RECORDS, records=2**70), dapple.PlanError),
        (dict(RECORDS, noise_multiplier=-1), dapple.PlanError),
        (dict(RECORDS, noise_multiplier=1e9), dapple.PlanError),
        (dict(RECORDS, delta=2), dapple.PlanError),
        (dict(RECORDS, delta="often"), dapple.PlanError),
        (dict(RECORDS, steps=7), dapple.PlanError),
        (dict(batch=100, records=3000, epochs=10, noise_multiplier=1.0), dapple.PlanError),
        (dict(batch=100, records=3000, delta=1e-5, noise_multiplier=1.0), dapple.PlanError),
        (dict(PATCH, crop=(2000, 100)), dapple.PlanError),
        (dict(PATCH, patch=(2000, 100)), dapple.PlanError),
        (dict(PATCH, crop="big"), dapple.PlanError),
        (dict(PATCH, placement="annotated"), dapple.PlanError),
        (dict(RECORDS, relation="patch"), dapple.PlanError),
        (dict(RECORDS, sampling="without-replacement"), dapple.NoTheoremError),
        (dict(RECORDS, relation="user", sampling="without-replacement"), dapple.NoTheoremError),
        (dict(RECORDS, per_record=2), dapple.PlanError),
        (dict(RECORDS, noise_multiplier=0.05, epochs=10000, relation="replace"), dapple.AccountingError),
    ],
)
def test_errors(cli, plan, kind):
    with pytest.raises(dapple.DappleError) as caught:
        dapple.account(**plan)
    assert (str(caught.value), caught.value.hint) == cli.failure("account", **plan)
    assert type(caught.value) is kind


def test_an_operation_that_spreads_a_pixel_is_unsound(cli):
    operations = {"pipeline.operations": ["equalize"]}
    with pytest.raises(dapple.UnsoundPipelineError) as caught:
        dapple.account(**PATCH, set=operations)
    failure = cli.failure("account", "--set", 'pipeline.operations=["equalize"]', **PATCH)
    assert (str(caught.value), caught.value.hint) == failure


def test_unreachable_targets(cli):
    plan = dict(RECORDS, epsilon=1e-6)
    with pytest.raises(dapple.UnreachableError) as caught:
        dapple.calibrate("noise_multiplier", **plan)
    failure = cli.failure("calibrate", "--for", "noise-multiplier", **plan)
    assert (str(caught.value), caught.value.hint) == failure


def test_files(cli, tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(dapple.Plan(**PATCH).to_toml())
    assert dapple.account(file).to_dict() == cli.account(plan=file)
    assert dapple.account(str(file), batch=50).to_dict() == cli.account(plan=file, batch=50)
    # A layer hides what it replaces: steps take the place of epochs.
    assert dapple.account(file, steps=9).to_dict() == cli.account(plan=file, steps=9)
    file.write_text("[sampling]\nbatchs = 3\n")
    with pytest.raises(dapple.PlanError) as caught:
        dapple.account(file)
    assert (str(caught.value), caught.value.hint) == cli.failure("account", plan=file)


def test_masks(cli, tmp_path):
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    import struct
    import zlib

    mask = np.zeros((48, 64), dtype=bool)
    mask[5:11, 7:30] = True
    mask[20, 40] = True

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + row.tobytes() for row in (mask * np.uint8(255)))
    header = struct.pack(">IIBBBBB", 64, 48, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    file = tmp_path / "mask.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    for placement in ("anywhere", "annotated"):
        plan = dict(RECORDS, image=(64, 48), crop=(20, 20), placement=placement)
        answer = cli.account(region_mask=file, **plan)
        assert dapple.account(region_mask=file, **plan).to_dict() == answer
        assert dapple.account(region_mask=mask, **plan).to_dict() == answer
