"""Reads loss curves from text: CSV, JSON, JSON lines, and logs with a regular expression.

Lines without a loss are skipped. Several points with the same step come from a resumed run: the
last one is used.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from sonde.compare.losses.compare import LossSeries
from sonde.core.errors import SondeError, UsageError

Point = tuple[int | None, float]

MAX_BYTES = 1 << 30
MAX_POINTS = 20_000_000
_MAX_LINE = 1 << 16
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:inf(?:inity)?|nan)\b"
# The number of spaces is bounded, so that a line of spaces costs no more than any other.
_LOSS = re.compile(
    r"(?i)(?<![a-z0-9])loss(?:\s{1,8}is|\s{1,8}value)?\s{0,8}[:=]?\s{0,8}(?:tensor\()?"
    rf"({_NUMBER})"
)
_STEP = re.compile(
    r"(?i)(?<![a-z])(?:global_?step|step|iteration|iter)s?\s{0,8}[:=#]?\s{0,8}\[?\s{0,8}"
    r"([0-9]{1,18})"
)
_OTHER_LOSS = re.compile(r"(?i)(?:val|valid|validation|eval|test|best|min)[\s_/.-]*$")
_LOSS_NAMES = ("loss", "train_loss", "train/loss", "training_loss", "loss/train", "losses")
_STEP_NAMES = ("step", "global_step", "_step", "iteration", "iter", "steps", "batch", "epoch")
_LISTS = ("log_history", "history", "records", "losses", "loss")


class LossFileError(SondeError):
    """A file that cannot be read, or has no losses."""


def read_csv(path: Path, tag: str | None) -> LossSeries:
    """A column of losses, with a column of steps if there is one; ``tag`` names the column."""
    text = _whole(path)
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        head = [cell.strip() for cell in next(rows, [])]
        if all(_number(cell) is not None for cell in head if cell):
            return _headless(path, [head, *rows], tag)
        loss = head.index(choose_name(path, "column", head, tag, _LOSS_NAMES))
        step = next((head.index(name) for name in _like(head, _STEP_NAMES)), None)
        epoch = next((head.index(name) for name in _like(head, ("epoch",))), None)
        points: list[Point] = []
        odd: list[int] = []
        for row in rows:
            value = _number(_cell(row, loss))
            if value is not None:
                points.append((_whole_number(_cell(row, step)), value))
            elif _cell(row, loss):  # Empty cells are usual: the row has other metrics.
                odd.append(rows.line_num)
    except csv.Error as error:
        raise unreadable(path, f"line {rows.line_num}: {error}") from None
    found = curve(path, points, renumber=epoch is not None and epoch != step)
    return _noted(found, odd, "has a loss that is not a number")


def read_json(path: Path, tag: str | None) -> LossSeries:
    """A JSON document, or one JSON object a line."""
    text = _whole(path)
    try:
        points = list(_points(json.loads(text), tag))
    except (ValueError, RecursionError) as error:
        odd: list[int] = []
        points = list(_json_lines(text, tag, odd))
        if not points and text.strip():
            raise unreadable(path, str(error)) from None
        return _noted(curve(path, points), odd, "is not JSON")
    return curve(path, points)


def read_log(path: Path, pattern: str | None) -> LossSeries:
    """A log: ``pattern`` has a group ``loss`` or ``value`` (or its first group), and may have
    ``step``. Without one, ``loss: 0.3``, ``loss=0.3`` and ``loss is 0.3`` are found, and the step
    in ``step: 7``.
    """
    expression = None if pattern is None else compile_pattern(pattern)
    found: list[Point] = []
    with path.open("rb") as stream:
        for raw in _lines(stream):
            line = raw.decode("utf-8", "replace")
            point = _default_point(line) if expression is None else _point(line, expression)
            if point is not None:
                found.append(point)
    return curve(path, found, renumber=True)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled ``--regex``; a UsageError if it is invalid or has no group to read."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--regex {pattern!r} is not a regular expression: {error}", slug="usage"
        ) from None
    if not expression.groups:
        raise UsageError(
            f"--regex {pattern!r} has no group round the loss, such as 'loss: (\\S+)'", slug="usage"
        )
    return expression


def curve(path: Path, points: Iterable[Point], *, renumber: bool = False) -> LossSeries:
    """The points as a curve, numbered if they have no steps.

    ``renumber``: step numbers that start again are those of epochs and are made continuous.
    """
    found = list(points)
    if not found:
        raise LossFileError(
            f"{path} has no losses; say which with --tag NAME, or for a log --regex 'loss: (\\S+)'",
            slug="loss-empty",
        )
    notes: tuple[str, ...] = ()
    numbered = list(enumerate(value for _, value in found))
    given = [(step, value) for step, value in found if step is not None]
    if len(given) == len(found):
        rises = all(x < y for (x, _), (y, _) in pairwise(given))
        if rises:
            numbered = given
        elif renumber:
            notes = (f"{path.name}: the steps start again, so they are numbered from 0",)
        else:
            numbered = sorted(dict(given).items())
            notes = (f"{path.name}: some steps occur twice; the last point of each is used",)
    steps, values = zip(*numbered, strict=True)
    return LossSeries(str(path), steps, values, notes)


def _whole(path: Path) -> str:
    with path.open("rb") as stream:
        # A buffered read allocates the size it is given, even for a small file.
        data = stream.read(min(os.fstat(stream.fileno()).st_size, MAX_BYTES) + 1)
    if len(data) > MAX_BYTES:
        raise unreadable(path, f"it has more than {MAX_BYTES} bytes")
    return data.decode("utf-8-sig", "replace")


def _lines(stream: Any) -> Iterator[bytes]:
    """The lines, also those that end with a carriage return (progress bars); long ones are cut."""
    count = 0
    while line := stream.readline(_MAX_LINE):
        for part in line.split(b"\r"):
            count += 1
            if count > MAX_POINTS:
                return
            yield part


def unreadable(path: Path, reason: str) -> LossFileError:
    return LossFileError(f"{path} cannot be read: {reason}", slug="loss-file")


def _headless(path: Path, rows: list[list[str]], tag: str | None) -> LossSeries:
    """One column of losses, or steps and losses."""
    if tag is not None:
        raise UsageError(f"{path} has no header, so no column {tag!r}", slug="usage")
    width = max((len(row) for row in rows), default=0)
    if width > 2:
        raise LossFileError(
            f"{path} has {width} columns and no header: which is the loss?", slug="loss-empty"
        )
    points = [
        (_whole_number(_cell(row, 0)) if width == 2 else None, value)
        for row in rows
        if width and (value := _number(_cell(row, width - 1))) is not None
    ]
    return curve(path, points)


def choose_name(
    path: Path, what: str, names: list[str], tag: str | None, preferred: Sequence[str]
) -> str:
    """The column or scalar ``tag``, or else the one that is most likely the loss."""
    wanted = _like(names, preferred if tag is None else (tag,))
    if not wanted and tag is None:
        wanted = [name for name in names if "loss" in name.lower() and "val" not in name.lower()]
    if not wanted:
        there = ", ".join(names)[:300] or "none"
        raise LossFileError(
            f"{path} has no {what} {tag or 'loss'!r}; there are {there}; choose with --tag",
            slug="loss-empty",
        )
    return wanted[0]


def _like(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The wanted names that exist, in upper or lower case, in the order of ``wanted``."""
    lowered = {name.lower(): name for name in names}
    return [lowered[each.lower()] for each in wanted if each.lower() in lowered]


