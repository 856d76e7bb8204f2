"""Rows that every bench prints, as JSON or as a table with ratios against Dapple."""

import json

FIELDS = ["system", "task", "batch", "samples_per_second", "cpu_seconds", "peak_mb", "result"]


def row(**fields):
    """A row with every common field; those that do not apply are None."""
    return {**dict.fromkeys(FIELDS), **fields}


def print_rows(rows, as_json, columns, ratio_of, larger_is_better=False):
    """`columns` maps a heading to a function of the row; `ratio_of` is the field compared with Dapple's.

    The ratio says how many times worse than Dapple a system is; a row's note comes last.
    """
    if as_json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    base = {r["task"]: r[ratio_of] for r in rows if r["system"] == "dapple"}

    def ratio(r):
        own, ours = r[ratio_of], base.get(r["task"])
        if not own or not ours:
            return "-"
        return f"{ours / own if larger_is_better else own / ours:.1f}x"

    headings = ["task", "system", *columns, "ratio", "note"]
    lines = [[r["task"], r["system"], *(f(r) for f in columns.values()), ratio(r), r.get("note") or ""] for r in rows]
    widths = [max(len(line[i]) for line in [headings, *lines]) for i in range(len(headings))]
    previous = None
    for line in [headings, *lines]:
        shown = ["" if line[0] == previous else line[0], *line[1:]]
        previous = line[0]
        print("  ".join(text.ljust(width) for text, width in zip(shown, widths)).rstrip())


def number(value, pattern="{:.6g}"):
    return "-" if value is None else pattern.format(value)
