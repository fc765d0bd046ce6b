"""``sonde show`` for the directory of a guarded training: its signals and captured steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sonde.core.errors import DumpError, SondeError
from sonde.core.finding import with_lines
from sonde.core.text.number_text import count_text, duration, number_text, size_text
from sonde.core.text.terminal_text import printable
from sonde.dump.layout import FINDINGS
from sonde.dump.reading.side_files import read_findings
from sonde.monitor.reading import SignalTable, ranks_in, read_signals
from sonde.replay.layout import MANIFEST, StepPlace, captured_steps, place_of
from sonde.replay.manifest import Manifest, read_manifest
from sonde.replay.reason_text import reasons_text

_SHOWN_ROWS = 12
_SHOWN_PARAMETERS = 5
_COLUMNS = {
    "loss": "loss",
    "grad_norm": "gradient",
    "weight_norm": "weights",
    "update_ratio": "update",
    "learning_rate": "rate",
    "loss_scale": "scale",
}
"""The shown columns, with headings that leave room in a terminal of 80 characters."""


def is_guarded(path: Path) -> bool:
    """Whether the directory is that of a guard, or a captured step."""
    return bool(ranks_in(path)) or bool(captured_steps(path)) or (path / MANIFEST).is_file()


def guard_json(directory: Path, rank: int | None) -> dict[str, Any]:
    """The signals of all steps, the captured steps, and what a diagnosis found."""
    signals = _signals(directory, rank)
    return {
        "path": str(directory),
        "signals": None
        if signals is None
        else {
            "rank": signals.rank,
            "damaged": signals.damaged,
            "columns": {name: each.tolist() for name, each in signals.columns.items()},
            "parameters": list(signals.parameters),
            "gradients": signals.gradients.astype(np.float64).tolist(),
        },
        "steps": [_step_json(place) for place in _places(directory)],
        "findings": _findings_json(directory),
    }


def _findings_json(directory: Path) -> list[dict[str, Any]] | None:
    """What a diagnosis beside the guard found; None without one, or if the file is damaged."""
    file = directory / FINDINGS
    try:
        return [with_lines(each) for each in read_findings(file).findings]
    except DumpError:
        return None


def print_guard(directory: Path, rank: int | None, console: Console, limit: int | None) -> None:
    """Print the last signals (``limit``; 0: all), the parameters with the largest gradients, and
    the captured steps."""
    signals = _signals(directory, rank)
    if signals is not None:
        _print_signals(directory, signals, console, limit)
    places = _places(directory)
    for place in places:
        _print_step(place, console)
    if not places:
        console.print("no step was kept", soft_wrap=True)


def _signals(directory: Path, rank: int | None) -> SignalTable | None:
    return read_signals(directory, rank) if ranks_in(directory) else None


def _places(directory: Path) -> list[StepPlace]:
    if (directory / MANIFEST).is_file():
        return [place_of(directory) or StepPlace(-1, 0, 0, directory)]
    return captured_steps(directory)


def _print_signals(
    directory: Path, signals: SignalTable, console: Console, limit: int | None
) -> None:
    ranks = ranks_in(directory)
    others = f", rank {signals.rank} of {len(ranks)} (--rank shows another)" * (len(ranks) > 1)
    steps = signals["step"]
    span = f"steps {steps[0]} to {steps[-1]}" if len(steps) else "no steps yet"
    console.print(
        Text(f"{directory}: signals of a guarded training, {span}{others}", "bold"), soft_wrap=True
    )
    if not len(steps):
        return
    number = _SHOWN_ROWS if limit is None else limit or len(steps)
    rows = sorted({*range(max(len(steps) - number, 0), len(steps)), *_triggered(signals, number)})
    console.print(_table(signals, rows))
    last = signals.gradients[-1]
    order = np.argsort(np.where(np.isnan(last), -1, last))[::-1][:_SHOWN_PARAMETERS]
    largest = [
        f"{signals.parameters[each]} {number_text(float(last[each]))}"
        for each in order
        if not np.isnan(last[each])
    ]
    if largest:
        console.print(f"largest gradients of the last step: {', '.join(largest)}", soft_wrap=True)
    if signals.damaged:
        console.print(
            f"{count_text(signals.damaged, 'row')} could not be read: the process was killed while "
            "it wrote",
            soft_wrap=True,
        )


def _triggered(signals: SignalTable, number: int) -> list[int]:
    """The rows of the first steps that triggered, which may be older than those shown."""
    return [int(each) for each in np.flatnonzero(signals["triggers"])[:number]]


def _table(signals: SignalTable, rows: list[int]) -> Table:
    shown = [name for name in _COLUMNS if not np.isnan(signals[name]).all()]
    table = Table(box=None, pad_edge=False)
    for title in ("step", *map(_COLUMNS.__getitem__, shown), "nan/inf", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        bad = int(signals["non_finite_gradients"][row] + signals["non_finite_weights"][row])
        notes = [
            "trigger" if signals["triggers"][row] else "",
            "skipped" if signals["is_skipped"][row] else "",
        ]
        seconds = float(signals["step_seconds"][row])
        table.add_row(
            str(signals["step"][row]),
            *(number_text(float(signals[name][row]), 3) for name in shown),
            f"{bad:,}",
            "" if np.isnan(seconds) else duration(seconds),
            ", ".join(filter(None, notes)),
        )
    return table


def _manifest(place: StepPlace) -> Manifest | SondeError:
    try:
        return read_manifest(place.path)
    except SondeError as error:
        return error


def _print_step(place: StepPlace, console: Console) -> None:
    manifest = _manifest(place)
    if isinstance(manifest, SondeError):
        console.print(Text(str(manifest), "red"), soft_wrap=True)
        return
    why = "" if manifest.trigger is None else f": {manifest.trigger.text}"
    console.print(Text(f"{place.path}{why}", "bold"), soft_wrap=True)
    size = sum(each.stat().st_size for each in place.path.iterdir() if each.is_file())
    modules = ", ".join(each.of.rpartition(":")[2] for each in manifest.modules)
    passes = count_text(manifest.accumulation, "backward call")
    console.print(f"    {modules}; {passes}; {size_text(size)}", soft_wrap=True)
    if manifest.unreplayable:
        reasons = printable(reasons_text(manifest.unreplayable))
        console.print(Text(f"    of a replay: {reasons}"), soft_wrap=True)
    console.print(Text(f"    sonde replay {place.path} --debug", "dim"), soft_wrap=True)


def _step_json(place: StepPlace) -> dict[str, Any]:
    """A kept step; if it cannot be read, only its path and the problem."""
    manifest = _manifest(place)
    if isinstance(manifest, SondeError):
        unknown = dict.fromkeys(("step", "rank", "trigger", "signals"))
        problem = manifest.message
        return {"path": str(place.path), **unknown, "unreplayable": [], "problem": problem}
    trigger = manifest.trigger
    return {
        "path": str(place.path),
        "step": manifest.step,
        "rank": manifest.rank,
        "trigger": None if trigger is None else {"kind": trigger.kind, "text": trigger.text},
        "signals": manifest.signals,
        "unreplayable": [[each.kind, each.subject, each.detail] for each in manifest.unreplayable],
        "problem": None,
    }
