"""The page on summaries names every option and every key of the index."""

import inspect
from dataclasses import fields
from pathlib import Path

from sonde.summary import SummaryCollector
from sonde.summary.index import ScalarTag, SummaryIndex
from sonde.summary.options import Collected

PAGE = (Path(__file__).parents[2] / "docs" / "summary.md").read_text()


def test_every_option_is_on_the_page():
    for name in inspect.signature(SummaryCollector).parameters:
        assert name in PAGE, name
    for option in fields(Collected):
        assert f"| `{option.name}` |" in PAGE, option.name


def test_every_key_of_the_index_is_on_the_page():
    for key in (*fields(SummaryIndex), *fields(ScalarTag)):
        assert f"`{key.name}`" in PAGE, key.name
