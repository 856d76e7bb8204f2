"""Answers that have rows."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas

__all__ = ["Table"]


class Table:
    """Named columns and rows of values. A value is `None` where there is no answer.

    >>> table = Table(["crop", "epsilon"], [[50, 0.1], [100, None]])
    >>> table["epsilon"]
    [0.1, None]
    >>> table[1]
    {'crop': 100, 'epsilon': None}
    >>> [row["crop"] for row in table]
    [50, 100]
    >>> print(table)
    crop  epsilon
      50      0.1
     100
    """

    columns: list[str]
    rows: list[list[Any]]

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.columns = list(columns)
        self.rows = [list(row) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        return (dict(zip(self.columns, row)) for row in self.rows)

    @overload
    def __getitem__(self, place: str) -> list[Any]: ...
    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Table: ...
    def __getitem__(self, place: str | int | slice) -> Any:
        """A column by its name, a row by its number, or some rows as a table by a slice."""
        if isinstance(place, slice):
            return Table(self.columns, self.rows[place])
        if not isinstance(place, str):
            return dict(zip(self.columns, self.rows[place]))
        try:
            column = self.columns.index(place)
        except ValueError:
            raise KeyError(f"there is no column {place!r}, but {', '.join(self.columns)}") from None
        return [row[column] for row in self.rows]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("Table.to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | PathLike[str] | None = None) -> str | None:
        """Writes the table to a file, or returns its text if no path is given. Numbers are written in full."""
        if path is not None:
            with open(path, "w", newline="") as file:
                self._write(file)
            return None
        text = io.StringIO()
        self._write(text)
        return text.getvalue()

    def _write(self, file: io.TextIOBase | Any) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)

    def _cells(self) -> list[list[str]]:
        sides = [ROUND_FLOOR if name.endswith("_lower") else ROUND_CEILING for name in self.columns]
        return [[_shown(value, side) for value, side in zip(row, sides)] for row in self.rows]

    def __str__(self) -> str:
        lines = [self.columns, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        rows = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)
        return "\n".join(row.rstrip() for row in rows)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: Any, rounding: str) -> str:
    """A cell as people read it: six digits, with bounds rounded to the safe side. Columns, rows and `to_csv` keep numbers in full."""
    if value is None:
        return ""
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    digits = Context(prec=6, rounding=rounding).create_decimal(repr(value))
    return repr(float(digits))
