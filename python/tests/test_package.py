"""What a wheel carries, and what importing it needs."""

import importlib.metadata
import re
import subprocess
import sys

import dapple


def test_one_typed_wheel_serves_every_python():
    wheel = importlib.metadata.distribution("dapple-dp")
    files = {str(file) for file in wheel.files}
    assert {"dapple/py.typed", "dapple/_dapple.pyi"} <= files
    assert any(re.fullmatch(r"dapple/_dapple(\.abi3)?\.(so|pyd)", file) for file in files)
    assert re.search(r"^Tag: cp310-abi3-", wheel.read_text("WHEEL"), re.MULTILINE)
    assert wheel.version == dapple.__version__ and wheel.metadata["Requires-Python"] == ">=3.10"


def test_the_accountant_needs_no_other_package():
    needs = importlib.metadata.requires("dapple-dp")
    assert needs and all("extra ==" in need for need in needs)
    script = (
        "import sys, dapple\n"
        "dapple.account(batch=100, records=3000, epochs=1, noise_multiplier=1.0, delta=1e-5)\n"
        "sys.exit(bool({'numpy', 'pandas', 'torch'} & sys.modules.keys()))\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
