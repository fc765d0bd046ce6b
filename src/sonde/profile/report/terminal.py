"""The first screen: where the time goes, the best findings, what was tried."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sonde.core.number_text import binary_size, duration, percent
from sonde.profile.analyse.difference import Change, Difference
from sonde.profile.analyse.split import PARTS
from sonde.profile.document import CodePlace, FoundItem, OpItem, Profile, TriedItem

_BEST = 3
_TOP_OPS = 5
_TOP_CHANGES = 8
_BAR = 30
_UNLIMITED_WIDTH = 100_000
_LABELS = {"data": "waiting for data"}
_STYLES = {"warning": "bold yellow", "error": "bold red", "info": "bold"}


def show_profile(profile: Profile, files: list[str], stream: TextIO) -> None:
    """Print the first screen."""
    console = _console(stream)
    _show_head(profile, console)
    _show_parts(profile, console)
    _show_ops(profile, console)
    _show_findings(profile.findings, console)
    if profile.tried:
        _show_tried(profile.tried, console)
    elif profile.worth_trying:
        names = ",".join(hint.partition(":")[0] for hint in profile.worth_trying)
        console.print(Text("worth a trial, not measured:", style="bold"))
        for hint in profile.worth_trying:
            console.print(Padding(Text(hint), (0, 0, 0, 2), expand=False))
        console.print(
            Padding(
                Text(f"sonde profile --try {names} ...", style="dim"), (0, 0, 0, 2), expand=False
            )
        )
    for note in profile.notes:
        console.print(Text(f"note: {note}", style="dim"))
    for file in files:
        console.print(Text(file, style="dim"))


def _console(stream: TextIO) -> Console:
    """Folds lines at the terminal's width; in a pipe it does not."""
    is_free = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(file=stream, width=_UNLIMITED_WIDTH if is_free else None, highlight=False)


def _filled(text: str) -> str:
    """A cell that is never empty: rich forgets the space round columns with nothing in them."""
    return text or " "


def _counted(calls: float) -> str:
    return f"{calls:.0f} call{'' if round(calls) == 1 else 's'}"


def _show_head(profile: Profile, console: Console) -> None:
    summary = profile.summary
    timed = [step.number for step in profile.steps if step.kind == "timed"]
    rank = f", rank {profile.rank} of {profile.ranks}" if profile.ranks > 1 else ""
    console.print()
    console.print(
        Text(
            f"{' '.join(profile.program)}: a step takes {duration(summary.step_time)}{rank}",
            style="bold",
        )
    )
    facts = [
        f"profiled: steps {timed[0]} to {timed[-1]}, {duration(summary.profiled_step_time)} each",
        f"spread {percent(summary.jitter)}",
    ]
    if summary.outliers:
        facts.append(f"{summary.outliers} outlier{'s' if summary.outliers > 1 else ''}")
    if profile.memory is not None:
        facts.append(
            f"memory peaks at {binary_size(profile.memory.peak)} above the step's beginning, in "
            f"{profile.memory.peak_part}"
        )
    console.print(Text("; ".join(facts), style="dim"))
    console.print()


