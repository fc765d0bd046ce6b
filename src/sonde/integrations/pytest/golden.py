"""Golden files: the statistics of every op of a function, kept beside the tests.

A file is JSON with one line for each output of an op, in execution order, without values, source
lines, times or paths, so that a change of numerics is a small diff.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from sonde.compare.repetition import is_unwritten
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import SondeError, UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.text.number_text import count_text, json_number, number_text
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord
from sonde.watch.headline import place_text

DEFAULT_ATOL: Final = 1e-7
_RTOL: Final = 1e-4
_RTOL_OF_SMALL: Final = 2e-2
"""Of numbers with at most 16 bits: bfloat16 has 8 bits, sums of different order differ by some."""
_FORMAT: Final = 1
_NUMBERS: Final = ("min", "max", "mean", "norm")
_EXACT: Final = ("dtype", "shape", "nan", "inf")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GoldenFiles:
    """The golden files of one test, in ``directory``. ``is_updated``: they are rewritten."""

    directory: Path
    test: str
    is_updated: bool

    def difference(self, dump: Dump, name: str, *, rtol: float | None, atol: float) -> str:
        """The first op whose numbers are not those of the file; empty if all are, or if the file
        was written."""
        path = self.directory / f"{self.test}{f'.{name}' if name else ''}.json"
        records = [
            each
            for each in dump.tensors(io="output")
            if each.node is None or each.node.kind != "constant"
        ]
        rows = _rows(records)
        if self.is_updated:
            _write(path, rows)
            return ""
        if not path.is_file():
            return f"there is no golden file {path}; pytest --sonde-update writes it"
        found = _first_difference(_read(path), rows, records, rtol, atol)
        return found and f"{found}. Golden file: {path}; if the change is meant: --sonde-update"


def _rows(records: Sequence[TensorRecord]) -> list[Row]:
    """What the file has of tensors. Memory that no op has written yet has no numbers."""
    rows: list[Row] = []
    unwritten: set[tuple[int, str]] = set()
    for record in records:
        inputs = () if record.node is None else record.node.inputs
        sources = [(record.key.step, each.producer) for each in inputs if each.producer]
        reads_only_unwritten = bool(sources) and unwritten.issuperset(sources)
        if is_unwritten(record.op_type, reads_only_unwritten):
            unwritten.add((record.key.step, record.key.op))
            rows.append(_shape(record))
        else:
            rows.append(_row(record))
    return rows


def _shape(record: TensorRecord) -> dict[str, Any]:
    row = {"step": record.key.step, "op": record.key.op, "slot": record.key.slot}
    return row | {"dtype": record.dtype, "shape": list(record.shape)}


def _row(record: TensorRecord) -> Row:
    """What the file has of one tensor; numbers of an empty tensor, and those that are not finite,
    are texts as elsewhere in JSON. Of a complex tensor and others without statistics only dtype
    and shape."""
    row = _shape(record)
    try:
        found = record.statistics()
    except SondeError:
        return row
    row |= {"nan": found.nan_count, "inf": found.positive_inf_count + found.negative_inf_count}
    numbers = (found.finite_min, found.finite_max, found.avg, found.l2norm)
    return row | {
        name: json_number(float(each)) for name, each in zip(_NUMBERS, numbers, strict=True)
    }


def _write(path: Path, rows: Sequence[Row]) -> None:
    lines = ",\n".join(json.dumps(each, allow_nan=False) for each in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f'{{"format": {_FORMAT}, "tensors": [\n{lines}\n]}}\n'.encode())


def _read(path: Path) -> list[Row]:
    try:
        document = json.loads(path.read_bytes())
        tensors = document["tensors"]
        if document["format"] != _FORMAT or not all(each["op"] for each in tensors):
            raise ValueError(f"format {document['format']}, not {_FORMAT}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not a golden file ({error}); pytest --sonde-update writes it",
            slug="pytest-golden",
        ) from None
    return list(tensors)


def _first_difference(
    expected: Sequence[Row],
    found: Sequence[Row],
    records: Sequence[TensorRecord],
    rtol: float | None,
    atol: float,
) -> str:
    for number, (old, new) in enumerate(zip(expected, found, strict=False)):
        place = f"{_name(new)} in step {new['step']}{place_text(records[number].source)}"
        if _key(old) != _key(new):
            return f"the ops differ first at {place}: the golden file has {_name(old)} here"
        facts = _differing(old, new, rtol, atol)
        if facts:
            later = zip(expected[number + 1 :], found[number + 1 :], strict=False)
            count = sum(_key(a) == _key(b) and bool(_differing(a, b, rtol, atol)) for a, b in later)
            more = f"; {count_text(count, 'later tensor')} differ, too" if count else ""
            return f"the numbers differ first at {place}: {', '.join(facts)}{more}"
    if len(expected) == len(found):
        return ""
    rest, whose = (
        (expected[len(found)], "only the golden file has")
        if len(expected) > len(found)
        else (found[len(expected)], "the golden file does not have")
    )
    return f"the ops differ: {whose} {_name(rest)} in step {rest['step']}"


def _key(row: Row) -> tuple[object, ...]:
    return row["step"], row["op"], row["slot"]


def _name(row: Row) -> str:
    slot = row["slot"]
    return f"{row['op']}{f' output {slot}' if slot else ''}"


def _differing(old: Row, new: Row, rtol: float | None, atol: float) -> list[str]:
    """``max 3.2 (golden 3.1)`` of each number that is out of tolerance."""
    exact = [name for name in _EXACT if old.get(name) != new.get(name)]
    if exact or "norm" not in old:
        return [f"{name} {new.get(name)} (golden {old.get(name)})" for name in exact]
    dtype = BY_NAME.get(new["dtype"])
    is_small = dtype is not None and dtype.itemsize <= 2
    relative = rtol if rtol is not None else _RTOL_OF_SMALL if is_small else _RTOL
    ends = [abs(each) for name in ("min", "max") if isfinite(each := float(old[name]))]
    largest = max(ends, default=0.0)
    return [
        f"{name} {number_text(float(new[name]), 6)} (golden {number_text(float(old[name]), 6)}, "
        f"allowed {allowed:.1e})"
        for name in _NUMBERS
        if not _agrees(
            float(old[name]),
            float(new[name]),
            allowed := atol + relative * (abs(float(old[name])) if name == "norm" else largest),
        )
    ]


def _agrees(old: float, new: float, allowed: float) -> bool:
    if not (isfinite(old) and isfinite(new) and isfinite(allowed)):
        return str(old) == str(new)
    return abs(new - old) <= allowed
