"""Dumps that the tests of the reader read."""

from __future__ import annotations

from pathlib import Path

from sonde.dump.reader import Dump

DATA = Path(__file__).parent / "data"


def keys(dump: Dump, **selection: object) -> list[str]:
    return [str(record.key) for record in dump.tensors(**selection)]