def _show_parts(profile: Profile, console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    total = sum(profile.summary.parts.values())
    for part in PARTS:
        seconds = profile.summary.parts[part]
        share = seconds / total if total else 0.0
        table.add_row(
            _LABELS.get(part, part),
            Text(duration(seconds), justify="right"),
            Text(percent(share), justify="right"),
            Text("█" * round(_BAR * share), style="cyan"),
        )
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _show_ops(profile: Profile, console: Console) -> None:
    merged: dict[tuple[str, str], list[OpItem]] = {}
    for op in profile.ops:
        merged.setdefault((op.op, op.phase), []).append(op)
    groups = sorted(merged.items(), key=lambda item: -sum(op.seconds for op in item[1]))
    total = sum(profile.summary.parts.values()) or 1.0
    table = Table.grid(padding=(0, 2))
    for (name, phase), ops in groups[:_TOP_OPS]:
        seconds = sum(op.seconds for op in ops)
        used = sum((op.share_of_machine or 0.0) * op.seconds for op in ops) / (seconds or 1.0)
        slowest = max(ops, key=lambda op: op.seconds)
        table.add_row(
            Text(name, style="bold"),
            phase,
            Text(duration(seconds), justify="right"),
            Text(percent(seconds / total), justify="right"),
            _counted(sum(op.calls for op in ops)),
            _filled(f"at {percent(min(used, 1.0))} of the machine" if used else ""),
            Text(_filled(place(slowest.place)), style="dim"),
        )
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _show_findings(findings: tuple[FoundItem, ...], console: Console) -> None:
    if not findings:
        console.print(Text("no finding: nothing measured would make a step 5 % shorter"))
        console.print()
        return
    for number, found in enumerate(findings[:_BEST], 1):
        head = Text(f"{number}. {found.rule}", style=_STYLES[found.severity])
        head.append(f"  {place(found.place)}", style="cyan")
        head.append(
            f"  {duration(found.gain.seconds)} a step, {percent(found.gain.share)} "
            f"({found.gain.how})",
            style="default not bold",
        )
        console.print(head)
        if found.place is not None and found.place.code:
            console.print(Padding(Text(found.place.code, style="dim"), (0, 0, 0, 5), expand=False))
        console.print(Padding(Text(found.message), (0, 0, 0, 3), expand=False))
        console.print(Padding(Text(f"do: {found.advice}"), (0, 0, 0, 3), expand=False))
    if len(findings) > _BEST:
        console.print(Text(f"and {len(findings) - _BEST} more in the report", style="dim"))
    console.print()


def _show_tried(tried: tuple[TriedItem, ...], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for each in tried:
        numbers = (
            f"{duration(each.before)} to {duration(each.after)}"
            if each.before is not None and each.after is not None
            else ""
        )
        ratio = f"{each.before / each.after:.2f} x" if each.before and each.after else ""
        loss = "" if each.loss_difference is None else f"loss {percent(each.loss_difference)} apart"
        table.add_row(
            Text(each.name, style="bold"),
            each.verdict,
            _filled(numbers),
            _filled(ratio),
            _filled(loss),
            Text(_filled(each.note or place(each.place)), style="dim"),
        )
    console.print(Text("tried", style="bold"))
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def show_difference(difference: Difference, stream: TextIO) -> None:
    """Print what changed from one profile to the other."""
    console = _console(stream)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for column in ("", "before", "after", "ratio", ""):
        table.add_column(column, justify="left" if not column else "right")
    for change in (difference.step, *difference.parts):
        _add_change(table, change, duration)
    if difference.memory is not None:
        _add_change(table, difference.memory, binary_size)
    console.print(table)
    for title, changes in (("ops", difference.ops), ("modules", difference.modules)):
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for column in (title, "before", "after", "ratio", "difference"):
            table.add_column(column, justify="left" if column == title else "right")
        for change in changes[:_TOP_CHANGES]:
            row = [
                *_change_cells(change, duration),
                duration(change.after - change.before),
            ]
            table.add_row(*row)
        console.print()
        console.print(table)
    for label, rules in (("no longer found", difference.gone), ("newly found", difference.new)):
        if rules:
            console.print(Text(f"{label}: {', '.join(rules)}"))


def _add_change(table: Table, change: Change, shown: Callable[[float], str]) -> None:
    sure = {True: "", False: "within noise", None: ""}[change.is_sure]
    table.add_row(*_change_cells(change, shown), Text(sure, style="dim"))


def _change_cells(change: Change, shown: Callable[[float], str]) -> list[str]:
    ratio = "" if change.ratio is None else f"{change.ratio:.2f} x"
    return [change.name, shown(change.before), shown(change.after), ratio]


def place(where: CodePlace | None) -> str:
    """``train.py:12``, relative to the current directory where the file is below it."""
    if where is None:
        return ""
    here = os.getcwd() + os.sep
    return f"{where.file.removeprefix(here)}:{where.line}"
