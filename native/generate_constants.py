"""Writes ``shared/constants.h``: the numbers that Python and the native code must agree on.

Run it from the repository after a change of one of the Python definitions, then build again:

    python native/generate_constants.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from sonde.adapters.torch.eager import matcher, op_tree
from sonde.core import statistics
from sonde.kernels.distances import PAIR_COLUMNS, Distances
from sonde.watch.conditions import screen

HEADER = Path(__file__).parent / "shared" / "constants.h"
_HEAD = """\
// Numbers that Python and the native code share.
// Made by `python native/generate_constants.py` from the Python definitions; do not edit.
#pragma once

namespace sonde {
"""
_TAIL = "}  // namespace sonde\n"


def generate() -> str:
    """The text of the header."""
    columns = {
        name: value
        for name, value in vars(statistics).items()
        if name.isupper() and isinstance(value, int) and name != "ROW_COLUMNS"
    }
    if sorted(columns.values()) != list(range(statistics.ROW_COLUMNS)):
        raise ValueError("core/statistics.py: the columns of a row are not 0 to ROW_COLUMNS - 1")
    return "\n".join(
        (
            _HEAD,
            _enum("Column", "sonde/core/statistics.py: the columns of a row", columns),
            _number("kRowColumns", statistics.ROW_COLUMNS),
            "",
            _enum(
                "PairColumn",
                "sonde/kernels/distances.py: the columns of a row of distances",
                _numbered((field.name for field in fields(Distances)), prefix="pair_"),
            ),
            _number("kPairColumns", PAIR_COLUMNS),
            "",
            _enum(
                "TestKind",
                "sonde/watch/conditions/screen.py: what a test of a row asks",
                {f"test_{kind.name}": kind.value for kind in screen.TestKind},
            ),
            _number("kTestNumbers", screen.TEST_NUMBERS),
            "",
            _enum(
                "DerivedColumn",
                "The same: what a test can ask about that is computed of a row",
                {name: getattr(screen, name) for name in ("ZERO_PERCENTAGE", "DEVIATION", "RANGE")},
            ),
            "",
            _enum(
                "OutputKind",
                "sonde/adapters/torch/eager/op_tree.py: what an op does with an output's memory",
                {name: getattr(op_tree, name) for name in ("FRESH", "ALIAS", "WRITTEN")},
            ),
            "",
            "// sonde/adapters/torch/eager/matcher.py: what Python sees of the module _match.",
            _number("kInterface", matcher.INTERFACE),
            "",
            _TAIL,
        )
    )


def _numbered(names: Iterable[str], *, prefix: str) -> dict[str, int]:
    return {prefix + name: number for number, name in enumerate(names)}


def _enum(name: str, comment: str, values: Mapping[str, int]) -> str:
    members = "\n".join(f"  {_constant(each)} = {value}," for each, value in values.items())
    return f"// {comment}.\nenum {name} : int {{\n{members}\n}};"


def _number(name: str, value: int) -> str:
    return f"inline constexpr int {name} = {value};"


def _constant(name: str) -> str:
    """``NAN_COUNT`` as ``kNanCount``."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))


if __name__ == "__main__":
    HEADER.write_text(generate(), "utf-8")
