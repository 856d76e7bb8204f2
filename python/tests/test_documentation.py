"""The examples of docstrings and of the page run as written, and the stub is that of the compiled module."""

import doctest
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import dapple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "docs" / "python.md", ROOT / "docs" / "federated.md"]


@pytest.mark.parametrize("name", dapple._dapple.__all__)
def test_compiled_docstrings(name):
    thing = getattr(dapple._dapple, name)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    texts = {name: thing.__doc__}
    if isinstance(thing, type):
        texts |= {f"{name}.{own}": getattr(thing, own).__doc__ for own in vars(thing) if not own.startswith("_")}
    for place, text in texts.items():
        assert text, f"{place} has no docstring"
        # Docstrings of classes with a constructor begin with its signature.
        runner.run(parser.get_doctest(text, {}, place, None, None))
    assert runner.failures == 0


@pytest.mark.parametrize("name", ["dapple", "dapple.errors", "dapple.table", "dapple.run", "dapple.torch", "dapple.dp_accounting"])
def test_docstrings(name):
    needs = {"dapple.torch": "torch", "dapple.dp_accounting": "dp_accounting"}.get(name)
    if needs:
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def blocks():
    """The Python blocks of the pages, by the heading they stand under."""
    for page in PAGES:
        heading = None
        for part in re.finditer(r"^## ([^\n]+)$|^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            if part[1]:
                heading = part[1]
            else:
                yield heading, part[2]


def sections():
    found = {}
    for heading, code in blocks():
        found[heading] = found.get(heading, "") + code
    return found


@pytest.mark.parametrize("heading", sections())
def test_the_page_runs(heading, tmp_path, monkeypatch):
    code = sections()[heading]
    for library in ("torch", "opacus", "matplotlib", "pandas", "dp_accounting", "flower"):
        if re.search(rf"^(import|from) (dapple\.)?{library}\b", code, re.MULTILINE):
            pytest.importorskip("flwr" if library == "flower" else library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    exec(compile(code, heading, "exec"), {"__name__": "__main__"})


def test_the_page_has_its_examples():
    assert len(sections()) >= 3


def test_the_stub_is_up_to_date():
    maturin = os.environ.get("MATURIN") or shutil.which("maturin")
    if maturin is None:
        pytest.skip("maturin is not installed")
    environment = {**os.environ, "MATURIN": maturin}
    done = subprocess.run([sys.executable, ROOT / "python" / "stubs", "--check"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
