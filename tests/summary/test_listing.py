"""summary.json and the listing of a summary directory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils.tensorboard import SummaryWriter

from sonde.summary import is_summary, read_summary
from sonde.summary.errors import SummaryError
from sonde.summary.index import ScalarTag, SummaryIndex, Tag, read_index

GOLDEN = """\
{
 "format": "sonde-summary",
 "version": 1,
 "started": "2026-11-15T10:00:00+00:00",
 "updated": "2026-11-15T10:05:00+00:00",
 "status": "finished",
 "step": 20,
 "scalars": {
  "loss": {
   "first_step": 1,
   "last_step": 20,
   "count": 3,
   "last": "nan",
   "minimum": 0.25,
   "maximum": "inf"
  }
 },
 "histograms": {
  "weights/fc": {
   "first_step": 1,
   "last_step": 20,
   "count": 2
  }
 },
 "images": {},
 "texts": {},
 "graph": "operators",
 "lineage": {
  "train": {
   "optimizer": "SGD",
   "loss": "nan"
  }
 }
}
"""


def _index() -> SummaryIndex:
    index = SummaryIndex(
        started="2026-11-15T10:00:00+00:00",
        updated="2026-11-15T10:05:00+00:00",
        status="finished",
        graph="operators",
        lineage={"train": {"optimizer": "SGD", "loss": math.nan}},
    )
    for step, value in ((1, 0.25), (10, math.inf), (20, math.nan)):
        index.note_scalar("loss", step, value)
    for step in (1, 20):
        index.note("histograms", "weights/fc", step)
    return index


def test_the_index_is_written_as_documented(tmp_path: Path):
    _index().write(tmp_path)
    assert (tmp_path / "summary.json").read_text() == GOLDEN
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]


def test_the_index_is_read_as_documented(tmp_path: Path):
    (tmp_path / "summary.json").write_text(GOLDEN)
    index = read_index(tmp_path)
    assert index is not None
    assert (index.step, index.status, index.graph) == (20, "finished", "operators")
    assert index.histograms == {"weights/fc": Tag(1, 20, 2)}
    loss = index.scalars["loss"]
    assert (loss.first_step, loss.last_step, loss.count) == (1, 20, 3)
    assert (loss.minimum, loss.maximum) == (0.25, math.inf)
    assert math.isnan(loss.last)


@given(st.lists(st.tuples(st.integers(0, 99), st.floats()), min_size=1, max_size=9))
def test_an_index_survives_its_file(tmp_path_factory, course):
    directory = tmp_path_factory.mktemp("index")
    index = SummaryIndex()
    for step, value in course:
        index.note_scalar("x", step, value)
    index.write(directory)
    assert repr(read_index(directory)) == repr(index)


@given(st.lists(st.floats(), min_size=1))
@example([math.nan, math.nan])
def test_extremes_leave_nan_out(values: list[float]):
    index = SummaryIndex()
    for step, value in enumerate(values):
        index.note_scalar("x", step, value)
    finite = [value for value in values if not math.isnan(value)]
    tag = index.scalars["x"]
    if finite:
        assert (tag.minimum, tag.maximum) == (min(finite), max(finite))
    else:
        assert math.isnan(tag.minimum)
        assert math.isnan(tag.maximum)


def test_a_listing_is_plain_values_with_the_files(tmp_path: Path):
    _index().write(tmp_path)
    (tmp_path / "events.out.tfevents.1.host.1.000001.sonde").write_bytes(b"x" * 7)
    (tmp_path / "notes.txt").write_text("no event file")
    listing = read_summary(str(tmp_path))
    assert listing.path == str(tmp_path)
    assert [(file.name, file.size) for file in listing.files] == [
        ("events.out.tfevents.1.host.1.000001.sonde", 7)
    ]
    assert listing.size == 7
    assert json.loads(json.dumps(listing.as_dict()))["scalars"]["loss"]["count"] == 3


def test_event_files_of_another_tool_are_read_without_an_index(tmp_path: Path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("train/loss", 2.0, 1)
        writer.add_scalar("train/loss", 0.5, 7)
    listing = read_summary(tmp_path)
    assert listing.status == "unknown"
    assert listing.step == 7
    assert listing.scalars == {"train/loss": ScalarTag(1, 7, 2, 0.5, 0.5, 2.0)}
    assert len(listing.files) == 1


def test_reading_a_summary_imports_no_torch(tmp_path: Path):
    _index().write(tmp_path)
    code = (
        "import sys; from sonde.summary import read_summary; "
        "print(read_summary(sys.argv[1]).scalars['loss'].count, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3 False\n"


def test_a_directory_without_a_summary_is_reported(tmp_path: Path):
    for path in (tmp_path, tmp_path / "missing"):
        assert not is_summary(path)
        with pytest.raises(SummaryError, match=r"holds no summary.*\[summary-read\]"):
            read_summary(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": "sonde-summary"}', "damaged"),
        ('{"format": "sonde-summary", "version": 1}', "damaged"),
        ('{"format": "sonde-summary", "version": 2}', "version 2; this Sonde reads"),
        ('{"format": "other", "version": 1}', "is other version 1"),
    ],
)
def test_an_index_that_cannot_be_read_says_why(tmp_path: Path, text: str, words: str):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(SummaryError, match=words):
        read_summary(tmp_path)