def _cell(row: list[str], index: int | None) -> str:
    return row[index].strip() if index is not None and index < len(row) else ""


def _number(value: Any) -> float | None:
    """The number, or the number in a text; None for anything else, including booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _whole_number(value: Any) -> int | None:
    number = _number(value)
    whole = number is not None and math.isfinite(number) and abs(number) < 1 << 53
    return int(number) if whole and number is not None else None


def _json_lines(text: str, tag: str | None, odd: list[int]) -> Iterator[Point]:
    """The points of all lines; the numbers of lines that are not JSON are added to ``odd``."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield from _points(json.loads(line), tag)
        except (ValueError, RecursionError):
            if line.strip():
                odd.append(number)


def _noted(found: LossSeries, odd: list[int], what: str) -> LossSeries:
    """The curve with a note about the lines that could not be read."""
    if not odd:
        return found
    more = f" (and {len(odd) - 1:,} more)" if len(odd) > 1 else ""
    note = f"{os.path.basename(found.origin)}: line {odd[0]}{more} {what}: left out"
    return replace(found, notes=(*found.notes, note))


def _points(value: Any, tag: str | None) -> Iterator[Point]:
    """The points in a JSON value: numbers, objects with a loss, [time, step, value] lists."""
    if isinstance(value, list):
        for each in value:
            number = _number(each)
            if number is not None:
                yield None, number
            elif isinstance(each, list) and len(each) in (2, 3):
                last = _number(each[-1])
                if last is not None:
                    yield _whole_number(each[-2]), last
            elif isinstance(each, dict):
                yield from _object_point(each, tag)
    elif isinstance(value, dict):
        inner = _like(value, (tag, *_LISTS) if tag else _LISTS)
        lists = [name for name in inner if isinstance(value[name], list)]
        if lists:
            yield from _points(value[lists[0]], tag)
        else:
            yield from _object_point(value, tag)


def _object_point(value: Mapping[str, Any], tag: str | None) -> Iterator[Point]:
    flat = dict(_flattened(value, "", 0))
    names = _like(flat, (tag, tag.replace(".", "/")) if tag is not None else _LOSS_NAMES)
    steps = _like(flat, _STEP_NAMES)
    for name in names[:1]:
        number = _number(flat[name])
        if number is not None:
            yield (_whole_number(flat[steps[0]]) if steps else None), number


def _flattened(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(each, dict) and depth < 4:
            yield from _flattened(each, name, depth + 1)
        else:
            yield name, each


def _default_point(line: str) -> Point | None:
    for match in _LOSS.finditer(line):
        if not _OTHER_LOSS.search(line[max(0, match.start() - 24) : match.start()]):
            value = _number(match[1])
            step = _STEP.search(line)
            if value is not None:
                return (None if step is None else _whole_number(step[1])), value
    return None


def _point(line: str, expression: re.Pattern[str]) -> Point | None:
    match = expression.search(line)
    if match is None:
        return None
    groups = match.groupdict()
    text = groups.get("loss") or groups.get("value")
    if not text:
        step = expression.groupindex.get("step")
        others = (index for index in range(1, expression.groups + 1) if index != step)
        text = next((match[index] for index in others), None)
    value = _number((text or "").rstrip(",;)"))
    return None if value is None else (_whole_number(groups.get("step")), value)
