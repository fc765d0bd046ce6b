"""``statistic.csv`` by Sonde, by MindSpore, and damaged."""

from __future__ import annotations

import csv
import io
import math

from hypothesis import given
from hypothesis import strategies as st

from sonde.dump import layout
from sonde.dump.reading.statistic_rows import read_rows

# As MindSpore 2.4 wrote it on Ascend: names escaped, dtypes in lower case, a comma at the end.
MINDSPORE = """\
Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,\
Max Value,Min Value,L2Norm Value
Sub,Default_Sub-op0,0,0,1733905446819790,input,0,4,float32,"()",3,3,3,
Sub,Default_Sub-op0,0,0,1733905446820357,input,1,4,float32,"(2,3)",1,-inf,nan,
Cast,Default_Cast-op0,0,0,1733905446824184,output,0,1,bool,"(4)",1,1,1,
"""


def test_rows_by_mindspore_are_read() -> None:
    file = read_rows(MINDSPORE)
    assert file.problems == ()
    first, second, third = file.rows
    assert (first.op_type, first.op_name, first.timestamp) == (
        "Sub",
        "Default_Sub-op0",
        1733905446819790,
    )
    assert (first.io, first.slot, first.nbytes, first.dtype) == ("input", 0, 4, "float32")
    assert first.shape == ()
    assert first.values == {"max": 3.0, "min": 3.0, "l2norm": 3.0}
    assert second.shape == (2, 3)
    assert second.values["min"] == -math.inf
    assert math.isnan(second.values["l2norm"])
    assert (third.dtype, third.shape) == ("bool", (4,))


def test_every_category_has_its_kind_of_number() -> None:
    categories = list(layout.STATISTIC_TITLES)
    head, tail = layout.statistic_row_parts(
        "mm", "Default/mm-op1", "output", 2, 8, "BFloat16", (4,)
    )
    cells = [
        {"md5": "abc0", "xxh3": "123"}.get(name, "7" if name.endswith("count") else "0.5")
        for name in categories
    ]
    text = f"{layout.statistic_header(categories)}\n{head}9{tail},{','.join(cells)}\n"
    (row,) = read_rows(text).rows
    assert row.op_name == "Default/mm-op1"
    assert row.dtype == "bfloat16"
    assert set(row.values) == set(categories)
    assert row.values["nan count"] == 7
    assert isinstance(row.values["nan count"], int)
    assert row.values["max"] == 0.5
    assert (row.values["md5"], row.values["xxh3"]) == ("abc0", "123")


def test_other_spellings_of_the_header_are_known() -> None:
    text = (
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,Input/Output,Slot,Data Size,Data Type,"
        'Format,Shape,Nan Count\nmm,a,0,0,1,Output,0,8,float16,NCHW,"(2,2)",3\n'
    )
    (row,) = read_rows(text).rows
    assert (row.io, row.shape, row.values) == ("output", (2, 2), {"nan count": 3})


def test_empty_fields_are_left_out() -> None:
    text = MINDSPORE.splitlines()[0] + '\nSub,a,0,0,1,input,0,4,float32,"()",,null,\n'
    assert read_rows(text).rows[0].values == {}


def test_a_row_cut_off_by_a_kill_is_left_out() -> None:
    assert len(read_rows(MINDSPORE[:-12]).rows) == 2
    assert read_rows(MINDSPORE[:-12]).problems == ()


def test_a_damaged_row_is_reported_with_its_line_and_others_are_read() -> None:
    lines = MINDSPORE.splitlines(keepends=True)
    lines[2] = lines[2].replace("float32", "flaot32")
    file = read_rows("".join(lines))
    assert len(file.rows) == 2
    assert file.problems == (
        "line 3: 'flaot32' is not an element type Sonde knows [unknown-dtype]",
    )


def test_a_file_without_the_columns_is_reported() -> None:
    assert read_rows("a,b,c\n1,2,3\n").problems == ("line 1: no column 'Op Type'",)


def test_an_empty_file_has_no_rows() -> None:
    assert read_rows("") == read_rows("\n").__class__((), ())


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_rows(text)
    read_rows(MINDSPORE + text + "\n")


@given(st.lists(st.lists(st.text(max_size=8), min_size=8, max_size=14), max_size=4))
def test_any_cells_can_be_read(cells: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(cells)
    read_rows(MINDSPORE.splitlines(keepends=True)[0] + out.getvalue())
