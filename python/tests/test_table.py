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
    with pytest.raises(dapple.PlanError, match=r"at batch=5000, views=2: sampling.batch \(batch\)") as caught:
        dapple.sweep(over={"batch": [100, 5000], "views": [2]}, **{**RECORDS, "batch": 1})
    assert caught.value.hint == "give a batch of at most 3000, or check records"
    with pytest.raises(dapple.PlanError, match="more than 100000"):
        dapple.sweep(over={"batch": range(1, 1001), "epochs": range(1, 1001)}, **RECORDS)
    with pytest.raises(dapple.PlanError, match="nothing to solve for"):
        dapple.sweep(over={"batch": [1]}, solve_for="happiness", **RECORDS)
    with pytest.raises(dapple.NoTheoremError, match="at sampling=without-replacement: no theorem"):
        dapple.sweep(over={"sampling": ["poisson", "without-replacement"]}, **RECORDS)


def test_no_answer_is_an_empty_row():
    plan = {**RECORDS, "epochs": 10_000, "relation": "replace"}
    table = dapple.sweep(over={"noise_multiplier": [0.05, 4.0]}, **plan)
    (empty, told), measures = table.rows, len(table.columns) - 1
    assert empty == [0.05, *[None] * measures]
    assert told[1] == dapple.account(plan, noise_multiplier=4.0).epsilon and None not in told
    # No noise that is searched reaches an epsilon of 1e-6.
    solved = dapple.sweep(over={"epsilon": [1e-6, 8.0]}, solve_for="noise_multiplier", **plan)
    assert solved.rows[0] == [1e-6, *[None] * (measures + 1)] and None not in solved.rows[1]


def test_texts_stand_for_values():
    ranges = dapple.sweep(over={"batch": "50:150:50", "noise_multiplier": "1,1.5"}, **RECORDS)
    assert ranges == dapple.sweep(over={"batch": range(50, 151, 50), "noise_multiplier": [1, 1.5]}, **RECORDS)
    words = dapple.sweep(over={"relation": "replace"}, **RECORDS)
    assert words["relation"] == ["replace"]
