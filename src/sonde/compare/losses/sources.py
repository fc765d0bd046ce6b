"""Finds the format of a loss file or directory and reads it."""

from __future__ import annotations

from pathlib import Path

from sonde.compare.losses.compare import LossSeries
from sonde.compare.losses.events import read_events
from sonde.compare.losses.text import LossFileError, read_csv, read_json, read_log, unreadable
from sonde.compare.runs.load import load_side
from sonde.compare.runs.loss import loss_op, loss_value
from sonde.core.errors import UsageError
from sonde.core.files.event_records import EVENT_MARK, event_files
from sonde.dump.reader import Dump
from sonde.dump.reading.msprobe.tree import find_msprobe

_LEVELS = 3
_REPORTS = "reports.jsonl"
_SHOWN_PROBLEMS = 5


def read_losses(path: Path, *, tag: str | None = None, pattern: str | None = None) -> LossSeries:
    """The losses of a run: a directory of summaries or event files, a dump, a CSV or JSON file,
    JSON lines, an event file, or a log.

    ``tag`` names the scalar, column or key; with ``pattern`` any file is read as a log.
    """
    if path.is_dir() and pattern is not None:
        raise UsageError(f"--regex is for logs, and {path} is a directory", slug="usage")
    if not path.is_dir() and not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise LossFileError(f"{path} {problem}", slug="loss-file")
    try:
        return _from_directory(path, tag) if path.is_dir() else _from_file(path, tag, pattern)
    except OSError as error:
        raise unreadable(Path(error.filename or path), str(error.strerror)) from None


def _from_file(path: Path, tag: str | None, pattern: str | None) -> LossSeries:
    if pattern is not None:
        return read_log(path, pattern)
    if EVENT_MARK in path.name:
        return read_events(path, [path], tag)
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return read_csv(path, tag)
    if suffix in (".json", ".jsonl", ".ndjson"):
        return read_json(path, tag)
    if _begins_with_brace(path):
        try:
            return read_json(path, tag)
        except LossFileError:
            if tag is not None:
                raise  # Without a tag: it may be a log that begins with a bracket.
    if tag is not None:
        raise UsageError(
            f"--tag is for summaries, CSV and JSON; {path} is read as a log: use --regex",
            slug="usage",
        )
    return read_log(path, None)


def _from_directory(path: Path, tag: str | None) -> LossSeries:
    level = [path]
    for _ in range(_LEVELS):
        found = [directory for directory in level if event_files(directory)]
        if len(found) == 1:
            return read_events(path, event_files(found[0]), tag)
        if found:
            names = ", ".join(str(each.relative_to(path)) for each in sorted(found)[:5])
            raise LossFileError(
                f"{path} contains {len(found)} runs: {names}; give one of them", slug="loss-file"
            )
        if (path / _REPORTS).is_file():
            return read_json(path / _REPORTS, tag)
        if any(each.name.startswith("rank_") for parent in level for each in parent.iterdir()):
            return dump_losses(Dump(path))
        if find_msprobe(path) is not None:
            return dump_losses(Dump(path))
        level = sorted(each for parent in level for each in parent.iterdir() if each.is_dir())[
            :1000
        ]
    raise LossFileError(
        f"{path} contains neither event files nor a dump; give a file with losses or its directory",
        slug="loss-file",
    )


def _begins_with_brace(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(64).lstrip()[:1] in (b"{", b"[")


def dump_losses(dump: Dump, rank: int | None = None) -> LossSeries:
    """The loss of each dumped step of a rank, by default of the first."""
    path = dump.path
    rank = dump.ranks[0] if rank is None else rank
    steps: list[int] = []
    values: list[float] = []
    for step in dump.steps(rank=rank):
        side = load_side(dump, step, rank)
        # Without a graph it is not known which ops are of the forward pass.
        value = loss_value(side, loss_op(side)) if side.structure else None
        if value is not None:
            steps.append(step)
            values.append(value)
    problems = tuple(f"damaged: {each}" for each in dump.problems)
    if not values and problems:
        raise LossFileError(f"{path} has no loss that can be read; {problems[0]}", slug="loss-file")
    if not values:
        raise LossFileError(
            f"{path} is a dump without a loss: no op of the forward pass has a scalar output; dump "
            "the outputs of all ops",
            slug="loss-empty",
        )
    return LossSeries(str(path), tuple(steps), tuple(values), problems[:_SHOWN_PROBLEMS])
