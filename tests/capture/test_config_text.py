"""A configuration in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from sonde.capture.config import SavedData
from sonde.capture.config_text import describe
from sonde.capture.options import config_from_options


@pytest.mark.parametrize(
    ("options", "beginning"),
    [
        ({}, "tensors of every op; inputs and outputs; every step; "),
        ({"ops": ("conv",), "steps": "0-2"}, "tensors of conv; inputs and outputs; steps 0-2; "),
        ({"stats": True}, "statistics of every op; inputs and outputs; "),
        ({"overflow": True}, "ops with NaN or Inf; "),
        ({"graph": True}, "graphs only; every step; "),
    ],
)
def test_the_line_says_what_is_dumped(
    tmp_path: Path, options: dict[str, object], beginning: str
) -> None:
    config = config_from_options(tmp_path, {}, **options)  # type: ignore[arg-type]
    assert describe(config).startswith(beginning)
    assert describe(config).endswith(f"; to {tmp_path}, network Net")


def test_everything_that_can_be_saved_has_words(tmp_path: Path) -> None:
    config = config_from_options(tmp_path, {})
    for saved in get_args(SavedData):
        assert describe(replace(config, saved_data=saved))
