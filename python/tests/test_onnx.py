"""Exported models, as ONNX's own checker and ONNX Runtime see them."""

import json
import os
import struct
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# The sides on which models are tried where they are not 64.
SIDES = {"linear": 9, "small-cnn": 28, "small-fcn": 36}
# Models of more than this many values take more memory and time than a test should.
LARGE = 60_000_000
# What float32 sums in another order may differ by, for a score of one: the contract of the export.
TOLERANCE = 1e-4


def stored(path):
    """The tensors of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    body = data[8 + length :]
    tensors = {}
    for name, facts in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = facts["data_offsets"]
            tensors[name] = np.frombuffer(body[start:end], "<f4").reshape(facts["shape"])
    return tensors


def check(path, sample):
    """Holds a file to the format, and what ONNX Runtime makes of the sample's inputs to the sample's outputs."""
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tensors = stored(sample)
    inputs, expected = tensors["input"], tensors["output"]
    assert [each.shape[0] for each in session.get_inputs() + session.get_outputs()] == ["batch", "batch"]
    # Together, and one by one, so that the first axis is the batch and nothing else.
    together = session.run(None, {"input": inputs})[0]
    apart = [session.run(None, {"input": inputs[index : index + 1]})[0] for index in range(len(inputs))]
    for found in (together, np.concatenate(apart)):
        assert found.shape == expected.shape
        error = float(np.abs(found - expected).max())
        assert error <= TOLERANCE * max(1.0, float(np.abs(expected).max())), path.name
        # Answers that hardly depend on the input would show nothing.
        assert float(np.abs(expected[0] - expected[1]).max()) > 10 * error or not expected.any(), path.name


def test_every_operation_answers_alike(tmp_path):
    program = os.environ.get("DAPPLE_ONNX_SPECIMENS")
    if program is None:
        pytest.skip("DAPPLE_ONNX_SPECIMENS does not name the built example: cargo build -p dapple-onnx --example specimens")
    subprocess.run([program, tmp_path], check=True)
    paths = sorted(tmp_path.glob("*.onnx"))
    assert len(paths) > 20
    for path in paths:
        check(path, path.with_suffix(".safetensors"))


def test_every_model_answers_alike(cli, tmp_path):
    tried = 0
    for model in cli.json("models")["models"]:
        name = model["name"]
        if model["parameters"] > LARGE and os.environ.get("WITH_LARGE_MODELS") != "1":
            continue
        size = SIDES.get(name, 64)
        path, sample = tmp_path / f"{name}.onnx", tmp_path / f"{name}.safetensors"
        words = ["export", name, "--onnx", path, "--sample", sample, "--classes", 5, "--size", f"{size}x{size}"]
        done = cli.run(*map(str, words))
        assert done.returncode == 0, name + done.stderr
        check(path, sample)
        path.unlink()
        tried += 1
    assert tried > 20


def test_norms_and_sizes_are_those_that_were_asked_for(cli, tmp_path):
    path, sample = tmp_path / "model.onnx", tmp_path / "sample.safetensors"
    for words in (
        ["resnet-18", "--set", "model.norm=frozen"],
        ["vgg-11", "--set", "model.norm=removed", "--size", "33x47"],
        ["psp-net-resnet-18", "--size", "96x72"],
    ):
        done = cli.run("export", *words, "--classes", "3", "--onnx", str(path), "--sample", str(sample))
        assert done.returncode == 0, done.stderr
        check(path, sample)


def test_a_run_is_exported_with_what_its_users_must_know(cli, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 32\nsteps = 3\n"
        "[data]\nformat = 'fashion-scenes'\nsize = '16x16'\nmean = [0.25]\n"
        "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 1.0\n[performance]\ndevice = 'cpu'\n"
    )
    run, path, sample = tmp_path / "run", tmp_path / "run.onnx", tmp_path / "sample.safetensors"
    done = cli.run("train", str(plan), "--out", str(run), "--quiet")
    assert done.returncode == 0, done.stderr
    answer = cli.json("export", str(run), "--onnx", str(path), "--sample", str(sample))
    assert answer["input"] == [1, 16, 16] and answer["output"] == [10]
    check(path, sample)
    model = onnx.load(path)
    notes = {note.key: note.value for note in model.metadata_props}
    assert json.loads(notes["mean"]) == [0.25] and json.loads(notes["std"]) == [1.0]
    assert json.loads(notes["classes"]) == [each["name"] for each in json.loads((run / "model.json").read_text())["classes"]]
    # The weights are the run's, under their own names.
    weights = stored(run / "model.safetensors")
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            assert np.array_equal(onnx.numpy_helper.to_array(tensor), weights.pop(tensor.name))
    assert not weights
