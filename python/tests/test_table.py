"""Tables, and sweeps that are wrong somewhere."""

import csv
import sys

import pytest
from plans import PATCH, RECORDS

import dapple


@pytest.fixture(scope="module")
def table():
    return dapple.sweep(over={"crop": [(100, 100), (200, 100)], "views": [1, 2]}, **PATCH)


def test_rows_and_columns(table):
    assert table.columns == ["crop", "views", "epsilon", "epsilon_lower", "inclusion_probability", "effective_rate", "steps"]
    assert table["crop"] == [(100, 100), (100, 100), (200, 100), (200, 100)] and table["views"] == [1, 2, 1, 2]
    assert [row["epsilon"] for row in table] == table["epsilon"] == sorted(table["epsilon"])
    assert len(table) == 4 and repr(table).startswith("<Table of 4 rows: crop, views, ")
    with pytest.raises(KeyError):
        table["no such column"]


def test_files_hold_every_digit(table, tmp_path):
    file = tmp_path / "sweep.csv"
    table.to_csv(file)
    rows = list(csv.DictReader(file.open()))
    assert [float(row["epsilon"]) for row in rows] == table["epsilon"]
    assert table.to_csv() == file.read_text()


def test_what_is_shown_is_on_the_safe_side(table):
    shown = [line.split() for line in str(table).splitlines()[1:]]
    # The cell of a crop is two words.
    for line, row in zip(shown, table):
        assert float(line[3]) >= row["epsilon"] and float(line[4]) <= row["epsilon_lower"]
    assert "<td>(100, 100)</td>" in table._repr_html_()


def test_pandas(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_pandas()
    monkeypatch.undo()
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(table.to_pandas(), pandas.DataFrame)


def test_a_sweep_that_is_wrong_somewhere_computes_nothing():
    with pytest.raises(dapple.PlanError, match=r"at batch=5000, views=2: sampling.batch \(--batch\)") as caught:
        dapple.sweep(over={"batch": [100, 5000], "views": [2]}, **{**RECORDS, "batch": 1})
    assert caught.value.hint == "give a batch of at most 3000, or check --records"
    with pytest.raises(dapple.PlanError, match="given twice"):
        dapple.sweep(over={"batch": [1], "sampling.batch": [2]}, **RECORDS)
    with pytest.raises(dapple.PlanError, match="more than 100000"):
        dapple.sweep(over={"batch": range(1, 1001), "epochs": range(1, 1001)}, **RECORDS)
    with pytest.raises(dapple.PlanError, match="nothing to solve for"):
        dapple.sweep(over={"batch": [1]}, solve_for="happiness", **RECORDS)


def test_no_answer_is_an_empty_row():
    table = dapple.sweep(over={"noise_multiplier": [0.05, 1.0]}, **{**RECORDS, "epochs": 100_000, "relation": "replace"})
    assert table["epsilon"][0] is None and table["epsilon"][1] is not None or table["epsilon"] == [None, None]
