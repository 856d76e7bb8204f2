"""The command line beside the module."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Cli:
    """Runs `dapple` with the flags of some keywords."""

    def __init__(self, program):
        self.program = program

    def run(self, *words, **keywords):
        words = [str(self.program), *words, *flags(keywords)]
        return subprocess.run(words, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})

    def json(self, *words, **keywords):
        done = self.run(*words, "--json", **keywords)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def failure(self, *words, **keywords):
        """The message and the hint of a request that is wrong."""
        done = self.run(*words, **keywords)
        assert done.returncode == 2, done.stdout + done.stderr
        message, hint = done.stderr.splitlines()
        return message.removeprefix("error: "), hint.removeprefix("hint: ")


def flags(keywords):
    """Keywords as they are written behind the command line."""
    words = []
    for name, value in keywords.items():
        if isinstance(value, (tuple, list)):
            value = ("x" if isinstance(value[0], int) else ":").join(map(str, value))
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


@pytest.fixture(scope="session")
def cli():
    program = os.environ.get("DAPPLE", ROOT / "target" / "debug" / "dapple")
    if not pathlib.Path(program).exists():
        pytest.skip(f"the program {program} is not built: cargo build -p dapple-cli, or name it in DAPPLE")
    return Cli(program)
