"""Event files, as TensorBoard's own reader sees them."""

import json

import pytest

pytest.importorskip("tensorboard", reason="TensorBoard is not installed: event files are not read")

from tensorboard.backend.event_processing import event_accumulator, event_file_loader  # noqa: E402

PLAN = """
[privacy]
noise_multiplier = 1.0
delta = 1e-5
[sampling]
batch = 32
steps = 6
[data]
format = 'fashion-scenes'
size = '16x16'
[model]
name = 'linear'
[optimiser]
learning_rate = 1.0
[performance]
device = 'cpu'
[train]
tensorboard = true
evaluate_every = 3
"""


def scalars(folder):
    """Every number of a folder by its name, as (step, value)."""
    found = event_accumulator.EventAccumulator(str(folder))
    found.Reload()
    return {name: [(event.step, event.value) for event in found.Scalars(name)] for name in found.Tags()["scalars"]}


def events(folder):
    (path,) = folder.iterdir()
    return list(event_file_loader.LegacyEventFileLoader(str(path)).Load())


def test_public_and_private_numbers_lie_apart(cli, tmp_path):
    plan, run = tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    done = cli.run("train", str(plan), "--out", str(run), "--quiet")
    assert done.returncode == 0, done.stderr
    public, private = scalars(run / "tensorboard"), scalars(run / "private" / "tensorboard")

    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [3, 6]
    for name in ("accuracy", "class_accuracy", "loss"):
        # Events hold single precision: 24 bits.
        expected = [(line["step"], pytest.approx(line[name], rel=2**-23)) for line in metrics]
        assert public.pop(f"test/{name}") == expected
    public.pop("test/top5")
    spent = json.loads((run / "certificate.json").read_text())["spent"]["epsilon"]["upper"]
    (step, first), (last_step, last) = public.pop("privacy/epsilon_at_most")
    assert (step, last_step) == (3, 6) and 0 < first < last == pytest.approx(spent, rel=2**-23)
    # Whatever else is told must be thought about first.
    assert not public

    lines = [json.loads(line) for line in (run / "private" / "diagnostics.jsonl").read_text().splitlines()]
    assert private["private/records_drawn"] == [(line["step"], line["drawn"]) for line in lines]
    assert [step for step, _ in private["private/loss"]] == [line["step"] for line in lines if line["loss"] is not None]


def test_public_events_tell_no_time(cli, tmp_path):
    plan, run = tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    assert cli.run("train", str(plan), "--out", str(run), "--quiet").returncode == 0
    found = events(run / "tensorboard")
    assert len(found) == 3 and {event.wall_time for event in found} == {0.0}
    assert found[0].file_version == "brain.Event:2"
    assert all(event.wall_time > 1.5e9 for event in events(run / "private" / "tensorboard"))
    # Only its owner reads what comes straight from the records.
    (path,) = (run / "private" / "tensorboard").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    # Without the setting there are no such files.
    other = tmp_path / "other"
    assert cli.run("train", str(plan), "--out", str(other), "--quiet", "--set", "train.tensorboard=false").returncode == 0
    assert not (other / "tensorboard").exists() and not (other / "private" / "tensorboard").exists()
