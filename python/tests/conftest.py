"""The command line beside the module."""

import json
import os
import pathlib
import re
import subprocess

import pytest

import dapple

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

    def account(self, *words, **keywords):
        """The certificate that `dapple account` prints, with the trade-off curve where there is one."""
        answer = self.json("account", *words, **keywords)
        misses = [point["misses_at_least"] for point in answer.get("trade_off", [])]
        assert misses == sorted(misses, reverse=True) and all(0 <= miss <= 1 for miss in misses)
        return answer

    def failure(self, *words, **keywords):
        """The message and the hint of a request that is wrong."""
        done = self.run(*words, **keywords)
        assert done.returncode == 2, done.stdout + done.stderr
        message, hint = done.stderr.splitlines()
        return in_python(message.removeprefix("error: ")), in_python(hint.removeprefix("hint: "))


def in_python(text):
    """A message of the command line, with its flags as keyword arguments."""
    names = {name.replace("_", "-"): facts["type"] for name, facts in dapple.keywords().items()}
    names |= dict.fromkeys(["budget", "epsilon-total", "over", "epsilons"], "")

    def keyword(match):
        flag, space, word = match[1], match[2] or "", match[3] or ""
        if flag not in names:
            return match[0]
        own = flag.replace("-", "_")
        value = word.rstrip(".")
        rest = word[len(value) :]
        if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", value):
            return f"{own}={value}{rest}"
        if value and (value[0].isdigit() or f'"{value}"' in names[flag]):
            return f'{own}="{value}"{rest}'
        return own + space + word

    return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)(?:( )([\w.-]+))?", keyword, text)


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
