"""The notebook runs as written."""

import json
import pathlib

import pytest

NOTEBOOKS = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "notebooks"


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, monkeypatch, tmp_path):
    for library in ("numpy", "pandas", "matplotlib"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(notebook.parent)
    names = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    for number, cell in enumerate(cells, 1):
        assert not cell["outputs"], "a notebook is kept without its outputs"
        # A notebook shows the value of a cell's last line.
        *lines, last = "".join(cell["source"]).splitlines()
        place = f"{notebook.name}, cell {number}"
        if last.startswith((" ", ")", "}")) or "=" in last.split("(")[0]:
            exec(compile("\n".join([*lines, last]), place, "exec"), names)
            continue
        exec(compile("\n".join(lines), place, "exec"), names)
        shown = eval(compile(last, place, "eval"), names)
        if hasattr(shown, "_repr_html_"):
            assert shown._repr_html_()
