"""The table of trials, in terminals that are wide and narrow."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from sonde.cli.tune_text import add_trial_columns, cell_text

ROWS = {
    "learning_rate": ["0.0001513", "0.01462"],
    "batch_size": ["256", "16"],
    "optimizer": ["sgd", "adam"],
    "momentum": ["0.7834", ""],
}


def shown(width: int) -> list[str]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    assert add_trial_columns(table, "state", "accuracy", ROWS, width) <= width
    for number in range(2):
        cells = [ROWS[name][number] for name in ROWS]
        table.add_row(str(number), "finished", "0.5", *cells, "1m05s")
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_wide_terminal_shows_every_name_in_one_line() -> None:
    lines = shown(100)
    assert len(lines) == 3
    assert lines[0].split() == ["trial", "state", "accuracy", *ROWS, "time"]


@pytest.mark.parametrize("width", [72, 80])
def test_a_narrow_terminal_folds_names_and_no_value(width: int) -> None:
    lines = shown(width)
    rows = [text.split() for text in lines[-2:]]
    assert rows == [
        ["0", "finished", "0.5", "0.0001513", "256", "sgd", "0.7834", "1m05s"],
        ["1", "finished", "0.5", "0.01462", "16", "adam", "1m05s"],
    ]


def test_cells_have_four_digits_and_are_empty_where_there_is_no_value() -> None:
    values = {"x": 0.123456, "name": "sgd", "layers": 3, "flag": True}
    assert [cell_text(values, name) for name in ("x", "name", "layers", "flag", "none")] == [
        "0.1235",
        "sgd",
        "3",
        "True",
        "",
    ]
