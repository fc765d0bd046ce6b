"""Prints a profile: where the time goes, the best findings, what was tried; and differences."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sonde.core.graph import Source
from sonde.core.text.number_text import binary_size, duration, percent
from sonde.profile.analyse.difference import Change, Difference
from sonde.profile.analyse.split import PARTS
from sonde.profile.document import FoundItem, OpItem, Profile, TriedItem

_BEST = 3
_TOP_OPS = 5
_TOP_CHANGES = 8
_BAR = 30
_UNLIMITED_WIDTH = 100_000
_LABELS = {"data": "waiting for data"}
_STYLES = {"warning": "bold yellow", "error": "bold red", "info": "bold"}


def show_profile(profile: Profile, files: Sequence[str], stream: TextIO) -> None:
    """Print the most important numbers and findings, and the names of the files."""
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
            _show_indented(console, Text(hint), 2)
        _show_indented(console, Text(f"sonde profile --try {names} ...", style="dim"), 2)
    for line in (*(f"note: {note}" for note in profile.notes), *files):
        console.print(Text(line, style="dim"))


def _console(stream: TextIO) -> Console:
    """A console that wraps lines at the terminal's width, and not at all in a pipe."""
    is_free = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(file=stream, width=_UNLIMITED_WIDTH if is_free else None, highlight=False)


def _show_indented(console: Console, content: Text | Table, indent: int, below: int = 0) -> None:
    console.print(Padding(content, (0, 0, below, indent), expand=False))


def _filled(text: str) -> str:
    """A cell that is never empty: rich drops the padding of columns without any text."""
    return text or " "


def _right(text: str) -> Text:
    return Text(text, justify="right")


def _show_head(profile: Profile, console: Console) -> None:
    summary = profile.summary
    timed = [step.number for step in profile.steps if step.kind == "timed"]
    rank = f", rank {profile.rank} of {profile.ranks}" if profile.ranks > 1 else ""
    title = f"{' '.join(profile.program)}: a step takes {duration(summary.step_time)}{rank}"
    facts = [
        f"profiled: steps {timed[0]} to {timed[-1]}, {duration(summary.profiled_step_time)} each",
        f"spread {percent(summary.jitter)}",
    ]
    if profile.findings and summary.undisturbed_step_time is not None:
        facts.append(f"{duration(summary.undisturbed_step_time)} undisturbed")
    if summary.outliers:
        facts.append(f"{summary.outliers} outlier{'s' if summary.outliers > 1 else ''}")
    if profile.memory is not None:
        facts.append(
            f"memory peaks at {binary_size(profile.memory.peak)} above the step's beginning, in "
            f"{profile.memory.peak_part}"
        )
    console.print("", Text(title, style="bold"), Text("; ".join(facts), style="dim"), "", sep="\n")


def _show_parts(profile: Profile, console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    total = sum(profile.summary.parts.values())
    for part in PARTS:
        seconds = profile.summary.parts[part]
        share = seconds / total if total else 0.0
        bar = Text("█" * round(_BAR * share), style="cyan")
        name = _LABELS.get(part, part)
        table.add_row(name, _right(duration(seconds)), _right(percent(share)), bar)
    _show_indented(console, table, 2, below=1)


def _show_ops(profile: Profile, console: Console) -> None:
    merged: dict[tuple[str, str], list[OpItem]] = {}
    for op in profile.ops:
        merged.setdefault((op.op, op.phase), []).append(op)
    groups = sorted(merged.items(), key=lambda item: -sum(op.seconds for op in item[1]))
    total = sum(profile.summary.parts.values()) or 1.0
    table = Table.grid(padding=(0, 2))
    for (name, phase), ops in groups[:_TOP_OPS]:
        seconds = sum(op.seconds for op in ops)
        calls = sum(op.calls for op in ops)
        used = sum((op.share_of_machine or 0.0) * op.seconds for op in ops) / (seconds or 1.0)
        slowest = max(ops, key=lambda op: op.seconds)
        table.add_row(
            Text(name, style="bold"),
            phase,
            _right(duration(seconds)),
            _right(percent(seconds / total)),
            f"{calls:.0f} call{'' if round(calls) == 1 else 's'}",
            _filled(f"at {percent(min(used, 1.0))} of the machine" if used else ""),
            Text(_filled(_place(slowest.place)), style="dim"),
        )
    _show_indented(console, table, 2, below=1)


def _show_findings(findings: tuple[FoundItem, ...], console: Console) -> None:
    if not findings:
        console.print("no finding: nothing measured would make a step 5 % shorter\n")
        return
    for number, found in enumerate(findings[:_BEST], 1):
        gain = f"{duration(found.gain.seconds)} a step, {percent(found.gain.share)}"
        head = Text(f"{number}. {found.rule}", style=_STYLES[found.severity])
        head.append(f"  {_place(found.place)}", style="cyan")
        head.append(f"  {gain} ({found.gain.how})", style="default not bold")
        console.print(head)
        if found.place is not None and found.place.code:
            _show_indented(console, Text(found.place.code, style="dim"), 5)
        _show_indented(console, Text(found.message), 3)
        _show_indented(console, Text(f"do: {found.advice}"), 3)
    if len(findings) > _BEST:
        console.print(Text(f"and {len(findings) - _BEST} more in the report", style="dim"))
    console.print()


def _show_tried(tried: tuple[TriedItem, ...], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for each in tried:
        numbers = ratio = ""
        if each.before is not None and each.after is not None:
            numbers = f"{duration(each.before)} to {duration(each.after)}"
            ratio = f"{each.before / each.after:.2f} x" if each.after else ""
        loss = "" if each.loss_difference is None else f"loss {percent(each.loss_difference)} apart"
        table.add_row(
            Text(each.name, style="bold"),
            each.verdict,
            *map(_filled, (numbers, ratio, loss)),
            Text(_filled(each.note or _place(each.place)), style="dim"),
        )
    console.print(Text("tried", style="bold"))
    _show_indented(console, table, 2, below=1)


def show_difference(difference: Difference, stream: TextIO) -> None:
    """Print what changed from one profile to the other."""
    console = _console(stream)
    table = _change_table("", "")
    for change in (difference.step, *difference.parts):
        _add_change(table, change, duration, _noise(change))
    if difference.memory is not None:
        _add_change(table, difference.memory, binary_size, _noise(difference.memory))
    console.print(table)
    for title, changes in (("ops", difference.ops), ("modules", difference.modules)):
        table = _change_table(title, "difference")
        for change in changes[:_TOP_CHANGES]:
            _add_change(table, change, duration, duration(change.after - change.before))
        console.print("", table, sep="\n")
    for label, rules in (("no longer found", difference.gone), ("newly found", difference.new)):
        if rules:
            console.print(Text(f"{label}: {', '.join(rules)}"))


def _change_table(first: str, last: str) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column(first)
    for column in ("before", "after", "ratio"):
        table.add_column(column, justify="right")
    table.add_column(last, justify="right" if last else "left")
    return table


def _add_change(
    table: Table, change: Change, shown: Callable[[float], str], last: str | Text
) -> None:
    ratio = "" if change.ratio is None else f"{change.ratio:.2f} x"
    table.add_row(change.name, shown(change.before), shown(change.after), ratio, last)


def _noise(change: Change) -> Text:
    return Text("within noise" if change.is_sure is False else "", style="dim")


def _place(source: Source | None) -> str:
    """``train.py:12``, relative to the current directory if the file is below it."""
    return "" if source is None else str(source).removeprefix(os.getcwd() + os.sep)
