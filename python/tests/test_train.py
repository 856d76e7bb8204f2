"""Runs that are trained, stopped, resumed and read from Python."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import dapple

#: Seconds of training: a linear model on small scenes.
PLAN = {
    "data": {"format": "fashion-scenes", "size": "16x16"},
    "model": {"name": "linear"},
    "optimiser": {"learning_rate": 1.0},
    "privacy": {"epsilon": 4.0, "delta": "1/n"},
    "sampling": {"batch": 64, "steps": 12},
    "train": {"evaluate_every": 4},
}


def plan(**sections):
    return {name: {**PLAN.get(name, {}), **sections.get(name, {})} for name in {**PLAN, **sections}}


def test_a_run_is_that_of_the_command_line(cli, tmp_path):
    seeded = plan(train={"seed": 7})
    heard = []
    run = dapple.train(seeded, out=tmp_path / "python", progress=heard.append)
    text = "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items()) for name, section in seeded.items()
    )
    (tmp_path / "plan.toml").write_text(text)
    answer = cli.json("train", tmp_path / "plan.toml", "--out", tmp_path / "cli", "--quiet")
    other = dapple.Run(tmp_path / "cli")
    ours, theirs = run.certificate.to_dict(), other.certificate.to_dict()
    # A key of the run's own stands in the ledger.
    assert ours.pop("ledger") != theirs.pop("ledger")
    assert ours == theirs
    assert answer["updates"] == 12 and run.certificate.steps_spent == 12
    # With a seed, a plan has one model.
    for name, values in run.weights().items():
        assert (values == other.weights()[name]).all()
    assert run.plan == other.plan and run.plan.records == 6000
    assert run.certificate.spent == run.certificate.planned
    assert run.certificate.epsilon <= 4.0
    assert sum(event.kind == "step" for event in heard) == 12
    assert [event.step for event in heard if event.kind == "evaluated"] == [4, 8, 12]


@pytest.mark.parametrize("variables, number", [({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, "2"), ({"PMI_SIZE": "4", "PMI_RANK": "0"}, "4")])
def test_a_launcher_of_several_processes_is_refused(tmp_path, variables, number):
    """Each process would begin a run of its own, which nothing adds up."""
    program = "import dapple, sys\ntry: dapple.train(eval(sys.argv[1]), out=sys.argv[2])\nexcept dapple.errors.RunError as error: print(error); print(error.hint)"
    words = [sys.executable, "-c", program, repr(PLAN), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables})
    message, hint = done.stdout.splitlines()
    assert message.startswith(f"{number} processes were started") and "without a launcher" in hint, done
    assert not (tmp_path / "run").exists()
    # One process alone is no launch, and a run that is there is not gone on with either.
    alone = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "1"})
    assert alone.returncode == 0 and (tmp_path / "run/certificate.json").exists(), alone.stderr
    words[2] = program.replace("dapple.train(eval(sys.argv[1]), out=sys.argv[2])", "dapple.resume(sys.argv[2])")
    again = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables})
    assert again.stdout.startswith(f"{number} processes were started"), again


def test_metrics_are_columns(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    run = dapple.train(PLAN, out=tmp_path / "run")
    assert isinstance(run.metrics, pandas.DataFrame)
    assert list(run.metrics["step"]) == [4, 8, 12]


def test_metrics_without_pandas(tmp_path, monkeypatch):
    run = dapple.train(PLAN, out=tmp_path / "run")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert run.metrics["step"] == [4, 8, 12]


@pytest.mark.parametrize("how", ["false", "raises"])
def test_a_callback_ends_a_run_in_order(how, tmp_path):
    epsilons = []

    def progress(event):
        if event.kind != "step":
            return None
        epsilons.append(event.epsilon())
        if event.step < 3:
            return None
        if how == "false":
            return False
        raise LookupError("enough")

    folder = tmp_path / "run"
    if how == "false":
        run = dapple.train(PLAN, out=folder, progress=progress)
    else:
        with pytest.raises(LookupError, match="enough"):
            dapple.train(PLAN, out=folder, progress=progress)
        run = dapple.Run(folder)
    assert run.certificate.status == "stopped"
    assert epsilons == sorted(epsilons) and epsilons[0] > 0
    spent = run.certificate
    assert 3 <= spent.steps_spent < 12 and spent.epsilon >= epsilons[-1]
    with pytest.raises(dapple.RunError, match="not finished"):
        run.weights()
    again = dapple.resume(run)
    assert again.certificate.status == "finished" and again.certificate.steps_spent == 12
    # A run that is complete is left as it is.
    assert dapple.resume(again).certificate == again.certificate


def test_events_answer_only_while_they_happen(tmp_path):
    kept = []
    dapple.train(PLAN, out=tmp_path / "run", progress=kept.append)
    assert all(event.epsilon() is None for event in kept)
    begins = next(event for event in kept if event.kind == "begins")
    assert begins.steps == 12 and begins.planned_epsilon <= 4.0 and "begins" in repr(begins)


def test_other_threads_go_on(tmp_path):
    counted, done = 0, threading.Event()
    thread = threading.Thread(target=lambda: (dapple.train(PLAN, out=tmp_path / "run"), done.set()))
    thread.start()
    while not done.wait(0.001):
        counted += 1
    thread.join()
    assert counted > 3


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one child on Windows")
def test_an_interrupt_ends_a_run_in_order(tmp_path):
    folder = tmp_path / "run"
    script = (
        "import dapple, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def progress(event):\n    if event.kind == 'step' and event.step == 2: print('ready', flush=True)\n"
        f"plan = {plan(sampling={'steps': 200000})!r}\n"
        f"try:\n    dapple.train(plan, out={str(folder)!r}, progress=progress)\n"
        "except KeyboardInterrupt:\n    print('heard', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert rest == "heard\n"
    certificate = dapple.Run(folder).certificate
    assert certificate.status == "stopped" and certificate.steps_spent < 200000


def test_paths_are_relative_to_the_plan(tmp_path, monkeypatch):
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    folder = tmp_path / "plans"
    folder.mkdir()
    images = numpy.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), dtype=numpy.uint8)
    numpy.save(folder / "images.npy", images)
    numpy.save(folder / "labels.npy", numpy.arange(20, dtype=numpy.int64) % 2)
    (folder / "plan.toml").write_text(
        '[data]\nformat = "npy"\ntrain = "images.npy"\ntrain_labels = "labels.npy"\nclasses = 2\n[model]\nname = "linear"\n'
        '[optimiser]\nlearning_rate = 1.0\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n[sampling]\nbatch = 5\nsteps = 2\n'
    )
    monkeypatch.chdir(tmp_path)
    run = dapple.train(folder / "plan.toml", out="run", set={"sampling.steps": 3})
    assert run.certificate.steps_spent == 3
    answers = run.predict(images[:2])
    assert len(answers) == 2 and answers[0].label in ("0", "1")
    assert sum(answers[0].probabilities.values()) == pytest.approx(1.0)
    assert dapple.predict("run", images[0]) == answers[:1]
    with pytest.raises(dapple.PlanError, match="a list is no image"):
        dapple.predict(run, [[1, 2]])


def test_what_is_refused(tmp_path):
    with pytest.raises(dapple.PlanError, match="data.format") as caught:
        dapple.train(batch=1, records=10, steps=1, noise_multiplier=1.0, out=tmp_path / "none")
    assert caught.value.hint and not (tmp_path / "none").exists()
    run = dapple.train(PLAN, out=tmp_path / "run")
    with pytest.raises(dapple.RunError, match="a run in this folder already"):
        dapple.train(PLAN, out=tmp_path / "run")
    with pytest.raises(dapple.RunError, match="no run in this folder"):
        dapple.Run(tmp_path / "nowhere")
    with pytest.raises(dapple.PlanError, match="only keys of `performance`"):
        dapple.resume(run, set={"sampling.steps": 100})
    with pytest.raises(dapple.PlanError, match="epsilon_total"):
        dapple.train(PLAN, out=tmp_path / "other", epsilon_total=1.0)
    ledger = run.folder / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"steps":12', '"steps":13'))
    with pytest.raises(dapple.RunError, match="edited"):
        run.certificate


def test_a_budget_counts_runs(tmp_path):
    budget = tmp_path / "budget.jsonl"
    dapple.train(PLAN, out=tmp_path / "one", budget=budget, epsilon_total=4.2)
    with pytest.raises(dapple.RunError, match="budget"):
        dapple.train(PLAN, out=tmp_path / "two", budget=budget)


def test_weights_load_into_torchvision(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    run = dapple.train(PLAN, out=tmp_path / "run")
    weights = run.weights()

    class Same(torch.nn.Module):
        """A module with the parameters of the model."""

        def __init__(self, extra=0):
            super().__init__()
            for name, values in weights.items():
                *path, own = name.split(".")
                place = self
                for part in path:
                    if not hasattr(place, part):
                        place.add_module(part, torch.nn.Module())
                    place = getattr(place, part)
                place.register_parameter(own, torch.nn.Parameter(torch.zeros(*values.shape[:-1], values.shape[-1] + extra)))

    module = run.load_into(Same())
    for name, values in module.state_dict().items():
        assert (values.numpy() == weights[name]).all()
    with pytest.raises(dapple.PlanError, match="has the shape"):
        run.load_into(Same(extra=1))
    with pytest.raises(dapple.PlanError, match="no parameter"):
        run.load_into(torch.nn.Linear(2, 2))


def test_a_run_shows_itself(tmp_path):
    run = dapple.train(PLAN, out=tmp_path / "run")
    assert "epsilon spent" in run._repr_html_() and "finished" in run._repr_html_()
    assert os.fspath(run) == str(tmp_path / "run")
